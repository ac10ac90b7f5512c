//! The queue of a device: memory, matrix products, factorisations, and the GPU kernels of `kernels.cu`, one call after
//! the other.
//!
//! This is the only folder of the project with `unsafe` code: every call into CUDA is here, behind functions that check
//! sizes first. Every launch of a GPU kernel declares how many elements of each buffer the kernel may touch
//! ([`Launch::input`], [`Launch::output`]). The launch does not run if a buffer has fewer elements. The kernels in
//! `kernels.cu` must respect these limits.

#![allow(unsafe_code)]

mod algebra;
mod driver;
mod launch;
mod pinned;

use std::collections::HashMap;
use std::sync::Arc;

use cudarc::cublas::CudaBlas;
use cudarc::cusolver::safe::DnHandle;
use cudarc::driver::{CudaContext, CudaFunction, CudaSlice, CudaStream, DeviceRepr, DriverError};
use cudarc::nvrtc::{CompileOptions, Ptx, compile_ptx_with_opts};

pub(super) use algebra::Number;
use driver::error_text;
pub(super) use driver::{devices, driver_version, keep_open};
pub(super) use launch::Launch;
pub(super) use pinned::Pinned;

use crate::error::{Error, Result};

/// The source of the GPU kernels. NVRTC, NVIDIA's compiler at runtime, compiles it in a quarter of a second when a
/// device is opened. So one source serves every architecture, and no generated file has to be kept up to date.
const SOURCE: &str = include_str!("../kernels.cu");

/// An open device with the handles of its libraries. The device does one call after the other.
pub(super) struct Queue {
    name: String,
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    blas: CudaBlas,
    solver: DnHandle,
    functions: HashMap<&'static str, CudaFunction>,
}

impl Queue {
    /// Opens the device with the number `ordinal`, and compiles the GPU kernels for it.
    pub(super) fn open(ordinal: usize, name: &str) -> Result<Self> {
        let failed = |problem: String| Error::Device { device: name.to_owned(), problem };
        let refused = |error: DriverError| failed(error_text(error));
        let context = CudaContext::new(ordinal).map_err(refused)?;
        // SAFETY: there is one stream, so nothing has to wait for another.
        unsafe { context.disable_event_tracking() };
        let stream = context.default_stream();
        driver::keep_freed_memory(&context).map_err(refused)?;
        let blas = CudaBlas::new(Arc::clone(&stream)).map_err(|error| failed(format!("cuBLAS: {error:?}")))?;
        let solver = DnHandle::new(Arc::clone(&stream)).map_err(|error| failed(format!("cuSOLVER: {error:?}")))?;
        let compiled = compile().map_err(failed)?;
        let module = context.load_module(compiled).map_err(refused)?;
        let mut functions = HashMap::new();
        for kernel in kernels() {
            functions.insert(kernel, module.load_function(kernel).map_err(refused)?);
        }
        Ok(Self { name: name.to_owned(), context, stream, blas, solver, functions })
    }

    /// Binds the device to the calling thread. A thread must do this before any other call to the device.
    pub(super) fn bind(&self) -> Result<()> {
        self.context.bind_to_thread().map_err(|error| self.driver(error))
    }

    /// Waits for all previous calls, and returns freed device memory to the system.
    pub(super) fn settle(&self) -> Result<()> {
        self.stream.synchronize().map_err(|error| self.driver(error))?;
        driver::trim(&self.context).map_err(|error| self.driver(error))
    }

    /// Returns the number of free bytes of device memory.
    pub(super) fn free_bytes(&self) -> Result<u64> {
        self.settle()?;
        self.context.mem_get_info().map(|(free, _)| free as u64).map_err(|error| self.driver(error))
    }

    pub(super) fn zeros<T: Number>(&self, count: usize) -> Result<CudaSlice<T>> {
        self.stream.alloc_zeros(count.max(1)).map_err(|error| self.driver(error))
    }

    pub(super) fn counts(&self, count: usize) -> Result<CudaSlice<u32>> {
        self.stream.alloc_zeros(count.max(1)).map_err(|error| self.driver(error))
    }

    pub(super) fn copy<T: Number>(&self, buffer: &CudaSlice<T>, count: usize) -> Result<CudaSlice<T>> {
        let view = buffer.try_slice(..count).ok_or_else(|| self.too_small("a copy"))?;
        self.stream.clone_dtod(&view).map_err(|error| self.driver(error))
    }

    /// Allocates a buffer of page-locked host memory, if the system has some.
    pub(super) fn pinned(&self) -> Result<Pinned> {
        Pinned::new(&self.context).map_err(|error| self.driver(error))
    }

    pub(super) fn upload<T: DeviceRepr + Default + Copy>(&self, values: &[T]) -> Result<CudaSlice<T>> {
        let values = if values.is_empty() { &[T::default()] } else { values };
        self.stream.clone_htod(values).map_err(|error| self.driver(error))
    }

    /// Copies `values` to the elements of `buffer` from index `from` on, and waits until the copy is done.
    pub(super) fn upload_to<T: DeviceRepr>(&self, buffer: &mut CudaSlice<T>, from: usize, values: &[T]) -> Result<()> {
        let part = buffer.try_slice_mut(from..from + values.len());
        let mut part = part.ok_or_else(|| self.too_small("an upload"))?;
        self.stream.memcpy_htod(values, &mut part).map_err(|error| self.driver(error))?;
        self.stream.synchronize().map_err(|error| self.driver(error))
    }

    /// Returns `count` elements of `buffer` from index `from` on, after all previous calls are done.
    pub(super) fn download<T: DeviceRepr + Default + Clone>(
        &self,
        buffer: &CudaSlice<T>,
        from: usize,
        count: usize,
    ) -> Result<Vec<T>> {
        let mut values = vec![T::default(); count];
        self.download_to(&mut values, buffer, from)?;
        Ok(values)
    }

    /// Fills `values` with elements of `buffer` from index `from` on, after all previous calls are done.
    pub(super) fn download_to<T: DeviceRepr>(
        &self,
        values: &mut [T],
        buffer: &CudaSlice<T>,
        from: usize,
    ) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        let part = buffer.try_slice(from..from + values.len());
        let part = part.ok_or_else(|| self.too_small("a download"))?;
        self.stream.memcpy_dtoh(&part, values).map_err(|error| self.driver(error))?;
        self.stream.synchronize().map_err(|error| self.driver(error))
    }

    /// Prepares a launch of the GPU kernel named `name`. The caller adds the kernel's arguments in order, and runs the
    /// launch.
    pub(super) fn kernel(&self, name: &'static str) -> Launch<'_> {
        Launch::new(self, name)
    }

    fn driver(&self, error: DriverError) -> Error {
        self.failed(error_text(error))
    }

    fn failed(&self, problem: String) -> Error {
        Error::Device { device: self.name.clone(), problem }
    }

    fn too_small(&self, what: &str) -> Error {
        self.failed(format!("{what} would go beyond its buffers (a fault of this program)"))
    }
}

/// Compiles the source of the GPU kernels to PTX, NVIDIA's assembly language.
fn compile() -> Result<Ptx, String> {
    let options = CompileOptions { fmad: Some(false), ..Default::default() };
    compile_ptx_with_opts(SOURCE, options).map_err(|error| format!("NVRTC did not compile the kernels: {error:?}"))
}

/// Returns the names of all GPU kernels, read from the text of their source.
fn kernels() -> impl Iterator<Item = &'static str> {
    let after = SOURCE.split("extern \"C\" __global__ ").skip(1);
    after.filter_map(|text| text.split("void ").nth(1)?.split('(').next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cuda::libraries;

    /// NVRTC compiles the GPU kernels, even on machines without a graphics processor.
    #[test]
    fn the_kernels_compile() {
        if let Err(why) = libraries::compiler() {
            return println!("skipped, since there is no NVRTC: {why}");
        }
        let compiled = compile().unwrap().to_src();
        let names: Vec<&str> = kernels().collect();
        assert!(names.len() > 20 && names.contains(&"ordered_rows"), "{names:?}");
        for name in names {
            assert!(compiled.contains(&format!(".entry {name}(")), "{name}");
        }
    }
}
