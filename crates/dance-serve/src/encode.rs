//! `POST /v1/embed`: the embedding of a picture or a text, on a server with an encoder.

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

/// The encoder that made the embeddings of a model.
pub trait Encode: Send + Sync {
    /// Returns the identity of the encoder.
    fn identity(&self) -> &EncoderIdentity;
    /// Returns the kind of content that it embeds.
    fn takes(&self) -> Takes;
    /// Returns the embedding of a picture's file or of a text in UTF-8, or the problem with it.
    fn embed(&self, content: Vec<u8>) -> Result<Vec<f32>, String>;
}

/// A function that opens the encoder of a model.
pub type OpenEncoder<'a> = &'a dyn Fn(&Dance) -> dance::Result<Box<dyn Encode>>;

/// The kind of content that an encoder embeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Takes {
    /// Pictures.
    Pictures,
    /// Texts.
    Texts,
}

/// An embedding, as `/v1/predict` and `/v1/explain` read it.
#[derive(Serialize, ToSchema)]
pub(crate) struct Embedding {
    embedding: Vec<f32>,
}

#[utoipa::path(
    post, path = "/v1/embed",
    request_body(content((Vec<u8> = "image/*"), (String = "text/plain"))),
    responses((status = 200, description = "The embedding", body = Embedding), crate::openapi::Refusals)
)]
/// The embedding of a picture or a text, by the encoder of the model. The member `takes` of `/v1/models` names the
/// kind of content.
pub(crate) async fn embed(Shared(state): Shared<Arc<State>>, request: Request) -> Result<Json<Embedding>, Problem> {
    let body = body::read(&state, request).await?;
    let Some(takes) = state.takes() else {
        return Err(Problem::not_found("this server has no encoder; start it with --encoder"));
    };
    match takes {
        Takes::Pictures if !body.media_type.starts_with("image/") => {
            return Err(Problem::media_type("send a picture, with a `Content-Type` such as `image/png`"));
        }
        Takes::Texts if body.media_type != "text/plain" => {
            return Err(Problem::media_type("send a text, with `Content-Type: text/plain`"));
        }
        Takes::Pictures | Takes::Texts => {}
    }
    let content = body.bytes.to_vec();
    let (_, turn) = body.release();
    let work = move || {
        let _turn = turn;
        let encoder = state.encoder.as_ref().ok_or_else(Problem::internal)?;
        let embedding = encoder.embed(content).map_err(Problem::invalid)?;
        Ok(Json(Embedding { embedding }))
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| Problem::internal())?
}
