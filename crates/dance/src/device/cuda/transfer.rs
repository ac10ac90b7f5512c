//! Transfers of queries and search results between host and device, through page-locked memory.

use std::sync::PoisonError;

use bytemuck::Pod;
use cudarc::driver::{CudaSlice, DeviceRepr};

use super::Gpu;
use super::queue::{Number, Pinned, Queue};
use crate::context::Context;
use crate::error::Result;

/// The largest number of page-locked buffers that are kept for reuse.
const KEPT: usize = 2;
/// The number of elements that a worker thread copies at a time.
const PART: usize = 1 << 16;

/// A page-locked buffer that is in use. When the lease is dropped, the buffer is kept for reuse.
pub(super) struct PinnedLease<'a> {
    gpu: &'a Gpu,
    /// The buffer; `None` only while the lease is dropped.
    piece: Option<Pinned>,
}

impl PinnedLease<'_> {
    fn numbers<T: Pod>(&self) -> &[T] {
        self.piece.as_ref().map_or(&[], Pinned::numbers)
    }

    fn numbers_mut<T: Pod>(&mut self) -> &mut [T] {
        self.piece.as_mut().map_or(&mut [], Pinned::numbers_mut)
    }
}

impl Drop for PinnedLease<'_> {
    fn drop(&mut self) {
        let mut kept = self.gpu.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT {
            kept.extend(self.piece.take());
        }
    }
}

/// Elements that were copied from the device to the host: into a page-locked buffer, or into a plain vector.
pub(super) enum HostNumbers<'a, T> {
    Pinned { piece: PinnedLease<'a>, count: usize },
    Plain(Vec<T>),
}

impl<T: Pod> AsRef<[T]> for HostNumbers<'_, T> {
    fn as_ref(&self) -> &[T] {
        match self {
            Self::Pinned { piece, count } => &piece.numbers()[..*count],
            Self::Plain(numbers) => numbers,
        }
    }
}

impl Gpu {
    /// Returns a page-locked buffer for a transfer of `bytes`. Returns `None` for few bytes, which the driver transfers
    /// as fast without such a buffer. Also returns `None` if the system has no memory to lock.
    fn lend(&self, queue: &Queue, bytes: usize) -> Option<PinnedLease<'_>> {
        if bytes < size_of::<f32>() * PART {
            return None;
        }
        let kept = self.pinned.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let piece = kept.or_else(|| queue.pinned().ok())?;
        Some(PinnedLease { gpu: self, piece: Some(piece) })
    }

    /// Uploads `values` through page-locked memory, to which worker threads copy them first. The queue is not locked
    /// while they copy, because a waiting worker thread may take up other work that needs the queue.
    pub(super) fn upload<T: Number + Pod + Send + Sync>(
        &self,
        values: &[T],
        context: &Context<'_>,
    ) -> Result<CudaSlice<T>> {
        let (mut lease, mut buffer) = {
            let queue = self.queue()?;
            match self.lend(&queue, size_of_val(values)) {
                Some(lease) => (lease, queue.zeros::<T>(values.len())?),
                None => return queue.upload(values),
            }
        };
        let mut from = 0;
        for values in values.chunks(Pinned::BYTES / size_of::<T>()) {
            let room = &mut lease.numbers_mut::<T>()[..values.len()];
            context.each_part(room, PART, |at, part| part.copy_from_slice(&values[at * PART..][..part.len()]));
            self.queue()?.upload_to(&mut buffer, from, room)?;
            from += values.len();
        }
        Ok(buffer)
    }

    /// Copies the first `count` elements of a device buffer to the host, through page-locked memory if there is some.
    pub(super) fn fetch<T: DeviceRepr + Default + Pod>(
        &self,
        queue: &Queue,
        buffer: &CudaSlice<T>,
        count: usize,
    ) -> Result<HostNumbers<'_, T>> {
        let bytes = count * size_of::<T>();
        let lease = if bytes <= Pinned::BYTES { self.lend(queue, bytes) } else { None };
        let Some(mut piece) = lease else { return queue.download(buffer, 0, count).map(HostNumbers::Plain) };
        queue.download_to(&mut piece.numbers_mut()[..count], buffer, 0)?;
        Ok(HostNumbers::Pinned { piece, count })
    }
}
