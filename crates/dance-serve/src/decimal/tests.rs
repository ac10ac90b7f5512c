//! Tests of parsed numbers against `serde_json`.

use super::*;

/// Returns the array that `serde_json` parses; `None` where it fails.
fn by_serde(text: &str) -> Option<Vec<f32>> {
    let values: Vec<f64> = serde_json::from_str(text).ok()?;
    Some(values.into_iter().map(|value| value as f32).collect())
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Parses an array in both ways. They must agree on every bit, or both fail.
fn check(text: &str) {
    let mut values = Vec::new();
    let length = array(text.as_bytes(), usize::MAX, &mut values);
    match by_serde(text) {
        Some(expected) => {
            assert_eq!(length, Some(text.len()), "{text}");
            assert_eq!(bits(&values), bits(&expected), "{text}");
        }
        None => assert!(length != Some(text.len()), "{text} is no array of numbers"),
    }
}

/// A generator of pseudo-random numbers.
struct Draw(u64);

impl Draw {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 32)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    fn digits(&mut self, count: u64) -> String {
        (0..count).map(|_| char::from(b'0' + self.below(10) as u8)).collect()
    }
}

#[test]
fn numbers_as_programs_write_them() {
    let mut draw = Draw(1);
    for _ in 0..20_000 {
        let single = f32::from_bits(draw.bits() as u32);
        let double = f64::from_bits(draw.bits());
        let usual = (draw.bits() as f64 / u64::MAX as f64 - 0.5) * 10f64.powi(draw.below(6) as i32 - 4);
        for double in [f64::from(single), double, usual, f64::from(usual as f32)] {
            if double.is_finite() {
                check(&format!("[{double}, {double:e},{},{}]", double as f32 as f64, serde_json::json!(double)));
                check(&format!("[{double:.7}, {double:.17}, {double:.9e}]"));
            }
        }
        if single.is_finite() {
            check(&format!("[{single}, {single:e}, {}]", serde_json::json!(single)));
        }
    }
}

#[test]
fn any_digits_and_exponents() {
    let mut draw = Draw(2);
    for _ in 0..100_000 {
        let sign = ["", "-"][draw.below(2) as usize];
        let more = draw.below(36).saturating_sub(12);
        let whole = if more == 0 { "0".to_owned() } else { format!("{}{}", 1 + draw.below(9), draw.digits(more)) };
        let fraction = match draw.below(3) {
            0 => String::new(),
            which => {
                let zeros = if which == 1 { draw.below(30) } else { 0 };
                let count = 1 + draw.below(26);
                format!(".{}{}", "0".repeat(zeros as usize), draw.digits(count))
            }
        };
        let most = [25, 420][draw.below(2) as usize];
        let exponent = match draw.below(3) {
            0 => String::new(),
            _ => format!(
                "{}{}{}",
                ["e", "E"][draw.below(2) as usize],
                ["", "+", "-"][draw.below(3) as usize],
                draw.below(most)
            ),
        };
        check(&format!("[{sign}{whole}{fraction}{exponent}]"));
    }
}

/// Tests decimals at, just above and just below the middle between two f32, with all of their digits and with fewer.
#[test]
fn numbers_near_the_middle_between_two() {
    let mut draw = Draw(3);
    for _ in 0..20_000 {
        let exponent = 110 + draw.below(30) as u32;
        let single = f32::from_bits((exponent << 23) | (draw.bits() as u32 & 0x7f_ffff));
        let middle = f64::midpoint(f64::from(single), f64::from(single.next_up()));
        for near in [middle, middle.next_up(), middle.next_down()] {
            let exact = format!("{near:.60}");
            check(&format!("[{exact}, {exact}1, -{near}, {near:.16e}, {near:.17e}, {near:.18e}]"));
            for digits in 15..22 {
                check(&format!("[{near:.digits$}]"));
            }
        }
    }
}

#[test]
fn numbers_at_the_limits() {
    for text in [
        // Zeros.
        "0",
        "-0",
        "0.0",
        "-0.0",
        "-0e5",
        "0e999999999999999999999",
        "-0.000e-7",
        // The limits of f64.
        "1e-400",
        "-1e-400",
        "1e400",
        "-1e400",
        "1e308",
        "1.7976931348623157e308",
        "1.7976931348623159e308",
        "5e-324",
        "2e-324",
        "3e-324",
        "4.9e-324",
        "2.2250738585072011e-308",
        // The limits of f32.
        "1e-45",
        "7e-46",
        "7.006492321624085e-46",
        "7.0064923216240861e-46",
        "1.4e-45",
        "1.1754942e-38",
        "1.17549435e-38",
        "3.4028234e38",
        "3.4028235677973366e38",
        "3.4028235677973367e38",
        "1e39",
        "1e60",
        // Mantissas at 2^53 and 2^64, and powers of ten at 10^22.
        "9007199254740991",
        "9007199254740992",
        "9007199254740993",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "9999999999999999999",
        "99999999999999999999",
        "1e22",
        "1e23",
        "9007199254740993e22",
        "9007199254740993e-22",
        // Many digits and large exponents.
        "0.00000000000000000000000000000000000000000000012345678901234567",
        "12345678",
        "123456789",
        "0.12345678",
        "0.123456781234567812345678",
        "1e-99999999999999999999",
        "1e+5",
        "1E5",
        "1e99999999999999999999",
        "100000000000000000000000000000000000000000000000000e-50",
    ] {
        check(&format!("[{text}]"));
        check(&format!("[ {text} ,\n\t{text}\r]"));
    }
}

#[test]
fn invalid_arrays_are_left_to_serde() {
    for text in [
        // Arrays without an end, or with a comma too many.
        "",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1,,2]",
        // Numbers that JSON does not allow.
        "[01]",
        "[-]",
        "[-01]",
        "[.5]",
        "[1.]",
        "[1.e5]",
        "[1e]",
        "[1e+]",
        "[1e-]",
        "[+1]",
        "[--1]",
        "[0x10]",
        "[1_000]",
        "[NaN]",
        "[inf]",
        "[-Infinity]",
        // Other values and other whitespace.
        "[null]",
        "[\"1\"]",
        "[[1]]",
        "[1.2.3]",
        "[1e5e5]",
        "[1e5.5]",
        "[1\u{c}]",
        "[1\u{a0}]",
        "[१]",
        "{}",
        "1",
        "[1}",
        "[1e400]",
        "[true]",
        "[1/2]",
        "[12:45678]",
        "[0.1234567:]",
        "[0.1234567/]",
        "[0.\u{ff}2345678]",
    ] {
        check(text);
        assert_eq!(array(text.as_bytes(), 9, &mut Vec::new()), None, "{text}");
    }
    check("[]");
    check("[ ]");
    assert_eq!(array(b"[1,2,3] ,4", 3, &mut Vec::new()), Some(7));
    assert_eq!(array(b"[1,2,3]", 2, &mut Vec::new()), None);
    assert_eq!(array(b"[]", 0, &mut Vec::new()), Some(2));
}
