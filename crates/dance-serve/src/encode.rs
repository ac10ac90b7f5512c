//! `POST /v1/embed`: a picture or a text as a point, where the server was given the model's encoder.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State as Shared};
use dance::Dance;
use dance::data::EncoderIdentity;
use serde::Serialize;
use utoipa::ToSchema;

use crate::body;
use crate::problem::Problem;
use crate::state::State;

/// What the model's points were embedded with.
pub trait Encode: Send + Sync {
    /// Who it is.
    fn identity(&self) -> &EncoderIdentity;
    /// What it embeds.
    fn takes(&self) -> Takes;
    /// The embedding of a picture's file or of a text in UTF-8; or what is wrong with it.
    fn embed(&self, content: Vec<u8>) -> Result<Vec<f32>, String>;
}

/// Opens the encoder of a model.
pub type OpenEncoder<'a> = &'a dyn Fn(&Dance) -> dance::Result<Box<dyn Encode>>;

/// What an encoder embeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Takes {
    /// Pictures.
    Pictures,
    /// Texts.
    Texts,
}

/// A point, as `/v1/predict` and `/v1/explain` take it.
#[derive(Serialize, ToSchema)]
pub(crate) struct Embedded {
    embedding: Vec<f32>,
}

#[utoipa::path(
    post, path = "/v1/embed", tag = "sets",
    request_body(content((Vec<u8> = "image/*"), (String = "text/plain"))),
    responses((status = 200, description = "Its embedding", body = Embedded), crate::openapi::Refusals)
)]
/// The embedding of a picture or a text, by the encoder of the model; `takes` of `/v1/model` says which of both, and is null on a
/// server without an encoder.
pub(crate) async fn embed(
    Shared(state): Shared<Arc<State>>,
    request: Request,
) -> Result<Json<Embedded>, Problem> {
    let read = body::read(&state, request).await?;
    let Some(takes) = state.takes() else {
        return Err(Problem::not_found("this server has no encoder; start it with --encoder"));
    };
    match takes {
        Takes::Pictures if !read.media_type.starts_with("image/") => {
            return Err(Problem::media_type("send a picture, with a `Content-Type` such as `image/png`"));
        }
        Takes::Texts if read.media_type != "text/plain" => {
            return Err(Problem::media_type("send a text, with `Content-Type: text/plain`"));
        }
        Takes::Pictures | Takes::Texts => {}
    }
    let content = read.bytes.to_vec();
    let (_, turn) = read.done();
    let work = move || {
        let _turn = turn;
        let encoder = state.encoder.as_ref().ok_or_else(Problem::internal)?;
        let embedding = encoder.embed(content).map_err(Problem::wrong)?;
        Ok(Json(Embedded { embedding }))
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| Problem::internal())?
}
