//! The header of an `.npy` array: magic bytes, version, and a Python dict literal such as
//! `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }`.
//!
//! The grammar that `NumPy` writes is so small that this parser is shorter than the calls to a general one. On hostile
//! input it cannot recurse, overflow or allocate without limit, and its messages have advice for each dtype. (The
//! `npyz` crate parses any Python literal by recursion, and multiplies the shape without a check.)

use std::io::{ErrorKind, Read};

use super::scalar::{Endian, Scalar};

/// The header of an `.npy` array: the type of its elements, its order and its shape.
#[derive(Debug)]
pub(super) struct NpyHeader {
    pub(super) element: Element,
    pub(super) fortran: bool,
    pub(super) shape: Vec<u64>,
    /// The number of bytes of magic bytes, version and dict together.
    pub(super) length: u64,
}

/// The type of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    Number(Scalar, Endian),
    /// Strings (dtype `U`) that take this number of UCS-4 characters each, padded with NUL.
    Unicode(usize, Endian),
    /// Strings (dtype `S`) that take this number of bytes each, padded with NUL.
    Bytes(usize),
}

impl Element {
    /// Returns the number of bytes of an element.
    pub(super) fn size(self) -> usize {
        match self {
            Self::Number(scalar, _) => scalar.size(),
            Self::Unicode(characters, _) => characters.saturating_mul(4),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// The first bytes of every `.npy` file.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// The largest length of a header in bytes. The header of a plain array has about a hundred bytes, and `NumPy` refuses
/// more than 10 000.
const LONGEST: usize = 1 << 16;

/// Reads the header. The error is a message that the caller puts after the name of the array.
pub(super) fn read_header(reader: &mut impl Read) -> Result<NpyHeader, String> {
    let mut start = [0; 8];
    fill(reader, &mut start)?;
    let [.., major, _minor] = start;
    if !start.starts_with(MAGIC) {
        return Err("does not begin as an .npy array does".into());
    }
    // The length of the dict, in two or four bytes.
    let (length, prefix) = match major {
        1 => {
            let mut bytes = [0; 2];
            fill(reader, &mut bytes)?;
            (u16::from_le_bytes(bytes) as usize, 2)
        }
        2 | 3 => {
            let mut bytes = [0; 4];
            fill(reader, &mut bytes)?;
            (u32::from_le_bytes(bytes) as usize, 4)
        }
        _ => return Err(format!("has .npy version {major}, which is unknown; versions 1 to 3 can be read")),
    };
    if length > LONGEST {
        return Err(format!("has a header of {length} bytes, too long for an array of numbers or strings"));
    }
    let mut text = vec![0; length];
    fill(reader, &mut text)?;
    let (descr, fortran, shape) = DictParser { text: &text, at: 0 }.dict()?;
    let element = element(&descr)?;
    Ok(NpyHeader { element, fortran, shape, length: (start.len() + prefix + length) as u64 })
}

fn fill(reader: &mut impl Read, bytes: &mut [u8]) -> Result<(), String> {
    reader.read_exact(bytes).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => "ends within its header; the file is truncated".to_owned(),
        _ => format!("cannot be read: {error}"),
    })
}

/// Parses a dtype such as `<f4`. The error says how the user can save the array instead.
fn element(descr: &str) -> Result<Element, String> {
    let unknown = || format!("has dtype `{descr}`, which cannot be read; save arr.astype('float32')");
    let endian = match descr.as_bytes().first() {
        Some(b'>') => Endian::Big,
        Some(b'<' | b'|' | b'=') => Endian::Little,
        _ => return Err(unknown()),
    };
    let kind = descr.get(1..2).ok_or_else(unknown)?;
    let number = descr.get(2..).unwrap_or_default();
    // Types that need specific advice.
    if kind == "O" {
        return Err("holds Python objects (dtype object, a pickle), which are never loaded; save numbers with \
                    arr.astype('float32') (a ragged list must be made rectangular first) and strings with \
                    arr.astype('U')"
            .into());
    }
    if kind == "c" {
        return Err("holds complex numbers; save arr.real.astype('float32') or arr.view('float32')".into());
    }
    if kind == "V" {
        return Err(format!(
            "has dtype `{descr}`, raw bytes (what `NumPy` makes of bfloat16); save arr.astype('float32')"
        ));
    }
    // Numbers and strings.
    let size: usize = number.parse().map_err(|_| unknown())?;
    let scalar = match (kind, size) {
        ("U", _) => return Ok(Element::Unicode(size, endian)),
        ("S" | "a", _) => return Ok(Element::Bytes(size)),
        ("f", 2) => Scalar::F16,
        ("f", 4) => Scalar::F32,
        ("f", 8) => Scalar::F64,
        ("i", 1) => Scalar::I8,
        ("i", 2) => Scalar::I16,
        ("i", 4) => Scalar::I32,
        ("i", 8) => Scalar::I64,
        ("u", 1) => Scalar::U8,
        ("u", 2) => Scalar::U16,
        ("u", 4) => Scalar::U32,
        ("u", 8) => Scalar::U64,
        ("b", 1) => Scalar::Bool,
        _ => return Err(unknown()),
    };
    Ok(Element::Number(scalar, endian))
}

/// A parser of the header's dict. `at` is the index of the next byte of `text`.
struct DictParser<'a> {
    text: &'a [u8],
    at: usize,
}

impl DictParser<'_> {
    /// Parses the dict. Returns the dtype, true for Fortran order (column by column), and the shape.
    fn dict(mut self) -> Result<(String, bool, Vec<u64>), String> {
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        self.expect(b'{')?;
        while !self.eat(b'}') {
            let key = self.string()?;
            self.expect(b':')?;
            match key.as_str() {
                "descr" if self.peek() == Some(b'[') => {
                    return Err("is a structured array (records with fields); save its fields as arrays of their \
                                own, the numbers as a 2-d array"
                        .into());
                }
                "descr" => descr = Some(self.string()?),
                "fortran_order" => fortran = Some(self.boolean()?),
                "shape" => shape = Some(self.tuple()?),
                _ => return Err(self.garbled()),
            }
            if !self.eat(b',') {
                self.expect(b'}')?;
                break;
            }
        }
        match (descr, fortran, shape) {
            (Some(descr), Some(fortran), Some(shape)) => Ok((descr, fortran, shape)),
            _ => Err("has a header without descr, fortran_order or shape; the file is damaged".into()),
        }
    }

    /// Skips spaces and returns the next byte.
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    /// Skips the next byte after spaces if it is `byte`, and returns whether it was.
    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        if self.eat(byte) { Ok(()) } else { Err(self.garbled()) }
    }

    fn garbled(&self) -> String {
        format!("has a header that makes no sense at byte {}; the file is damaged", self.at)
    }

    /// Skips and returns the next bytes for which `wanted` is true.
    fn run(&mut self, wanted: impl Fn(u8) -> bool) -> &str {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let run = rest.iter().position(|&byte| !wanted(byte)).map_or(rest, |end| &rest[..end]);
        self.at += run.len();
        std::str::from_utf8(run).unwrap_or_default()
    }

    fn string(&mut self) -> Result<String, String> {
        let Some(quote @ (b'\'' | b'"')) = self.peek() else { return Err(self.garbled()) };
        self.at += 1;
        let text = self.run(|byte| byte != quote && byte.is_ascii_graphic()).to_owned();
        self.expect(quote)?;
        Ok(text)
    }

    fn boolean(&mut self) -> Result<bool, String> {
        self.peek();
        match self.run(|byte| byte.is_ascii_alphabetic()) {
            "True" => Ok(true),
            "False" => Ok(false),
            _ => Err(self.garbled()),
        }
    }

    fn tuple(&mut self) -> Result<Vec<u64>, String> {
        let mut sizes = Vec::new();
        self.expect(b'(')?;
        while !self.eat(b')') {
            self.peek();
            let size = self.run(|byte| byte.is_ascii_digit()).parse().map_err(|_| self.garbled())?;
            sizes.push(size);
            self.eat(b'L'); // the suffix of long integers in Python 2
            if !self.eat(b',') {
                self.expect(b')')?;
                break;
            }
        }
        Ok(sizes)
    }
}
