//! Pictures that cannot be embedded: one ends the run, or is left out and listed.

use std::fs;

use dance::Context;
use dance_embed::{EmbedOptions, Items, Modality, embed};

use crate::{clip, file, refused};

#[test]
fn bad_pictures_are_refused_or_left_out() {
    let context = Context::new(2).unwrap();
    let Some(encoder) = clip(Modality::Pictures, &context) else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let good = fs::read(file("pictures/rgb.png")).unwrap();
    fs::write(at("a.png"), &good).unwrap();
    fs::write(at("b.png"), b"").unwrap();
    fs::write(at("c.jpg"), b"words").unwrap();
    fs::write(at("d.png"), &good[..good.len() / 2]).unwrap();
    fs::write(at("e.png"), &good).unwrap();
    fs::write(at("list.csv"), "path\na.png\nmissing.png\n").unwrap();
    let items = Items::read(folder.path()).unwrap();
    let all = EmbedOptions::default();
    refused(embed(&items, &encoder, &all, &context), &["b.png", "0 bytes", "--on-error skip"]);
    let skip = EmbedOptions { skip_bad: true, parts: None };
    let embedded = embed(&items, &encoder, &skip, &context).unwrap();
    assert_eq!(embedded.table.ids.as_ref().unwrap(), &["a.png", "e.png"]);
    let listed: Vec<&str> = embedded.bad.iter().map(|bad| bad.id.as_str()).collect();
    assert_eq!(listed, ["b.png", "c.jpg", "d.png"]);
    let rows = embedded.table.embeddings();
    assert_eq!(rows.row(0), rows.row(1));
    let list = Items::read(&at("list.csv")).unwrap();
    refused(embed(&list, &encoder, &all, &context), &["missing.png", "No such file"]);
    fs::remove_file(at("a.png")).unwrap();
    fs::remove_file(at("e.png")).unwrap();
    let items = Items::read(folder.path()).unwrap();
    refused(embed(&items, &encoder, &skip, &context), &["none of 3 could be embedded", "b.png"]);
}
