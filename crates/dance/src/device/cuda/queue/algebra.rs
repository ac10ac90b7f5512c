//! Matrix products and triangular solves by cuBLAS, factorisations by cuSOLVER.

use std::ffi::c_void;
use std::ptr::null_mut;

use cudarc::cublas::sys::{cublasDiagType_t, cublasFillMode_t, cublasOperation_t, cublasSideMode_t, cublasStrsm_v2};
use cudarc::cublas::{CudaBlas, Gemm, GemmConfig};
use cudarc::cusolver::sys as solver;
use cudarc::driver::{CudaSlice, DevicePtr, DevicePtrMut, DeviceRepr, ValidAsZeroBits};

use super::Queue;
use crate::device::cuda::matrix::{Mat, MatMut};
use crate::error::Result;

/// A number type in which the device multiplies matrices: f32 or f64.
pub(in crate::device::cuda) trait Number:
    DeviceRepr + ValidAsZeroBits + Copy + Default + 'static
{
    const ONE: Self;
    fn gemm(
        blas: &CudaBlas,
        config: GemmConfig<Self>,
        views: (&impl DevicePtr<Self>, &impl DevicePtr<Self>, &mut impl DevicePtrMut<Self>),
    ) -> Result<(), String>;
}

macro_rules! number {
    ($type:ty) => {
        impl Number for $type {
            const ONE: Self = 1.0;
            fn gemm(
                blas: &CudaBlas,
                config: GemmConfig<Self>,
                (a, b, c): (&impl DevicePtr<Self>, &impl DevicePtr<Self>, &mut impl DevicePtrMut<Self>),
            ) -> Result<(), String> {
                // SAFETY: `Queue::product`, the only caller, has checked that the three matrices lie in their buffers.
                unsafe { blas.gemm(config, a, b, c) }.map_err(|error| format!("{error:?}"))
            }
        }
    };
}
number!(f32);
number!(f64);

impl Queue {
    /// Computes `scale·left·right`. The product replaces `out`, or is added to `out` if `add`.
    pub(in crate::device::cuda) fn product<T: Number>(
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
            return Ok(()); // an empty product
        }
        // cuBLAS is column-major: its left side is our right side, both transposed.
        let operation = |flipped| if flipped { cublasOperation_t::CUBLAS_OP_T } else { cublasOperation_t::CUBLAS_OP_N };
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
        let MatMut { buffer, from, .. } = out;
        let mut target = buffer.slice_mut(from..);
        let views = (&right.buffer.slice(right.from..), &left.buffer.slice(left.from..), &mut target);
        T::gemm(&self.blas, config, views).map_err(|problem| self.failed(format!("cuBLAS: {problem}")))
    }

    /// Replaces the symmetric matrix in the upper triangle of `square`, row-major n×n, by its Cholesky factor, in f32.
    /// Returns `false` if the matrix is not positive definite.
    pub(in crate::device::cuda) fn factorise(&self, square: &mut CudaSlice<f32>, n: usize) -> Result<bool> {
        if square.len() < n * n {
            return Err(self.too_small("a factorisation"));
        }
        let failed = |error: cudarc::cusolver::result::CusolverError| self.failed(format!("cuSOLVER: {error:?}"));
        // cuSOLVER is column-major, so our upper triangle is its lower one.
        let (lower, real) = (solver::cublasFillMode_t::CUBLAS_FILL_MODE_LOWER, solver::cudaDataType::CUDA_R_32F);
        let handle = self.solver.cu();
        let mut info = self.stream.alloc_zeros::<i32>(1).map_err(|error| self.driver(error))?;
        let mut parameters = null_mut();
        // SAFETY: the matrix has n·n numbers, the work space has the bytes that cuSOLVER requires, and `info` has one
        // number. All of them live until the call below that waits for the result.
        unsafe {
            let (matrix, _matrix) = square.device_ptr_mut(&self.stream);
            let matrix = matrix as *mut c_void;
            solver::cusolverDnCreateParams(&raw mut parameters).result().map_err(failed)?;
            let (mut on_device, mut on_host) = (0, 0);
            let sized = solver::cusolverDnXpotrf_bufferSize(
                handle,
                parameters,
                lower,
                n as i64,
                real,
                matrix,
                n as i64,
                real,
                &raw mut on_device,
                &raw mut on_host,
            );
            let work = sized
                .result()
                .map_err(failed)
                .and_then(|()| self.stream.alloc_zeros::<u8>(on_device.max(1)).map_err(|error| self.driver(error)));
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
                // The work space on the host is in use until this returns.
                self.stream.synchronize().map_err(|error| self.driver(error))
            });
            solver::cusolverDnDestroyParams(parameters).result().map_err(failed)?;
            done?;
        }
        Ok(self.download(&info, 0, 1)?[0] == 0)
    }

    /// Replaces every column of the row-major n×c matrix `right` by the solution of the linear system. `factor` is the
    /// result of [`factorise`](Self::factorise) for the system's n×n matrix.
    pub(in crate::device::cuda) fn solve(
        &self,
        factor: &CudaSlice<f32>,
        n: usize,
        right: &mut CudaSlice<f32>,
        c: usize,
    ) -> Result<()> {
        if factor.len() < n * n || right.len() < n * c {
            return Err(self.too_small("a triangular solve"));
        }
        // Column-major with X = rightᵀ: X·L·Lᵀ = Yᵀ, first with Lᵀ, then with L.
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
}
