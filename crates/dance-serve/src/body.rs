//! What was sent, read within its limits.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt;
use serde::de::DeserializeSeed;
use tokio::sync::{OwnedSemaphorePermit, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use crate::gather::OnItsWay;
use crate::problem::Problem;
use crate::state::{BODY_UNIT, State};

/// A body in memory. Room for it is held while it is there.
pub(crate) struct Read<'a> {
    pub(crate) bytes: Bytes,
    /// Its type, without parameters, in small letters.
    pub(crate) media_type: String,
    _room: SemaphorePermit<'a>,
    way: OnItsWay,
    turn: OwnedSemaphorePermit,
}

/// The body of a request. One that is too large is read to its end and thrown away (within reason), so that whoever sends it gets to
/// read the answer.
pub(crate) async fn read(state: &Arc<State>, request: Request) -> Result<Read<'_>, Problem> {
    let way = state.gather.on_its_way();
    let limits = state.settings.limits;
    let (parts, mut body) = request.into_parts();
    let media_type = media_type(&parts.headers);
    let declared = parts
        .headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    let until = Instant::now() + limits.time;
    let length = declared.unwrap_or(limits.body);
    if length > limits.body {
        drop(way);
        return Err(too_large(&mut body, limits.body, until).await);
    }
    let units = u32::try_from(length.div_ceil(BODY_UNIT)).unwrap_or(u32::MAX);
    let Ok(room) = state.bodies.try_acquire_many(units) else {
        drop(way);
        discard(&mut body, limits.body, until).await;
        return Err(Problem::busy("the bodies of other requests take all the room there is; come again"));
    };
    // Most bodies come in one piece, which is kept as it is.
    let (mut first, mut bytes) = (Bytes::new(), Vec::new());
    loop {
        match timeout_at(until, next(&mut body)).await {
            Err(_) => {
                return Err(Problem::slow(format!(
                    "it must be sent within {} seconds",
                    limits.time.as_secs()
                )));
            }
            // Only now does it take a turn: whoever sends slowly keeps nobody waiting.
            Ok(None) => {
                let bytes = if bytes.is_empty() { first } else { bytes.into() };
                return Ok(Read { bytes, media_type, _room: room, way, turn: state.turn()? });
            }
            Ok(Some(Err(error))) => return Err(Problem::not_json(format!("it ended early: {error}"))),
            Ok(Some(Ok(piece))) if first.len().max(bytes.len()) + piece.len() > limits.body => {
                return Err(too_large(&mut body, limits.body, until).await);
            }
            Ok(Some(Ok(piece))) if first.is_empty() => first = piece,
            Ok(Some(Ok(piece))) => {
                if bytes.is_empty() {
                    bytes.reserve_exact(declared.unwrap_or(0));
                    bytes.extend_from_slice(&first);
                }
                bytes.extend_from_slice(&piece);
            }
        }
    }
}

impl Read<'_> {
    /// Lets go of the body and of its room. What comes back besides is the request's turn, to be held until it is answered.
    pub(crate) fn done(self) -> (OnItsWay, OwnedSemaphorePermit) {
        (self.way, self.turn)
    }

    /// The text of a body that is said to be JSON.
    pub(crate) fn json_text(&self) -> Result<&[u8], Problem> {
        if self.media_type == "application/json" {
            return Ok(&self.bytes);
        }
        Err(Problem::media_type("send JSON, with `Content-Type: application/json`"))
    }

    /// A JSON value, read by `seed`. What is no JSON at all is told apart from JSON that says something else.
    pub(crate) fn json<'de, S: DeserializeSeed<'de>>(&'de self, seed: S) -> Result<S::Value, Problem> {
        let mut deserializer = serde_json::Deserializer::from_slice(self.json_text()?);
        let read = seed.deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
        read.map_err(|error| {
            if error.is_data() {
                Problem::wrong(error.to_string())
            } else {
                Problem::not_json(error.to_string())
            }
        })
    }
}

/// The type of a body, without parameters, in small letters.
fn media_type(headers: &HeaderMap) -> String {
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

async fn too_large(body: &mut Body, most: usize, until: Instant) -> Problem {
    discard(body, most, until).await;
    Problem::too_large(format!("a body has at most {most} bytes; send fewer points at a time"))
}

/// Reads what is left, up to four times the limit, and forgets it.
async fn discard(body: &mut Body, most: usize, until: Instant) {
    let mut left = most.saturating_mul(4);
    while let Ok(Some(Ok(piece))) = timeout_at(until, next(body)).await {
        left = left.saturating_sub(piece.len());
        if left == 0 {
            return;
        }
    }
}

/// Reads and forgets the body of a request that is refused for something else.
pub(crate) async fn forget(state: &Arc<State>, mut body: Body) {
    let limits = state.settings.limits;
    discard(&mut body, limits.body, Instant::now() + limits.time).await;
}

/// The next piece of a body; what is no data (trailers) is an empty one.
async fn next(body: &mut Body) -> Option<Result<Bytes, axum::Error>> {
    Some(body.frame().await?.map(|frame| frame.into_data().unwrap_or_default()))
}
