//! The driver: what it serves, which devices there are, and the memory it keeps.

use std::path::Path;
use std::ptr::null_mut;

use cudarc::driver::sys as driver;
use cudarc::driver::{CudaContext, DriverError, result};

use crate::error::Result;

/// Opens a library and keeps it open, so that whoever asks for it by name gets this one.
pub(in crate::device::cuda) fn keep_open(file: &Path) -> Result<(), String> {
    // SAFETY: what runs when these libraries of NVIDIA's are opened has no conditions that we could fail to meet.
    match unsafe { libloading::Library::new(file) } {
        Ok(library) => {
            std::mem::forget(library);
            Ok(())
        }
        // What the system said names the file.
        Err(error) => Err(std::error::Error::source(&error)
            .map_or_else(|| format!("{}: {error}", file.display()), ToString::to_string)),
    }
}

/// The devices there are, by name and bytes of memory. The driver's library must be open.
pub(in crate::device::cuda) fn devices() -> Result<Vec<(String, u64)>, String> {
    result::init().map_err(said)?;
    let count = result::device::get_count().map_err(said)?;
    let describe = |ordinal: i32| {
        let device = result::device::get(ordinal)?;
        // SAFETY: the device is one that the driver has just named.
        Ok((result::device::get_name(device)?, unsafe { result::device::total_mem(device)? } as u64))
    };
    (0..count).map(describe).collect::<Result<_, DriverError>>().map_err(said)
}

/// The newest CUDA that the driver serves (12040 is 12.4), or why it does not say. The driver's library must be open.
pub(in crate::device::cuda) fn driver_version() -> Result<i32, String> {
    let mut version = 0;
    // SAFETY: the library is there, and the function writes one number.
    let status = unsafe { driver::cuDriverGetVersion(&raw mut version) };
    status.result().map(|()| version).map_err(said)
}

/// Memory that is freed stays with the process until [`trim`], so that the next round gets it without asking the system.
pub(super) fn keep_freed_memory(context: &CudaContext) -> Result<(), DriverError> {
    let attribute = driver::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    let mut all = u64::MAX;
    // SAFETY: the pool is the device's own, and the attribute is a number of 64 bits.
    unsafe { driver::cuMemPoolSetAttribute(pool(context)?, attribute, (&raw mut all).cast()) }.result()
}

pub(super) fn trim(context: &CudaContext) -> Result<(), DriverError> {
    // SAFETY: the pool is the device's own; memory in use stays.
    unsafe { driver::cuMemPoolTrimTo(pool(context)?, 0) }.result()
}

fn pool(context: &CudaContext) -> Result<driver::CUmemoryPool, DriverError> {
    let mut pool = null_mut();
    // SAFETY: the device exists as long as its context, and the function writes one handle.
    unsafe { driver::cuDeviceGetDefaultMemPool(&raw mut pool, context.cu_device()) }.result()?;
    Ok(pool)
}

/// What CUDA says about an error: `out of memory`.
pub(super) fn said(error: DriverError) -> String {
    if error.0 == driver::cudaError_enum::CUDA_ERROR_OUT_OF_MEMORY {
        return "is out of memory: fit or answer with fewer points, or on the CPU".into();
    }
    error.error_string().map_or_else(|_| error.to_string(), |text| text.to_string_lossy().into_owned())
}
