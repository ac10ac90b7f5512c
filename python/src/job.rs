//! A job of the library as Python runs it: without the GIL, on the worker threads, and ended by Ctrl-C.
//!
//! A fit asks its observer between steps whether to go on. What comes after a fit has no observer, but all of it goes
//! through a backend: [`Watched`] works in blocks and asks before each.

use dance::backend::{Backend, Cpu, FitPoints, FitSession, Threads};
use dance::kernel::Kernel;
use dance::neighbors::{Neighbors, Reach, Reached, Reference};
use dance::observe::Observer;
use dance::{Error, Matrix, Result};
use pyo3::prelude::*;

use crate::backend::cpu;
use crate::observer::Listener;

/// Queries of a search between two looks for Ctrl-C. A neighbor does not depend on it.
const BLOCK: usize = 2048;

/// Runs a job; an exception that the callback or a signal's handler raises ends it.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    threads: usize,
    callback: Option<Py<PyAny>>,
    job: impl FnOnce(&dyn Backend, &dyn Observer) -> Result<T> + Send,
) -> PyResult<T> {
    let cpu = cpu(threads)?;
    let listener = Listener::new(callback);
    let done = py.detach(|| {
        let watched = Watched { cpu: &cpu, observer: &listener };
        let done = job(&watched, &listener)?;
        // A last look, so that nothing is kept of a job that was told to stop.
        watched.check()?;
        Ok(done)
    });
    listener.finish(done)
}

/// A backend that stops where its observer says so.
struct Watched<'a> {
    cpu: &'a Cpu,
    observer: &'a dyn Observer,
}

impl Watched<'_> {
    fn check(&self) -> Result<()> {
        if self.observer.interrupted() { Err(Error::Interrupted) } else { Ok(()) }
    }
}

impl Backend for Watched<'_> {
    fn threads(&self) -> &Threads {
        self.cpu.threads()
    }

    fn open<'a>(&'a self, points: FitPoints<'a>, reuse_initial: bool) -> Result<Box<dyn FitSession + 'a>> {
        self.cpu.open(points, reuse_initial)
    }

    fn fit_bytes(&self, n: usize, held_out: usize, d: usize, c: usize, reuse_initial: bool) -> u64 {
        self.cpu.fit_bytes(n, held_out, d, c, reuse_initial)
    }

    fn predict(&self, queries: &Matrix, centers: &Matrix, kernel: Kernel, beta: &Matrix) -> Result<Matrix> {
        self.check()?;
        self.cpu.predict(queries, centers, kernel, beta)
    }

    fn project(&self, points: &Matrix, root: &Matrix) -> Result<Matrix> {
        self.check()?;
        self.cpu.project(points, root)
    }

    fn neighbors(
        &self,
        reference: &Reference,
        queries: &Matrix,
        k: usize,
        skip: Option<&[Option<u32>]>,
    ) -> Result<Neighbors> {
        let mut found = Neighbors::default();
        for start in (0..queries.rows()).step_by(BLOCK) {
            self.check()?;
            let rows: Vec<usize> = (start..queries.rows().min(start + BLOCK)).collect();
            let skip = skip.map(|skip| &skip[start..start + rows.len()]);
            found.append(&self.cpu.neighbors(reference, &queries.select(&rows), k, skip)?);
        }
        Ok(found)
    }

    fn neighbors_both_ways(
        &self,
        reference: &Reference,
        queries: &Matrix,
        k: usize,
        reach: &Reach,
    ) -> Result<(Neighbors, Reached)> {
        self.check()?;
        self.cpu.neighbors_both_ways(reference, queries, k, reach)
    }

    fn median_distance(&self, points: &Matrix) -> f64 {
        self.cpu.median_distance(points)
    }
}
