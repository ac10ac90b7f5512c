//! Request bodies: read into memory within the limits of size and time.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt;
use serde::de::DeserializeSeed;
use tokio::sync::{OwnedSemaphorePermit, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use crate::batching::Arrival;
use crate::problem::Problem;
use crate::state::{BODY_UNIT, State};

/// A request body in memory.
pub(crate) struct RequestBody<'a> {
    pub(crate) bytes: Bytes,
    /// The media type, without parameters, in lower case.
    pub(crate) media_type: String,
    /// The share of the memory for bodies that this one takes.
    _room: SemaphorePermit<'a>,
    arrival: Arrival,
    turn: OwnedSemaphorePermit,
}

/// Reads the body of a request. A body that is too large is read on and dropped, since many clients read the response
/// only after they have sent everything.
pub(crate) async fn read(state: &Arc<State>, request: Request) -> Result<RequestBody<'_>, Problem> {
    let arrival = state.batcher.announce();
    let limits = state.settings.limits;
    let (parts, mut body) = request.into_parts();
    let media_type = media_type(&parts.headers);
    if let Some(encoding) = encoding(&parts.headers) {
        drop(arrival);
        discard(&mut body, limits.body, Instant::now() + limits.time).await;
        return Err(Problem::media_type(format!("send the body as it is, without `Content-Encoding: {encoding}`")));
    }
    let declared =
        parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    let until = Instant::now() + limits.time;
    let length = declared.unwrap_or(limits.body);
    if length > limits.body {
        drop(arrival);
        return Err(too_large(&mut body, limits.body, until).await);
    }
    let units = u32::try_from(length.div_ceil(BODY_UNIT)).unwrap_or(u32::MAX);
    let Ok(room) = state.bodies.try_acquire_many(units) else {
        drop(arrival);
        discard(&mut body, limits.body, until).await;
        return Err(Problem::busy("other requests take all the memory for bodies; try again"));
    };
    // Most bodies arrive in one piece, which is not copied.
    let (mut first, mut bytes) = (Bytes::new(), Vec::new());
    loop {
        match timeout_at(until, next(&mut body)).await {
            Err(_) => {
                return Err(Problem::slow(format!("a request must be sent within {} seconds", limits.time.as_secs())));
            }
            // The request takes its turn when it is complete, so that slow clients do not keep others waiting.
            Ok(None) => {
                let bytes = if bytes.is_empty() { first } else { bytes.into() };
                return Ok(RequestBody { bytes, media_type, _room: room, arrival, turn: state.turn()? });
            }
            Ok(Some(Err(error))) => return Err(Problem::malformed(format!("the body ended early: {error}"))),
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

impl RequestBody<'_> {
    /// Drops the body and returns the request's turn, which is held until the request is answered.
    pub(crate) fn release(self) -> (Arrival, OwnedSemaphorePermit) {
        (self.arrival, self.turn)
    }

    /// Returns the text of a body with the media type of JSON.
    pub(crate) fn json_text(&self) -> Result<&[u8], Problem> {
        if self.media_type == "application/json" {
            return Ok(&self.bytes);
        }
        Err(Problem::media_type("send JSON, with `Content-Type: application/json`"))
    }

    /// Reads a JSON value by `seed`. Invalid JSON and valid JSON with other contents are different problems.
    pub(crate) fn json<'de, S: DeserializeSeed<'de>>(&'de self, seed: S) -> Result<S::Value, Problem> {
        let mut deserializer = serde_json::Deserializer::from_slice(self.json_text()?);
        let read = seed.deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
        read.map_err(|error| {
            if error.is_data() { Problem::invalid(error.to_string()) } else { Problem::malformed(error.to_string()) }
        })
    }
}

/// Returns the media type of a body, without parameters, in lower case.
fn media_type(headers: &HeaderMap) -> String {
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns the encoding of a body that is compressed.
fn encoding(headers: &HeaderMap) -> Option<&str> {
    let encoding = headers.get(header::CONTENT_ENCODING)?.to_str().unwrap_or("?");
    (!encoding.eq_ignore_ascii_case("identity")).then_some(encoding)
}

async fn too_large(body: &mut Body, most: usize, until: Instant) -> Problem {
    discard(body, most, until).await;
    Problem::too_large(format!("a body has at most {most} bytes; send fewer points at a time"))
}

/// Reads the rest of a body, up to four times the limit, and drops it.
async fn discard(body: &mut Body, most: usize, until: Instant) {
    let mut left = most.saturating_mul(4);
    while let Ok(Some(Ok(piece))) = timeout_at(until, next(body)).await {
        left = left.saturating_sub(piece.len());
        if left == 0 {
            return;
        }
    }
}

/// Reads and drops the body of a request that is refused for another reason.
pub(crate) async fn drop_body(state: &Arc<State>, mut body: Body) {
    let limits = state.settings.limits;
    discard(&mut body, limits.body, Instant::now() + limits.time).await;
}

/// Returns the next piece of a body; trailers are an empty piece.
async fn next(body: &mut Body) -> Option<Result<Bytes, axum::Error>> {
    Some(body.frame().await?.map(|frame| frame.into_data().unwrap_or_default()))
}
