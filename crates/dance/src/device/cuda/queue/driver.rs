//! NVIDIA's driver: its version, the devices, and the freed device memory that the driver keeps.

use std::path::Path;
use std::ptr::null_mut;

use cudarc::driver::sys as driver;
use cudarc::driver::{CudaContext, DriverError, result};

use crate::error::Result;

/// Opens a library and keeps it open. When cudarc opens the library by its name, it then gets this one.
pub(in crate::device::cuda) fn keep_open(file: &Path) -> Result<(), String> {
    // SAFETY: the initialisers of NVIDIA's libraries have no preconditions.
    match unsafe { libloading::Library::new(file) } {
        Ok(library) => {
            std::mem::forget(library);
            Ok(())
        }
        // The message of the system names the file.
        Err(error) => Err(std::error::Error::source(&error)
            .map_or_else(|| format!("{}: {error}", file.display()), ToString::to_string)),
    }
}

/// Returns the name and the memory in bytes of every device. The library of NVIDIA's driver must be open.
pub(in crate::device::cuda) fn devices() -> Result<Vec<(String, u64)>, String> {
    result::init().map_err(error_text)?;
    let count = result::device::get_count().map_err(error_text)?;
    let describe = |ordinal: i32| {
        let device = result::device::get(ordinal)?;
        // SAFETY: the driver has just returned the device.
        Ok((result::device::get_name(device)?, unsafe { result::device::total_mem(device)? } as u64))
    };
    (0..count).map(describe).collect::<Result<_, DriverError>>().map_err(error_text)
}

/// Returns the newest version of CUDA that NVIDIA's driver supports; 12040 is version 12.4. The driver's library must
/// be open.
pub(in crate::device::cuda) fn driver_version() -> Result<i32, String> {
    let mut version = 0;
    // SAFETY: the library is open, and the function writes one number.
    let status = unsafe { driver::cuDriverGetVersion(&raw mut version) };
    status.result().map(|()| version).map_err(error_text)
}

/// Lets the process keep freed device memory until [`trim`] is called, so that the next iteration of a fit gets the
/// memory faster.
pub(super) fn keep_freed_memory(context: &CudaContext) -> Result<(), DriverError> {
    let attribute = driver::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    let mut all = u64::MAX;
    // SAFETY: the pool is the device's own, and the attribute is a number of 64 bits.
    unsafe { driver::cuMemPoolSetAttribute(pool(context)?, attribute, (&raw mut all).cast()) }.result()
}

/// Returns freed device memory, which the process has kept, to the system.
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

/// Returns the message for users about an error of CUDA.
pub(super) fn error_text(error: DriverError) -> String {
    if error.0 == driver::cudaError_enum::CUDA_ERROR_OUT_OF_MEMORY {
        return "is out of memory: fit or predict with fewer points, or on the CPU".into();
    }
    error.error_string().map_or_else(|_| error.to_string(), |text| text.to_string_lossy().into_owned())
}
