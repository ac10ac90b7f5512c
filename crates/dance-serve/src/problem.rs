//! Problems: error responses after RFC 9457, with the rows that are wrong and the reason.

use std::borrow::Cow;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// The seconds after which a client may repeat a request that was refused for load.
const RETRY_AFTER: u32 = 1;
/// The begin of every problem's type: the document that explains it. A test compares the two.
pub(crate) const TYPES: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/serve.md#");

/// A kind of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// The end of its type, a heading of the document.
    pub(crate) name: &'static str,
    pub(crate) status: StatusCode,
    /// The kind in words, of which the first are those of HTTP.
    pub(crate) title: &'static str,
}

macro_rules! kinds {
    ($($constant:ident $name:literal $status:ident $title:literal,)*) => {
        impl Kind {
            $(const $constant: Self = Self { name: $name, status: StatusCode::$status, title: $title };)*
            /// Every kind of problem.
            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$constant),*];
        }
    };
}

kinds![
    MALFORMED "malformed-body" BAD_REQUEST "Bad request",
    UNAUTHORIZED "unauthorized" UNAUTHORIZED "Unauthorized",
    KEY "key-not-allowed" FORBIDDEN "Forbidden: the key may not do this",
    HOST "host-not-allowed" FORBIDDEN "Forbidden: another host",
    ORIGIN "origin-not-allowed" FORBIDDEN "Forbidden: another origin",
    NOT_FOUND "not-found" NOT_FOUND "Not found",
    METHOD "method-not-allowed" METHOD_NOT_ALLOWED "Method not allowed",
    SLOW "request-timeout" REQUEST_TIMEOUT "Request timeout",
    CONFLICT "conflict" CONFLICT "Conflict",
    TOO_LARGE "content-too-large" PAYLOAD_TOO_LARGE "Content too large",
    MEDIA_TYPE "unsupported-media-type" UNSUPPORTED_MEDIA_TYPE "Unsupported media type",
    INVALID "invalid-request" UNPROCESSABLE_ENTITY "Unprocessable content",
    ROWS "invalid-rows" UNPROCESSABLE_ENTITY "Unprocessable content: no valid row",
    INTERNAL "internal-server-error" INTERNAL_SERVER_ERROR "Internal server error",
    BUSY "overloaded" SERVICE_UNAVAILABLE "Service unavailable: overloaded",
    LATE "answer-timeout" SERVICE_UNAVAILABLE "Service unavailable: answer timeout",
    UNAVAILABLE "service-unavailable" SERVICE_UNAVAILABLE "Service unavailable",
];

/// An error response after RFC 9457.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// The address of the document that explains this kind of problem.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    kind: Cow<'static, str>,
    /// The kind of problem, in words.
    title: &'static str,
    /// The status of the response.
    status: u16,
    /// The problem of this request, with a remedy.
    detail: String,
    /// The rows that are wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rows: Vec<RowProblem>,
}

/// The problem of one row.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct RowProblem {
    /// The place of the row in the request, from 0.
    pub(crate) row: usize,
    /// The id of the row, if it could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    pub(crate) id: Option<Value>,
    /// The problem, with a remedy.
    pub(crate) detail: String,
}

/// An id as the request has it: a text or a whole number.
#[derive(Serialize, ToSchema)]
#[allow(dead_code)] // a schema of the API description, never constructed
#[serde(untagged)]
pub(crate) enum Id {
    Text(String),
    Number(i64),
}

impl Problem {
    fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("{TYPES}{}", kind.name).into(),
            title: kind.title,
            status: kind.status.as_u16(),
            detail: detail.into(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub(crate) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(Kind::MALFORMED, detail)
    }

    /// A request without a key, or with a wrong one.
    pub(crate) fn unauthorized() -> Self {
        let detail =
            "send a key as `Authorization: Bearer KEY` or `X-Api-Key: KEY`; the operator of this server has it";
        Self::new(Kind::UNAUTHORIZED, detail)
    }

    /// A request whose key is right but may not administer.
    pub(crate) fn key() -> Self {
        let detail = "this path needs a key to administer; in the file of keys the word `administer` follows it";
        Self::new(Kind::KEY, detail)
    }

    pub(crate) fn host() -> Self {
        let detail = "this server is for its own machine; use localhost or 127.0.0.1 as its name";
        Self::new(Kind::HOST, detail)
    }

    pub(crate) fn origin() -> Self {
        let detail = "a page of another site sent this request; a proxy must pass on `Host` and `Origin`";
        Self::new(Kind::ORIGIN, detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(Kind::NOT_FOUND, detail)
    }

    pub(crate) fn method() -> Self {
        Self::new(Kind::METHOD, "the header `Allow` lists the methods of this path")
    }

    pub(crate) fn slow(detail: impl Into<String>) -> Self {
        Self::new(Kind::SLOW, detail)
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(Kind::CONFLICT, detail)
    }

    pub(crate) fn too_large(detail: impl Into<String>) -> Self {
        Self::new(Kind::TOO_LARGE, detail)
    }

    pub(crate) fn media_type(detail: impl Into<String>) -> Self {
        Self::new(Kind::MEDIA_TYPE, detail)
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(Kind::INVALID, detail)
    }

    pub(crate) fn rows(rows: Vec<RowProblem>) -> Self {
        let detail = match &rows[..] {
            [only] => format!("row {}: {}", only.row, only.detail),
            [first, ..] => {
                format!("none of {} rows is valid; row {}: {}", rows.len(), first.row, first.detail)
            }
            [] => "there are no points; send at least one".into(),
        };
        Self { rows, ..Self::new(Kind::ROWS, detail) }
    }

    pub(crate) fn busy(detail: impl Into<String>) -> Self {
        Self::new(Kind::BUSY, detail)
    }

    pub(crate) fn late(detail: impl Into<String>) -> Self {
        Self::new(Kind::LATE, detail)
    }

    pub(crate) fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(Kind::UNAVAILABLE, detail)
    }

    pub(crate) fn internal() -> Self {
        Self::new(Kind::INTERNAL, "the server has a fault; its log has an entry with the id of this request")
    }

    /// Returns the response of the Open Inference Protocol, whose error is one text. It has one status for requests
    /// that cannot be answered.
    pub(crate) fn into_protocol(self) -> Response {
        let status = match self.status() {
            StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
            other => other,
        };
        let body = serde_json::json!({ "error": self.detail });
        self.respond(status, "application/json", body.to_string().into())
    }

    fn respond(&self, status: StatusCode, media_type: &'static str, body: Vec<u8>) -> Response {
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl IntoResponse for Problem {
    /// Returns the response. It carries the problem, so that [the guard](crate::guard) can write it in the form that
    /// its path has.
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = self.respond(self.status(), "application/problem+json", body);
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_has_the_members_of_the_rfc_and_names_its_rows() {
        let row = RowProblem { row: 3, id: Some("a".into()), detail: "1 numbers".into() };
        let problem = Problem::rows(vec![row]);
        let value = serde_json::to_value(&problem).unwrap();
        assert_eq!((value["status"].as_u64(), &value["detail"]), (Some(422), &"row 3: 1 numbers".into()));
        assert_eq!(value["type"], format!("{TYPES}invalid-rows"));
        assert_eq!(value["rows"][0]["id"], "a");
        let response = problem.into_response();
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        for busy in [Problem::busy(""), Problem::late("")] {
            let response = busy.into_response();
            assert_eq!((response.status().as_u16(), &response.headers()["retry-after"]), (503, &"1".parse().unwrap()));
        }
    }

    #[test]
    fn every_type_is_a_heading_of_the_document() {
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/serve.md");
        let document = std::fs::read_to_string(document).unwrap();
        for kind in Kind::ALL {
            let heading = format!("#### {}\n", kind.name);
            assert!(document.contains(&heading), "{} has no heading `{}`", kind.name, heading.trim());
            let title = kind.title.to_ascii_lowercase();
            let words = kind.status.canonical_reason().unwrap_or_default().to_ascii_lowercase();
            let words = words.replace("payload", "content").replace("unprocessable entity", "unprocessable content");
            assert!(title.starts_with(&words), "{title} does not begin with {words}");
        }
    }
}
