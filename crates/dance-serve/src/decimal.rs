//! Arrays of JSON numbers, parsed in one pass to the same `f32` that `serde_json` gives.
//!
//! `serde_json` rounds to the nearest `f64`, and a cast rounds that to the nearest `f32`. A number is
//! `mantissa · 10^exponent`:
//!
//! - Where both factors are exact in f64, one multiplication or division rounds correctly.
//! - A mantissa from 2^53 to 2^64 is rounded once before. The `f64` may then be off by a few units in its last place.
//!   The `f32` is the same unless the `f64` lies that close to the middle between two `f32`.
//! - The few numbers that do, and those with more digits or other exponents, are parsed by the standard library.
//!
//! Cost: about a quarter of the time of `serde_json`.

/// The powers of ten that f64 holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];
/// The factors by which a number grows when so many digits are appended.
const WHOLE_POWERS: [u64; 17] = {
    let mut powers = [1; 17];
    let mut place = 1;
    while place < powers.len() {
        powers[place] = 10 * powers[place - 1];
        place += 1;
    }
    powers
};
/// The most decimal digits that always fit into a `u64`.
const MOST_DIGITS: usize = 19;
/// The bound of exponents; beyond it every number of a request is 0 or too large, whatever its digits.
const MOST_EXPONENT: i64 = 1 << 40;

/// Parses the array that `text` begins with and returns its length in bytes. The result is `None` for more than
/// `most` numbers, for numbers beyond f64 and for any other value; `serde_json` then reports the problem.
pub(crate) fn array(text: &[u8], most: usize, values: &mut Vec<f32>) -> Option<usize> {
    let mut cursor = Cursor { text, at: 0 };
    cursor.take(b'[')?;
    cursor.skip_space();
    if cursor.take(b']').is_some() {
        return Some(cursor.at);
    }
    for _ in 0..most {
        cursor.skip_space();
        values.push(cursor.number()?);
        cursor.skip_space();
        if cursor.take(b',').is_none() {
            return cursor.take(b']').map(|()| cursor.at);
        }
    }
    None
}

struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    /// Returns the next byte; 0, which JSON does not contain, at the end.
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek() == byte).then(|| self.at += 1)
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    fn number(&mut self) -> Option<f32> {
        // A processor cannot predict signs and lengths, so there is no branch on either.
        let negative = self.peek() == b'-';
        self.at += usize::from(negative);
        let begin = self.at;
        let mut mantissa = self.digits(0);
        let mut count = self.at - begin;
        if count == 0 || (count > 1 && self.text[begin] == b'0') {
            return None;
        }
        let mut exponent = 0;
        if self.take(b'.').is_some() {
            let point = self.at;
            mantissa = self.many_digits(mantissa);
            if self.at == point {
                return None;
            }
            count += self.at - point;
            exponent = -((self.at - point) as i64);
        }
        let fits = count <= MOST_DIGITS || significant(&self.text[begin..self.at]) <= MOST_DIGITS;
        if matches!(self.peek(), b'e' | b'E') {
            exponent += self.exponent()?;
        }
        let quick = if fits { nearest(mantissa, exponent) } else { None };
        let value = quick.or_else(|| parse(&self.text[begin..self.at]))?;
        Some(f32::from_bits(value.to_bits() | (u32::from(negative) << 31)))
    }

    /// Appends digits to a number, one by one. The number wraps where there are too many.
    fn digits(&mut self, mut number: u64) -> u64 {
        while let digit @ 0..10 = self.peek().wrapping_sub(b'0') {
            number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
            self.at += 1;
        }
        number
    }

    /// Appends digits to a number, sixteen at a time.
    fn many_digits(&mut self, mut number: u64) -> u64 {
        while let Some(text) = self.text[self.at..].first_chunk() {
            let text = u128::from_le_bytes(*text);
            let (first, second) = (text as u64, (text >> 64) as u64);
            let (begin, rest) = (leading_digits(first), leading_digits(second));
            let rest = if begin == 8 { rest } else { 0 };
            let digits = join(first, begin) * WHOLE_POWERS[rest] + join(second, rest);
            number = number.wrapping_mul(WHOLE_POWERS[begin + rest]).wrapping_add(digits);
            self.at += begin + rest;
            if begin + rest < 16 {
                return number;
            }
        }
        self.digits(number)
    }

    fn exponent(&mut self) -> Option<i64> {
        self.at += 1;
        let negative = self.take(b'-').is_some();
        if !negative {
            let _ = self.take(b'+');
        }
        let (begin, mut exponent) = (self.at, 0i64);
        while let digit @ 0..10 = self.peek().wrapping_sub(b'0') {
            exponent = (exponent * 10 + i64::from(digit)).min(MOST_EXPONENT);
            self.at += 1;
        }
        (self.at > begin).then_some(if negative { -exponent } else { exponent })
    }
}

/// Returns the number of digits before the first other byte, among eight bytes in little-endian order.
fn leading_digits(text: u64) -> usize {
    // A byte below '0' borrows into its highest bit, one above '9' carries into it. Bits after the first such byte
    // may be wrong.
    let [below, above] = [text.wrapping_sub(0x3030_3030_3030_3030), text.wrapping_add(0x4646_4646_4646_4646)];
    ((below | above) & 0x8080_8080_8080_8080).trailing_zeros() as usize / 8
}

/// Returns the number that the first `count` of eight bytes, all of them digits, stand for.
fn join(text: u64, count: usize) -> u64 {
    // Leading zeros make eight digits. Then digits are joined to pairs, pairs to fours, and fours to all eight.
    let digits = (text & 0x0f0f_0f0f_0f0f_0f0f).checked_shl(64 - 8 * count as u32).unwrap_or(0);
    let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    (fours * 10_000 + (fours >> 32)) & 0xffff_ffff
}

/// Returns the number of digits from the first that is not 0.
fn significant(text: &[u8]) -> usize {
    let digits = text.iter().filter(|byte| **byte != b'.');
    digits.skip_while(|digit| **digit == b'0').count()
}

/// Returns `mantissa · 10^exponent` by way of the nearest f64, where the result is certain (see the [module](self)).
fn nearest(mantissa: u64, exponent: i64) -> Option<f32> {
    let power = *POWERS.get(exponent.unsigned_abs() as usize)?;
    let value = if exponent < 0 { mantissa as f64 / power } else { mantissa as f64 * power };
    // There are 2^29 f64 between two f32. The value of two roundings is at most 3 of them away from the correct one.
    let from_middle = (value.to_bits() % (1 << 29)).abs_diff(1 << 28);
    (mantissa < 1 << 53 || from_middle > 8).then_some(value as f32)
}

/// Parses any JSON number within the range of f64.
fn parse(text: &[u8]) -> Option<f32> {
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    value.is_finite().then_some(value as f32)
}

#[cfg(test)]
mod tests;
