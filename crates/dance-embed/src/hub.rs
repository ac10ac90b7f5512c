//! Downloads from the Hugging Face hub into the cache that its own tools use, so that they share files.
//!
//! `HF_ENDPOINT` is the address of the hub, `HF_HUB_CACHE` or `HF_HOME` the cache, and `HF_TOKEN` or the file `token`
//! in `HF_HOME` the access token. A repository's folder holds `refs/main` (a commit), `snapshots/<commit>/<file>`
//! (links) and `blobs/<hash>` (contents). Files in the cache are used without a request. An interrupted download
//! continues, also in the next run: it grows under the name `<hash>.incomplete` and is renamed when its hash is right.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use dance::whole_file::WholeFile;
use dance::{Context, Error, Event, Result};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use ureq::http::Response;
use ureq::{Agent, Body};

/// Most connections per download.
const TRIES: usize = 5;
/// Most redirects per request.
const REDIRECTS: usize = 5;
/// Bytes that are read and written at once.
const PIECE: usize = 1 << 20;

/// The hub, and the cache of its files.
#[derive(Debug)]
pub struct Hub {
    /// The address of the hub.
    pub endpoint: String,
    /// The folder of the cache.
    pub cache: PathBuf,
    /// The access token.
    pub token: Option<String>,
    /// Forbids downloads.
    pub offline: bool,
}

/// A file on the hub.
struct Remote {
    commit: String,
    /// SHA-256 of a large file, or git's hash of a small one.
    hash: String,
    /// The address of its bytes.
    url: String,
}

impl Hub {
    /// Reads the settings from environment variables.
    pub fn from_environment(offline: bool) -> Self {
        let variable = |key: &str| std::env::var(key).ok().filter(|value| !value.is_empty());
        let usual_home = || {
            let caches = variable("XDG_CACHE_HOME").map(PathBuf::from);
            let user = variable("HOME").or_else(|| variable("USERPROFILE")).unwrap_or_else(|| ".".into());
            caches.unwrap_or_else(|| Path::new(&user).join(".cache")).join("huggingface")
        };
        let home = variable("HF_HOME").map_or_else(usual_home, PathBuf::from);
        let kept = || fs::read_to_string(home.join("token")).ok().map(|token| token.trim().to_owned());
        let env_offline = variable("HF_HUB_OFFLINE").is_some_and(|value| value != "0");
        Self {
            endpoint: variable("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".into()),
            cache: variable("HF_HUB_CACHE").map_or_else(|| home.join("hub"), PathBuf::from),
            token: variable("HF_TOKEN").or_else(kept).filter(|token| !token.is_empty()),
            offline: offline || env_offline,
        }
    }

    /// Returns the path of a repository's file, downloaded if it is not in the cache; `None` if the repository has no
    /// such file and it is not `needed`.
    pub fn file(&self, repository: &str, file: &str, needed: bool, context: &Context<'_>) -> Result<Option<PathBuf>> {
        // A file in the cache is used as it is.
        let folder = self.cache.join(format!("models--{}", repository.replace('/', "--")));
        let commit = fs::read_to_string(folder.join("refs").join("main")).ok().map(|commit| commit.trim().to_owned());
        if let Some(commit) = commit.as_deref().filter(|commit| is_word(commit)) {
            let place = folder.join("snapshots").join(commit).join(file);
            if place.is_file() {
                return Ok(Some(place));
            }
        }
        if self.offline {
            let missing = Error::Data(format!(
                "{repository}: {file} is not in {}, and nothing may be fetched; run once without --offline",
                self.cache.display()
            ));
            return if needed { Err(missing) } else { Ok(None) };
        }
        // The hub names the commit and the hash of the contents.
        let Some(remote) = self.request(repository, file)? else {
            let missing = Error::Data(format!("{repository}: the hub at {} has no {file} there", self.endpoint));
            return if needed { Err(missing) } else { Ok(None) };
        };
        let blob = folder.join("blobs").join(&remote.hash);
        make_folder(&folder.join("blobs"))?;
        if !blob.is_file() {
            self.fetch(&format!("{repository}/{file}"), &remote, &blob, context)?;
        }
        let place = folder.join("snapshots").join(&remote.commit).join(file);
        link(&blob, &place, file)?;
        make_folder(&folder.join("refs"))?;
        // If a repository changed between two files, the next run downloads it again.
        WholeFile::write(folder.join("refs").join("main"), remote.commit.as_bytes())?;
        Ok(Some(place))
    }

    /// Returns an HTTP client that does not follow redirects.
    fn agent() -> Agent {
        let config = Agent::config_builder()
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .timeout_connect(Some(Duration::from_secs(20)))
            .timeout_recv_response(Some(Duration::from_secs(60)))
            .user_agent(concat!("dance/", env!("CARGO_PKG_VERSION")))
            .build();
        config.new_agent()
    }

    /// Follows redirects. Returns the last response, the file's headers from all responses, and the last address: the
    /// hub names the hash, and another server has the bytes.
    fn get(&self, first: &str, from: u64) -> Result<(Response<Body>, FileHeaders, String)> {
        let agent = Self::agent();
        let (mut url, mut headers) = (first.to_owned(), FileHeaders::default());
        for _ in 0..=REDIRECTS {
            let mut request = agent.get(&url).header("accept-encoding", "identity");
            if let Some(token) = self.token.as_ref().filter(|_| host(&url) == host(&self.endpoint)) {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            if from > 0 {
                request = request.header("range", format!("bytes={from}-"));
            }
            let answer = request.call().map_err(|error| unreachable(&url, &error))?;
            headers.update(&answer);
            let next = header(&answer, "location").filter(|_| answer.status().is_redirection());
            let Some(next) = next else { return Ok((answer, headers, url)) };
            url = if next.starts_with('/') { format!("{}{next}", host(&url)) } else { next };
        }
        Err(Error::Data(format!("{first}: points elsewhere more than {REDIRECTS} times; check HF_ENDPOINT")))
    }

    /// Requests the commit and the hash of a file; `None` if there is no such file.
    fn request(&self, repository: &str, file: &str) -> Result<Option<Remote>> {
        let url = format!("{}/{repository}/resolve/main/{file}", self.endpoint.trim_end_matches('/'));
        let (answer, headers, _) = self.get(&url, 0)?;
        match answer.status().as_u16() {
            200 | 206 => {}
            404 => return Ok(None),
            401 | 403 => {
                return Err(Error::Data(format!(
                    "{url}: the hub requires an access token; set HF_TOKEN, or check the name"
                )));
            }
            status => return Err(Error::Data(format!("{url}: the hub answers {status}; try again later"))),
        }
        match (headers.commit.filter(|commit| is_word(commit)), headers.hash.filter(|hash| is_word(hash))) {
            (Some(commit), Some(hash)) => Ok(Some(Remote { commit, hash, url })),
            _ => Err(Error::Data(format!(
                "{url}: the answer names no commit and hash, as the hub does; check HF_ENDPOINT"
            ))),
        }
    }

    /// Downloads the bytes of a file, from the place where the last attempt stopped.
    fn fetch(&self, name: &str, remote: &Remote, blob: &Path, context: &Context<'_>) -> Result<()> {
        let path = blob.with_file_name(format!("{}.incomplete", remote.hash));
        let write = |error: std::io::Error| Error::Write { path: path.clone(), source: error };
        let mut file = File::options().create(true).append(true).read(true).open(&path).map_err(write)?;
        file.lock().map_err(write)?; // waits for another program that downloads the file
        if blob.is_file() {
            return Ok(());
        }
        let mut last = None;
        for _ in 0..TRIES {
            context.check()?;
            match self.resume(name, remote, &mut file, &path, context) {
                Ok(()) => {
                    last = None;
                    break;
                }
                Err(Stop::Cut(error)) => last = Some(error),
                Err(Stop::Wrong(error)) => return Err(error),
            }
        }
        if let Some(error) = last {
            return Err(Error::Data(format!(
                "{name}: the connection was cut {TRIES} times ({error}); run it again to go on from there"
            )));
        }
        // Contents with a wrong hash are deleted.
        let found = hash_of(&mut file, &remote.hash).map_err(|error| Error::io(&path, error))?;
        if found != remote.hash {
            let _ = fs::remove_file(&path);
            return Err(Error::Data(format!(
                "{name}: the download has the hash {found}, and the hub names {}; it was deleted. Run it again, and \
                 check the connection",
                remote.hash
            )));
        }
        file.sync_all().map_err(write)?;
        fs::rename(&path, blob).map_err(write)
    }

    /// Downloads over one connection, behind the bytes that are there.
    fn resume(
        &self,
        name: &str,
        remote: &Remote,
        file: &mut File,
        path: &Path,
        context: &Context<'_>,
    ) -> Result<(), Stop> {
        let write = |error: std::io::Error| Stop::Wrong(Error::Write { path: path.to_owned(), source: error });
        // The server continues at `done`, starts again, or has nothing to add.
        let mut done = file.seek(SeekFrom::End(0)).map_err(write)?;
        let (answer, headers, url) = self.get(&remote.url, done).map_err(|error| Stop::Cut(error.to_string()))?;
        match answer.status().as_u16() {
            416 => return Ok(()), // the file is complete
            200 if done > 0 => {
                file.set_len(0).map_err(write)?; // this server starts again
                done = 0;
            }
            200 | 206 => {}
            status @ 500.. => return Err(Stop::Cut(format!("{url} answers {status}"))),
            status => {
                return Err(Stop::Wrong(Error::Data(format!("{url}: answers {status}; try again later"))));
            }
        }
        // Bytes are appended as they arrive.
        let of = headers.length.map(|length| done + length);
        let mut body = answer.into_body().into_reader();
        let mut piece = vec![0; PIECE];
        loop {
            context.check().map_err(Stop::Wrong)?;
            let read = body.read(&mut piece).map_err(|error| Stop::Cut(error.to_string()))?;
            if read == 0 {
                break;
            }
            file.write_all(&piece[..read]).map_err(write)?;
            done += read as u64;
            context.notice(&Event::Fetching { file: name.to_owned(), done, of });
        }
        match of {
            Some(of) if done < of => Err(Stop::Cut(format!("{done} of {of} bytes arrived"))),
            _ => Ok(()),
        }
    }
}

/// The reason why a download ended early.
enum Stop {
    /// The connection was cut: another attempt may succeed.
    Cut(String),
    /// Another attempt would fail too.
    Wrong(Error),
}

/// The headers of responses that describe a file.
#[derive(Default)]
struct FileHeaders {
    commit: Option<String>,
    hash: Option<String>,
    /// The length of this response's body.
    length: Option<u64>,
}

impl FileHeaders {
    /// Takes the headers of a further response.
    fn update(&mut self, answer: &Response<Body>) {
        self.commit = self.commit.take().or_else(|| header(answer, "x-repo-commit"));
        // If a response has both etags, the linked one is the hash of the contents and the other that of a pointer
        // file. Only the hub itself, the first to name a commit, has them.
        if self.hash.is_none() && header(answer, "x-repo-commit").is_some() {
            let hash = header(answer, "x-linked-etag").or_else(|| header(answer, "etag"));
            self.hash = hash.map(|hash| hash.trim_start_matches("W/").trim_matches('"').to_owned());
        }
        self.length = header(answer, "content-length").and_then(|length| length.parse().ok());
    }
}

/// Returns a header as text.
fn header(answer: &Response<Body>, name: &str) -> Option<String> {
    answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// Returns the `https://host:port` of an address.
fn host(url: &str) -> &str {
    let begin = url.find("://").map_or(0, |place| place + 3);
    let end = url[begin..].find('/').map_or(url.len(), |place| begin + place);
    &url[..end]
}

/// Returns whether a text is letters and digits alone, so that it cannot lead out of a folder.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.len() <= 128 && text.chars().all(|letter| letter.is_ascii_alphanumeric())
}

/// The error of a request without a response.
fn unreachable(url: &str, error: &ureq::Error) -> Error {
    Error::Data(format!(
        "{url}: cannot be reached ({error}); check the network and HF_ENDPOINT, or give a folder with --model"
    ))
}

fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|source| Error::Write { path: folder.to_owned(), source })
}

/// Links the contents under the file's name; copies them on systems without links.
fn link(blob: &Path, place: &Path, file: &str) -> Result<()> {
    if place.is_file() {
        return Ok(());
    }
    make_folder(place.parent().unwrap_or(Path::new(".")))?;
    let write = |source: std::io::Error| Error::Write { path: place.to_owned(), source };
    let _ = fs::remove_file(place); // a link to deleted contents
    #[cfg(unix)]
    {
        let up = "../".repeat(2 + file.matches('/').count());
        let name = blob.file_name().unwrap_or_default().to_string_lossy();
        std::os::unix::fs::symlink(format!("{up}blobs/{name}"), place).map_err(write)
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        fs::copy(blob, place).map(drop).map_err(write)
    }
}

/// Returns the hash of a file, of the same kind as `like`: SHA-256, or git's hash of a blob.
fn hash_of(file: &mut File, like: &str) -> std::io::Result<String> {
    let length = file.seek(SeekFrom::End(0))?;
    file.rewind()?;
    if like.len() == 40 {
        let mut hash = Sha1::new();
        hash.update(format!("blob {length}\0"));
        std::io::copy(file, &mut hash)?;
        return Ok(hexadecimal(&hash.finalize()));
    }
    let mut hash = Sha256::new();
    std::io::copy(file, &mut hash)?;
    Ok(hexadecimal(&hash.finalize()))
}

/// Writes bytes in hexadecimal.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
