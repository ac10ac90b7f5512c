//! Matrices that lie in a part of a device buffer, row-major, for matrix products.

use cudarc::driver::CudaSlice;

/// A matrix in a buffer, to be read. It begins at the element `from` of the buffer, and its rows begin `stride`
/// elements apart. If `flipped`, products use the transpose of this matrix.
#[derive(Clone, Copy)]
pub(super) struct Mat<'a, T> {
    pub(super) buffer: &'a CudaSlice<T>,
    pub(super) from: usize,
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) stride: usize,
    pub(super) flipped: bool,
}

impl<'a, T> Mat<'a, T> {
    pub(super) fn new(buffer: &'a CudaSlice<T>, rows: usize, cols: usize) -> Self {
        Self { buffer, from: 0, rows, cols, stride: cols, flipped: false }
    }

    /// Returns the matrix of `rows` rows from row `first` on. Must be called before any [`flip`](Self::flip).
    pub(super) fn part(self, first: usize, rows: usize) -> Self {
        Self { from: self.from + first * self.stride, rows, ..self }
    }

    /// Returns the transpose.
    pub(super) fn flip(self) -> Self {
        Self { flipped: !self.flipped, ..self }
    }

    pub(super) fn height(&self) -> usize {
        if self.flipped { self.cols } else { self.rows }
    }

    pub(super) fn width(&self) -> usize {
        if self.flipped { self.rows } else { self.cols }
    }

    pub(super) fn fits(&self) -> bool {
        fits(self.buffer.len(), self.from, self.rows, self.cols, self.stride)
    }
}

/// A matrix in a buffer, to be written. It begins at the element `from` of the buffer, and its rows begin `stride`
/// elements apart.
pub(super) struct MatMut<'a, T> {
    pub(super) buffer: &'a mut CudaSlice<T>,
    pub(super) from: usize,
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) stride: usize,
}

impl<'a, T> MatMut<'a, T> {
    pub(super) fn new(buffer: &'a mut CudaSlice<T>, rows: usize, cols: usize) -> Self {
        Self { buffer, from: 0, rows, cols, stride: cols }
    }

    /// Returns the matrix of `rows` rows from row `first` on.
    pub(super) fn part(self, first: usize, rows: usize) -> Self {
        Self { from: self.from + first * self.stride, rows, ..self }
    }

    pub(super) fn fits(&self) -> bool {
        fits(self.buffer.len(), self.from, self.rows, self.cols, self.stride)
    }
}

/// Returns `true` if a matrix lies within a buffer of `length` elements, and its sizes fit the integers of cuBLAS.
fn fits(length: usize, from: usize, rows: usize, cols: usize, stride: usize) -> bool {
    let most = i32::MAX as usize;
    let end = if rows == 0 { from } else { from + (rows - 1) * stride + cols };
    end <= length && from < length.max(1) && cols <= stride.max(1) && rows <= most && stride <= most
}
