//! Files of the Hugging Face hub, fetched into the cache that its own tools use, and found there by them.
//!
//! `HF_ENDPOINT` is where the hub is, `HF_HUB_CACHE` or `HF_HOME` where the cache, `HF_TOKEN` or the file `token` in `HF_HOME` who
//! asks. A repository's folder holds `refs/main` (a commit), `snapshots/<commit>/<file>` (links) and `blobs/<hash>` (contents).
//! What is in the cache is taken without a question. A download that was cut goes on where it stopped, also in the next run: it
//! grows under the name `<hash>.incomplete` and gets its own when its hash is right.

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

/// How often a cut connection is taken up again.
const TRIES: usize = 5;
/// How often an answer may point elsewhere.
const REDIRECTS: usize = 5;
/// Read, hashed and written at once.
const PIECE: usize = 1 << 20;

/// The hub, and the cache of its files.
#[derive(Debug)]
pub struct Hub {
    /// Where it is.
    pub endpoint: String,
    /// The folder of the cache.
    pub cache: PathBuf,
    /// Who asks.
    pub token: Option<String>,
    /// Fetch nothing.
    pub offline: bool,
}

/// What the hub says about a file.
struct Remote {
    commit: String,
    /// SHA-256 of a large file, or git's hash of a small one.
    hash: String,
    /// Where its bytes are.
    url: String,
}

impl Hub {
    /// As the environment says.
    pub fn from_environment(offline: bool) -> Self {
        let variable = |key: &str| std::env::var(key).ok().filter(|value| !value.is_empty());
        let usual_home = || {
            let caches = variable("XDG_CACHE_HOME").map(PathBuf::from);
            let user = variable("HOME").or_else(|| variable("USERPROFILE")).unwrap_or_else(|| ".".into());
            caches.unwrap_or_else(|| Path::new(&user).join(".cache")).join("huggingface")
        };
        let home = variable("HF_HOME").map_or_else(usual_home, PathBuf::from);
        let kept = || fs::read_to_string(home.join("token")).ok().map(|token| token.trim().to_owned());
        let asks_for_offline = variable("HF_HUB_OFFLINE").is_some_and(|value| value != "0");
        Self {
            endpoint: variable("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".into()),
            cache: variable("HF_HUB_CACHE").map_or_else(|| home.join("hub"), PathBuf::from),
            token: variable("HF_TOKEN").or_else(kept).filter(|token| !token.is_empty()),
            offline: offline || asks_for_offline,
        }
    }

    /// A file of a repository, fetched if it is not in the cache. `None` where the repository has none and none is `needed`.
    pub fn file(
        &self,
        repository: &str,
        file: &str,
        needed: bool,
        context: &Context<'_>,
    ) -> Result<Option<PathBuf>> {
        let folder = self.cache.join(format!("models--{}", repository.replace('/', "--")));
        let commit =
            fs::read_to_string(folder.join("refs").join("main")).ok().map(|commit| commit.trim().to_owned());
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
        let Some(remote) = self.ask(repository, file)? else {
            let missing =
                Error::Data(format!("{repository}: the hub at {} has no {file} there", self.endpoint));
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
        // A repository that changed between two of its files is fetched again by the next run.
        WholeFile::write(folder.join("refs").join("main"), remote.commit.as_bytes())?;
        Ok(Some(place))
    }

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

    /// An answer that points nowhere else, and what those before it said of the file: the hub names its hash, and sends its
    /// readers elsewhere for the bytes.
    fn get(&self, first: &str, from: u64) -> Result<(Response<Body>, Said, String)> {
        let agent = Self::agent();
        let (mut url, mut said) = (first.to_owned(), Said::default());
        for _ in 0..=REDIRECTS {
            let mut request = agent.get(&url).header("accept-encoding", "identity");
            if let Some(token) = self.token.as_ref().filter(|_| host(&url) == host(&self.endpoint)) {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            if from > 0 {
                request = request.header("range", format!("bytes={from}-"));
            }
            let answer = request.call().map_err(|error| unreachable(&url, &error))?;
            said.hear(&answer);
            let next = header(&answer, "location").filter(|_| answer.status().is_redirection());
            let Some(next) = next else { return Ok((answer, said, url)) };
            url = if next.starts_with('/') { format!("{}{next}", host(&url)) } else { next };
        }
        Err(Error::Data(format!("{first}: points elsewhere more than {REDIRECTS} times; check HF_ENDPOINT")))
    }

    fn ask(&self, repository: &str, file: &str) -> Result<Option<Remote>> {
        let url = format!("{}/{repository}/resolve/main/{file}", self.endpoint.trim_end_matches('/'));
        let (answer, said, _) = self.get(&url, 0)?;
        match answer.status().as_u16() {
            200 | 206 => {}
            404 => return Ok(None),
            401 | 403 => {
                return Err(Error::Data(format!(
                    "{url}: the hub wants to know who asks; set HF_TOKEN, or check the name"
                )));
            }
            status => return Err(Error::Data(format!("{url}: the hub answers {status}; try again later"))),
        }
        match (said.commit.filter(|commit| is_word(commit)), said.hash.filter(|hash| is_word(hash))) {
            (Some(commit), Some(hash)) => Ok(Some(Remote { commit, hash, url })),
            _ => Err(Error::Data(format!(
                "{url}: the answer names no commit and hash, as the hub does; check HF_ENDPOINT"
            ))),
        }
    }

    /// Fetches the bytes of a file, from where the last try stopped.
    fn fetch(&self, name: &str, remote: &Remote, blob: &Path, context: &Context<'_>) -> Result<()> {
        let path = blob.with_file_name(format!("{}.incomplete", remote.hash));
        let write = |error: std::io::Error| Error::Write { path: path.clone(), source: error };
        let mut file = File::options().create(true).append(true).read(true).open(&path).map_err(write)?;
        file.lock().map_err(write)?; // another program may be fetching it; it is waited for
        if blob.is_file() {
            return Ok(());
        }
        let mut last = None;
        for _ in 0..TRIES {
            context.check()?;
            match self.go_on(name, remote, &mut file, &path, context) {
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
        let found = hash_of(&mut file, &remote.hash).map_err(|error| Error::io(&path, error))?;
        if found != remote.hash {
            let _ = fs::remove_file(&path);
            return Err(Error::Data(format!(
                "{name}: what arrived has the hash {found}, the hub says {}; it was thrown away. Run it again, and mistrust the line",
                remote.hash
            )));
        }
        file.sync_all().map_err(write)?;
        fs::rename(&path, blob).map_err(write)
    }

    fn go_on(
        &self,
        name: &str,
        remote: &Remote,
        file: &mut File,
        path: &Path,
        context: &Context<'_>,
    ) -> Result<(), Stop> {
        let write =
            |error: std::io::Error| Stop::Wrong(Error::Write { path: path.to_owned(), source: error });
        let mut done = file.seek(SeekFrom::End(0)).map_err(write)?;
        let (answer, said, url) =
            self.get(&remote.url, done).map_err(|error| Stop::Cut(error.to_string()))?;
        match answer.status().as_u16() {
            416 => return Ok(()), // all of it was there
            200 if done > 0 => {
                file.set_len(0).map_err(write)?; // this server begins anew
                done = 0;
            }
            200 | 206 => {}
            status @ 500.. => return Err(Stop::Cut(format!("{url} answers {status}"))),
            status => {
                return Err(Stop::Wrong(Error::Data(format!("{url}: answers {status}; try again later"))));
            }
        }
        let of = said.length.map(|length| done + length);
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

/// Why a download ended early.
enum Stop {
    /// It may go on.
    Cut(String),
    /// It may not.
    Wrong(Error),
}

/// What answers said of a file.
#[derive(Default)]
struct Said {
    commit: Option<String>,
    hash: Option<String>,
    /// Of this answer's body.
    length: Option<u64>,
}

impl Said {
    fn hear(&mut self, answer: &Response<Body>) {
        self.commit = self.commit.take().or_else(|| header(answer, "x-repo-commit"));
        // Where both are named, the linked one is of the contents and the other of a pointer to them. Only the hub itself, the
        // first to answer with a commit, knows.
        if self.hash.is_none() && header(answer, "x-repo-commit").is_some() {
            let hash = header(answer, "x-linked-etag").or_else(|| header(answer, "etag"));
            self.hash = hash.map(|hash| hash.trim_start_matches("W/").trim_matches('"').to_owned());
        }
        self.length = header(answer, "content-length").and_then(|length| length.parse().ok());
    }
}

fn header(answer: &Response<Body>, name: &str) -> Option<String> {
    answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// `https://host:port` of an address.
fn host(url: &str) -> &str {
    let begin = url.find("://").map_or(0, |place| place + 3);
    let end = url[begin..].find('/').map_or(url.len(), |place| begin + place);
    &url[..end]
}

/// Letters and digits: nothing that leads out of a folder.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.len() <= 128 && text.chars().all(|letter| letter.is_ascii_alphanumeric())
}

fn unreachable(url: &str, error: &ureq::Error) -> Error {
    Error::Data(format!(
        "{url}: cannot be reached ({error}); check the network and HF_ENDPOINT, or give a folder with --model"
    ))
}

fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|source| Error::Write { path: folder.to_owned(), source })
}

/// A link to the contents under the file's name; a copy where there are no links.
fn link(blob: &Path, place: &Path, file: &str) -> Result<()> {
    if place.is_file() {
        return Ok(());
    }
    make_folder(place.parent().unwrap_or(Path::new(".")))?;
    let write = |source: std::io::Error| Error::Write { path: place.to_owned(), source };
    let _ = fs::remove_file(place); // a link to contents that are gone
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

/// The hash of a file, of the kind that `like` is: SHA-256, or git's of a blob.
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

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
