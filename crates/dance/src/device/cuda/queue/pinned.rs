//! Page-locked memory on the host. The device copies to and from it at the speed of the bus; to and from any other memory the
//! driver copies piece by piece, by one thread, through page-locked memory of its own.

use std::ptr::NonNull;
use std::sync::Arc;

use bytemuck::Pod;
use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaContext, DriverError, result};

/// Page-locked memory of [`BYTES`](Self::BYTES).
pub(in crate::device::cuda) struct Pinned {
    at: NonNull<u8>,
    context: Arc<CudaContext>,
}

// SAFETY: the memory belongs to the value, and to no thread.
unsafe impl Send for Pinned {}
// SAFETY: it is written through `&mut` alone.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Enough for the queries of a block, or for the distances to their candidates.
    pub(in crate::device::cuda) const BYTES: usize = 32 << 20;

    /// The context is bound to this thread.
    pub(super) fn new(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        // SAFETY: no condition.
        let at = unsafe { result::malloc_host(Self::BYTES, 0) }?;
        let nothing = DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        let at = NonNull::new(at.cast::<u8>()).ok_or(nothing)?;
        // SAFETY: it is as long as was asked for, and nobody else has it.
        unsafe { at.write_bytes(0, Self::BYTES) };
        Ok(Self { at, context: Arc::clone(context) })
    }

    /// All of it, as numbers of a kind.
    pub(in crate::device::cuda) fn numbers<T: Pod>(&self) -> &[T] {
        // SAFETY: the memory is there until `drop`, was written by `new`, and nobody has it to write to.
        bytemuck::cast_slice(unsafe { std::slice::from_raw_parts(self.at.as_ptr(), Self::BYTES) })
    }

    /// The same, to write to.
    pub(in crate::device::cuda) fn numbers_mut<T: Pod>(&mut self) -> &mut [T] {
        // SAFETY: as above, and nobody else has it.
        bytemuck::cast_slice_mut(unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), Self::BYTES) })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // What fails here fails because the device is lost, and its memory with it.
        let _ = self.context.bind_to_thread();
        // SAFETY: it is what `malloc_host` returned, once.
        let _ = unsafe { result::free_host(self.at.as_ptr().cast()) };
    }
}
