//! All pictures or texts, embedded: workers prepare batches and run them side by side; the calling thread puts them together, keeps
//! parts, and tells how far it is.
//!
//! What is in a batch depends on the inputs alone, never on the workers, so the same inputs give the same numbers. Texts go in the
//! order of their lengths, so that hardly any token is padding.

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

/// Pictures or texts that are run at once: enough that a matrix product is worth its start, and so few that what lies between two of them
/// stays in a core's cache (texts by `MiniLM`: 16 take 9 % more time than 8, 64 a third more).
const BATCH: usize = 8;
/// Batches that are kept together.
const BATCHES_PER_PART: usize = 64;
/// How often the calling thread looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(100);

/// How to embed.
#[derive(Clone, Debug, Default)]
pub struct EmbedOptions {
    /// Leave out pictures and texts that cannot be embedded, in place of refusing all.
    pub skip_bad: bool,
    /// A folder where what is done is kept, so that a run that was stopped can go on. It is there until [`Embedded::keep`].
    pub parts: Option<PathBuf>,
}

/// A picture or text that could not be embedded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad {
    /// Its id.
    pub id: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Embeddings, with what could not be embedded.
#[derive(Debug)]
pub struct Embedded {
    /// Embeddings, ids, labels and who made them.
    pub table: Table,
    /// What was left out.
    pub bad: Vec<Bad>,
    parts: Option<PathBuf>,
}

impl Embedded {
    /// Embeddings are kept elsewhere now, so the parts may go.
    pub fn keep(&self) {
        if let Some(folder) = &self.parts {
            Parts::remove(folder);
        }
    }
}

/// Embeds everything.
pub fn embed(
    items: &Items,
    encoder: &Encoder,
    options: &EmbedOptions,
    context: &Context<'_>,
) -> Result<Embedded> {
    if items.modality != encoder.modality() {
        return Err(Error::Data(format!(
            "{}: holds {}, and the encoder was opened for {}",
            items.origin,
            items.modality.name(),
            encoder.modality().name()
        )));
    }
    let parts =
        options.parts.as_deref().map(|folder| Parts::open(folder, items, encoder.identity())).transpose()?;
    let order = order(items);
    let mut job = Job { items, encoder, order: &order, parts, skip_bad: options.skip_bad };
    let outcomes = job.run(context)?;
    let mut by_row: Vec<Option<Outcome>> = vec![None; order.len()];
    for (&row, outcome) in order.iter().zip(outcomes) {
        by_row[row] = Some(outcome);
    }
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
        let first =
            bad.first().map_or(String::new(), |bad| format!("; the first, {}, {}", bad.id, bad.reason));
        return Err(Error::Data(format!(
            "{}: none of {} could be embedded{first}",
            items.origin,
            items.ids.len()
        )));
    }
    let width = numbers.len() / kept.len();
    let mut table = Table::new(items.origin.clone(), Matrix::new(numbers, kept.len(), width)?)?;
    let select = |all: &Vec<String>| kept.iter().map(|&row| all[row].clone()).collect::<Vec<_>>();
    table.ids = Some(select(&items.ids));
    table.labels = items.labels.as_ref().map(|labels| RawLabels::Names(select(labels)));
    table.encoder = Some(encoder.identity().clone());
    Ok(Embedded { table, bad, parts: options.parts.clone() })
}

/// Class names in a prompt (`a photo of a {}`), embedded: one row for each. Underscores are spaces.
pub fn prototypes(
    names: &[String],
    prompt: &str,
    encoder: &Encoder,
    context: &Context<'_>,
) -> Result<Matrix> {
    let texts = names.iter().map(|name| prompt.replace("{}", &name.replace('_', " "))).collect();
    let embedded = embed(&Items::texts("class names", texts), encoder, &EmbedOptions::default(), context)?;
    Ok(embedded.table.embeddings().clone())
}

/// The order in which rows are embedded.
fn order(items: &Items) -> Vec<usize> {
    let mut order: Vec<usize> = (0..items.contents.len()).collect();
    if items.modality == Modality::Texts {
        // By bytes, which is near enough to tokens and costs nothing.
        let length =
            |&row: &usize| if let Content::Text(text) = &items.contents[row] { text.len() } else { 0 };
        order.sort_by_key(length);
    }
    order
}

struct Job<'a> {
    items: &'a Items,
    encoder: &'a Encoder,
    /// Rows in the order in which they are embedded; a batch is a piece of it.
    order: &'a [usize],
    parts: Option<Parts>,
    skip_bad: bool,
}

impl Job<'_> {
    /// Outcomes in the order of embedding.
    fn run(&mut self, context: &Context<'_>) -> Result<Vec<Outcome>> {
        let pieces: Vec<&[usize]> = self.order.chunks(BATCH * BATCHES_PER_PART).collect();
        let mut done: BTreeMap<usize, Vec<Outcome>> = BTreeMap::new();
        if let Some(parts) = &self.parts {
            done = pieces
                .iter()
                .enumerate()
                .filter_map(|(part, rows)| Some((part, parts.read(part, rows.len())?)))
                .collect();
        }
        // Batches that are still to be run, by part and place within it.
        let open: Vec<(usize, &[usize])> = pieces
            .iter()
            .enumerate()
            .filter(|(part, _)| !done.contains_key(part))
            .flat_map(|(part, rows)| rows.chunks(BATCH).map(move |batch| (part, batch)))
            .collect();
        let kept: usize = done.values().map(Vec::len).sum();
        if kept > 0 {
            context.warn(format!(
                "{kept} of {} were embedded by an earlier run, and are not again",
                self.order.len()
            ));
        }
        for (part, outcomes) in &done {
            self.refuse(pieces[*part], outcomes)?;
        }
        self.work(&open, kept, &mut done, context)?;
        Ok(done.into_values().flatten().collect())
    }

    fn work(
        &self,
        open: &[(usize, &[usize])],
        kept: usize,
        done: &mut BTreeMap<usize, Vec<Outcome>>,
        context: &Context<'_>,
    ) -> Result<()> {
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        // One worker more than sessions, so that one prepares while the others run; never more than threads ask for otherwise.
        let workers = context.threads().max(self.encoder.sessions())
            + usize::from(self.encoder.sessions() < context.threads());
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
            drop(receiver); // whoever waits to hand on a batch need not
            gathered
        })
    }

    /// Takes batches in their order, whichever comes first.
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
            match receiver.recv_timeout(LOOK) {
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

    /// Ends the job at the first that is bad, unless those are to be left out.
    fn refuse(&self, rows: &[usize], outcomes: &[Outcome]) -> Result<()> {
        if self.skip_bad {
            return Ok(());
        }
        match rows.iter().zip(outcomes).find_map(|(row, outcome)| Some((row, outcome.as_ref().err()?))) {
            None => Ok(()),
            Some((&row, reason)) => Err(Error::Data(format!(
                "{}: {}: {reason} (--skip-bad leaves out what cannot be embedded)",
                self.items.origin, self.items.ids[row]
            ))),
        }
    }

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
