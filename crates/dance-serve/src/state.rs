//! The state that all requests share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use dance::data::EncoderIdentity;
use dance::{Context, Error};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::batching::Batcher;
use crate::change::ChangeMonitor;
use crate::encode::{Encode, OpenEncoder, Takes};
use crate::journal::Journal;
use crate::keys::Keys;
use crate::problem::Problem;
use crate::reviewable::Reviewable;
use crate::served::ServedModel;
use crate::settings::{Pictures, Settings};
use crate::telemetry;

/// The most bodies in memory at the same time, each of the largest size.
const BODIES: usize = 8;
/// The unit of memory for bodies, in bytes.
pub(crate) const BODY_UNIT: usize = 1024;

/// The place of the served model.
pub(crate) struct Slot(RwLock<Arc<ServedModel>>);

impl Slot {
    pub(crate) fn get(&self) -> Arc<ServedModel> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, served: Arc<ServedModel>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = served;
    }
}

/// The state that all requests share.
pub(crate) struct State {
    pub(crate) settings: Settings,
    pub(crate) slot: Arc<Slot>,
    pub(crate) batcher: Batcher,
    pub(crate) journal: Journal,
    pub(crate) change: ChangeMonitor,
    pub(crate) points: Option<Reviewable>,
    /// The encoder that makes embeddings of pictures or texts.
    pub(crate) encoder: Option<Box<dyn Encode>>,
    /// The pictures of points; the links in the path of a folder are resolved.
    pub(crate) pictures: Option<Pictures>,
    /// The keys of the file, as it was last read.
    keys: RwLock<Arc<Keys>>,
    pub(crate) context: Context<'static>,
    pub(crate) metrics: PrometheusHandle,
    /// The turns of requests that are answered at the same time.
    pub(crate) requests: Arc<Semaphore>,
    /// The memory for bodies, in units.
    pub(crate) bodies: Semaphore,
    /// The lock that keeps reloads one after the other.
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
        let keys = settings.key_file.as_deref().map(Keys::read).transpose()?.unwrap_or_default();
        let context = Context::new(threads)?;
        // Pictures are sent only from inside their folder, so its path is compared without links.
        let pictures = match settings.pictures.take() {
            Some(Pictures::Folder(folder)) => {
                let found = std::fs::canonicalize(&folder).map_err(|error| Error::io(&folder, error))?;
                if !found.is_dir() {
                    return Err(Error::format(&folder, "is not a folder of pictures"));
                }
                Some(Pictures::Folder(found))
            }
            other => other,
        };
        let served = ServedModel::load(settings.device, &settings.model, &settings.name, points.as_ref(), &context)?;
        let encoder = encoder.map(|open| open(&served.model)).transpose()?;
        check_encoder(&served, encoder.as_deref())?;
        let served = Arc::new(served);
        let slot = Arc::new(Slot(RwLock::new(Arc::clone(&served))));
        let (journal, change) = (Journal::open(&settings.journal), ChangeMonitor::default());
        let metrics = telemetry::recorder();
        change.begin(&served, &journal, (settings.device, &context), || {});
        Ok(Self {
            batcher: Batcher::start(&slot, &context)?,
            journal,
            change,
            pictures,
            keys: RwLock::new(Arc::new(keys)),
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

    /// Returns the keys that admit requests.
    pub(crate) fn keys(&self) -> Arc<Keys> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the file of keys again, if there is one. Keys that cannot be read leave those before them.
    pub(crate) fn reload_keys(&self) -> dance::Result<()> {
        let Some(path) = &self.settings.key_file else { return Ok(()) };
        let keys = Arc::new(Keys::read(path)?);
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
        Ok(())
    }

    /// Reads the model file again. The model before it answers until the new one is read and checked and has scored
    /// the points of the page. It stays where any of that fails.
    pub(crate) fn reload(&self) -> dance::Result<Arc<ServedModel>> {
        let _one = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let Settings { device, model, name, .. } = &self.settings;
        let loaded = ServedModel::load(*device, model, name, self.points.as_ref(), &self.context);
        let checked = loaded.and_then(|served| {
            let (before, after) = (self.slot.get().dimensions(), served.dimensions());
            if before == after {
                check_encoder(&served, self.encoder.as_deref())?;
                return Ok(Arc::new(served));
            }
            Err(Error::Shape {
                what: format!(
                    "{}: dimensions (restart the server for a model of another encoder)",
                    self.settings.model.display()
                ),
                expected: before.to_string(),
                found: after.to_string(),
            })
        });
        telemetry::reload(checked.is_ok());
        let served = checked?;
        let on = (self.settings.device, &self.context);
        self.change.begin(&served, &self.journal, on, || self.slot.set(Arc::clone(&served)));
        Ok(served)
    }

    /// Returns the kind of content that the encoder embeds; `None` without an encoder.
    pub(crate) fn takes(&self) -> Option<Takes> {
        self.encoder.as_ref().map(|encoder| encoder.takes())
    }

    /// Takes the turn of a request. Where all are taken, the request is refused.
    pub(crate) fn turn(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.requests).try_acquire_owned().map_err(|_| {
            let most = self.settings.limits.requests;
            Problem::busy(format!("the server is answering {most} requests, the most it does; try again"))
        })
    }

    /// Begins the shutdown: every further response closes its connection.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}

/// Refuses a model whose points were embedded by another encoder than the server's.
fn check_encoder(served: &ServedModel, encoder: Option<&dyn Encode>) -> dance::Result<()> {
    let Some(encoder) = encoder else { return Ok(()) };
    EncoderIdentity::check(served.model.encoder(), Some(encoder.identity()), "--encoder")
}
