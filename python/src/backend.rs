//! The worker threads, kept from call to call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use dance::backend::Cpu;
use pyo3::prelude::*;

use crate::errors::Mapped;

/// Backends by process and number of threads.
type Pools = HashMap<(u32, usize), Arc<Cpu>>;

/// A backend of `threads` workers; 0 means one a core. A forked child has none of its parent's threads, so the process is
/// part of the key.
pub(crate) fn cpu(threads: usize) -> PyResult<Arc<Cpu>> {
    static POOLS: Mutex<Option<Pools>> = Mutex::new(None);
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    let pools = pools.get_or_insert_default();
    let key = (std::process::id(), threads);
    if let Some(cpu) = pools.get(&key) {
        return Ok(Arc::clone(cpu));
    }
    let cpu = Arc::new(Cpu::new(threads).mapped()?);
    pools.insert(key, Arc::clone(&cpu));
    Ok(cpu)
}
