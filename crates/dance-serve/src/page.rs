//! The page: `GET /` and its files, which are compiled into the binary.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::problem::Problem;

macro_rules! files {
    ($($name:literal $media_type:literal,)*) => {
        [$(($name, $media_type, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/page/", $name)))),*]
    };
}

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
/// The name, media type and text of every file.
const FILES: [(&str, &str, &str); 16] = files![
    "index.html" "text/html; charset=utf-8",
    "page.css" "text/css; charset=utf-8",
    "main.js" "text/javascript; charset=utf-8",
    "api.js" "text/javascript; charset=utf-8",
    "dom.js" "text/javascript; charset=utf-8",
    "sets.js" "text/javascript; charset=utf-8",
    "explore.js" "text/javascript; charset=utf-8",
    "point.js" "text/javascript; charset=utf-8",
    "coverage.js" "text/javascript; charset=utf-8",
    "review.js" "text/javascript; charset=utf-8",
    "try.js" "text/javascript; charset=utf-8",
    "reference.js" "text/javascript; charset=utf-8",
    "read.js" "text/javascript; charset=utf-8",
    "format.js" "text/javascript; charset=utf-8",
    "keyboard.js" "text/javascript; charset=utf-8",
    "pictures.js" "text/javascript; charset=utf-8",
];
/// The files that reports have too.
const SHARED: [(&str, &str, &str); 3] = [
    ("plot.js", JAVASCRIPT, dance_page::assets::PLOT_JS),
    ("charts.js", JAVASCRIPT, dance_page::assets::CHARTS_JS),
    ("charts.css", STYLE, dance_page::assets::CHARTS_CSS),
];

/// A file of the page, with its hash as the entity tag. The tag is weak, since responses may be compressed.
struct PageFile {
    media_type: &'static str,
    text: &'static str,
    tag: HeaderValue,
}

static PAGE: LazyLock<HashMap<&str, PageFile>> = LazyLock::new(|| {
    let file = |&(name, media_type, text): &(&'static str, &'static str, &'static str)| {
        let hash: String = Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let tag = HeaderValue::try_from(format!("W/\"{hash}\"")).ok()?;
        Some((name, PageFile { media_type, text, tag }))
    };
    FILES.iter().chain(&SHARED).filter_map(file).collect()
});

/// Returns the HTML of the page.
pub(crate) async fn index(headers: HeaderMap) -> Response {
    response("index.html", &headers).into_response()
}

/// Returns a file of the page.
pub(crate) async fn file(Path(name): Path<String>, headers: HeaderMap) -> Result<Response, Problem> {
    response(&name, &headers)
}

/// Returns no icon, so that browsers do not ask again.
pub(crate) async fn icon() -> impl IntoResponse {
    ([(header::CACHE_CONTROL, "max-age=86400")], StatusCode::NO_CONTENT)
}

/// Returns a file, or status 304 to a browser that has it. Browsers ask each time, since a new version of the server
/// has a new page.
fn response(name: &str, headers: &HeaderMap) -> Result<Response, Problem> {
    let file = PAGE.get(name).ok_or_else(|| Problem::not_found("the page has no such file"))?;
    let had = headers.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok()).unwrap_or_default();
    let mut own = file.tag.to_str().into_iter().map(|tag| tag.trim_start_matches("W/"));
    let is_known = own.any(|tag| had.split(',').any(|had| had.trim().trim_start_matches("W/") == tag));
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, file.media_type)], file.text).into_response()
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, file.tag.clone());
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}
