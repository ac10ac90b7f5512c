//! Sources of pictures and texts.

use std::fs;
use std::path::Path;

use dance_embed::items::Content;
use dance_embed::{Items, Modality};

use crate::{file, refused};

fn write(folder: &Path, name: &str, contents: impl AsRef<[u8]>) -> std::path::PathBuf {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, contents).unwrap();
    path
}

#[test]
fn sub_folders_are_classes() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["dog/b.JPG", "dog/deep/a.png", "cat/1.webp", "cat/.hidden.png", "cat/notes.txt", "empty/x.txt"] {
        write(folder.path(), name, "x");
    }
    let items = Items::read(folder.path()).unwrap();
    assert_eq!(items.ids, ["cat/1.webp", "dog/b.JPG", "dog/deep/a.png"]);
    assert_eq!(items.labels.unwrap(), ["cat", "dog", "dog"]);
    assert_eq!((items.modality, items.ignored), (Modality::Pictures, 2));
    write(folder.path(), "stray.png", "x");
    refused(Items::read(folder.path()), &["by itself and in sub-folders"]);
}

#[test]
fn a_flat_folder_has_no_labels() {
    let items = Items::read(&file("pictures")).unwrap();
    assert_eq!(items.labels, None);
    assert!(items.ids.contains(&"alpha.png".to_owned()));
    let empty = tempfile::tempdir().unwrap();
    refused(Items::read(empty.path()), &["holds no pictures"]);
    refused(Items::read(&empty.path().join("nothing")), &["nothing"]);
}

#[cfg(unix)]
#[test]
fn a_link_into_its_own_folder_ends() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "cat/1.png", "x");
    std::os::unix::fs::symlink(folder.path(), folder.path().join("cat/loop")).unwrap();
    refused(Items::read(folder.path()), &["folders deep"]);
}

#[test]
fn manifests_name_pictures_or_texts() {
    let folder = tempfile::tempdir().unwrap();
    let csv = write(folder.path(), "list.csv", "\u{feff}path,label,id\na.png,cat,1\n\"b,c.png\",dog,2\n");
    let items = Items::read(&csv).unwrap();
    assert_eq!(items.contents[1], Content::File(folder.path().join("b,c.png")));
    assert_eq!((items.ids, items.labels.unwrap()), (vec!["1".into(), "2".into()], vec!["cat".into(), "dog".into()]));
    let tsv = write(folder.path(), "list.tsv", "text\tlabel\none\tx\ntwo\ty\n");
    assert_eq!(Items::read(&tsv).unwrap().ids, ["one", "two"]);
    let lines = write(
        folder.path(),
        "list.jsonl",
        "{\"text\": \"é\", \"label\": 3}\n\n{\"text\": \"b\", \"label\": true, \"id\": 7}\n",
    );
    let items = Items::read(&lines).unwrap();
    assert_eq!((items.ids, items.labels.unwrap()), (vec!["é".into(), "7".into()], vec!["3".into(), "1".into()]));
    let text = write(folder.path(), "list.txt", "one\r\n\ntwo\n");
    let items = Items::read(&text).unwrap();
    assert_eq!((items.modality, items.ids), (Modality::Texts, vec!["one".into(), "two".into()]));
}

#[test]
fn manifests_that_are_wrong_say_where() {
    let folder = tempfile::tempdir().unwrap();
    for (name, contents, parts) in [
        ("a.csv", &b"name,label\nx,y\n"[..], &["no `path`", "`name`"][..]),
        ("b.csv", b"path,label\na.png,cat\n,dog\n", &["line 3", "no `path`"]),
        ("c.csv", b"path,label\na.png\n", &["fields"]),
        ("d.csv", b"path,text\na.png,words\n", &["line 2", "both"]),
        ("e.jsonl", b"{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\"}\n", &["line 2", "no `label`"]),
        ("f.jsonl", b"{\"text\": \"a\"}\n{\"text\": \"b\", \"label\": 1}\n", &["line 2", "has a `label`"]),
        ("g.jsonl", b"[1]\n", &["line 1", "not an object"]),
        ("h.jsonl", b"{\"text\": 5}\n", &["line 1", "`text` is 5"]),
        ("i.jsonl", b"{\"text\":\n", &["line 1", "not JSON"]),
        ("j.txt", b"\xff\xfe\n", &["line 1", "UTF-8"]),
        ("k.txt", b"\n\n", &["holds no texts"]),
        ("l.parquet", b"PAR1 and no more", &["l.parquet"]),
        ("m.docx", b"x", &["cannot tell"]),
    ] {
        refused(Items::read(&write(folder.path(), name, contents)), parts);
    }
}

#[cfg(feature = "parquet")]
#[test]
fn data_sets_of_hugging_face_hold_pictures() {
    let items = Items::read(&file("pictures.parquet")).unwrap();
    assert_eq!(items.ids, ["alpha.png", "1", "gray.jpg"]);
    assert_eq!(items.labels.unwrap(), ["cat", "dog", "cat"]);
    assert_eq!(items.contents[0], Content::Bytes(fs::read(file("pictures/alpha.png")).unwrap()));
}
