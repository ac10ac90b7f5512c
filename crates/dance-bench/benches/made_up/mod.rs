//! Points for benches that need labels which can be learned, though not perfectly.

use dance::Matrix;
use dance::numeric::random::Random;

/// Uniform numbers around 0.
pub(crate) fn points(n: usize, d: usize, seed: u64) -> Matrix {
    let mut random = Random::new(seed, 9);
    let mut points = Matrix::zeros(n, d);
    for value in points.as_mut_slice() {
        *value = random.uniform() as f32 - 0.5;
    }
    points
}

/// Unit vectors around random class centres.
pub(crate) fn clusters(n: usize, d: usize, classes: usize, seed: u64) -> (Matrix, Vec<u32>) {
    let (centers, mut points) = (points(classes, d, seed), points(n, d, seed + 1));
    let labels: Vec<u32> = (0..n).map(|row| (row % classes) as u32).collect();
    for (row, &label) in labels.iter().enumerate() {
        let values = points.row_mut(row);
        for (value, center) in values.iter_mut().zip(centers.row(label as usize)) {
            *value += 0.35 * center;
        }
        let norm = values.iter().map(|value| value * value).sum::<f32>().sqrt();
        for value in values {
            *value /= norm;
        }
    }
    (points, labels)
}
