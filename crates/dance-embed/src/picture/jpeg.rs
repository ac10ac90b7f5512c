//! JPEG, by the C library that Pillow uses. The standard leaves the last bit of a pixel open, which matters for small
//! pictures: a decoder with another rounding moved embeddings of `EuroSAT`'s 64 × 64 tiles by a tenth of their length.

use std::panic::{AssertUnwindSafe, catch_unwind};

use mozjpeg::{ColorSpace, Decompress};

/// Returns red, green and blue of every pixel.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<u8>, String> {
    // The library would fill missing data with gray.
    if !is_whole(bytes) {
        return Err("ends too early".into());
    }
    // The library reports errors by unwinding.
    let outcome = catch_unwind(AssertUnwindSafe(|| pixels(bytes).map_err(|error| error.to_string())));
    outcome.unwrap_or_else(|report| Err(report.downcast_ref::<String>().cloned().unwrap_or_default()))
}

/// Decodes gray, CMYK and color files.
fn pixels(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let file = Decompress::new_mem(bytes)?;
    match file.components().len() {
        1 => {
            let mut rows = file.grayscale()?;
            Ok(rows.read_scanlines::<u8>()?.into_iter().flat_map(|value| [value; 3]).collect())
        }
        4 => {
            let mut rows = file.to_colorspace(ColorSpace::JCS_CMYK)?;
            Ok(rows.read_scanlines::<[u8; 4]>()?.into_iter().flat_map(of_inks).collect())
        }
        _ => Ok(file.rgb()?.read_scanlines::<[u8; 3]>()?.into_flattened()),
    }
}

/// Converts four inks, stored inverted as Adobe does, to light as Pillow does.
fn of_inks(inks: [u8; 4]) -> [u8; 3] {
    let [cyan, magenta, yellow, black] = inks.map(|ink| 255 - u32::from(ink));
    let light = 255 - black;
    [cyan, magenta, yellow].map(|ink| {
        let product = ink * light + 128;
        (light - ((product + (product >> 8)) >> 8).min(light)) as u8
    })
}

/// Returns whether an end marker follows the last scan. The bytes of a scan never look like a marker.
fn is_whole(bytes: &[u8]) -> bool {
    let last = |marker: u8| bytes.windows(2).rposition(|pair| pair == [0xff, marker]);
    match (last(0xda), last(0xd9)) {
        (Some(scan), Some(end)) => scan < end,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inks_become_light() {
        assert_eq!(of_inks([255; 4]), [255; 3]); // no ink
        assert_eq!(of_inks([255, 255, 255, 0]), [0; 3]); // all black
        assert_eq!(of_inks([0, 255, 255, 255]), [0, 255, 255]); // cyan takes the red
    }
}
