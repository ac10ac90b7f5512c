// Requests to the server this page came from, and to no other.

const STORED = "dance-key";

async function ask(path, options = {}) {
  for (;;) {
    const key = sessionStorage.getItem(STORED);
    const headers = { ...options.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
    const response = await fetch(path, { ...options, headers });
    if (response.status !== 401) return response;
    await askForKey(key !== null);
  }
}

let asking = null;
function askForKey(wrong) {
  asking ??= new Promise((done) => {
    const dialog = document.getElementById("key");
    const text = document.getElementById("key-text");
    document.getElementById("key-wrong").textContent = wrong ? "That was none of its keys." : "";
    text.value = "";
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(STORED, text.value);
      asking = null;
      done();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

/** JSON from a path; throws what the server says is wrong. */
export async function get(path) {
  return read(await ask(path));
}

export async function post(path, body) {
  return read(await ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }));
}

/** Sends a picture or a text as it is. */
export async function send(path, body, type) {
  return read(await ask(path, { method: "POST", headers: { "Content-Type": type }, body }));
}

async function read(response) {
  const value = await response.json().catch(() => ({}));
  if (response.ok) return value;
  throw Object.assign(new Error(value.detail ?? `The server answered ${response.status}.`), { status: response.status });
}

const pictures = new Map();

/** Where the picture of an id is, or null. Asked for once; with a key it could not be an `img` from the server itself. */
export function picture(id) {
  if (!pictures.has(id)) {
    const path = `/images/${id.split("/").map(encodeURIComponent).join("/")}`;
    const found = ask(path).then(async (response) => (response.ok ? URL.createObjectURL(await response.blob()) : null));
    pictures.set(id, found.catch(() => null));
  }
  return pictures.get(id);
}
