//! Searches for nearest neighbors on the device. The rounding bounds of the [index on the
//! CPU](crate::device::cpu::index) hold for any order of the sums, so also for cuBLAS in f32.
//! The value of a point is its squared distance to the query less the query's squared norm. A GPU kernel finds the k-th
//! smallest value eight bits at a time. The candidates are all points whose values exceed the k-th smallest value by at
//! most the rounding bound.
//! rounding bound.

use std::sync::Arc;

use cudarc::driver::CudaSlice;

use super::Gpu;
use super::matrix::{Mat, MatMut};
use super::queue::Queue;
use crate::context::Context;
use crate::device::cpu::check_width;
use crate::device::cpu::index::RoundingBound;
use crate::device::{Candidates, IndexHandle, QueryHandle};
use crate::error::Result;
use crate::numeric::matrix::Matrix;

/// The smallest number of distances that the device computes. The host computes fewer distances faster.
const FEW: usize = 4096;
/// The largest number of inner products that are computed at a time, for pairs of a query and a point.
const BLOCK_NUMBERS: usize = 1 << 27;

/// Points that are loaded on a graphics processor for searches of neighbors.
pub(super) struct CudaIndex {
    gpu: Arc<Gpu>,
    rounding: RoundingBound,
    /// The mean that is subtracted from points and queries; `None` if they are used as they are.
    center: Option<CudaSlice<f32>>,
    points: CudaSlice<f32>,
    /// The points before the mean was subtracted; `None` if none was subtracted.
    given: Option<CudaSlice<f32>>,
    norms: CudaSlice<f32>,
    /// The squared norm of every point less its [reach](crate::device::cpu::index); `None` until the reaches are set.
    offsets: Option<CudaSlice<f32>>,
}

impl CudaIndex {
    pub(super) fn open(gpu: &Arc<Gpu>, points: &Matrix, context: &Context<'_>) -> Result<Self> {
        let (rounding, centered) = context.run(|| RoundingBound::of(points));
        let queue = gpu.queue()?;
        let given = centered.is_some().then(|| queue.upload(points.as_slice())).transpose()?;
        let points = queue.upload(centered.as_ref().unwrap_or(points).as_slice())?;
        let norms = queue.upload(&rounding.norms)?;
        let center = rounding.center.as_ref().map(|center| queue.upload(center)).transpose()?;
        drop(queue);
        Ok(Self { gpu: Arc::clone(gpu), rounding, center, points, given, norms, offsets: None })
    }

    /// Appends the candidates of `count` queries, from query `first` on. The points that can be nearest are appended to
    /// `nearest`. With `reaching`, the points that can have the query within their reach are appended to `reached`.
    fn block(
        &self,
        queue: &Queue,
        (queries, first, count): (&CudaSlice<f32>, usize, usize),
        k: usize,
        reaching: bool,
        [nearest, reached]: &mut [Candidates; 2],
    ) -> Result<()> {
        let (n, d) = (self.rounding.norms.len(), self.rounding.dimensions);
        let mut norms = queue.zeros::<f64>(count)?;
        let squares = queue.kernel("row_squares_f32").input_from(queries, first * d, count * d);
        squares.size(count).size(d).output(&mut norms, count).run((count.div_ceil(8), 1), (256, 1))?;
        let mut products = queue.zeros(count * n)?;
        let left = Mat::new(queries, first + count, d).part(first, count);
        let right = Mat::new(&self.points, n, d).flip();
        queue.product(MatMut::new(&mut products, count, n), false, left, right, 1.0)?;
        // First list the nearest points, then the points that have the query within their reach.
        let norms = queue.download(&norms, 0, count)?;
        let slacks: Vec<Option<f32>> = norms.iter().map(|&norm| self.rounding.slack(norm)).collect();
        let mut limits = queue.zeros::<f32>(count)?;
        let sure = queue.upload(&slacks.iter().map(|slack| slack.unwrap_or(0.0)).collect::<Vec<_>>())?;
        let search = queue.kernel("kth_smallest").input(&products, count * n).input(&self.norms, n);
        let search = search.size(n).size(k.min(n)).input(&sure, count).output(&mut limits, count);
        search.run((count, 1), (256, 1))?;
        self.list(queue, &products, &self.norms, (&limits, &slacks), nearest)?;
        if let (true, Some(offsets)) = (reaching, &self.offsets) {
            let limits: Vec<Option<f32>> = norms.iter().map(|&norm| self.rounding.reaching_limit(norm)).collect();
            let sure = queue.upload(&limits.iter().map(|limit| limit.unwrap_or(0.0)).collect::<Vec<_>>())?;
            self.list(queue, &products, offsets, (&sure, &limits), reached)?;
        }
        Ok(())
    }

    /// Appends one list per query: the points whose [values](self) are at most the query's entry in `limits`. If the
    /// query's entry in `sure` is `None`, the list has all points, since the query's products may overflow.
    fn list(
        &self,
        queue: &Queue,
        products: &CudaSlice<f32>,
        levels: &CudaSlice<f32>,
        (limits, sure): (&CudaSlice<f32>, &[Option<f32>]),
        lists: &mut Candidates,
    ) -> Result<()> {
        let (count, n) = (sure.len(), self.rounding.norms.len());
        let warps = (count.div_ceil(8), 1);
        let mut counts = queue.counts(count)?;
        let within = queue.kernel("count_within").input(products, count * n).input(levels, n);
        let within = within.size(n).size(count).input(limits, count).output(&mut counts, count);
        // Count first, so that the lists can lie one after the other.
        within.run(warps, (256, 1))?;
        let lengths = queue.download(&counts, 0, count)?;
        let mut starts = Vec::with_capacity(count);
        let mut total = 0u32;
        for length in &lengths {
            starts.push(total);
            total += length; // at most the numbers of a block
        }
        let on_device = queue.upload(&starts)?;
        let mut ids = queue.counts(total as usize)?;
        let list = queue.kernel("list_within").input(products, count * n).input(levels, n);
        let list = list.size(n).size(count).input(limits, count).input(&on_device, count);
        list.output(&mut ids, total as usize).run(warps, (256, 1))?;
        let ids = self.gpu.fetch(queue, &ids, total as usize)?;
        let ids = ids.as_ref();
        if sure.iter().all(Option::is_some) {
            lists.extend_with(ids, lengths.iter().map(|&length| length as usize));
            return Ok(());
        }
        for ((start, length), sure) in starts.iter().zip(&lengths).zip(sure) {
            match sure {
                Some(_) => lists.push(ids[*start as usize..][..*length as usize].iter().copied()),
                None => lists.push(0..n as u32),
            }
        }
        Ok(())
    }
}

impl IndexHandle for CudaIndex {
    fn set_reach(&mut self, squared: &[f64], _: &Context<'_>) -> Result<()> {
        self.rounding.set_reach(squared)?;
        if let Some(reach) = &self.rounding.reach {
            self.offsets = Some(self.gpu.queue()?.upload(&reach.offsets)?);
        }
        Ok(())
    }

    fn open_queries<'a>(&'a self, queries: &'a Matrix, context: &Context<'_>) -> Result<Box<dyn QueryHandle + 'a>> {
        check_width("queries", self.rounding.dimensions, queries.cols())?;
        let uploaded = self.gpu.upload(queries.as_slice(), context)?;
        Ok(Box::new(CudaQueries { index: self, count: queries.rows(), queries: uploaded }))
    }

    fn block(&self) -> usize {
        1 << 14
    }
}

/// Queries that are loaded on a graphics processor, before centering.
struct CudaQueries<'a> {
    index: &'a CudaIndex,
    count: usize,
    queries: CudaSlice<f32>,
}

impl QueryHandle for CudaQueries<'_> {
    fn candidates(&self, k: usize, reaching: bool, _: &Context<'_>) -> Result<Candidates> {
        let Self { index, count, queries } = self;
        index.rounding.check_reach(reaching)?;
        let d = index.rounding.dimensions;
        let block = (BLOCK_NUMBERS / index.rounding.norms.len().max(1)).max(1);
        let mut all = [Candidates::default(), Candidates::default()];
        let queue = index.gpu.queue()?;
        let mut centered = None;
        if let Some(center) = &index.center {
            let queries = centered.insert(queue.copy(queries, count * d)?);
            let kernel = queue.kernel("move_rows").output(queries, count * d).input(center, d).size(d);
            kernel.run((*count, 1), (128, 1))?;
        }
        for first in (0..*count).step_by(block) {
            let part = (centered.as_ref().unwrap_or(queries), first, block.min(count - first));
            index.block(&queue, part, k, reaching, &mut all)?;
        }
        let [nearest, reached] = all;
        Ok(nearest.union(&reached))
    }

    fn distances(&self, candidates: &Candidates) -> Result<Option<Box<dyn AsRef<[f64]> + '_>>> {
        let Self { index, count, queries } = self;
        let ((ids, ends), d) = (candidates.all(), index.rounding.dimensions);
        // A few distances are computed faster on the host.
        if ids.len() < FEW || u32::try_from(ids.len()).is_err() || ends.len() != *count {
            return Ok(None);
        }
        let queue = index.gpu.queue()?;
        let (listed, pairs) = (queue.upload(ids)?, ids.len());
        let on_device = queue.upload(&ends.iter().map(|&end| end as u32).collect::<Vec<_>>())?;
        let mut squared = queue.zeros::<f64>(pairs)?;
        let points = index.given.as_ref().unwrap_or(&index.points);
        let distances = queue.kernel("listed_distances").input(queries, count * d);
        let distances = distances.input(points, index.rounding.norms.len() * d).size(d).input(&listed, pairs);
        let distances = distances.input(&on_device, ends.len()).output(&mut squared, pairs);
        distances.run((ends.len(), 1), (256, 1))?;
        Ok(Some(Box::new(index.gpu.fetch(&queue, &squared, pairs)?)))
    }
}
