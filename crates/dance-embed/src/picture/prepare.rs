//! Preparation: from a picture to the numbers that an encoder takes. It is resized, cropped around its center and
//! normalised, as by the image processors of `transformers` with Pillow.

use super::{Picture, resize};
use crate::settings::{PictureSettings, Resize};

/// Returns the numbers of a picture, by channel, row and column.
pub fn prepare(picture: &Picture, settings: &PictureSettings) -> Vec<f32> {
    let (width, height) = settings.resize.of(picture.width, picture.height);
    let resized;
    let picture = if (width, height) == (picture.width, picture.height) {
        picture
    } else {
        resized = resize(picture, width, height, settings.filter);
        &resized
    };
    let (rows, columns) = settings.crop.unwrap_or((picture.height, picture.width));
    // Rounded down, also if the picture is smaller than the crop and gets a black border.
    let top = (picture.height as i64 - rows as i64).div_euclid(2);
    let left = (picture.width as i64 - columns as i64).div_euclid(2);
    let tables = [0, 1, 2].map(|channel| settings.table(channel));
    let mut out = Vec::with_capacity(3 * rows * columns);
    for (channel, table) in tables.iter().enumerate() {
        for row in 0..rows as i64 {
            let row = usize::try_from(top + row).ok().filter(|&row| row < picture.height);
            for column in 0..columns as i64 {
                let column = usize::try_from(left + column).ok().filter(|&column| column < picture.width);
                let value = match (row, column) {
                    (Some(row), Some(column)) => picture.pixels[(row * picture.width + column) * 3 + channel],
                    _ => 0,
                };
                out.push(table[usize::from(value)]);
            }
        }
    }
    out
}

impl Resize {
    /// Returns the new width and height. The longer side is rounded down.
    fn of(self, width: usize, height: usize) -> (usize, usize) {
        match self {
            Self::Keep => (width, height),
            Self::Exact(height, width) => (width, height),
            Self::Shortest(size) => {
                let long = |long: usize, short: usize| ((size * long) as f64 / short as f64) as usize;
                if width <= height { (size, long(height, width)) } else { (long(width, height), size) }
            }
        }
    }
}

impl PictureSettings {
    /// Returns the number for each of the 256 values of a channel.
    fn table(&self, channel: usize) -> [f32; 256] {
        std::array::from_fn(|value| {
            let value = (value as f64 * self.scale) as f32;
            (value - self.mean[channel]) / self.deviation[channel]
        })
    }
}
