//! Jobs of the library: they run without the GIL, on worker threads kept from call to call, and Ctrl-C ends them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use dance::device::{Device, DeviceChoice};
use dance::{Context, Result};
use pyo3::prelude::*;

use crate::errors::Mapped;
use crate::observer::Listener;

/// Worker threads by process and number.
type Pools = HashMap<(u32, usize), Context<'static>>;
/// Devices by process and name.
type Devices = HashMap<(u32, DeviceChoice), Arc<dyn Device>>;

/// Returns `threads` workers; 0 means one per core. A forked child has none of its parent's threads, so the process is
/// part of the key.
pub(crate) fn workers(threads: usize) -> PyResult<Context<'static>> {
    static POOLS: Mutex<Option<Pools>> = Mutex::new(None);
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    let pools = pools.get_or_insert_default();
    let key = (std::process::id(), threads);
    if let Some(context) = pools.get(&key) {
        return Ok(context.clone());
    }
    let context = Context::new(threads).mapped()?;
    pools.insert(key, context.clone());
    Ok(context)
}

/// Opens a device by its name, once per process; a forked child cannot use its parent's.
fn device(name: &str) -> Result<Arc<dyn Device>> {
    static OPENED: Mutex<Option<Devices>> = Mutex::new(None);
    let choice: DeviceChoice = name.parse()?;
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    let opened = opened.get_or_insert_default();
    let key = (std::process::id(), choice);
    if let Some(device) = opened.get(&key) {
        return Ok(Arc::clone(device));
    }
    let (device, _) = choice.open()?;
    opened.insert(key, Arc::clone(&device));
    Ok(device)
}

/// Runs a job on a device.
pub(crate) fn run_on<T: Send>(
    py: Python<'_>,
    name: &str,
    threads: usize,
    callback: Option<Py<PyAny>>,
    job: impl FnOnce(&dyn Device, &Context<'_>) -> Result<T> + Send,
) -> PyResult<T> {
    run(py, threads, callback, |context| job(&*device(name)?, context))
}

/// Runs a job; an exception that the callback or a signal's handler raises ends it.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    threads: usize,
    callback: Option<Py<PyAny>>,
    job: impl FnOnce(&Context<'_>) -> Result<T> + Send,
) -> PyResult<T> {
    let workers = workers(threads)?;
    let listener = Listener::new(callback);
    let done = py.detach(|| {
        let context = workers.with_observer(&listener);
        let done = job(&context)?;
        // A last check, so that nothing is kept of a job that was interrupted.
        context.check()?;
        Ok(done)
    });
    listener.finish(done)
}
