//! Problems: error responses after RFC 9457, with the rows that are wrong and the reason.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// The seconds after which a client may repeat a request that was refused for load.
const RETRY_AFTER: u32 = 1;

/// An error response after RFC 9457.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// The kind of problem.
    #[serde(rename = "type")]
    #[schema(example = "urn:dance:wrong-rows")]
    kind: &'static str,
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
    fn new(status: StatusCode, kind: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        Self { kind, title, status: status.as_u16(), detail: detail.into(), rows: Vec::new() }
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    pub(crate) fn not_json(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "urn:dance:not-json", "The body cannot be read", detail)
    }

    pub(crate) fn key() -> Self {
        let detail = "send a key as `Authorization: Bearer KEY`; the operator of this server has one";
        Self::new(StatusCode::UNAUTHORIZED, "urn:dance:key", "A key is needed", detail)
    }

    pub(crate) fn host(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "urn:dance:host", "The request names another host", detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "urn:dance:not-found", "Not found", detail)
    }

    pub(crate) fn method() -> Self {
        let detail = "the header `Allow` lists the methods of this path";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "urn:dance:method", "The path does not have this method", detail)
    }

    pub(crate) fn slow(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "urn:dance:slow", "The request arrived too slowly", detail)
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::CONFLICT,
            "urn:dance:conflict",
            "The request conflicts with the state of the server",
            detail,
        )
    }

    pub(crate) fn too_large(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "urn:dance:too-large", "The request is too large", detail)
    }

    pub(crate) fn media_type(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "urn:dance:media-type",
            "The media type of the body is not supported",
            detail,
        )
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "urn:dance:wrong", "The request is invalid", detail)
    }

    pub(crate) fn rows(rows: Vec<RowProblem>) -> Self {
        let detail = match &rows[..] {
            [only] => format!("row {}: {}", only.row, only.detail),
            [first, ..] => {
                format!("none of {} rows is valid; row {}: {}", rows.len(), first.row, first.detail)
            }
            [] => "there are no points; send at least one".into(),
        };
        let problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "urn:dance:wrong-rows", "No row is valid", detail);
        Self { rows, ..problem }
    }

    pub(crate) fn busy(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "urn:dance:busy", "Too many requests at once", detail)
    }

    pub(crate) fn late(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "urn:dance:late", "The answer took too long", detail)
    }

    pub(crate) fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "urn:dance:unavailable",
            "The request cannot be answered at the moment",
            detail,
        )
    }

    pub(crate) fn internal() -> Self {
        let detail = "the server has a fault; its log has an entry with the id of this request";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "urn:dance:internal", "The server has a fault", detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
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
        assert_eq!(value["status"], 422);
        assert_eq!(value["detail"], "row 3: 1 numbers");
        assert_eq!(value["rows"][0]["id"], "a");
        let response = problem.into_response();
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        assert_eq!(Problem::busy("").into_response().headers()["retry-after"], "1");
        assert_eq!(Problem::late("").into_response().headers()["retry-after"], "1");
    }
}
