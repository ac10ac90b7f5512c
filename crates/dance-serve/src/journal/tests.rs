use super::*;
use crate::level::Level;
use dance::data::RawLabels;

fn entry(how: How, label: &'static str, embedding: &'static [f32]) -> Entry<'static> {
    Entry {
        time: "2026-01-02T03:04:05.006Z".into(),
        how,
        why: None,
        id: Some(label.into()),
        label: label.into(),
        level: Level::up_to(7),
        model: "0123".into(),
        embedding: embedding.into(),
    }
}

fn labels(journal: &Journal) -> Vec<String> {
    journal.with_entries(|entries| entries.iter().map(|entry| entry.label.clone()).collect())
}

#[test]
fn what_was_acknowledged_is_there_again_and_a_torn_line_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let journal = Journal::open(&path);
    assert!(!path.exists(), "no label, no file");
    journal
        .append(&[entry(How::Chance, "cat", &[1.0, 0.1]), entry(How::Picked, "fox", &[2.0, 3.0])])
        .unwrap();
    drop(journal);
    let whole = std::fs::read(&path).unwrap();
    for torn in
        [&b"{"[..], b"{\"time\":\"2026-01-02T03:04:05.006Z\",\"how\":\"cha", &whole[..whole.len() / 2 - 9]]
    {
        std::fs::write(&path, [&whole[..], torn].concat()).unwrap();
        let journal = Journal::open(&path);
        assert_eq!((labels(&journal), journal.failure()), (vec!["cat".into(), "fox".into()], None));
        assert_eq!(journal.found(entry::fingerprint(&[2.0, 3.0])), Some(How::Picked));
        journal.append(&[entry(How::Chance, "owl", &[4.0, 5.0])]).unwrap();
        drop(journal);
        assert_eq!(labels(&Journal::open(&path)), ["cat", "fox", "owl"]);
    }
}

#[test]
fn a_file_of_something_else_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    std::fs::write(&path, "dear diary\n").unwrap();
    let journal = Journal::open(&path);
    assert!(journal.failure().unwrap().contains("line 1 is no label"));
    assert!(journal.append(&[entry(How::Chance, "cat", &[1.0])]).unwrap_err().contains("line 1"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "dear diary\n");
}

#[test]
fn two_servers_do_not_share_a_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let first = Journal::open(&path);
    first.append(&[entry(How::Chance, "cat", &[1.0])]).unwrap();
    assert!(Journal::open(&path).failure().unwrap().contains("another server"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_refuses_labels_and_says_so() {
    let journal = Journal::open(Path::new("/dev/full"));
    assert_eq!(journal.failure(), None);
    assert!(journal.append(&[entry(How::Chance, "cat", &[1.0])]).unwrap_err().contains("No space left"));
    assert!(journal.failure().unwrap().contains("No space left"));
    assert!(labels(&journal).is_empty());
}

#[test]
fn only_points_that_came_by_chance_calibrate_and_the_last_label_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let journal = Journal::open(&path);
    let first = [
        entry(How::Chance, "cat", &[1.0, 0.1]),
        entry(How::Picked, "fox", &[2.0, 3.0]),
        entry(How::Chance, "owl", &[1.0, 0.1]),
    ];
    journal.append(&first).unwrap();
    let (table, picked) = read_drawn(&path).unwrap();
    assert_eq!(picked, 1);
    assert_eq!(table.embeddings().as_slice(), [1.0, 0.1]); // every bit of it
    assert_eq!(table.labels, Some(RawLabels::Names(vec!["owl".into()])));
    let path = folder.path().join("picked");
    Journal::open(&path).append(&first[1..2]).unwrap();
    assert!(read_drawn(&path).unwrap_err().to_string().contains("1 were picked"));
}
