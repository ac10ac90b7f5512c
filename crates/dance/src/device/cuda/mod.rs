//! NVIDIA's graphics processors, through cuBLAS, cuSOLVER and GPU kernels of our own. The libraries of CUDA are opened
//! when a device is opened (`libraries`), so the program builds and runs on machines without them.
//!
//! - A fit (`fit`, `ridge`, `agop`) agrees with a fit on the CPU up to rounding. Repeated on the same device, a fit
//!   gives the same bits.
//! - A classifier gives the bits of the CPU: every sum has the same order, and every elementwise function is the same
//!   (`classifier`).
//! - An index lists candidates within the rounding bounds of the CPU (`index`), so neighbors are the same.
//!
//! The prediction sets from one model file are therefore the same on the CPU and on a graphics processor.
//!
//! A device does one call at a time: a call locks the device's queue until it is done.

mod agop;
mod classifier;
mod fit;
mod index;
mod libraries;
mod matrix;
mod points;
mod queue;
mod ridge;
mod transfer;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use matrix::{Mat, MatMut};
use points::Points;
use queue::{Pinned, Queue};

use super::cpu::check_width;
use super::{ClassifierHandle, Device, FitPoints, FitSession, IndexHandle, MachineParts};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::numeric::matrix::Matrix;

/// An open device: its queue of calls, and buffers of page-locked host memory that are kept for reuse.
struct Gpu {
    name: String,
    queue: Mutex<Queue>,
    pinned: Mutex<Vec<Pinned>>,
}

impl Gpu {
    fn name(&self) -> &str {
        &self.name
    }

    /// Locks the queue of calls for this thread, and waits while another thread uses the device.
    fn queue(&self) -> Result<MutexGuard<'_, Queue>> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.bind()?;
        Ok(queue)
    }
}

/// An open graphics processor of NVIDIA's.
pub(super) struct Cuda(Arc<Gpu>);

impl Cuda {
    /// Opens the device with the number `ordinal`, counted from 0. The error says why the device cannot be used.
    pub(super) fn open(ordinal: usize) -> Result<Self> {
        let name = format!("cuda:{ordinal}");
        let refused = |problem: String| Error::Device { device: name.clone(), problem };
        let there = Self::devices().map_err(refused)?.len();
        if ordinal >= there {
            let problem = match there {
                0 => "there is no graphics processor of NVIDIA's".to_owned(),
                1 => "there is one device, cuda:0".to_owned(),
                _ => format!("there are {there} devices, cuda:0 to cuda:{}", there - 1),
            };
            return Err(refused(problem));
        }
        libraries::all().map_err(refused)?;
        let queue = Queue::open(ordinal, &name)?;
        Ok(Self(Arc::new(Gpu { name, queue: Mutex::new(queue), pinned: Mutex::default() })))
    }

    /// Returns the name and the memory in bytes of every device. The error says why there is no device.
    pub(super) fn devices() -> Result<Vec<(String, u64)>, String> {
        libraries::driver()?;
        queue::devices()
    }
}

impl Device for Cuda {
    fn name(&self) -> String {
        self.0.name.clone()
    }

    fn free_bytes(&self) -> Option<u64> {
        self.0.queue().ok()?.free_bytes().ok()
    }

    fn fit_bytes(&self, points: FitPoints<'_>, train: usize, held_out: usize) -> u64 {
        fit::bytes(points, train, held_out)
    }

    fn open_fit<'a>(&self, points: FitPoints<'a>, _: &Context<'_>) -> Result<Box<dyn FitSession + 'a>> {
        Ok(Box::new(fit::CudaFit::open(&self.0, points)?))
    }

    fn open_classifier(&self, machine: MachineParts<'_>, _: &Context<'_>) -> Result<Arc<dyn ClassifierHandle>> {
        Ok(Arc::new(classifier::CudaClassifier::open(&self.0, machine)?))
    }

    fn open_index(&self, points: &Matrix, context: &Context<'_>) -> Result<Box<dyn IndexHandle>> {
        Ok(Box::new(index::CudaIndex::open(&self.0, points, context)?))
    }

    fn inner_products(&self, left: &Matrix, right: &Matrix, _: &Context<'_>) -> Result<Matrix> {
        check_width("points of an inner product", right.cols(), left.cols())?;
        let (m, n, d) = (left.rows(), right.rows(), left.cols());
        let queue = self.0.queue()?;
        let (left, right) = (queue.upload(left.as_slice())?, queue.upload(right.as_slice())?);
        let mut out = queue.zeros(m * n)?;
        let (left, right) = (Mat::new(&left, m, d), Mat::new(&right, n, d).flip());
        queue.product(MatMut::new(&mut out, m, n), false, left, right, 1.0)?;
        Matrix::new(queue.download(&out, 0, m * n)?, m, n)
    }
}
