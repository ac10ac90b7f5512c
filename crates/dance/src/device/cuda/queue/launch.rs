//! The launch of a GPU kernel with its arguments.

use std::ffi::c_void;

use cudarc::driver::{CudaSlice, DevicePtr, DevicePtrMut, DeviceRepr, result};

use super::Queue;
use crate::error::Result;

/// A GPU kernel with its arguments, ready to run.
pub(in crate::device::cuda) struct Launch<'a> {
    queue: &'a Queue,
    name: &'static str,
    /// The arguments of the GPU kernel, each in eight bytes. A shorter argument fills the first of its eight bytes.
    arguments: Vec<[u8; 8]>,
    /// `true` if a buffer has fewer elements than the GPU kernel may read or write.
    short: bool,
}

impl<'a> Launch<'a> {
    pub(super) fn new(queue: &'a Queue, name: &'static str) -> Self {
        Self { queue, name, arguments: Vec::new(), short: false }
    }

    /// Adds a buffer as the next argument. The GPU kernel reads at most the first `touched` elements of it.
    pub(in crate::device::cuda) fn input<T: DeviceRepr>(mut self, buffer: &'a CudaSlice<T>, touched: usize) -> Self {
        self.short |= buffer.len() < touched;
        let (address, _) = buffer.device_ptr(&self.queue.stream);
        self.arguments.push(address.to_le_bytes());
        self
    }

    /// Adds a buffer, from the element `from` on, as the next argument. The GPU kernel reads at most `touched` elements
    /// of it.
    pub(in crate::device::cuda) fn input_from<T: DeviceRepr>(
        mut self,
        buffer: &'a CudaSlice<T>,
        from: usize,
        touched: usize,
    ) -> Self {
        self.short |= buffer.len() < from + touched;
        let (address, _) = buffer.device_ptr(&self.queue.stream);
        self.arguments.push((address + (from * size_of::<T>()) as u64).to_le_bytes());
        self
    }

    /// Adds a buffer as the next argument. The GPU kernel reads and writes at most the first `touched` elements of it.
    pub(in crate::device::cuda) fn output<T: DeviceRepr>(
        mut self,
        buffer: &'a mut CudaSlice<T>,
        touched: usize,
    ) -> Self {
        self.short |= buffer.len() < touched;
        let (address, _) = buffer.device_ptr_mut(&self.queue.stream);
        self.arguments.push(address.to_le_bytes());
        self
    }

    pub(in crate::device::cuda) fn size(mut self, size: usize) -> Self {
        self.arguments.push((size as i64).to_le_bytes());
        self
    }

    pub(in crate::device::cuda) fn real(mut self, real: f32) -> Self {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&real.to_le_bytes());
        self.arguments.push(bytes);
        self
    }

    /// Runs the GPU kernel on a two-dimensional grid of `blocks`, each a two-dimensional block of `threads`. Fails if a
    /// buffer is too small.
    pub(in crate::device::cuda) fn run(mut self, blocks: (usize, usize), threads: (u32, u32)) -> Result<()> {
        let Some(function) = self.queue.functions.get(self.name).filter(|_| !self.short) else {
            return Err(self.queue.too_small(self.name));
        };
        if blocks.0 * blocks.1 == 0 {
            return Ok(());
        }
        let grid = (blocks.0 as u32, blocks.1 as u32, 1);
        let mut pointers: Vec<*mut c_void> =
            self.arguments.iter_mut().map(|argument| argument.as_mut_ptr().cast()).collect();
        let stream = self.queue.stream.cu_stream();
        // SAFETY: the buffers are as large as declared, are borrowed until the kernel is on the stream, and are freed
        // on the same stream after it. The arguments live until the call returns.
        unsafe {
            result::launch_kernel(function.cu_function(), grid, (threads.0, threads.1, 1), 0, stream, &mut pointers)
        }
        .map_err(|error| self.queue.driver(error))
    }
}
