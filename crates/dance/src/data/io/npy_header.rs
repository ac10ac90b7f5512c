//! The header of an `.npy` array: magic bytes, version, and a Python dict literal such as
//! `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }`.
//!
//! The grammar that `NumPy` writes is so small that a hand-written parser is shorter than the calls to a general one, and
//! it cannot recurse, overflow or allocate on hostile input; its messages can say what to do with each dtype.
//! (The `npyz` crate parses any Python literal by recursion, and multiplies the shape without a check.)

use std::io::{ErrorKind, Read};

use super::scalar::{Endian, Scalar};

/// What the header says about the array that follows it.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) element: Element,
    pub(super) fortran: bool,
    pub(super) shape: Vec<u64>,
    /// Bytes that magic, version and dict took.
    pub(super) length: u64,
}

/// What one element of the array is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    Number(Scalar, Endian),
    /// `U`: a fixed number of UCS-4 characters, padded with NUL.
    Unicode(usize, Endian),
    /// `S`: a fixed number of bytes, padded with NUL.
    Bytes(usize),
}

impl Element {
    /// Bytes an element takes.
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

/// A header of one array with one dtype is a hundred bytes or so; `NumPy` itself refuses to parse more than 10 000.
const LONGEST: usize = 1 << 16;

/// Reads the header. The error is a sentence about the array, without its name.
pub(super) fn read_header(reader: &mut impl Read) -> Result<Header, String> {
    let mut start = [0; 8];
    fill(reader, &mut start)?;
    let [.., major, _minor] = start;
    if !start.starts_with(MAGIC) {
        return Err("does not begin as an .npy array does".into());
    }
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
        _ => return Err(format!("has .npy version {major}, which is not known; versions 1 to 3 are")),
    };
    if length > LONGEST {
        return Err(format!("has a header of {length} bytes, too long for an array of numbers or strings"));
    }
    let mut text = vec![0; length];
    fill(reader, &mut text)?;
    let (descr, fortran, shape) = Cursor { text: &text, at: 0 }.dict()?;
    let element = element(&descr)?;
    Ok(Header { element, fortran, shape, length: (start.len() + prefix + length) as u64 })
}

fn fill(reader: &mut impl Read, bytes: &mut [u8]) -> Result<(), String> {
    reader.read_exact(bytes).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => "ends within its header; the file is truncated".to_owned(),
        _ => format!("cannot be read: {error}"),
    })
}

/// Understands a dtype such as `<f4`, or says how to save the array otherwise.
fn element(descr: &str) -> Result<Element, String> {
    let unknown = || format!("has dtype `{descr}`, which cannot be read; save arr.astype('float32')");
    let endian = match descr.as_bytes().first() {
        Some(b'>') => Endian::Big,
        Some(b'<' | b'|' | b'=') => Endian::Little,
        _ => return Err(unknown()),
    };
    let kind = descr.get(1..2).ok_or_else(unknown)?;
    let number = descr.get(2..).unwrap_or_default();
    if kind == "O" {
        return Err(
            "holds Python objects (dtype object, a pickle), which are never loaded; save numbers with \
                    arr.astype('float32') (a ragged list must be made rectangular first) and strings with \
                    arr.astype('U')"
                .into(),
        );
    }
    if kind == "c" {
        return Err("holds complex numbers; save arr.real.astype('float32') or arr.view('float32')".into());
    }
    if kind == "V" {
        return Err(format!(
            "has dtype `{descr}`, raw bytes (what `NumPy` makes of bfloat16); save arr.astype('float32')"
        ));
    }
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

/// A place in the text of the dict.
struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn dict(mut self) -> Result<(String, bool, Vec<u64>), String> {
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        self.expect(b'{')?;
        while !self.eat(b'}') {
            let key = self.string()?;
            self.expect(b':')?;
            match key.as_str() {
                "descr" if self.peek() == Some(b'[') => {
                    return Err(
                        "is a structured array (records with fields); save its fields as arrays of their \
                                own, the numbers as a 2-d array"
                            .into(),
                    );
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

    /// The next byte that is not a space.
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

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

    /// Bytes from here on as long as `wanted`.
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
            self.eat(b'L'); // Python 2 wrote long integers so.
            if !self.eat(b',') {
                self.expect(b')')?;
                break;
            }
        }
        Ok(sizes)
    }
}
