//! What all requests share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use dance::{Context, Error};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::gather::Gather;
use crate::journal::Journal;
use crate::problem::Problem;
use crate::reviewable::Reviewable;
use crate::served::Served;
use crate::settings::Settings;
use crate::telemetry;

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
    pub(crate) points: Option<Reviewable>,
    /// The folder of pictures with its links resolved.
    pub(crate) images: Option<PathBuf>,
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
    pub(crate) fn new(settings: Settings, points: Option<Reviewable>, threads: usize) -> dance::Result<Self> {
        settings.check()?;
        let context = Context::new(threads)?;
        let images = settings.images.as_ref().map(|folder| {
            let found = std::fs::canonicalize(folder).map_err(|error| Error::io(folder, error))?;
            if found.is_dir() { Ok(found) } else { Err(Error::format(folder, "is not a folder of pictures")) }
        });
        let served = Served::load(settings.device, &settings.model, points.as_ref(), &context)?;
        let slot = Arc::new(Slot(RwLock::new(Arc::new(served))));
        Ok(Self {
            gather: Gather::start(&slot, &context)?,
            journal: Journal::open(&settings.journal),
            images: images.transpose()?,
            requests: Arc::new(Semaphore::new(settings.limits.requests)),
            bodies: Semaphore::new(BODIES * settings.limits.body.div_ceil(BODY_UNIT)),
            metrics: telemetry::recorder(),
            reloading: Mutex::new(()),
            draining: AtomicBool::new(false),
            settings,
            slot,
            points,
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
        self.slot.set(Arc::clone(&served));
        Ok(served)
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
