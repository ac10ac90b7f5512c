use super::*;
use crate::level::Level;
use dance::data::RawLabels;

fn entry(provenance: Provenance, label: &'static str, embedding: &'static [f32]) -> Entry<'static> {
    Entry {
        time: "2026-01-02T03:04:05.006Z".into(),
        provenance,
        why: None,
        id: Some(label.into()),
        label: label.into(),
        level: Level::up_to(7),
        model: "0123".into(),
        embedding: embedding.into(),
    }
}

fn labels(journal: &Journal) -> Vec<String> {
    journal.summaries().into_iter().map(|entry| entry.label.as_str().unwrap().to_owned()).collect()
}

#[test]
fn acknowledged_entries_are_read_again_and_a_line_without_an_end_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let journal = Journal::open(&path);
    assert!(!path.exists(), "no label, no file");
    journal
        .append(&[entry(Provenance::Random, "cat", &[1.0, 0.1]), entry(Provenance::Picked, "fox", &[2.0, 3.0])])
        .unwrap();
    drop(journal);
    let whole = std::fs::read(&path).unwrap();
    for torn in
        [&b"{"[..], b"{\"time\":\"2026-01-02T03:04:05.006Z\",\"provenance\":\"ra", &whole[..whole.len() / 2 - 9]]
    {
        std::fs::write(&path, [&whole[..], torn].concat()).unwrap();
        let journal = Journal::open(&path);
        assert_eq!((labels(&journal), journal.failure()), (vec!["cat".into(), "fox".into()], None));
        let last = journal.last_label(hash_of(&[2.0, 3.0])).unwrap();
        assert_eq!(last.provenance, Provenance::Picked);
        journal.append(&[entry(Provenance::Random, "owl", &[4.0, 5.0])]).unwrap();
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
    assert!(journal.failure().unwrap().contains("line 1 is no entry"));
    assert!(journal.append(&[entry(Provenance::Random, "cat", &[1.0])]).unwrap_err().contains("line 1"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "dear diary\n");
}

#[test]
fn two_servers_do_not_share_a_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let first = Journal::open(&path);
    first.append(&[entry(Provenance::Random, "cat", &[1.0])]).unwrap();
    assert!(Journal::open(&path).failure().unwrap().contains("another server"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_refuses_labels_with_its_error() {
    let journal = Journal::open(Path::new("/dev/full"));
    assert_eq!(journal.failure(), None);
    assert!(journal.append(&[entry(Provenance::Random, "cat", &[1.0])]).unwrap_err().contains("No space left"));
    assert!(journal.failure().unwrap().contains("No space left"));
    assert!(labels(&journal).is_empty());
}

#[test]
fn only_random_points_calibrate_and_the_last_label_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let journal = Journal::open(&path);
    let first = [
        entry(Provenance::Random, "cat", &[1.0, 0.1]),
        entry(Provenance::Picked, "fox", &[2.0, 3.0]),
        entry(Provenance::Random, "owl", &[1.0, 0.1]),
    ];
    journal.append(&first).unwrap();
    let (table, picked) = read_drawn(&path).unwrap();
    assert_eq!(picked, 1);
    assert_eq!(table.embeddings().as_slice(), [1.0, 0.1]); // every bit of it
    assert_eq!(table.labels, Some(RawLabels::Names(vec!["owl".into()])));
    let path = folder.path().join("picked");
    Journal::open(&path).append(&first[1..2]).unwrap();
    assert!(read_drawn(&path).unwrap_err().to_string().contains("1 points were picked"));
}

#[test]
fn labels_and_ids_keep_their_kind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let of = |label: serde_json::Value, id: i64, embedding| Entry {
        label,
        id: Some(id.into()),
        ..entry(Provenance::Random, "", embedding)
    };
    let journal = Journal::open(&path);
    journal.append(&[of(7.into(), 1, &[1.0, 0.1]), of((-8).into(), 2, &[2.0, 0.1])]).unwrap();
    let (table, _) = read_drawn(&path).unwrap();
    assert_eq!(table.labels, Some(RawLabels::Integers(vec![7, -8])));
    assert_eq!((table.ids, table.id_kind), (Some(vec!["1".into(), "2".into()]), dance::data::Kind::Integer));
    journal.append(&[of("new".into(), 3, &[3.0, 0.1])]).unwrap();
    let (table, _) = read_drawn(&path).unwrap();
    assert_eq!(table.labels, Some(RawLabels::Names(vec!["7".into(), "-8".into(), "new".into()])));
}

#[test]
fn labels_are_listed_by_the_page_and_each_point_once() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(&folder.path().join("journal"));
    let points: [&'static [f32]; 3] = [&[1.0], &[2.0], &[3.0]];
    let all = [("cat", 0), ("fox", 1), ("owl", 0), ("ape", 2)];
    journal.append(&all.map(|(label, at)| entry(Provenance::Random, label, points[at]))).unwrap();
    let page = |after, limit| {
        let (page, more) = journal.last_labels(after, limit);
        let page: Vec<_> = page.into_iter().map(|(number, one)| (number, one.label)).collect();
        (page, more)
    };
    assert_eq!(page(0, 2), (vec![(2, "fox".into()), (3, "owl".into())], true));
    assert_eq!(page(3, 2), (vec![(4, "ape".into())], false));
    assert_eq!(page(4, 2), (vec![], false));
    assert_eq!(page(99, 2), (vec![], false));
}
