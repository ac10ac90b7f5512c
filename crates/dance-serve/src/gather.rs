//! Concurrent requests become one batch for the model: it costs less than each by itself, and answers do not depend on it.
//!
//! A batch takes what has arrived, at most [`MOST_POINTS`], and waits at most [`LONGEST_WAIT`] for more, and that only while requests
//! are known to be on their way. A request with many points comes in pieces, so that others get their turn in between.
//!
//! A batch of single points is answered by one thread: several would spend as much on waking each other as on the answer. Half of
//! the threads answer, since reading requests takes the others, and fewer batches are larger ones. A piece of a large request is
//! answered by all.
//!
//! While all who answer have a large batch, those who send and read have time: see [`Gather::rest`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dance::{Context, Matrix, PredictOptions, Scored};
use tokio::sync::oneshot;

use crate::problem::Problem;
use crate::served::Served;
use crate::state::Slot;
use crate::telemetry;

const MOST_POINTS: usize = 64;
const LONGEST_WAIT: Duration = Duration::from_millis(2);
/// Points of a piece of a large request.
const PIECE: usize = 256;
/// Points that take longer to answer than a [`REST`].
const MANY_POINTS: usize = 16;
const REST: Duration = Duration::from_micros(250);
/// Neighbors named for each label.
pub(crate) const SUPPORT: usize = 5;

/// What the model says about the points of one request, in their order.
pub(crate) struct Answered {
    /// The model that says it.
    pub(crate) served: Arc<Served>,
    /// What it knows about the points it can answer.
    pub(crate) scored: Scored,
    /// What is wrong with each of the others, by place.
    pub(crate) refused: Vec<(usize, String)>,
}

struct Job {
    points: Matrix,
    /// Whether neighbors are to be named.
    support: bool,
    to: oneshot::Sender<Answered>,
}

/// Where requests bring their points.
pub(crate) struct Gather {
    jobs: Sender<Job>,
    on_their_way: Arc<AtomicUsize>,
    /// Threads that answer, and how many of them have many points to answer.
    threads: usize,
    busy: Arc<AtomicUsize>,
}

/// A request that is being read, and may bring points soon.
pub(crate) struct OnItsWay(Arc<AtomicUsize>);

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Gather {
    /// Starts the threads that ask the model. They end with this.
    pub(crate) fn start(slot: &Arc<Slot>, context: &Context<'static>) -> dance::Result<Self> {
        let (jobs, receiver) = mpsc::channel();
        let (receiver, on_their_way) = (Arc::new(Mutex::new(receiver)), Arc::new(AtomicUsize::new(0)));
        let (threads, busy) = (context.threads().div_ceil(2), Arc::new(AtomicUsize::new(0)));
        for number in 0..threads {
            let (receiver, on_their_way) = (Arc::clone(&receiver), Arc::clone(&on_their_way));
            let (slot, all, alone, busy) =
                (Arc::clone(slot), context.clone(), Context::new(1)?, Arc::clone(&busy));
            let serve = move |alone: &Context<'_>| {
                while let Some(batch) = next_batch(&receiver, &on_their_way) {
                    let points: usize = batch.iter().map(|job| job.points.rows()).sum();
                    let context = if points > MOST_POINTS { &all } else { alone };
                    let many = usize::from(points >= MANY_POINTS);
                    busy.fetch_add(many, Ordering::Relaxed);
                    // A fault in one batch costs its answers and nothing else: whoever waits for them is told.
                    let _ = catch_unwind(AssertUnwindSafe(|| answer(&slot.get(), batch, context)));
                    busy.fetch_sub(many, Ordering::Relaxed);
                }
            };
            // As the one worker of its context, so that nothing has to be handed over.
            let work = move || alone.run(|| serve(&alone));
            std::thread::Builder::new()
                .name(format!("batch-{number}"))
                .spawn(work)
                .map_err(|error| dance::Error::Data(format!("could not start a thread: {error}")))?;
        }
        Ok(Self { jobs, on_their_way, threads, busy })
    }

    /// Says that a request is being read.
    pub(crate) fn on_its_way(&self) -> OnItsWay {
        self.on_their_way.fetch_add(1, Ordering::Relaxed);
        OnItsWay(Arc::clone(&self.on_their_way))
    }

    /// What a thread that sends and reads does before it waits for the next thing to do: nothing for a moment, while all who answer
    /// have much to do. What arrives meanwhile could only wait for the next batch, and then is dealt with in one go: otherwise
    /// a thread would be woken for nearly every request, and take turns from those who answer.
    pub(crate) fn rest(&self) {
        if self.busy.load(Ordering::Relaxed) >= self.threads {
            std::thread::sleep(REST);
        }
    }

    /// What the model says about these points. A piece of a large request waits for the one before, so all are answered by one
    /// model only where no other took its place meanwhile; each answer says which it was.
    pub(crate) async fn ask(
        &self,
        points: Matrix,
        support: bool,
        way: OnItsWay,
    ) -> Result<Vec<Answered>, Problem> {
        if points.rows() <= PIECE {
            return Ok(vec![self.ask_piece(points, support, Some(way)).await?]);
        }
        let mut answers = Vec::with_capacity(points.rows().div_ceil(PIECE));
        let mut way = Some(way);
        for first in (0..points.rows()).step_by(PIECE) {
            let rows: Vec<usize> = (first..points.rows().min(first + PIECE)).collect();
            answers.push(self.ask_piece(points.select(&rows), support, way.take()).await?);
        }
        Ok(answers)
    }

    async fn ask_piece(
        &self,
        points: Matrix,
        support: bool,
        way: Option<OnItsWay>,
    ) -> Result<Answered, Problem> {
        let (to, answered) = oneshot::channel();
        self.jobs.send(Job { points, support, to }).map_err(|_| Problem::internal())?;
        drop(way);
        answered.await.map_err(|_| Problem::internal())
    }
}

/// Waits for points and takes what comes with them; `None` when the server is gone.
fn next_batch(receiver: &Mutex<Receiver<Job>>, on_their_way: &AtomicUsize) -> Option<Vec<Job>> {
    let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
    let first = receiver.recv().ok()?;
    let (until, mut points) = (Instant::now() + LONGEST_WAIT, first.points.rows());
    let mut batch = vec![first];
    while points < MOST_POINTS {
        let next = receiver.try_recv().ok().or_else(|| {
            let left = until.saturating_duration_since(Instant::now());
            let waits = !left.is_zero() && on_their_way.load(Ordering::Relaxed) > 0;
            if waits { receiver.recv_timeout(left).ok() } else { None }
        });
        let Some(job) = next else { break };
        points += job.points.rows();
        batch.push(job);
    }
    Some(batch)
}

fn answer(served: &Arc<Served>, batch: Vec<Job>, context: &Context<'_>) {
    let mut points = Matrix::with_columns(served.dimensions());
    let gathered = batch.iter().try_for_each(|job| points.append(&job.points));
    telemetry::batch(points.rows());
    // Named for all where one asks: what is not asked for is not told.
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
        // Whoever asked may have gone.
        let _ = to.send(Answered { served: Arc::clone(served), scored, refused });
    }
}

/// Where one point cannot be answered (numbers so large that they overflow), each is asked by itself, so that the others are.
fn one_by_one(
    points: &Matrix,
    score: &impl Fn(&Matrix) -> dance::Result<Scored>,
) -> (Scored, Vec<(usize, String)>) {
    let (mut all, mut refused) = (Scored::default(), Vec::new());
    for place in 0..points.rows() {
        match score(&points.select(&[place])).and_then(|one| all.extend(&one)) {
            Ok(()) => {}
            Err(dance::Error::NotFinite { .. } | dance::Error::Data(_)) => {
                refused.push((
                    place,
                    "its numbers are too large for the model; scale the embeddings down".into(),
                ));
            }
            Err(error) => refused.push((place, error.to_string())),
        }
    }
    (all, refused)
}
