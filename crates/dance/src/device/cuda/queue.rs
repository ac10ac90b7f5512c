//! What is asked of a device: memory, matrix products, factorisations, and the kernels of `kernels.cu`, one after the other.
//!
//! The only file of the project with `unsafe` code: every call into CUDA is here, behind functions that check sizes first. A
//! kernel is told how many numbers it may touch of every buffer ([`Launch::input`], [`Launch::output`]) and is not run where a
//! buffer has fewer; what it does within them is in `kernels.cu`.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::c_void;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::cublas::sys::{cublasDiagType_t, cublasFillMode_t, cublasOperation_t, cublasSideMode_t, cublasStrsm_v2};
use cudarc::cublas::{CudaBlas, Gemm, GemmConfig};
use cudarc::cusolver::safe::DnHandle;
use cudarc::cusolver::sys as solver;
use cudarc::driver::sys as driver;
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr, DriverError,
    ValidAsZeroBits, result,
};
use cudarc::nvrtc::{CompileOptions, compile_ptx_with_opts};

use super::matrix::{Mat, MatMut};
use crate::error::{Error, Result};

/// The kernels. Compiled by NVRTC when a device is opened (a quarter of a second): one readable source for every architecture and
/// no generated file to keep in step with it. NVRTC comes with every package that has the other libraries.
const SOURCE: &str = include_str!("kernels.cu");

/// Opens a library and keeps it open, so that whoever asks for it by name gets this one.
pub(super) fn keep_open(file: &Path) -> Result<(), String> {
    // SAFETY: what runs when these libraries of NVIDIA's are opened has no conditions that we could fail to meet.
    match unsafe { libloading::Library::new(file) } {
        Ok(library) => {
            std::mem::forget(library);
            Ok(())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// The devices there are, by name and bytes of memory. The driver's library must be open.
pub(super) fn devices() -> Result<Vec<(String, u64)>, String> {
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
pub(super) fn driver_version() -> Result<i32, String> {
    let mut version = 0;
    // SAFETY: the library is there, and the function writes one number.
    let status = unsafe { driver::cuDriverGetVersion(&raw mut version) };
    status.result().map(|()| version).map_err(said)
}

/// A device's numbers by their type.
pub(super) trait Number: DeviceRepr + ValidAsZeroBits + Copy + Default + 'static {
    const ONE: Self;
    fn gemm<'a>(
        blas: &CudaBlas,
        config: GemmConfig<Self>,
        views: (&impl DevicePtr<Self>, &impl DevicePtr<Self>, &'a mut impl DevicePtrMut<Self>),
    ) -> Result<(), String>;
}

macro_rules! number {
    ($type:ty) => {
        impl Number for $type {
            const ONE: Self = 1.0;
            fn gemm<'a>(
                blas: &CudaBlas,
                config: GemmConfig<Self>,
                (a, b, c): (&impl DevicePtr<Self>, &impl DevicePtr<Self>, &'a mut impl DevicePtrMut<Self>),
            ) -> Result<(), String> {
                // SAFETY: `Queue::product`, the only caller, has checked that the three matrices lie in their buffers.
                unsafe { blas.gemm(config, a, b, c) }.map_err(|error| format!("{error:?}"))
            }
        }
    };
}
number!(f32);
number!(f64);

/// One device, asked one thing after the other.
pub(super) struct Queue {
    name: String,
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    blas: CudaBlas,
    solver: DnHandle,
    functions: HashMap<&'static str, CudaFunction>,
}

impl Queue {
    /// Opens a device and compiles the kernels for it.
    pub(super) fn open(ordinal: usize, name: &str) -> Result<Self> {
        let failed = |problem: String| Error::Device { device: name.to_owned(), problem };
        let driver = |error: DriverError| failed(said(error));
        let context = CudaContext::new(ordinal).map_err(driver)?;
        // SAFETY: there is one stream, so nothing has to wait for another.
        unsafe { context.disable_event_tracking() };
        let stream = context.default_stream();
        keep_freed_memory(&context).map_err(driver)?;
        let blas = CudaBlas::new(Arc::clone(&stream)).map_err(|error| failed(format!("cuBLAS: {error:?}")))?;
        let solver =
            DnHandle::new(Arc::clone(&stream)).map_err(|error| failed(format!("cuSOLVER: {error:?}")))?;
        let options = CompileOptions { fmad: Some(false), ..Default::default() };
        let compiled = compile_ptx_with_opts(SOURCE, options)
            .map_err(|error| failed(format!("NVRTC did not compile the kernels: {error:?}")))?;
        let module = context.load_module(compiled).map_err(driver)?;
        let mut functions = HashMap::new();
        for kernel in kernels() {
            functions.insert(kernel, module.load_function(kernel).map_err(driver)?);
        }
        Ok(Self { name: name.to_owned(), context, stream, blas, solver, functions })
    }

    /// To be called on a thread before anything else.
    pub(super) fn bind(&self) -> Result<()> {
        self.context.bind_to_thread().map_err(|error| self.driver(error))
    }

    /// Waits for everything asked so far, and gives back memory that is no longer used.
    pub(super) fn settle(&self) -> Result<()> {
        self.stream.synchronize().map_err(|error| self.driver(error))?;
        trim(&self.context).map_err(|error| self.driver(error))
    }

    /// Bytes that are free.
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

    pub(super) fn upload<T: DeviceRepr + Default + Copy>(&self, values: &[T]) -> Result<CudaSlice<T>> {
        let values = if values.is_empty() { &[T::default()] } else { values };
        self.stream.clone_htod(values).map_err(|error| self.driver(error))
    }

    /// `count` numbers from `from` on, when everything before has been done.
    pub(super) fn download<T: DeviceRepr + Default + Clone>(
        &self,
        buffer: &CudaSlice<T>,
        from: usize,
        count: usize,
    ) -> Result<Vec<T>> {
        let mut values = vec![T::default(); count];
        if count > 0 {
            let view = buffer.try_slice(from..from + count).ok_or_else(|| self.too_small("a download"))?;
            self.stream.memcpy_dtoh(&view, &mut values).map_err(|error| self.driver(error))?;
            self.stream.synchronize().map_err(|error| self.driver(error))?;
        }
        Ok(values)
    }

    /// `out = scale·left·right`, or added to it.
    pub(super) fn product<T: Number>(
        &self,
        out: MatMut<'_, T>,
        add: bool,
        left: Mat<'_, T>,
        right: Mat<'_, T>,
        scale: T,
    ) -> Result<()> {
        let (m, n, k) = (out.rows, out.cols, left.width());
        let fits = left.fits() && right.fits() && out.fits();
        if !fits || left.height() != m || right.width() != n || right.height() != k {
            return Err(self.too_small("a matrix product"));
        }
        if m * n * k == 0 {
            return Ok(()); // nothing is asked for that has no depth
        }
        // cuBLAS thinks in columns: what it takes for its left side is our right side, both transposed.
        let operation =
            |flipped| if flipped { cublasOperation_t::CUBLAS_OP_T } else { cublasOperation_t::CUBLAS_OP_N };
        let config = GemmConfig {
            transa: operation(right.flipped),
            transb: operation(left.flipped),
            m: n as i32,
            n: m as i32,
            k: k as i32,
            alpha: scale,
            lda: right.stride as i32,
            ldb: left.stride as i32,
            beta: if add { T::ONE } else { T::default() },
            ldc: out.stride as i32,
        };
        let mut target = out.buffer.slice_mut(out.from..);
        let views = (&right.buffer.slice(right.from..), &left.buffer.slice(left.from..), &mut target);
        T::gemm(&self.blas, config, views).map_err(|problem| self.failed(format!("cuBLAS: {problem}")))
    }

    /// Factorises the symmetric matrix in the upper triangle of the row-major n×n `square`, in f32; `false` where it is not
    /// positive definite.
    pub(super) fn factorise(&self, square: &mut CudaSlice<f32>, n: usize) -> Result<bool> {
        if square.len() < n * n {
            return Err(self.too_small("a factorisation"));
        }
        let failed = |error: cudarc::cusolver::result::CusolverError| self.failed(format!("cuSOLVER: {error:?}"));
        // Our rows are its columns, so that our upper triangle is its lower one.
        let (lower, real) = (solver::cublasFillMode_t::CUBLAS_FILL_MODE_LOWER, solver::cudaDataType::CUDA_R_32F);
        let handle = self.solver.cu();
        let mut info = self.stream.alloc_zeros::<i32>(1).map_err(|error| self.driver(error))?;
        let mut parameters = null_mut();
        // SAFETY: the matrix has n·n numbers, the work space the bytes that cuSOLVER asks for, `info` one number; all of them live
        // until the call below that waits for the result.
        unsafe {
            let (matrix, _matrix) = square.device_ptr_mut(&self.stream);
            let matrix = matrix as *mut c_void;
            solver::cusolverDnCreateParams(&raw mut parameters).result().map_err(failed)?;
            let (mut on_device, mut on_host) = (0, 0);
            let asked = solver::cusolverDnXpotrf_bufferSize(
                handle, parameters, lower, n as i64, real, matrix, n as i64, real, &raw mut on_device, &raw mut on_host,
            );
            let work = asked.result().map_err(failed).and_then(|()| {
                self.stream.alloc_zeros::<u8>(on_device.max(1)).map_err(|error| self.driver(error))
            });
            let done = work.and_then(|mut work| {
                let mut host = vec![0u8; on_host];
                let (work_at, _work) = work.device_ptr_mut(&self.stream);
                let (info_at, _info) = info.device_ptr_mut(&self.stream);
                let status = solver::cusolverDnXpotrf(
                    handle,
                    parameters,
                    lower,
                    n as i64,
                    real,
                    matrix,
                    n as i64,
                    real,
                    work_at as *mut c_void,
                    on_device,
                    host.as_mut_ptr().cast(),
                    on_host,
                    info_at as *mut i32,
                );
                status.result().map_err(failed)?;
                // The work space on the host is in use until then.
                self.stream.synchronize().map_err(|error| self.driver(error))
            });
            solver::cusolverDnDestroyParams(parameters).result().map_err(failed)?;
            done?;
        }
        Ok(self.download(&info, 0, 1)?[0] == 0)
    }

    /// Solves for every column of the row-major n×c `right`, in place, with the factor of [`factorise`](Self::factorise).
    pub(super) fn solve(&self, factor: &CudaSlice<f32>, n: usize, right: &mut CudaSlice<f32>, c: usize) -> Result<()> {
        if factor.len() < n * n || right.len() < n * c {
            return Err(self.too_small("a triangular solve"));
        }
        // In its columns, with X = rightᵀ: X·L·Lᵀ = Yᵀ, first with Lᵀ, then with L.
        for operation in [cublasOperation_t::CUBLAS_OP_T, cublasOperation_t::CUBLAS_OP_N] {
            let (factor, _factor) = factor.device_ptr(&self.stream);
            let (right, _right) = right.device_ptr_mut(&self.stream);
            let one = 1.0f32;
            // SAFETY: the factor has n·n numbers and the right side n·c, as checked above.
            let status = unsafe {
                cublasStrsm_v2(
                    *self.blas.handle(),
                    cublasSideMode_t::CUBLAS_SIDE_RIGHT,
                    cublasFillMode_t::CUBLAS_FILL_MODE_LOWER,
                    operation,
                    cublasDiagType_t::CUBLAS_DIAG_NON_UNIT,
                    c as i32,
                    n as i32,
                    &raw const one,
                    factor as *const f32,
                    n as i32,
                    right as *mut f32,
                    c as i32,
                )
            };
            status.result().map_err(|error| self.failed(format!("cuBLAS: {error:?}")))?;
        }
        Ok(())
    }

    /// A kernel, to be given its arguments in their order.
    pub(super) fn kernel(&self, name: &'static str) -> Launch<'_> {
        Launch { queue: self, name, arguments: Vec::new(), short: false }
    }

    fn driver(&self, error: DriverError) -> Error {
        self.failed(said(error))
    }

    fn failed(&self, problem: String) -> Error {
        Error::Device { device: self.name.clone(), problem }
    }

    fn too_small(&self, what: &str) -> Error {
        self.failed(format!("{what} was asked for beyond its buffers (a fault of this program)"))
    }
}

/// A kernel with its arguments.
pub(super) struct Launch<'a> {
    queue: &'a Queue,
    name: &'static str,
    /// Every argument in eight bytes; shorter ones in the first of them.
    arguments: Vec<[u8; 8]>,
    /// Whether a buffer has fewer numbers than the kernel may touch.
    short: bool,
}

impl<'a> Launch<'a> {
    /// A buffer of which the kernel reads the first `touched` numbers at most.
    pub(super) fn input<T: DeviceRepr>(mut self, buffer: &'a CudaSlice<T>, touched: usize) -> Self {
        self.short |= buffer.len() < touched;
        let (address, _) = buffer.device_ptr(&self.queue.stream);
        self.arguments.push(address.to_le_bytes());
        self
    }

    /// The same of the numbers from `from` on.
    pub(super) fn input_from<T: DeviceRepr>(
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

    /// A buffer of which the kernel reads and writes the first `touched` numbers at most.
    pub(super) fn output<T: DeviceRepr>(mut self, buffer: &'a mut CudaSlice<T>, touched: usize) -> Self {
        self.short |= buffer.len() < touched;
        let (address, _) = buffer.device_ptr_mut(&self.queue.stream);
        self.arguments.push(address.to_le_bytes());
        self
    }

    pub(super) fn size(mut self, size: usize) -> Self {
        self.arguments.push((size as i64).to_le_bytes());
        self
    }

    pub(super) fn real(mut self, real: f32) -> Self {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&real.to_le_bytes());
        self.arguments.push(bytes);
        self
    }

    /// Runs it on a grid of blocks, each of `threads`.
    pub(super) fn run(mut self, blocks: (usize, usize), threads: (u32, u32)) -> Result<()> {
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
        // SAFETY: the buffers are as large as the kernel was said to touch, are borrowed until it is on the stream, and are freed
        // on the same stream behind it; the arguments live until the call returns.
        unsafe {
            result::launch_kernel(function.cu_function(), grid, (threads.0, threads.1, 1), 0, stream, &mut pointers)
        }
        .map_err(|error| self.queue.driver(error))
    }
}

/// The names of all kernels, from their source.
fn kernels() -> impl Iterator<Item = &'static str> {
    let after = SOURCE.split("extern \"C\" __global__ ").skip(1);
    after.filter_map(|text| text.split("void ").nth(1)?.split('(').next())
}

/// Memory that is freed stays with the process until [`trim`], so that the next round gets it without asking the system.
fn keep_freed_memory(context: &CudaContext) -> Result<(), DriverError> {
    let attribute = driver::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    let mut all = u64::MAX;
    // SAFETY: the pool is the device's own, and the attribute is a number of 64 bits.
    unsafe { driver::cuMemPoolSetAttribute(pool(context)?, attribute, (&raw mut all).cast()) }.result()
}

fn trim(context: &CudaContext) -> Result<(), DriverError> {
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
fn said(error: DriverError) -> String {
    if error.0 == driver::cudaError_enum::CUDA_ERROR_OUT_OF_MEMORY {
        return "is out of memory: fit or answer with fewer points, or on the CPU".into();
    }
    error.error_string().map_or_else(|_| error.to_string(), |text| text.to_string_lossy().into_owned())
}
