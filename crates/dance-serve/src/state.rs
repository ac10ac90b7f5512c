//! What all requests share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use dance::data::EncoderIdentity;
use dance::{Context, Error};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::encode::{Encode, OpenEncoder, Takes};
use crate::gather::Gather;
use crate::journal::Journal;
use crate::problem::Problem;
use crate::reviewable::Reviewable;
use crate::served::Served;
use crate::settings::{Images, Settings};
use crate::telemetry;
use crate::watch::Watch;

/// Bodies that may be in memory at the same time, each as long as the longest.
const BODIES: usize = 8;
/// The unit in which that is counted.
pub(crate) const BODY_UNIT: usize = 1024;

/// Where the model is.
pub(crate) struct Slot(RwLock<Arc<Served>>);

impl Slot {
    pub(crate) fn get(&self) -> Arc<Served> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, served: Arc<Served>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = served;
    }
}

/// What all requests share.
pub(crate) struct State {
    pub(crate) settings: Settings,
    pub(crate) slot: Arc<Slot>,
    pub(crate) gather: Gather,
    pub(crate) journal: Journal,
    pub(crate) watch: Watch,
    pub(crate) points: Option<Reviewable>,
    /// What makes points of pictures or texts.
    pub(crate) encoder: Option<Box<dyn Encode>>,
    /// Pictures; of a folder, with its links resolved.
    pub(crate) images: Option<Images>,
    pub(crate) context: Context<'static>,
    pub(crate) metrics: PrometheusHandle,
    /// Requests that may be answered at the same time.
    pub(crate) requests: Arc<Semaphore>,
    /// Room for bodies.
    pub(crate) bodies: Semaphore,
    /// One reload at a time.
    reloading: Mutex<()>,
    draining: AtomicBool,
}

impl State {
    pub(crate) fn new(
        mut settings: Settings,
        points: Option<Reviewable>,
        encoder: Option<OpenEncoder<'_>>,
        threads: usize,
    ) -> dance::Result<Self> {
        settings.check()?;
        let context = Context::new(threads)?;
        let images = match settings.images.take() {
            Some(Images::Folder(folder)) => {
                let found = std::fs::canonicalize(&folder).map_err(|error| Error::io(&folder, error))?;
                if !found.is_dir() {
                    return Err(Error::format(&folder, "is not a folder of pictures"));
                }
                Some(Images::Folder(found))
            }
            other => other,
        };
        let served = Served::load(settings.device, &settings.model, points.as_ref(), &context)?;
        let encoder = encoder.map(|open| open(&served.model)).transpose()?;
        check_encoder(&served, encoder.as_deref())?;
        let served = Arc::new(served);
        let slot = Arc::new(Slot(RwLock::new(Arc::clone(&served))));
        let (journal, watch) = (Journal::open(&settings.journal), Watch::default());
        let metrics = telemetry::recorder();
        watch.begin(&served, &journal, settings.false_alarm, (settings.device, &context), || {});
        Ok(Self {
            gather: Gather::start(&slot, &context)?,
            journal,
            watch,
            images,
            requests: Arc::new(Semaphore::new(settings.limits.requests)),
            bodies: Semaphore::new(BODIES * settings.limits.body.div_ceil(BODY_UNIT)),
            metrics,
            reloading: Mutex::new(()),
            draining: AtomicBool::new(false),
            settings,
            slot,
            points,
            encoder,
            context,
        })
    }

    /// Reads the model file again. Requests are answered by the old model until the new one has been read, checked and asked
    /// about the points of the page; where anything is wrong, it stays.
    pub(crate) fn reload(&self) -> dance::Result<Arc<Served>> {
        let _one = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded =
            Served::load(self.settings.device, &self.settings.model, self.points.as_ref(), &self.context);
        let checked = loaded.and_then(|served| {
            let (before, after) = (self.slot.get().dimensions(), served.dimensions());
            if before == after {
                check_encoder(&served, self.encoder.as_deref())?;
                return Ok(Arc::new(served));
            }
            Err(Error::Shape {
                what: format!(
                    "{}: dimensions (those of the model before; restart for another encoder)",
                    self.settings.model.display()
                ),
                expected: before.to_string(),
                found: after.to_string(),
            })
        });
        telemetry::reload(checked.is_ok());
        let served = checked?;
        let (level, on) = (self.settings.false_alarm, (self.settings.device, &self.context));
        self.watch.begin(&served, &self.journal, level, on, || self.slot.set(Arc::clone(&served)));
        Ok(served)
    }

    /// What can be embedded here.
    pub(crate) fn takes(&self) -> Option<Takes> {
        self.encoder.as_ref().map(|encoder| encoder.takes())
    }

    /// A turn to be answered, if there is one.
    pub(crate) fn turn(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.requests).try_acquire_owned().map_err(|_| {
            let most = self.settings.limits.requests;
            Problem::busy(format!("{most} requests are being answered; come again"))
        })
    }

    /// From here on connections are asked to close.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}

/// Refuses a model whose points were embedded by another encoder than the one that is here.
fn check_encoder(served: &Served, encoder: Option<&dyn Encode>) -> dance::Result<()> {
    let Some(encoder) = encoder else { return Ok(()) };
    EncoderIdentity::check(served.model.encoder(), Some(encoder.identity()), "--encoder")
}
