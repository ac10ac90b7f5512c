//! Resizing as by Pillow, bit for bit: a filter as wide as the reduction, which avoids aliasing, in two passes with 8
//! bits per channel between them.
//!
//! For an output pixel at `c = (i + ½)·s`, where `s` is the reduction, the weights are `w(x) = f((x + ½ - c)/max(s,
//! 1))` over the support. They are divided by their sum and rounded to 22 binary digits. Sums are whole numbers, so
//! that every machine gives the same result.
//!
//! Cost: `3·width·height` products for each tap of the filter. There are `2·support·max(s, 1)` taps.

use super::Picture;

/// Binary digits of the weights: 32 bits less 8 of a channel and 2 for sums beyond its range.
const DIGITS: u32 = 32 - 8 - 2;

/// The function that weighs the neighbors of a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Filter {
    /// The mean of the pixels that fall into the new one.
    Box,
    /// A triangular function.
    Bilinear,
    /// A triangle, sharpened by a Hamming window.
    Hamming,
    /// Keys's cubic with a = -½.
    Bicubic,
    /// A sinc of three lobes.
    Lanczos,
}

impl Filter {
    /// Returns the filter with this number in Pillow and in `preprocessor_config.json`.
    pub fn of_number(number: u64) -> Option<Self> {
        [None, Some(Self::Lanczos), Some(Self::Bilinear), Some(Self::Bicubic), Some(Self::Box), Some(Self::Hamming)]
            .get(usize::try_from(number).ok()?)
            .copied()?
    }

    fn support(self) -> f64 {
        match self {
            Self::Box => 0.5,
            Self::Bilinear | Self::Hamming => 1.0,
            Self::Bicubic => 2.0,
            Self::Lanczos => 3.0,
        }
    }

    fn weight(self, x: f64) -> f64 {
        const A: f64 = -0.5;
        let distance = x.abs();
        match self {
            Self::Box => f64::from(u8::from(x > -0.5 && x <= 0.5)),
            Self::Bilinear => (1.0 - distance).max(0.0),
            Self::Hamming if distance == 0.0 => 1.0,
            Self::Hamming if distance >= 1.0 => 0.0,
            Self::Hamming => {
                let angle = distance * std::f64::consts::PI;
                angle.sin() / angle * (0.54 + 0.46 * angle.cos())
            }
            Self::Bicubic if distance < 1.0 => ((A + 2.0) * distance - (A + 3.0)) * distance * distance + 1.0,
            Self::Bicubic if distance < 2.0 => (((distance - 5.0) * distance + 8.0) * distance - 4.0) * A,
            Self::Lanczos if (-3.0..3.0).contains(&x) => sinc(x) * sinc(x / 3.0),
            Self::Bicubic | Self::Lanczos => 0.0,
        }
    }
}

fn sinc(x: f64) -> f64 {
    let angle = x * std::f64::consts::PI;
    if x == 0.0 { 1.0 } else { angle.sin() / angle }
}

/// The weights of one output pixel, from the first input pixel that has any.
struct Taps {
    first: usize,
    weights: Vec<i32>,
}

/// Returns the weights of every output pixel along one axis.
fn taps(input: usize, output: usize, filter: Filter) -> Vec<Taps> {
    let scale = input as f64 / output as f64;
    let wide = scale.max(1.0);
    let support = filter.support() * wide;
    let taps_at = |place: usize| {
        let center = (place as f64 + 0.5) * scale;
        let first = (center - support + 0.5).max(0.0) as usize;
        let end = ((center + support + 0.5) as usize).min(input);
        let weights: Vec<f64> = (first..end).map(|x| filter.weight((x as f64 - center + 0.5) * (1.0 / wide))).collect();
        let sum: f64 = weights.iter().sum();
        let whole = |weight: f64| {
            let share = if sum == 0.0 { weight } else { weight / sum };
            (share * f64::from(1 << DIGITS)).round() as i32 // halves away from zero
        };
        Taps { first, weights: weights.into_iter().map(whole).collect() }
    };
    (0..output).map(taps_at).collect()
}

/// Rounds a weighted sum to a channel.
fn channel(sum: i32) -> u8 {
    (sum >> DIGITS).clamp(0, 255) as u8
}

/// One half, which rounds sums to the nearest.
const HALF: i32 = 1 << (DIGITS - 1);

/// Returns the picture in another size, which must not be 0.
pub fn resize(picture: &Picture, width: usize, height: usize, filter: Filter) -> Picture {
    let mut narrow;
    let mut wide = picture;
    if width != picture.width {
        narrow = Picture { width, height: picture.height, pixels: Vec::new() };
        narrow.pixels = across(picture, &taps(picture.width, width, filter));
        wide = &narrow;
    }
    if height == wide.height {
        return wide.clone();
    }
    Picture { width, height, pixels: down(wide, &taps(wide.height, height, filter)) }
}

/// Resizes every row to its new width.
fn across(picture: &Picture, taps: &[Taps]) -> Vec<u8> {
    let mut out = Vec::with_capacity(picture.height * taps.len() * 3);
    for row in picture.pixels.chunks_exact(picture.width * 3) {
        for tap in taps {
            let mut sums = [HALF; 3];
            let pixels = row[tap.first * 3..].as_chunks::<3>().0;
            for (pixel, &weight) in pixels.iter().zip(&tap.weights) {
                for (sum, &value) in sums.iter_mut().zip(pixel) {
                    *sum += i32::from(value) * weight;
                }
            }
            out.extend(sums.map(channel));
        }
    }
    out
}

/// Resizes every column to its new height, a whole row at a time.
fn down(picture: &Picture, taps: &[Taps]) -> Vec<u8> {
    let length = picture.width * 3;
    let mut out = Vec::with_capacity(taps.len() * length);
    let mut sums = vec![HALF; length];
    for tap in taps {
        sums.fill(HALF);
        let rows = picture.pixels[tap.first * length..].chunks_exact(length);
        for (row, &weight) in rows.zip(&tap.weights) {
            for (sum, &value) in sums.iter_mut().zip(row) {
                *sum += i32::from(value) * weight;
            }
        }
        out.extend(sums.iter().map(|&sum| channel(sum)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_picture_stays_flat() {
        let picture = Picture { width: 7, height: 5, pixels: vec![200; 105] };
        for filter in [Filter::Box, Filter::Bilinear, Filter::Hamming, Filter::Bicubic, Filter::Lanczos] {
            for (width, height) in [(3, 2), (7, 5), (14, 11), (1, 1)] {
                let out = resize(&picture, width, height, filter);
                assert_eq!(out.pixels.len(), width * height * 3);
                assert!(out.pixels.iter().all(|&value| value == 200), "{filter:?} {width}×{height}");
            }
        }
    }

    /// By hand: a box over pairs is their mean, halves up.
    #[test]
    fn a_box_over_pairs_is_their_mean() {
        let row = [0, 10, 20, 31u8];
        let pixels = row.iter().flat_map(|&value| [value; 3]).collect();
        let out = resize(&Picture { width: 4, height: 1, pixels }, 2, 1, Filter::Box);
        assert_eq!(out.pixels, [5, 5, 5, 26, 26, 26]);
    }
}
