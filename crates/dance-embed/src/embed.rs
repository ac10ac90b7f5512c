//! Embedding of all pictures or texts: workers prepare and run batches in parallel; the calling thread assembles them,
//! keeps parts on disk, and reports progress.
//!
//! The contents of a batch depend on the inputs alone, never on the workers, so equal inputs give equal numbers. Texts
//! are ordered by length, so that batches hold little padding.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use dance::data::{RawLabels, Table};
use dance::{Context, Error, Event, Matrix, Result};

use crate::encoder::Encoder;
use crate::items::{Content, Items, Modality};
use crate::parts::{Outcome, Parts};

/// Pictures or texts per batch: enough for efficient matrix products, and few enough that intermediate results stay in
/// a core's cache. Texts by `MiniLM` take 9 % more time with 16, and a third more with 64.
const BATCH: usize = 8;
/// Batches per part on disk.
const BATCHES_PER_PART: usize = 64;
/// The interval at which the calling thread checks for an interruption.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Options of [`embed`].
#[derive(Clone, Debug, Default)]
pub struct EmbedOptions {
    /// Skips pictures and texts that cannot be embedded, instead of an error at the first.
    pub skip_bad: bool,
    /// A folder for finished parts, so that an interrupted run can continue. [`Embedded::keep`] removes it.
    pub parts: Option<PathBuf>,
}

/// A picture or text that could not be embedded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad {
    /// Its id.
    pub id: String,
    /// The reason, in words.
    pub reason: String,
}

/// Embeddings, and the inputs that could not be embedded.
#[derive(Debug)]
pub struct Embedded {
    /// Embeddings, ids, labels and the identity of the encoder.
    pub table: Table,
    /// The inputs that were skipped.
    pub bad: Vec<Bad>,
    parts: Option<PathBuf>,
}

impl Embedded {
    /// Removes the parts on disk. Call it once the embeddings are saved elsewhere.
    pub fn keep(&self) {
        if let Some(folder) = &self.parts {
            Parts::remove(folder);
        }
    }
}

/// Embeds all pictures or texts.
pub fn embed(items: &Items, encoder: &Encoder, options: &EmbedOptions, context: &Context<'_>) -> Result<Embedded> {
    if items.modality != encoder.modality() {
        return Err(Error::Data(format!(
            "{}: holds {}, and the encoder was opened for {}",
            items.origin,
            items.modality.name(),
            encoder.modality().name()
        )));
    }
    // Workers embed in an order of their own; outcomes go back to their rows.
    let parts = options.parts.as_deref().map(|folder| Parts::open(folder, items, encoder.identity())).transpose()?;
    let order = order(items);
    let mut job = Job { items, encoder, order: &order, parts, skip_bad: options.skip_bad };
    let outcomes = job.run(context)?;
    let mut by_row: Vec<Option<Outcome>> = vec![None; order.len()];
    for (&row, outcome) in order.iter().zip(outcomes) {
        by_row[row] = Some(outcome);
    }
    // Rows that could not be embedded are listed separately.
    let (mut numbers, mut kept, mut bad) = (Vec::new(), Vec::new(), Vec::new());
    for (row, outcome) in by_row.into_iter().enumerate() {
        match outcome {
            Some(Ok(embedding)) => {
                numbers.extend(embedding);
                kept.push(row);
            }
            Some(Err(reason)) => bad.push(Bad { id: items.ids[row].clone(), reason }),
            None => {}
        }
    }
    if kept.is_empty() {
        let first = bad.first().map_or(String::new(), |bad| format!("; the first, {}, {}", bad.id, bad.reason));
        return Err(Error::Data(format!("{}: none of {} could be embedded{first}", items.origin, items.ids.len())));
    }
    // The table has the rows that were embedded, with their ids and labels.
    let width = numbers.len() / kept.len();
    let mut table = Table::new(items.origin.clone(), Matrix::new(numbers, kept.len(), width)?)?;
    let select = |all: &Vec<String>| kept.iter().map(|&row| all[row].clone()).collect::<Vec<_>>();
    table.ids = Some(select(&items.ids));
    table.labels = items.labels.as_ref().map(|labels| RawLabels::Names(select(labels)));
    table.encoder = Some(encoder.identity().clone());
    Ok(Embedded { table, bad, parts: options.parts.clone() })
}

/// Embeds class names in a prompt (`a photo of a {}`), one row for each. Underscores become spaces.
pub fn prototypes(names: &[String], prompt: &str, encoder: &Encoder, context: &Context<'_>) -> Result<Matrix> {
    let texts = names.iter().map(|name| prompt.replace("{}", &name.replace('_', " "))).collect();
    let embedded = embed(&Items::texts("class names", texts), encoder, &EmbedOptions::default(), context)?;
    Ok(embedded.table.embeddings().clone())
}

/// Returns the order in which rows are embedded.
fn order(items: &Items) -> Vec<usize> {
    let mut order: Vec<usize> = (0..items.contents.len()).collect();
    if items.modality == Modality::Texts {
        // The length in bytes approximates the number of tokens.
        let length = |&row: &usize| if let Content::Text(text) = &items.contents[row] { text.len() } else { 0 };
        order.sort_by_key(length);
    }
    order
}

/// One run over all inputs.
struct Job<'a> {
    items: &'a Items,
    encoder: &'a Encoder,
    /// Rows in the order in which they are embedded. Batches are pieces of it.
    order: &'a [usize],
    parts: Option<Parts>,
    skip_bad: bool,
}

impl Job<'_> {
    /// Returns the outcomes in the order of embedding.
    fn run(&mut self, context: &Context<'_>) -> Result<Vec<Outcome>> {
        // Parts of an earlier run are read.
        let pieces: Vec<&[usize]> = self.order.chunks(BATCH * BATCHES_PER_PART).collect();
        let mut done: BTreeMap<usize, Vec<Outcome>> = BTreeMap::new();
        if let Some(parts) = &self.parts {
            done = pieces
                .iter()
                .enumerate()
                .filter_map(|(part, rows)| Some((part, parts.read(part, rows.len())?)))
                .collect();
        }
        // The batches that remain, each with the number of its part.
        let open: Vec<(usize, &[usize])> = pieces
            .iter()
            .enumerate()
            .filter(|(part, _)| !done.contains_key(part))
            .flat_map(|(part, rows)| rows.chunks(BATCH).map(move |batch| (part, batch)))
            .collect();
        let kept: usize = done.values().map(Vec::len).sum();
        if kept > 0 {
            context.warn(format!("{kept} of {} were embedded by an earlier run, and are not again", self.order.len()));
        }
        for (part, outcomes) in &done {
            self.refuse(pieces[*part], outcomes)?;
        }
        self.work(&open, kept, &mut done, context)?;
        Ok(done.into_values().flatten().collect())
    }

    /// Runs the open batches on worker threads.
    fn work(
        &self,
        open: &[(usize, &[usize])],
        kept: usize,
        done: &mut BTreeMap<usize, Vec<Outcome>>,
        context: &Context<'_>,
    ) -> Result<()> {
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        // With fewer sessions than threads, one more worker prepares a batch while the others run.
        let workers =
            context.threads().max(self.encoder.sessions()) + usize::from(self.encoder.sessions() < context.threads());
        let (sender, receiver) = mpsc::sync_channel(2 * workers);
        std::thread::scope(|scope| {
            for _ in 0..workers.min(open.len()) {
                let (sender, next, stop) = (sender.clone(), &next, &stop);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some((_, rows)) = open.get(number) else { break };
                        if sender.send((number, self.batch(rows))).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            let gathered = self.gather(&receiver, open, kept, done, context);
            stop.store(true, Ordering::Relaxed);
            drop(receiver); // ends workers that wait to send a batch
            gathered
        })
    }

    /// Receives batches and puts them in order. A complete part is written to disk.
    fn gather(
        &self,
        receiver: &mpsc::Receiver<(usize, Result<Vec<Outcome>>)>,
        open: &[(usize, &[usize])],
        mut count: usize,
        done: &mut BTreeMap<usize, Vec<Outcome>>,
        context: &Context<'_>,
    ) -> Result<()> {
        let mut early = BTreeMap::new();
        let mut expected = 0;
        while expected < open.len() {
            context.check()?;
            match receiver.recv_timeout(CHECK_INTERVAL) {
                Ok((number, outcomes)) => {
                    early.insert(number, outcomes);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => continue,
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(Error::Data("a worker ended before its batch was done".into()));
                }
            }
            while let Some(outcomes) = early.remove(&expected) {
                let (part, rows) = open[expected];
                let outcomes = outcomes?;
                self.refuse(rows, &outcomes)?;
                count += rows.len();
                let all = done.entry(part).or_default();
                all.extend(outcomes);
                expected += 1;
                let complete = open.get(expected).is_none_or(|(next, _)| *next != part);
                if let Some(parts) = self.parts.as_ref().filter(|_| complete) {
                    parts.write(part, all)?;
                }
                context.notice(&Event::Embedded { done: count, of: self.order.len() });
            }
        }
        Ok(())
    }

    /// Returns an error for the first bad input, unless bad inputs are skipped.
    fn refuse(&self, rows: &[usize], outcomes: &[Outcome]) -> Result<()> {
        if self.skip_bad {
            return Ok(());
        }
        match rows.iter().zip(outcomes).find_map(|(row, outcome)| Some((row, outcome.as_ref().err()?))) {
            None => Ok(()),
            Some((&row, reason)) => Err(Error::Data(format!(
                "{}: {}: {reason} (--on-error skip leaves out what cannot be embedded)",
                self.items.origin, self.items.ids[row]
            ))),
        }
    }

    /// Prepares and embeds one batch.
    fn batch(&self, rows: &[usize]) -> Result<Vec<Outcome>> {
        let (mut ready, mut outcomes) = (Vec::new(), Vec::with_capacity(rows.len()));
        for &row in rows {
            match self.encoder.prepare(&self.items.contents[row]) {
                Ok(prepared) => {
                    ready.push(prepared);
                    outcomes.push(Ok(Vec::new()));
                }
                Err(reason) => outcomes.push(Err(reason)),
            }
        }
        if ready.is_empty() {
            return Ok(outcomes);
        }
        let count = ready.len();
        let numbers = self.encoder.run(ready)?;
        let mut embeddings = numbers.chunks_exact((numbers.len() / count).max(1));
        for outcome in outcomes.iter_mut().flatten() {
            *outcome = embeddings.next().unwrap_or_default().to_vec();
        }
        Ok(outcomes)
    }
}
