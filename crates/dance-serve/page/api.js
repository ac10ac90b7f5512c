// Requests to the server of this page.

const STORED = "dance-key";

async function request(path, options = {}) {
  for (;;) {
    const key = sessionStorage.getItem(STORED);
    const headers = { ...options.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
    const response = await fetch(path, { ...options, headers });
    if (response.status !== 401) return response;
    await enterKey(key !== null);
  }
}

let entering = null;
function enterKey(wrong) {
  entering ??= new Promise((done) => {
    const dialog = document.getElementById("key");
    const text = document.getElementById("key-text");
    document.getElementById("key-wrong").textContent = wrong ? "The server does not know this key." : "";
    text.value = "";
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(STORED, text.value);
      entering = null;
      done();
    }, { once: true });
    dialog.showModal();
  });
  return entering;
}

/** Returns JSON from a path. Throws the problem that the server reports. */
export async function get(path) {
  return read(await request(path));
}

export async function post(path, body) {
  return read(await request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }));
}

/** Sends a picture or a text as the body. */
export async function send(path, body, type) {
  return read(await request(path, { method: "POST", headers: { "Content-Type": type }, body }));
}

async function read(response) {
  const value = await response.json().catch(() => ({}));
  if (response.ok) return value;
  throw Object.assign(new Error(value.detail ?? `The server answered ${response.status}.`), { status: response.status });
}

const pictures = new Map();

/** Returns the address of the picture of an id, or null. It is fetched here, since an `img` element sends no key. */
export function picture(id) {
  if (!pictures.has(id)) {
    const path = `/page-api/pictures/${String(id).split("/").map(encodeURIComponent).join("/")}`;
    const found = request(path).then(async (response) => (response.ok ? URL.createObjectURL(await response.blob()) : null));
    pictures.set(id, found.catch(() => null));
  }
  return pictures.get(id);
}
