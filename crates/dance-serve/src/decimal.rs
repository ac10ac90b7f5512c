//! Arrays of numbers in JSON, read in one pass as the `f32` that the general reader makes of them.
//!
//! That one rounds to the nearest `f64` and then to the nearest `f32`. A number is `mantissa · 10^exponent`, and where both factors are
//! exact in f64 one multiplication or division rounds as it should. Mantissas between 2^53 and 2^64 round once before: then the
//! `f64` may be a few units off in its last place, and the `f32` is the same unless it lies that close to the middle between two. The
//! few numbers that do, and those with more digits or other exponents, are left to the standard library.
//!
//! Cost: about a quarter of what the general reader takes.

/// Powers of ten that f64 holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];
/// Powers of ten by which a number grows when digits are appended to it.
const WHOLE_POWERS: [u64; 17] = {
    let mut powers = [1; 17];
    let mut place = 1;
    while place < powers.len() {
        powers[place] = 10 * powers[place - 1];
        place += 1;
    }
    powers
};
/// Digits that every `u64` has room for.
const MOST_DIGITS: usize = 19;
/// Exponents beyond it make any number 0 or too large, whatever its digits within a body.
const MOST_EXPONENT: i64 = 1 << 40;

/// Reads the array that `text` begins with and says how many bytes it takes. `None` where it holds anything but numbers, more than `most`
/// of them, or one that f64 does not hold: what is wrong then is for the general reader to say.
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
    /// The byte that is next; 0, which JSON never has, at the end.
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
        // Signs follow no pattern that a processor could foresee, nor do lengths: there is no branch on either.
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
        let value = quick.or_else(|| any(&self.text[begin..self.at]))?;
        Some(f32::from_bits(value.to_bits() | (u32::from(negative) << 31)))
    }

    /// Appends digits to a number, one by one. It wraps where they are too many.
    fn digits(&mut self, mut number: u64) -> u64 {
        while let digit @ 0..10 = self.peek().wrapping_sub(b'0') {
            number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
            self.at += 1;
        }
        number
    }

    /// The same for many digits, sixteen at a time.
    fn many_digits(&mut self, mut number: u64) -> u64 {
        while let Some(text) = self.text[self.at..].first_chunk() {
            let text = u128::from_le_bytes(*text);
            let (first, second) = (text as u64, (text >> 64) as u64);
            let (begin, rest) = (leading_digits(first), leading_digits(second));
            let rest = if begin == 8 { rest } else { 0 };
            let digits = joined(first, begin) * WHOLE_POWERS[rest] + joined(second, rest);
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

/// How many of eight bytes, the first the lowest, are digits before any that is none.
fn leading_digits(text: u64) -> usize {
    // A byte below '0' borrows, one above '9' carries into its highest bit; what comes after it may be wrong, but not what was before.
    let [below, above] = [text.wrapping_sub(0x3030_3030_3030_3030), text.wrapping_add(0x4646_4646_4646_4646)];
    ((below | above) & 0x8080_8080_8080_8080).trailing_zeros() as usize / 8
}

/// The number that the first `count` of eight bytes are, all of them digits.
fn joined(text: u64, count: usize) -> u64 {
    // Zeros in front, so that there are eight; then neighbors are joined to pairs, pairs to fours, and those to all eight.
    let digits = (text & 0x0f0f_0f0f_0f0f_0f0f).checked_shl(64 - 8 * count as u32).unwrap_or(0);
    let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    (fours * 10_000 + (fours >> 32)) & 0xffff_ffff
}

/// How many digits there are from the first that is not 0.
fn significant(text: &[u8]) -> usize {
    let digits = text.iter().filter(|byte| **byte != b'.');
    digits.skip_while(|digit| **digit == b'0').count()
}

/// `mantissa · 10^exponent` by way of the nearest f64, where that is certain (see the [module](self)).
fn nearest(mantissa: u64, exponent: i64) -> Option<f32> {
    let power = *POWERS.get(exponent.unsigned_abs() as usize)?;
    let value = if exponent < 0 { mantissa as f64 / power } else { mantissa as f64 * power };
    // Between two f32 there are 2^29 steps of f64. Two roundings, and the one that is wanted, are 3 steps apart at most.
    let from_middle = (value.to_bits() % (1 << 29)).abs_diff(1 << 28);
    (mantissa < 1 << 53 || from_middle > 8).then_some(value as f32)
}

/// Any number of JSON's, as long as f64 holds it.
fn any(text: &[u8]) -> Option<f32> {
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    value.is_finite().then_some(value as f32)
}

#[cfg(test)]
mod tests;
