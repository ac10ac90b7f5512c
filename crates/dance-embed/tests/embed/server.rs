//! A hub on this machine: it speaks the protocol for one repository, and misbehaves as told.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What the hub does to those who ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// As the real one: small files at once, large ones by a pointer to elsewhere.
    Good,
    /// Cuts every answer after so many bytes of its body.
    Cuts(usize),
    /// Names a hash that the contents do not have.
    Lies,
    /// Knows nobody.
    Forbids,
    /// Has trouble of its own.
    Fails,
    /// Points to itself for ever.
    Circles,
    /// Says nothing about commits.
    Foreign,
}

pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Requests, as `range path`.
pub(crate) type Log = Arc<Mutex<Vec<String>>>;

/// Files by path: contents, hash as the hub names it.
pub(crate) type Files = BTreeMap<&'static str, (Vec<u8>, &'static str)>;

/// Serves until the test ends; gives its address.
pub(crate) fn serve(files: Files, manner: Manner) -> (String, Log) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let log = Log::default();
    let (own, heard) = (address.clone(), log.clone());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = answer(stream, &files, manner, &own, &heard);
        }
    });
    (address, log)
}

fn answer(stream: TcpStream, files: &Files, manner: Manner, own: &str, log: &Log) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    let (mut first, mut from, mut token) = (String::new(), 0usize, false);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        let line = line.to_lowercase();
        if let Some(range) = line.strip_prefix("range: bytes=") {
            from = range.trim().trim_end_matches('-').parse().unwrap_or(0);
        }
        token |= line.starts_with("authorization: bearer secret");
    }
    let path = first.split(' ').nth(1).unwrap_or("").to_owned();
    log.lock().unwrap().push(format!("{from} {path}{}", if token { " token" } else { "" }));
    let head = |status: &str, more: &str| format!("HTTP/1.1 {status}\r\nConnection: close\r\n{more}");
    let commit = format!("X-Repo-Commit: {COMMIT}\r\n");
    let empty = "Content-Length: 0\r\n\r\n";
    match manner {
        Manner::Forbids => return write!(stream, "{}{empty}", head("401 Unauthorized", "")),
        Manner::Fails => return write!(stream, "{}{empty}", head("503 Service Unavailable", "")),
        Manner::Circles => {
            return write!(stream, "{}{empty}", head("302 Found", &format!("Location: {path}\r\n")));
        }
        _ => {}
    }
    if let Some(name) = path.strip_prefix("/elsewhere/") {
        let (contents, _) = &files[name];
        return send(&mut stream, contents, from, "", manner);
    }
    let name = path.split("/resolve/main/").nth(1).unwrap_or("");
    let Some((contents, hash)) = files.get(name) else {
        return write!(stream, "{}{empty}", head("404 Not Found", ""));
    };
    let hash = if manner == Manner::Lies { &"ab".repeat(hash.len() / 2) } else { *hash };
    if manner == Manner::Foreign {
        return send(&mut stream, contents, from, "", manner);
    }
    if hash.len() == 64 {
        // A large file: the hub names its hash, and points to where it is.
        let more =
            format!("{commit}ETag: \"pointer\"\r\nX-Linked-ETag: \"{hash}\"\r\nLocation: {own}/elsewhere/{name}\r\n");
        return write!(stream, "{}{empty}", head("302 Found", &more));
    }
    send(&mut stream, contents, from, &format!("{commit}ETag: W/\"{hash}\"\r\n"), manner)
}

fn send(stream: &mut TcpStream, contents: &[u8], from: usize, more: &str, manner: Manner) -> std::io::Result<()> {
    if from > 0 && from >= contents.len() {
        return write!(
            stream,
            "HTTP/1.1 416 Range Not Satisfiable\r\nConnection: close\r\n{more}Content-Length: 0\r\n\r\n"
        );
    }
    let rest = &contents[from..];
    let status = if from > 0 { "206 Partial Content" } else { "200 OK" };
    write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\n{more}Content-Length: {}\r\n\r\n", rest.len())?;
    let end = if let Manner::Cuts(most) = manner { most.min(rest.len()) } else { rest.len() };
    stream.write_all(&rest[..end])
}
