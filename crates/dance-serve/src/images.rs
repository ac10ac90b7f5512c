//! `GET /page-api/pictures/{id}`: the picture of a point.
//!
//! Only ids of points that the server has are looked up, and only regular files inside the folder are sent: no `..`,
//! no link that leaves it, and only types of pictures.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use axum::extract::{Path as InPath, State as Shared};
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::problem::Problem;
use crate::settings::Pictures;
use crate::state::State;

/// File extensions and their media types, in the order in which they are tried after the id's own.
const TYPES: [(&str, &str); 6] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("webp", "image/webp"),
    ("gif", "image/gif"),
    ("avif", "image/avif"),
];
/// The most bytes of a picture that is sent.
const LARGEST: u64 = 32 << 20;

/// The picture of a point.
pub(crate) async fn image(Shared(state): Shared<Arc<State>>, InPath(id): InPath<String>) -> Result<Response, Problem> {
    let work = move || {
        let missing = || Problem::not_found("there is no picture of this point");
        let pictures = state.pictures.as_ref().ok_or_else(missing)?;
        if !is_known(&state, &id) {
            return Err(missing());
        }
        let (bytes, media_type) = match pictures {
            Pictures::Folder(folder) => {
                let (path, media_type) = find(folder, &id).ok_or_else(missing)?;
                (std::fs::read(path).map_err(|_| missing())?, media_type)
            }
            Pictures::Held(files) => {
                let bytes = files.get(&id).ok_or_else(missing)?;
                (bytes.clone(), media_type_of(bytes).ok_or_else(missing)?)
            }
        };
        let headers = [(header::CONTENT_TYPE, media_type), (header::CACHE_CONTROL, "private, max-age=3600")];
        Ok((headers, bytes).into_response())
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| Problem::internal())?
}

/// Returns whether a point of the page or of the model has this id.
fn is_known(state: &State, id: &str) -> bool {
    let of_page = state.points.as_ref().and_then(|points| points.ids.as_ref());
    if of_page.is_some_and(|ids| ids.iter().any(|other| other == id)) {
        return true;
    }
    let served = state.slot.get();
    let points = served.model.predictor().reference_labels().len() as u32;
    (0..points).any(|number| served.model.reference_point(number).id.is_some_and(|own| own.to_string() == id))
}

/// Returns the media type of a picture by the first bytes of its file.
fn media_type_of(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// Returns the file of an id inside the folder, and its media type.
fn find(folder: &Path, id: &str) -> Option<(PathBuf, &'static str)> {
    let plain = !id.is_empty() && Path::new(id).components().all(|part| matches!(part, Component::Normal(_)));
    if !plain || id.contains(['\0', '\\']) {
        return None;
    }
    let own = Path::new(id).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let own =
        TYPES.iter().filter(|(ending, _)| own.eq_ignore_ascii_case(ending)).map(|&(_, kind)| (folder.join(id), kind));
    let others = TYPES.iter().map(|&(ending, kind)| (folder.join(format!("{id}.{ending}")), kind));
    own.chain(others).find_map(|(path, kind)| {
        // The path must be inside the folder after links are resolved.
        let path = std::fs::canonicalize(path).ok().filter(|path| path.starts_with(folder))?;
        let found = std::fs::metadata(&path).ok()?;
        (found.is_file() && found.len() <= LARGEST).then_some((path, kind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_recognised_by_their_first_bytes() {
        assert_eq!(media_type_of(b"\x89PNG\r\n\x1a\nrest"), Some("image/png"));
        assert_eq!(media_type_of(b"\xff\xd8\xff\xe0"), Some("image/jpeg"));
        assert_eq!(media_type_of(b"RIFF\0\0\0\0WEBPVP8 "), Some("image/webp"));
        for other in [&b"<svg onload=alert(1)>"[..], b"RIFF", b"", b"GIF"] {
            assert_eq!(media_type_of(other), None);
        }
    }

    #[test]
    fn only_pictures_inside_the_folder_are_found() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("pictures");
        std::fs::create_dir_all(folder.join("deep")).unwrap();
        for name in ["secret.png", "pictures/a.png", "pictures/b.JPG", "pictures/deep/c.webp", "pictures/d.txt"] {
            std::fs::write(outer.path().join(name), b"x").unwrap();
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink(outer.path().join("secret.png"), folder.join("link.png")).unwrap();
        let folder = std::fs::canonicalize(folder).unwrap();
        for (id, kind) in
            [("a", "image/png"), ("a.png", "image/png"), ("b.JPG", "image/jpeg"), ("deep/c", "image/webp")]
        {
            assert_eq!(find(&folder, id).unwrap().1, kind, "{id}");
        }
        for id in [
            "",
            ".",
            "..",
            "../secret",
            "../secret.png",
            "deep/../../secret.png",
            "link",
            "link.png",
            "d.txt",
            "deep",
            "a\0",
            "/etc/passwd",
            "..\\secret.png",
        ] {
            assert!(find(&folder, id).is_none(), "{id}");
        }
        let absolute = outer.path().join("secret.png");
        assert!(find(&folder, absolute.to_str().unwrap()).is_none());
    }
}
