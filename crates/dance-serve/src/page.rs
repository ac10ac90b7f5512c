//! The page: `GET /` and its files, which are compiled into the binary.

use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::problem::Problem;

macro_rules! files {
    ($($name:literal $media_type:literal,)*) => {
        [$(($name, $media_type, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/page/", $name)))),*]
    };
}

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const INDEX: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/page/index.html"));
/// The name, media type and text of every file.
const FILES: [(&str, &str, &str); 15] = files![
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

/// Returns the HTML of the page.
pub(crate) async fn index() -> Response {
    response("text/html; charset=utf-8", INDEX)
}

/// Returns a file of the page.
pub(crate) async fn file(Path(name): Path<String>) -> Result<Response, Problem> {
    let shared = [
        ("plot.js", JAVASCRIPT, dance_page::assets::PLOT_JS),
        ("charts.js", JAVASCRIPT, dance_page::assets::CHARTS_JS),
        ("charts.css", STYLE, dance_page::assets::CHARTS_CSS),
    ];
    let found = FILES.iter().chain(&shared).find(|(other, _, _)| *other == name);
    let (_, media_type, text) = found.ok_or_else(|| Problem::not_found("the page has no such file"))?;
    Ok(response(media_type, text))
}

fn response(media_type: &'static str, text: &'static str) -> Response {
    // Browsers revalidate each time, since a new version of the server has a new page.
    ([(header::CONTENT_TYPE, media_type), (header::CACHE_CONTROL, "no-cache")], text).into_response()
}
