//! A server that a test starts, and a client plain enough to send what no client library would.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::command;

/// A server of the test's own; it dies with the test.
pub(super) struct Serving {
    pub(super) child: Child,
    address: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) struct Response {
    pub(super) status: u16,
    headers: String,
    pub(super) body: Vec<u8>,
}

impl Response {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let of = |line: &'_ str| -> Option<(usize, usize)> {
            let (key, _) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some((key.len() + 2, line.len()))
        };
        self.headers.lines().find_map(|line| of(line).map(|(from, to)| &line[from..to]))
    }
}

/// Reads one response; `None` where the connection ends before it.
pub(super) fn read_response(reader: &mut impl BufRead) -> Option<Response> {
    let (mut headers, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = value.trim().parse().ok()?;
        }
        headers += &line.replace("\r\n", "\n");
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let status = headers.split(' ').nth(1)?.parse().ok()?;
    Some(Response { status, headers, body })
}

impl Serving {
    pub(super) fn start(arguments: &[&str]) -> Self {
        Self::start_loud(&[arguments, &["--quiet"]].concat())
    }

    /// Starts a server that logs requests.
    pub(super) fn start_loud(arguments: &[&str]) -> Self {
        Self::start_with(arguments, &[])
    }

    /// Starts a server with more variables of the environment.
    pub(super) fn start_with(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut all = vec!["serve", "--port", "0", "--json"];
        all.extend(arguments);
        let mut child = command(&all)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Ok(said) = serde_json::from_str::<Value>(&line) else {
            let mut text = String::new();
            child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
            panic!("the server did not start: {text}");
        };
        let address = said["url"].as_str().unwrap().trim_start_matches("http://").to_owned();
        Self { child, address }
    }

    pub(super) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream
    }

    pub(super) fn send(&self, text: &[u8]) -> Response {
        let mut stream = self.connect();
        stream.write_all(text).unwrap();
        read_response(&mut BufReader::new(stream)).unwrap()
    }

    pub(super) fn get(&self, path: &str) -> Response {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes())
    }

    pub(super) fn post_with(&self, path: &str, headers: &str, body: &[u8]) -> Response {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n",
            body.len()
        );
        self.send(&[head.as_bytes(), body].concat())
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Response {
        self.post_with(path, "Content-Type: application/json\r\n", body.to_string().as_bytes())
    }

    #[cfg(unix)]
    pub(super) fn signal(&self, name: &str) {
        let status = std::process::Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }
}
