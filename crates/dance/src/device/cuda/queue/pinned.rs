//! Page-locked memory on the host: memory that the system does not move or swap. The device copies to and from
//! page-locked memory at the full speed of the connection. One thread of the driver copies other memory, piece by
//! piece.

use std::ptr::NonNull;
use std::sync::Arc;

use bytemuck::Pod;
use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaContext, DriverError, result};

/// A buffer of page-locked host memory, [`BYTES`](Self::BYTES) long.
pub(in crate::device::cuda) struct Pinned {
    at: NonNull<u8>,
    context: Arc<CudaContext>,
}

// SAFETY: the memory belongs to the value, not to a thread.
unsafe impl Send for Pinned {}
// SAFETY: it is written through `&mut` alone.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// The size of a page-locked buffer in bytes. It is enough for a block of queries, or for the distances to their
    /// candidates.
    pub(in crate::device::cuda) const BYTES: usize = 32 << 20;

    /// Allocates a page-locked buffer. The context of the device must be bound to this thread.
    pub(super) fn new(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        // SAFETY: the call has no preconditions.
        let at = unsafe { result::malloc_host(Self::BYTES, 0) }?;
        let nothing = DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        let at = NonNull::new(at.cast::<u8>()).ok_or(nothing)?;
        // SAFETY: the memory has this length, and there is no other reference to it.
        unsafe { at.write_bytes(0, Self::BYTES) };
        Ok(Self { at, context: Arc::clone(context) })
    }

    /// Returns the whole buffer as elements of the type `T`.
    pub(in crate::device::cuda) fn numbers<T: Pod>(&self) -> &[T] {
        // SAFETY: the memory lives until `drop`, `new` has initialised it, and there is no mutable reference to it.
        bytemuck::cast_slice(unsafe { std::slice::from_raw_parts(self.at.as_ptr(), Self::BYTES) })
    }

    /// Returns the whole buffer as mutable elements of the type `T`.
    pub(in crate::device::cuda) fn numbers_mut<T: Pod>(&mut self) -> &mut [T] {
        // SAFETY: the memory lives until `drop`, `new` has initialised it, and there is no other reference to it.
        bytemuck::cast_slice_mut(unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), Self::BYTES) })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // This fails only if the device is lost, and its memory with it.
        let _ = self.context.bind_to_thread();
        // SAFETY: `malloc_host` returned this pointer, and it is freed once.
        let _ = unsafe { result::free_host(self.at.as_ptr().cast()) };
    }
}
