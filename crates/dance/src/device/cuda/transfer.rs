//! Copies by way of page-locked memory, for what is large and often copied: queries, and what is found for them.

use std::sync::PoisonError;

use bytemuck::Pod;
use cudarc::driver::{CudaSlice, DeviceRepr};

use super::Gpu;
use super::queue::{Number, Pinned, Queue};
use crate::context::Context;
use crate::error::Result;

/// Pieces of page-locked memory that stay for whoever copies next.
const KEPT: usize = 2;
/// Numbers that a worker copies at a time.
const PART: usize = 1 << 16;

/// A piece of page-locked memory, lent.
pub(super) struct Lent<'a> {
    gpu: &'a Gpu,
    /// There until it goes back.
    piece: Option<Pinned>,
}

impl Lent<'_> {
    fn numbers<T: Pod>(&self) -> &[T] {
        self.piece.as_ref().map_or(&[], Pinned::numbers)
    }

    fn numbers_mut<T: Pod>(&mut self) -> &mut [T] {
        self.piece.as_mut().map_or(&mut [], Pinned::numbers_mut)
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut kept = self.gpu.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT {
            kept.extend(self.piece.take());
        }
    }
}

/// Numbers that have come from the device.
pub(super) enum Fetched<'a, T> {
    Pinned { piece: Lent<'a>, count: usize },
    Plain(Vec<T>),
}

impl<T: Pod> AsRef<[T]> for Fetched<'_, T> {
    fn as_ref(&self) -> &[T] {
        match self {
            Self::Pinned { piece, count } => &piece.numbers()[..*count],
            Self::Plain(numbers) => numbers,
        }
    }
}

impl Gpu {
    /// A piece for `bytes`, unless they are so few that the driver's own way is as good, or there is none to be had.
    fn lend(&self, queue: &Queue, bytes: usize) -> Option<Lent<'_>> {
        if bytes < size_of::<f32>() * PART {
            return None;
        }
        let kept = self.pinned.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let piece = kept.or_else(|| queue.pinned().ok())?;
        Some(Lent { gpu: self, piece: Some(piece) })
    }

    /// Numbers for the device, copied by the workers. Nobody holds the queue meanwhile: a worker that waits may take up other
    /// work that needs it.
    pub(super) fn upload<T: Number + Pod + Send + Sync>(
        &self,
        values: &[T],
        context: &Context<'_>,
    ) -> Result<CudaSlice<T>> {
        let (mut lent, mut buffer) = {
            let queue = self.queue()?;
            match self.lend(&queue, size_of_val(values)) {
                Some(lent) => (lent, queue.zeros::<T>(values.len())?),
                None => return queue.upload(values),
            }
        };
        let mut from = 0;
        for values in values.chunks(Pinned::BYTES / size_of::<T>()) {
            let room = &mut lent.numbers_mut::<T>()[..values.len()];
            context
                .each_part(room, PART, |at, part| part.copy_from_slice(&values[at * PART..][..part.len()]));
            self.queue()?.upload_to(&mut buffer, from, room)?;
            from += values.len();
        }
        Ok(buffer)
    }

    /// The first `count` numbers of a buffer.
    pub(super) fn fetch<T: DeviceRepr + Default + Pod>(
        &self,
        queue: &Queue,
        buffer: &CudaSlice<T>,
        count: usize,
    ) -> Result<Fetched<'_, T>> {
        let bytes = count * size_of::<T>();
        let lent = if bytes <= Pinned::BYTES { self.lend(queue, bytes) } else { None };
        let Some(mut piece) = lent else { return queue.download(buffer, 0, count).map(Fetched::Plain) };
        queue.download_to(&mut piece.numbers_mut()[..count], buffer, 0)?;
        Ok(Fetched::Pinned { piece, count })
    }
}
