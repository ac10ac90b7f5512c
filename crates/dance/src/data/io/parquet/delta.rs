//! Checks of delta-encoded strings before they are decoded. The decoder allocates memory for as many string lengths as
//! a header in the page states.
//!
//! A run of deltas starts with four varints: the size of a block, the number of miniblocks in a block, the number of
//! values and the first value. Every block then has a varint, the widths of its miniblocks (a byte each) and the bits
//! of its miniblocks. A page with the encoding `DELTA_LENGTH_BYTE_ARRAY` has one run, of string lengths, before the
//! bytes of the strings. With `DELTA_BYTE_ARRAY` it has a run of prefix lengths and a run of suffix lengths.

use parquet::basic::Encoding;
use parquet::column::page::Page;

use crate::data::io::parquet::footer::varint;

/// Returns whether each [run](self) in a page states at most as many values as the page has. `levels` holds the largest
/// repetition level and the largest definition level of the column.
pub(super) fn counts_are_valid(page: &Page, levels: [i16; 2]) -> bool {
    let (encoding, values) = match page {
        Page::DataPage { encoding, num_values, .. } | Page::DataPageV2 { encoding, num_values, .. } => {
            (*encoding, u64::from(*num_values))
        }
        Page::DictionaryPage { .. } => return true,
    };
    let runs = match encoding {
        Encoding::DELTA_BINARY_PACKED | Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
        Encoding::DELTA_BYTE_ARRAY => 2,
        _ => return true,
    };
    data_of(page, levels).and_then(|data| check_runs(data, runs, values)).is_some()
}

/// Returns the bytes of a page after its levels. `levels` holds the largest repetition level and the largest definition
/// level of the column.
fn data_of(page: &Page, levels: [i16; 2]) -> Option<&[u8]> {
    match page {
        Page::DataPage { buf, rep_level_encoding, def_level_encoding, .. } => {
            let mut data = &buf[..];
            for (level, encoding) in levels.into_iter().zip([rep_level_encoding, def_level_encoding]) {
                if level == 0 {
                    continue;
                }
                // RLE levels have their length in front. The older encoding of levels never occurs with deltas.
                if *encoding != Encoding::RLE {
                    return None;
                }
                let (length, rest) = data.split_first_chunk::<4>()?;
                data = rest.get(u32::from_le_bytes(*length) as usize..)?;
            }
            Some(data)
        }
        Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, .. } => {
            buf.get((*def_levels_byte_len as usize).checked_add(*rep_levels_byte_len as usize)?..)
        }
        Page::DictionaryPage { .. } => None,
    }
}

/// Checks the first `runs` [runs](self) of deltas in `data`. Returns `None` if one is invalid or states more than
/// `most` values.
fn check_runs(mut data: &[u8], runs: usize, most: u64) -> Option<()> {
    for run in 0..runs {
        let (block, miniblocks, count) = (varint(&mut data)?, varint(&mut data)?, varint(&mut data)?);
        varint(&mut data)?; // the first value
        // The format requires blocks of a multiple of 128 values, and miniblocks of a multiple of 32.
        if count > most || block == 0 || block > 1 << 20 || miniblocks == 0 || !block.is_multiple_of(miniblocks) {
            return None;
        }
        if run + 1 == runs {
            break; // the bytes of the strings follow
        }
        let per_miniblock = block / miniblocks;
        let mut left = count.saturating_sub(1);
        while left > 0 {
            varint(&mut data)?; // the least delta
            let (widths, rest) = data.split_at_checked(usize::try_from(miniblocks).ok()?)?;
            data = rest;
            for &width in widths {
                if left == 0 {
                    break;
                }
                let bytes = (u64::from(width) * per_miniblock).div_ceil(8);
                data = data.get(usize::try_from(bytes).ok()?..)?;
                left = left.saturating_sub(per_miniblock);
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_checked_against_the_format() {
        // A run with blocks of 128 values in 4 miniblocks, and 3 values, the first 0: one block with widths 1, 0, 0, 0
        // and 32 values of one bit.
        let run = [0x80, 0x01, 4, 3, 0, 2, 1, 0, 0, 0, 0b10, 0, 0, 0];
        let one = [0x80, 0x01, 4, 1, 0];
        let both = [&run[..], &one].concat();
        assert_eq!(check_runs(&both, 2, 3), Some(()));
        assert_eq!(check_runs(&both, 2, 2), None); // the first run claims 3
        let wrong = [&run[..], &[0x80, 0x01, 4, 0xff, 0xff, 0xff, 0x0f, 0]].concat();
        assert_eq!(check_runs(&wrong, 2, 3), None);
        assert_eq!(check_runs(&run[..9], 2, 3), None);
        assert_eq!(check_runs(&[0, 4, 1, 0], 1, 3), None);
    }
}
