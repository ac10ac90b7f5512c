//! A run that is stopped, and the one that goes on.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use dance::{Context, Event, Observer};
use dance_embed::{EmbedOptions, Items, Modality, embed};

use crate::{clip, refused};

/// Stops the job once so many texts are done.
struct After(usize, AtomicUsize);

impl Observer for After {
    fn notice(&self, event: &Event) {
        if let Event::Embedded { done, .. } = event {
            self.1.store(*done, Ordering::Relaxed);
        }
    }

    fn interrupted(&self) -> bool {
        self.1.load(Ordering::Relaxed) >= self.0
    }
}

#[test]
fn a_stopped_run_goes_on_and_gives_the_same() {
    let context = Context::new(2).unwrap();
    let Some(encoder) = clip(Modality::Texts, &context) else { return };
    let texts =
        |more: &str| Items::texts("texts", (0..1300).map(|number| format!("text number {number}{more}")).collect());
    let folder = tempfile::tempdir().unwrap();
    let parts = folder.path().join("out.npz.parts");
    let options = EmbedOptions { skip_bad: false, parts: Some(parts.clone()) };
    let whole = embed(&texts(""), &encoder, &EmbedOptions::default(), &context).unwrap();

    let stop = After(600, AtomicUsize::new(0));
    let stopped = embed(&texts(""), &encoder, &options, &context.with_observer(&stop));
    refused(stopped, &["interrupted"]);
    assert!(parts.join("000000.part").is_file());
    refused(embed(&texts("!"), &encoder, &options, &context), &["out.npz.parts", "other inputs"]);

    // The part that is there is taken; one that is damaged is made again.
    fs::write(parts.join("000001.part"), b"half").unwrap();
    let heard = After(usize::MAX, AtomicUsize::new(0));
    let resumed = embed(&texts(""), &encoder, &options, &context.with_observer(&heard)).unwrap();
    assert_eq!(resumed.table, whole.table);
    resumed.keep();
    assert!(!parts.exists());
}

#[test]
fn two_runs_do_not_write_the_same_parts() {
    let context = Context::new(1).unwrap();
    let Some(encoder) = clip(Modality::Texts, &context) else { return };
    let items = Items::texts("texts", vec!["one".into()]);
    let folder = tempfile::tempdir().unwrap();
    let options = EmbedOptions { skip_bad: false, parts: Some(folder.path().join("parts")) };
    fs::create_dir(folder.path().join("parts")).unwrap();
    let lock = fs::File::create(folder.path().join("parts/lock")).unwrap();
    lock.lock().unwrap();
    refused(embed(&items, &encoder, &options, &context), &["another run"]);
    drop(lock);
    embed(&items, &encoder, &options, &context).unwrap();
}
