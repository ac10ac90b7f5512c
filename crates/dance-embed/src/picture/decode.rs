//! Decoding of picture files to 8-bit red, green and blue, as by Pillow's `convert("RGB")`: alpha is dropped, the upper
//! 8 of 16 bits stay, gray becomes three equal channels, and palettes become their colors. A picture with an EXIF
//! orientation is turned upright first, as `transformers` does.
//!
//! A file is untrusted. Its size in pixels is known from its header, and an absurd size is refused there.

use std::io::Cursor;

use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits, RgbImage};

use super::{Picture, jpeg};

/// The largest number of pixels, which is Pillow's limit. More are an attack or a mistake.
pub const MOST_PIXELS: u64 = 178_956_970;

/// The largest memory of a decoder, beside the pixels.
const MOST_MEMORY: u64 = 2 << 30;

/// Decodes a picture; an error says why it cannot be decoded.
pub fn decode(bytes: &[u8]) -> Result<Picture, String> {
    if bytes.is_empty() {
        return Err("is empty (0 bytes)".into());
    }
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(|error| error.to_string())?;
    let format = reader.format();
    if format.is_none() {
        return Err("is no picture that can be read (JPEG, PNG, WebP, GIF, BMP, TIFF, PNM)".into());
    }
    // The header has the size, which is checked before any pixel is decoded.
    let mut decoder = reader.into_decoder().map_err(describe)?;
    let (width, height) = decoder.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    if pixels == 0 {
        return Err(format!("has no pixels ({width} × {height})"));
    }
    if pixels > MOST_PIXELS {
        return Err(format!("has {width} × {height} pixels, more than {MOST_PIXELS}: refused before it is unpacked"));
    }
    let mut limits = Limits::default();
    limits.max_alloc = Some(MOST_MEMORY);
    decoder.set_limits(limits).map_err(describe)?;
    let orientation = decoder.orientation().map_err(describe)?;
    let mut image = if format == Some(ImageFormat::Jpeg) {
        let pixels = jpeg::decode(bytes).map_err(|problem| format!("cannot be decoded: {problem}"))?;
        let image = RgbImage::from_raw(width, height, pixels).ok_or("has another size than in its header")?;
        DynamicImage::ImageRgb8(image)
    } else {
        DynamicImage::from_decoder(decoder).map_err(describe)?
    };
    image.apply_orientation(orientation);
    Ok(Picture { width: image.width() as usize, height: image.height() as usize, pixels: rgb(image) })
}

/// Describes an error in one line.
fn describe(error: ImageError) -> String {
    match error {
        ImageError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => "ends too early".into(),
        ImageError::Unsupported(error) => format!("is a picture of a kind that cannot be read: {error}"),
        error => format!("cannot be decoded: {error}"),
    }
    .replace('\n', " ")
}

/// Returns the pixels of an image in three channels of 8 bits.
fn rgb(image: DynamicImage) -> Vec<u8> {
    let upper = |value: u16| (value >> 8) as u8;
    match image {
        DynamicImage::ImageRgb8(image) => image.into_raw(),
        DynamicImage::ImageLuma8(image) => image.into_raw().into_iter().flat_map(|value| [value; 3]).collect(),
        DynamicImage::ImageLumaA8(image) => image.pixels().flat_map(|pixel| [pixel.0[0]; 3]).collect(),
        DynamicImage::ImageRgba8(image) => {
            image.pixels().flat_map(|pixel| [pixel.0[0], pixel.0[1], pixel.0[2]]).collect()
        }
        DynamicImage::ImageLuma16(image) => image.pixels().flat_map(|pixel| [upper(pixel.0[0]); 3]).collect(),
        DynamicImage::ImageLumaA16(image) => image.pixels().flat_map(|pixel| [upper(pixel.0[0]); 3]).collect(),
        DynamicImage::ImageRgb16(image) => image.into_raw().into_iter().map(upper).collect(),
        DynamicImage::ImageRgba16(image) => {
            image.pixels().flat_map(|pixel| [pixel.0[0], pixel.0[1], pixel.0[2]].map(upper)).collect()
        }
        other => other.into_rgb8().into_raw(),
    }
}
