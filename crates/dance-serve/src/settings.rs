//! What a server is told when it starts.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use dance::device::{Cpu, Device};

use crate::keys::Keys;

/// What a server is told when it starts.
#[derive(Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The model file; read again on [`Signal::Reload`](crate::Signal).
    pub model: PathBuf,
    /// Where to listen.
    pub address: SocketAddr,
    /// Who may ask; nobody is asked for a key where there are none.
    pub keys: Keys,
    /// Whether other machines may ask without a key.
    pub open: bool,
    /// Pictures of points, by their ids.
    pub images: Option<Images>,
    /// Where labels go that become known.
    pub journal: PathBuf,
    /// The probability that the monitor raises an alarm, ever, while nothing changes.
    pub false_alarm: f64,
    /// What a request may take.
    pub limits: Limits,
    /// Whether requests are logged on stderr.
    pub log: bool,
    /// What models are opened on; the CPU where nothing is said.
    pub device: &'static dyn Device,
}

/// Pictures of points, by their ids.
#[derive(Clone, Debug)]
pub enum Images {
    /// Files of a folder, named like ids, with or without their endings.
    Folder(PathBuf),
    /// Files in memory.
    Held(HashMap<String, Vec<u8>>),
}

/// What a request, and all of them together, may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a body.
    pub body: usize,
    /// Points of a request.
    pub points: usize,
    /// Requests that are answered at the same time; the others are told to come again.
    pub requests: usize,
    /// Connections that are open at the same time; the others wait.
    pub connections: usize,
    /// For a request to be sent, and as much for it to be answered.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 32 << 20,
            points: 10_000,
            requests: 512,
            connections: 16_384,
            time: Duration::from_secs(30),
        }
    }
}

impl Settings {
    /// The defaults: this machine only, port 8080, the journal beside the model.
    pub fn new(model: impl Into<PathBuf>) -> Self {
        let model = model.into();
        let mut journal = model.clone().into_os_string();
        journal.push(".journal.jsonl");
        Self {
            model,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            keys: Keys::default(),
            open: false,
            images: None,
            journal: journal.into(),
            false_alarm: 0.01,
            limits: Limits::default(),
            log: true,
            device: &Cpu,
        }
    }

    /// Refuses to be open to other machines by accident.
    pub(crate) fn check(&self) -> dance::Result<()> {
        if self.address.ip().is_loopback() || !self.keys.is_empty() || self.open {
            return Ok(());
        }
        Err(dance::Error::Data(format!(
            "{} can be reached from other machines, and anyone there could ask and write labels; \
             give keys with --api-key-file FILE, or say --without-key if that is meant",
            self.address.ip()
        )))
    }
}
