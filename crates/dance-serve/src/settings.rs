//! Settings of a server.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use dance::device::{Cpu, Device};

/// The probability that the change monitor ever raises an alarm while nothing changes.
pub(crate) const FALSE_ALARM: f64 = 0.01;

/// The settings of a server.
#[derive(Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The model file, which is read again on [`Signal::Reload`](crate::Signal).
    pub model: PathBuf,
    /// The name of the model in answers and metrics; by default that of the file, without the extension.
    pub name: String,
    /// The address to listen at.
    pub address: SocketAddr,
    /// The file of the keys that admit requests, which is read again on [`Signal::Reload`](crate::Signal); without
    /// keys, requests need none. A line has a key, perhaps `use` or `administer`, and perhaps a name for the log.
    pub key_file: Option<PathBuf>,
    /// Other machines are admitted without a key.
    pub open: bool,
    /// Pictures of points, by their ids.
    pub pictures: Option<Pictures>,
    /// The file to which labels are appended when they become known.
    pub journal: PathBuf,
    /// The limits of requests.
    pub limits: Limits,
    /// Requests are logged on stderr.
    pub log: bool,
    /// The device of the model; by default the CPU.
    pub device: &'static dyn Device,
}

/// Pictures of points, by their ids.
#[derive(Clone, Debug)]
pub enum Pictures {
    /// Files of a folder, named like ids, with or without their extension.
    Folder(PathBuf),
    /// Files in memory.
    Held(HashMap<String, Vec<u8>>),
}

/// The limits of one request, and of all requests together.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most bytes of a body.
    pub body: usize,
    /// The most points of a request.
    pub points: usize,
    /// The most requests that are answered at the same time; further ones are refused with status 503.
    pub requests: usize,
    /// The most open connections; further ones wait.
    pub connections: usize,
    /// The time within which a request must be sent, and then answered.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { body: 32 << 20, points: 10_000, requests: 512, connections: 16_384, time: Duration::from_secs(30) }
    }
}

impl Settings {
    /// Returns the defaults: this machine only, port 8080, the journal beside the model.
    pub fn new(model: impl Into<PathBuf>) -> Self {
        let model = model.into();
        let name = model.file_stem().map_or_else(|| "model".into(), |stem| stem.to_string_lossy().into_owned());
        let mut journal = model.clone().into_os_string();
        journal.push(".journal.jsonl");
        Self {
            model,
            name,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            key_file: None,
            open: false,
            pictures: None,
            journal: journal.into(),
            limits: Limits::default(),
            log: true,
            device: &Cpu,
        }
    }

    /// Refuses an address that other machines reach, unless there are keys or [`open`](Self::open) is set.
    pub(crate) fn check(&self) -> dance::Result<()> {
        if self.address.ip().is_loopback() || self.key_file.is_some() || self.open {
            return Ok(());
        }
        Err(dance::Error::Data(format!(
            "other machines can reach {}, and anyone there could read predictions and write labels; \
             give keys with --api-key-file FILE, or allow it with --api-key-file none",
            self.address.ip()
        )))
    }
}
