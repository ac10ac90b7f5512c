//! Decoding of numbers in the types of `NumPy` and safetensors files to `f32`, `f64` and `i64`.
//!
//! Bytes are read in pieces, so that reading takes only the memory of the result. The result is allocated in one step,
//! so callers first check the number of elements against the size of the file.

use std::io::{self, Read};

use half::{bf16, f16};

/// A type in which files store numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    F16,
    Bf16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Bool,
}

impl Scalar {
    /// Returns the number of bytes of a number of this type.
    pub(super) fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 | Self::Bool => 1,
            Self::F16 | Self::Bf16 | Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }

    /// Returns whether the type is a float.
    pub(super) fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }
}

/// The byte order of numbers: the least significant byte first (little) or last (big).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endian {
    Little,
    Big,
}

/// Decodes `$bytes` as numbers of the type `$type` in the byte order `$endian`. Converts each number by `$convert` and
/// appends it to `$out`.
macro_rules! decode {
    ($bytes:expr, $endian:expr, $type:ty, $out:expr, $convert:expr) => {{
        let (numbers, _) = $bytes.as_chunks::<{ size_of::<$type>() }>();
        match $endian {
            Endian::Little => $out.extend(numbers.iter().map(|&n| $convert(<$type>::from_le_bytes(n)))),
            Endian::Big => $out.extend(numbers.iter().map(|&n| $convert(<$type>::from_be_bytes(n)))),
        }
    }};
}

/// Reads `count` numbers of the type `scalar` as `f32`. A 64-bit float beyond the range of `f32` becomes infinite, and
/// the check of the table later refuses it.
pub(super) fn read_floats(reader: impl Read, scalar: Scalar, endian: Endian, count: usize) -> io::Result<Vec<f32>> {
    let mut out: Vec<f32> = Vec::with_capacity(count);
    in_pieces(reader, count, scalar.size(), |bytes| match scalar {
        Scalar::F16 => decode!(bytes, endian, f16, out, f16::to_f32),
        Scalar::Bf16 => decode!(bytes, endian, bf16, out, bf16::to_f32),
        Scalar::F32 => decode!(bytes, endian, f32, out, |n| n),
        Scalar::F64 => decode!(bytes, endian, f64, out, |n| n as f32),
        Scalar::I8 => decode!(bytes, endian, i8, out, f32::from),
        Scalar::I16 => decode!(bytes, endian, i16, out, f32::from),
        Scalar::I32 => decode!(bytes, endian, i32, out, |n| n as f32),
        Scalar::I64 => decode!(bytes, endian, i64, out, |n| n as f32),
        Scalar::U8 => decode!(bytes, endian, u8, out, f32::from),
        Scalar::U16 => decode!(bytes, endian, u16, out, f32::from),
        Scalar::U32 => decode!(bytes, endian, u32, out, |n| n as f32),
        Scalar::U64 => decode!(bytes, endian, u64, out, |n| n as f32),
        Scalar::Bool => out.extend(bytes.iter().map(|&byte| f32::from(u8::from(byte != 0)))),
    })?;
    Ok(out)
}

/// Reads `count` floats of the type `scalar` as `f64`. Callers exclude integer types, for which the list is empty.
pub(super) fn read_doubles(reader: impl Read, scalar: Scalar, endian: Endian, count: usize) -> io::Result<Vec<f64>> {
    let mut out: Vec<f64> = Vec::with_capacity(count);
    in_pieces(reader, count, scalar.size(), |bytes| match scalar {
        Scalar::F16 => decode!(bytes, endian, f16, out, f16::to_f64),
        Scalar::Bf16 => decode!(bytes, endian, bf16, out, bf16::to_f64),
        Scalar::F32 => decode!(bytes, endian, f32, out, f64::from),
        Scalar::F64 => decode!(bytes, endian, f64, out, |n| n),
        _ => {}
    })?;
    Ok(out)
}

/// Integers as `i64`; the error holds the index and the value of the first integer that is too large for `i64`.
pub(super) type Integers = Result<Vec<i64>, (usize, u64)>;

/// Reads `count` integers of the type `scalar`. Callers exclude float types, for which the list is empty.
pub(super) fn read_integers(reader: impl Read, scalar: Scalar, endian: Endian, count: usize) -> io::Result<Integers> {
    let mut out: Vec<i64> = Vec::with_capacity(count);
    in_pieces(reader, count, scalar.size(), |bytes| match scalar {
        Scalar::I8 => decode!(bytes, endian, i8, out, i64::from),
        Scalar::I16 => decode!(bytes, endian, i16, out, i64::from),
        Scalar::I32 => decode!(bytes, endian, i32, out, i64::from),
        Scalar::I64 => decode!(bytes, endian, i64, out, |n| n),
        Scalar::U8 => decode!(bytes, endian, u8, out, i64::from),
        Scalar::U16 => decode!(bytes, endian, u16, out, i64::from),
        Scalar::U32 => decode!(bytes, endian, u32, out, i64::from),
        Scalar::U64 => decode!(bytes, endian, i64, out, |n| n),
        Scalar::Bool => out.extend(bytes.iter().map(|&byte| i64::from(byte != 0))),
        Scalar::F16 | Scalar::Bf16 | Scalar::F32 | Scalar::F64 => {}
    })?;
    // A uint64 beyond the range of i64 is negative now.
    match out.iter().position(|&value| value < 0) {
        Some(row) if scalar == Scalar::U64 => Ok(Err((row, out[row] as u64))),
        _ => Ok(Ok(out)),
    }
}

/// Reads `count` elements of `size` bytes each, and passes their bytes to `take` in pieces of whole elements.
pub(super) fn in_pieces(
    mut reader: impl Read,
    count: usize,
    size: usize,
    mut take: impl FnMut(&[u8]),
) -> io::Result<()> {
    const PIECE: usize = 1 << 16;
    let at_once = (PIECE / size.max(1)).max(1);
    let mut buffer = vec![0; at_once.min(count) * size];
    let mut left = count;
    while left > 0 {
        let now = left.min(at_once);
        let Some(piece) = buffer.get_mut(..now * size) else { break };
        reader.read_exact(piece)?;
        take(piece);
        left -= now;
    }
    Ok(())
}
