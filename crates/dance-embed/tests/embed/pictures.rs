//! Pixels against Pillow's.

use dance_embed::picture::{Filter, Picture, decode, prepare, resize};
use dance_embed::settings::PictureSettings;

use crate::expected::arrays;
use crate::file;

fn largest_difference(one: &[u8], other: &[u8]) -> u8 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0)
}

#[test]
fn resizing_is_pillows_to_the_bit() {
    let all = arrays("resize/");
    let (_, picture) = all.iter().find(|(name, _)| name == "picture").unwrap();
    let picture = Picture { height: picture.shape[0], width: picture.shape[1], pixels: picture.bytes().to_vec() };
    let mut seen = 0;
    for (name, expected) in all.iter().filter(|(name, _)| name != "picture") {
        let (filter, size) = name.split_once('/').unwrap();
        let (width, height) = size.split_once('x').unwrap();
        let filter = match filter {
            "box" => Filter::Box,
            "bilinear" => Filter::Bilinear,
            "hamming" => Filter::Hamming,
            "bicubic" => Filter::Bicubic,
            _ => Filter::Lanczos,
        };
        let found = resize(&picture, width.parse().unwrap(), height.parse().unwrap(), filter);
        assert_eq!(found.pixels, expected.bytes(), "{name}");
        seen += 1;
    }
    assert_eq!(seen, 25);
}

/// Pictures of every kind, to the bit.
#[test]
fn pictures_are_decoded_as_pillow_does() {
    for (name, expected) in arrays("decoded/") {
        let found = decode(&std::fs::read(file("pictures").join(&name)).unwrap()).unwrap();
        assert_eq!([found.height, found.width], expected.shape[..2], "{name}");
        assert_eq!(largest_difference(&found.pixels, expected.bytes()), 0, "{name}");
    }
}

/// From the file to what the encoder gets, in units of 1/255.
#[test]
fn prepared_pictures_are_those_of_transformers() {
    let settings = PictureSettings::read(&file("clip/preprocessor_config.json")).unwrap();
    for (name, expected) in arrays("pixels/") {
        let picture = decode(&std::fs::read(file("pictures").join(&name)).unwrap()).unwrap();
        let found = prepare(&picture, &settings);
        let expected = expected.floats();
        assert_eq!(found.len(), expected.len(), "{name}");
        let places = found.len() / 3;
        for (place, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let steps = (found - expected).abs() * settings.deviation[place / places] * 255.0;
            assert!(steps <= 0.001, "{name}: {steps} at {place}");
        }
    }
}

#[test]
fn files_that_are_no_pictures_say_why() {
    let png = std::fs::read(file("pictures/rgb.png")).unwrap();
    let refused = |bytes: &[u8], part: &str| {
        let problem = decode(bytes).unwrap_err();
        assert!(problem.contains(part) && !problem.contains('\n'), "{problem}");
    };
    refused(b"", "0 bytes");
    refused(b"hello, world", "no picture");
    refused(&png[..png.len() / 2], "ends too early");
    for name in ["plain.jpg", "rgb.tif", "lossless.webp", "palette.gif", "rgb.bmp"] {
        let bytes = std::fs::read(file("pictures").join(name)).unwrap();
        assert!(decode(&bytes[..bytes.len() / 3]).is_err(), "{name}");
    }
    // A header that claims 60,000 × 60,000 pixels, with its checksum right.
    let mut bomb = png.clone();
    bomb[16..24].copy_from_slice(&[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]);
    let sum = crc32(&bomb[12..29]).to_be_bytes();
    bomb[29..33].copy_from_slice(&sum);
    refused(&bomb, "60000 × 60000 pixels");
}

/// As PNG defines it.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| if sum & 1 == 1 { 0xedb8_8320 ^ (sum >> 1) } else { sum >> 1 })
    })
}
