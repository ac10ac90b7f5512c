//! Checks of the schema and the page headers of an untrusted Parquet file before they are decoded. The decoder reads
//! the schema by recursion and allocates as many children as a node states. A crafted file of a few kilobytes could
//! overflow the stack or allocate gigabytes, and neither can be caught.
//!
//! The footer is a Thrift struct in the compact protocol. Its field 2 is the schema, a list of nodes in depth-first
//! order. Field 5 of a node is its number of children. All other fields are skipped.

/// The largest depth of a schema: deeper than real tables, and safe for the decoder.
const DEEPEST: usize = 64;

/// Returns whether the schema in a footer is a tree that the decoder can read.
pub(super) fn schema_is_valid(footer: &[u8]) -> bool {
    ThriftReader { rest: footer }.schema().is_some()
}

/// Returns the uncompressed and the compressed size that a page header states in its fields 2 and 3; `None` unless the
/// bytes start with a page header. If a field is repeated, the more suspicious value counts: the larger uncompressed
/// size, the smaller compressed size.
pub(super) fn page_sizes(header: &[u8]) -> Option<(u64, u64)> {
    let mut reader = ThriftReader { rest: header };
    let (mut id, mut unpacked, mut packed): (i64, Option<u64>, Option<u64>) = (0, None, None);
    loop {
        match (reader.field(&mut id)?, id) {
            (STOP, _) => return Some((unpacked?, packed?)),
            (I32, 2) => unpacked = unpacked.max(Some(reader.varint()? >> 1)), // zigzag
            (I32, 3) => {
                let size = reader.varint()? >> 1;
                packed = Some(packed.map_or(size, |other| other.min(size)));
            }
            (_, 2 | 3) => return None,
            (kind, _) => reader.skip(kind, 0)?,
        }
    }
}

const STOP: u8 = 0;
const BYTE: u8 = 3;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;

/// A reader of Thrift structs. Its methods return `None` if the bytes end or are invalid.
struct ThriftReader<'a> {
    rest: &'a [u8],
}

impl ThriftReader<'_> {
    /// Checks the [schema](self) of a footer. Reads all fields of the footer, since a second schema would replace the
    /// first.
    fn schema(&mut self) -> Option<()> {
        let (mut id, mut found) = (0, None);
        loop {
            match (self.field(&mut id)?, id) {
                (STOP, _) => return found,
                (LIST, 2) => found = Some(self.nodes()?),
                (_, 2) => return None,
                (kind, _) => self.skip(kind, 0)?,
            }
        }
    }

    /// Checks that the nodes of the schema, in depth-first order, form a tree no deeper than [`DEEPEST`].
    fn nodes(&mut self) -> Option<()> {
        let (count, kind) = self.list()?;
        // For every level, the number of children that have not been read.
        let mut open: Vec<u64> = Vec::new();
        for left in (0..count).rev() {
            if kind != STRUCT {
                return None;
            }
            let children = self.children()?;
            if children > left {
                return None;
            }
            while open.last() == Some(&0) {
                open.pop();
            }
            if let Some(siblings) = open.last_mut() {
                *siblings -= 1;
            }
            open.push(children);
            if open.len() > DEEPEST {
                return None;
            }
        }
        Some(())
    }

    /// Reads a node of the schema and returns its number of children.
    fn children(&mut self) -> Option<u64> {
        let (mut id, mut children) = (0, 0);
        loop {
            match (self.field(&mut id)?, id) {
                (STOP, _) => return Some(children),
                (I32, 5) => children = self.varint()? >> 1, // zigzag; the decoder refuses negative numbers
                (_, 5) => return None,
                (kind, _) => self.skip(kind, 0)?,
            }
        }
    }

    /// Returns the type of the next field and sets `id` to the field's number. At the end of the struct it returns
    /// `STOP`.
    fn field(&mut self, id: &mut i64) -> Option<u8> {
        let byte = self.byte()?;
        if byte == STOP {
            return Some(STOP);
        }
        *id = match byte >> 4 {
            0 => {
                let zigzag = self.varint()?;
                (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)
            }
            step => id.checked_add(i64::from(step))?,
        };
        Some(byte & 0x0f).filter(|&kind| kind != STOP)
    }

    /// Returns the length of a list and the type of its elements.
    fn list(&mut self) -> Option<(u64, u8)> {
        let byte = self.byte()?;
        let count = match byte >> 4 {
            15 => self.varint()?,
            count => u64::from(count),
        };
        // An element has at least one byte, so no list is longer than the rest of the bytes.
        (count <= self.rest.len() as u64).then_some((count, byte & 0x0f))
    }

    /// Skips a value of the type `kind`, which lies `depth` lists or structs deep. Returns `None` beyond the depth
    /// [`DEEPEST`].
    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        if depth > DEEPEST {
            return None;
        }
        match kind {
            1 | 2 => Some(()), // the type holds the value of a boolean
            BYTE => self.byte().map(|_| ()),
            4..=I64 => self.varint().map(|_| ()),
            DOUBLE => self.bytes(8),
            BINARY => {
                let length = self.varint()?;
                self.bytes(length)
            }
            LIST | SET => {
                let (count, kind) = self.list()?;
                (0..count).try_for_each(|_| self.skip(if kind < BYTE { BYTE } else { kind }, depth + 1))
            }
            STRUCT => {
                let mut id = 0;
                loop {
                    match self.field(&mut id)? {
                        STOP => return Some(()),
                        kind => self.skip(kind, depth + 1)?,
                    }
                }
            }
            _ => None, // no type, or a map, which footers do not have
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    fn bytes(&mut self, count: u64) -> Option<()> {
        self.rest = self.rest.get(usize::try_from(count).ok()?..)?;
        Some(())
    }

    fn varint(&mut self) -> Option<u64> {
        varint(&mut self.rest)
    }
}

/// Reads a varint, which has seven bits of a number in each byte, and moves `data` behind it. Returns `None` if the
/// bytes end or the number is too long.
pub(super) fn varint(data: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..70).step_by(7) {
        let (&byte, rest) = data.split_first()?;
        *data = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_sizes_are_found_in_every_form() {
        // Type 0, 300 unpacked, 40 packed (zigzag varints), then a struct with the number of values, then the end.
        let short = [0x15, 0, 0x15, 0xd8, 4, 0x15, 80, 0x2c, 0x15, 2, 0, 0];
        assert_eq!(page_sizes(&short), Some((300, 40)));
        // The field numbers are written out.
        let long = [0x05, 2, 0, 0x05, 4, 0xd8, 4, 0x05, 6, 80, 0];
        assert_eq!(page_sizes(&long), Some((300, 40)));
        // If a field is repeated, the worse value counts.
        let twice = [0x15, 0, 0x15, 0xd8, 4, 0x15, 80, 0x05, 4, 0x80, 0x89, 0x7a, 0x05, 6, 2, 0];
        assert_eq!(page_sizes(&twice), Some((1_000_000, 1)));
        assert_eq!(page_sizes(&short[..5]), None);
        assert_eq!(page_sizes(b"PAR1PAR1"), None);
    }
}
