//! Batching: points of concurrent requests are scored together, which costs less than each request by itself. The
//! answers are the same as without it.
//!
//! - A batch takes the points that have arrived, at most [`MOST_POINTS`]. It waits at most [`LONGEST_WAIT`] for more,
//!   and only while requests are known to be [arriving](Arrival).
//! - A request with many points is cut into pieces, so that other requests get their turn in between.
//! - One thread scores a batch of single points: several would spend as much on waking each other as on the scores.
//!   Half of the threads score, since the others read requests, and fewer batches are larger ones. All threads score
//!   a piece of a large request.
//! - While every scoring thread has a large batch, the threads that read requests pause: see
//!   [`Batcher::pause_when_busy`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dance::{Context, Matrix, PredictOptions, Scored};
use tokio::sync::oneshot;

use crate::problem::Problem;
use crate::served::ServedModel;
use crate::state::Slot;
use crate::telemetry;

const MOST_POINTS: usize = 64;
const LONGEST_WAIT: Duration = Duration::from_millis(2);
/// The points of a piece of a large request.
const PIECE: usize = 256;
/// The points of a batch that takes longer to score than [`PAUSE`].
const MANY_POINTS: usize = 16;
const PAUSE: Duration = Duration::from_micros(250);
/// The most neighbors that support a label in an answer.
pub(crate) const SUPPORT: usize = 5;

/// The scores of one piece of a request.
pub(crate) struct ScoredPiece {
    /// The model that scored the points.
    pub(crate) served: Arc<ServedModel>,
    /// The scores of the points that are not refused, in their order.
    pub(crate) scored: Scored,
    /// The place of every refused point, with the problem.
    pub(crate) refused: Vec<(usize, String)>,
}

struct Job {
    points: Matrix,
    /// Neighbors in support of labels are wanted.
    support: bool,
    to: oneshot::Sender<ScoredPiece>,
}

/// The queue of points and the threads that score them.
pub(crate) struct Batcher {
    jobs: Sender<Job>,
    arrivals: Arc<AtomicUsize>,
    /// The number of scoring threads.
    threads: usize,
    /// The number of scoring threads that have many points.
    busy: Arc<AtomicUsize>,
}

/// A request that is being read and may bring points soon.
pub(crate) struct Arrival(Arc<AtomicUsize>);

impl Drop for Arrival {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Batcher {
    /// Starts the scoring threads. They end when the batcher is dropped.
    pub(crate) fn start(slot: &Arc<Slot>, context: &Context<'static>) -> dance::Result<Self> {
        let (jobs, receiver) = mpsc::channel();
        let (receiver, arrivals) = (Arc::new(Mutex::new(receiver)), Arc::new(AtomicUsize::new(0)));
        let (threads, busy) = (context.threads().div_ceil(2), Arc::new(AtomicUsize::new(0)));
        for number in 0..threads {
            let (receiver, arrivals) = (Arc::clone(&receiver), Arc::clone(&arrivals));
            let (slot, all, alone, busy) = (Arc::clone(slot), context.clone(), Context::new(1)?, Arc::clone(&busy));
            let serve = move |alone: &Context<'_>| {
                while let Some(batch) = next_batch(&receiver, &arrivals) {
                    let points: usize = batch.iter().map(|job| job.points.rows()).sum();
                    let context = if points > MOST_POINTS { &all } else { alone };
                    let many = usize::from(points >= MANY_POINTS);
                    busy.fetch_add(many, Ordering::Relaxed);
                    // A panic drops the senders of its batch, whose requests then fail; the thread goes on.
                    let _ = catch_unwind(AssertUnwindSafe(|| score_batch(&slot.get(), batch, context)));
                    busy.fetch_sub(many, Ordering::Relaxed);
                }
            };
            // The thread is the only worker of its context, so that small batches are not handed to another thread.
            let work = move || alone.run(|| serve(&alone));
            std::thread::Builder::new()
                .name(format!("batch-{number}"))
                .spawn(work)
                .map_err(|error| dance::Error::Data(format!("could not start a thread: {error}")))?;
        }
        Ok(Self { jobs, arrivals, threads, busy })
    }

    /// Announces a request whose body is being read.
    pub(crate) fn announce(&self) -> Arrival {
        self.arrivals.fetch_add(1, Ordering::Relaxed);
        Arrival(Arc::clone(&self.arrivals))
    }

    /// Pauses a thread that reads and writes connections, while every scoring thread has many points. Requests that
    /// arrive during the pause would wait for the next batch anyway, and are then read together. Without the pause a
    /// thread would be woken for nearly every request, at the cost of the scoring threads.
    pub(crate) fn pause_when_busy(&self) {
        if self.busy.load(Ordering::Relaxed) >= self.threads {
            std::thread::sleep(PAUSE);
        }
    }

    /// Scores points, in pieces. Each piece waits for the one before; a reload in between changes the model, so every
    /// piece names its own.
    pub(crate) async fn score(
        &self,
        points: Matrix,
        support: bool,
        arrival: Arrival,
    ) -> Result<Vec<ScoredPiece>, Problem> {
        if points.rows() <= PIECE {
            return Ok(vec![self.score_piece(points, support, Some(arrival)).await?]);
        }
        let mut pieces = Vec::with_capacity(points.rows().div_ceil(PIECE));
        let mut arrival = Some(arrival);
        for first in (0..points.rows()).step_by(PIECE) {
            let rows: Vec<usize> = (first..points.rows().min(first + PIECE)).collect();
            pieces.push(self.score_piece(points.select(&rows), support, arrival.take()).await?);
        }
        Ok(pieces)
    }

    async fn score_piece(
        &self,
        points: Matrix,
        support: bool,
        arrival: Option<Arrival>,
    ) -> Result<ScoredPiece, Problem> {
        let (to, scored) = oneshot::channel();
        self.jobs.send(Job { points, support, to }).map_err(|_| Problem::internal())?;
        drop(arrival);
        scored.await.map_err(|_| Problem::internal())
    }
}

/// Waits for a job and takes those that come with it; `None` when the server is gone.
fn next_batch(receiver: &Mutex<Receiver<Job>>, arrivals: &AtomicUsize) -> Option<Vec<Job>> {
    let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
    let first = receiver.recv().ok()?;
    let (until, mut points) = (Instant::now() + LONGEST_WAIT, first.points.rows());
    let mut batch = vec![first];
    while points < MOST_POINTS {
        let next = receiver.try_recv().ok().or_else(|| {
            let left = until.saturating_duration_since(Instant::now());
            let waits = !left.is_zero() && arrivals.load(Ordering::Relaxed) > 0;
            if waits { receiver.recv_timeout(left).ok() } else { None }
        });
        let Some(job) = next else { break };
        points += job.points.rows();
        batch.push(job);
    }
    Some(batch)
}

/// Scores a batch and sends each request its own part.
fn score_batch(served: &Arc<ServedModel>, batch: Vec<Job>, context: &Context<'_>) {
    let mut points = Matrix::with_columns(served.dimensions());
    let gathered = batch.iter().try_for_each(|job| points.append(&job.points));
    telemetry::batch(points.rows());
    // If one request wants neighbors, all are scored with them; the answers of the others leave them out.
    let support = if batch.iter().any(|job| job.support) { SUPPORT } else { 0 };
    let score = |points: &Matrix| {
        let options = PredictOptions::default().probabilities(true).support(support);
        served.model.score(points, options, context)
    };
    let together = gathered.and_then(|()| score(&points));
    let mut first = 0;
    let mut places = Vec::new();
    for Job { points, to, .. } in batch {
        places.clear();
        places.extend(first..first + points.rows());
        first += points.rows();
        let (scored, refused) = match &together {
            Ok(all) => (all.select(&places), Vec::new()),
            Err(_) => one_by_one(&points, &score),
        };
        // The client may have closed its connection.
        let _ = to.send(ScoredPiece { served: Arc::clone(served), scored, refused });
    }
}

/// Scores points one at a time, after a batch has failed: a point whose numbers overflow must not cost the others
/// their answers.
fn one_by_one(points: &Matrix, score: &impl Fn(&Matrix) -> dance::Result<Scored>) -> (Scored, Vec<(usize, String)>) {
    let (mut all, mut refused) = (Scored::default(), Vec::new());
    for place in 0..points.rows() {
        match score(&points.select(&[place])).and_then(|one| all.append(one)) {
            Ok(()) => {}
            Err(dance::Error::NotFinite { .. } | dance::Error::Data(_)) => {
                refused.push((place, "its numbers are too large for the model; scale the embeddings down".into()));
            }
            Err(error) => refused.push((place, error.to_string())),
        }
    }
    (all, refused)
}
