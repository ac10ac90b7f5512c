//! A look at delta-encoded strings before the decoder sees them: it allocates as many lengths as their header claims.
//!
//! A block of deltas is: varints for the size of a block, the number of miniblocks in it, the number of values and the first value;
//! then, block by block, a varint, the widths of its miniblocks (a byte each) and their bits. `DELTA_LENGTH_BYTE_ARRAY` has one
//! such run of lengths before its bytes; `DELTA_BYTE_ARRAY` a run of prefix lengths, then the same again for the rest.

use parquet::basic::Encoding;
use parquet::column::page::Page;

use crate::data::io::parquet::footer::varint;

/// Whether the runs of lengths in a page claim no more values than the page does.
pub(super) fn counts_are_sound(page: &Page, levels: [i16; 2]) -> bool {
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
    data_of(page, levels).and_then(|data| sound_runs(data, runs, values)).is_some()
}

/// The bytes behind the levels.
fn data_of(page: &Page, levels: [i16; 2]) -> Option<&[u8]> {
    match page {
        Page::DataPage { buf, rep_level_encoding, def_level_encoding, .. } => {
            let mut data = &buf[..];
            for (level, encoding) in levels.into_iter().zip([rep_level_encoding, def_level_encoding]) {
                if level == 0 {
                    continue;
                }
                // Runs with their length in front; the older way of packing levels is not written with deltas.
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

fn sound_runs(mut data: &[u8], runs: usize, most: u64) -> Option<()> {
    for run in 0..runs {
        let (block, miniblocks, count) = (varint(&mut data)?, varint(&mut data)?, varint(&mut data)?);
        varint(&mut data)?; // the first value
        // The format says: blocks of a multiple of 128 values, miniblocks of a multiple of 32.
        if count > most
            || block == 0
            || block > 1 << 20
            || miniblocks == 0
            || !block.is_multiple_of(miniblocks)
        {
            return None;
        }
        if run + 1 == runs {
            break; // what follows are the bytes themselves
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
    fn runs_are_walked_by_the_format() {
        // Blocks of 128 in 4 miniblocks; 3 values, the first 0: one block with widths 1, 0, 0, 0 and 32 values of one bit.
        let run = [0x80, 0x01, 4, 3, 0, 2, 1, 0, 0, 0, 0b10, 0, 0, 0];
        let one = [0x80, 0x01, 4, 1, 0];
        let both = [&run[..], &one].concat();
        assert_eq!(sound_runs(&both, 2, 3), Some(()));
        assert_eq!(sound_runs(&both, 2, 2), None); // the first run claims 3
        let liar = [&run[..], &[0x80, 0x01, 4, 0xff, 0xff, 0xff, 0x0f, 0]].concat();
        assert_eq!(sound_runs(&liar, 2, 3), None);
        assert_eq!(sound_runs(&run[..9], 2, 3), None);
        assert_eq!(sound_runs(&[0, 4, 1, 0], 1, 3), None);
    }
}
