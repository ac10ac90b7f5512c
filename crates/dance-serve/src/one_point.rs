//! The request that comes most often: one point. Its numbers are read [in one pass](decimal), the rest as any request.

use serde::de::DeserializeSeed;

use crate::decimal;
use crate::points::{Row, Shape};
use crate::predict::{Asked, ReadAsked};

/// What is asked, where the first array of the body is the point's and holds nothing but numbers. `None` for every other body, also
/// for one with anything wrong in it: the general reader says what.
pub(crate) fn read(text: &[u8], shape: Shape) -> Option<Asked> {
    let begin = text.iter().position(|&byte| byte == b'[')?;
    let (head, array) = text.split_at(begin);
    if !ends_in_the_key(head) {
        return None;
    }
    let mut values = Vec::with_capacity(shape.point.dimensions);
    let length = decimal::array(array, shape.point.dimensions, &mut values)?;
    let known = Row { length: Some(values.len()), values, ..Row::default() };
    // The same request with a 0 in place of the array.
    let rest = [head, b"0", &array[length..]].concat();
    let mut deserializer = serde_json::Deserializer::from_slice(&rest);
    let asked = ReadAsked { shape, known: Some(known) }.deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    Some(asked)
}

/// Whether what stands before an array ends in the key of the point's numbers, and has it nowhere else: no object within the first,
/// and nothing that is written otherwise than it is meant.
fn ends_in_the_key(head: &[u8]) -> bool {
    const KEY: &[u8] = b"\"embedding\"";
    let key =
        head.trim_ascii_end().strip_suffix(b":").and_then(|head| head.trim_ascii_end().strip_suffix(KEY));
    let Some([b'{', before @ ..]) = key.map(<[u8]>::trim_ascii) else { return false };
    let first = before.is_empty() || before.ends_with(b",");
    first
        && !before.iter().any(|byte| matches!(byte, b'{' | b'\\'))
        && !before.windows(KEY.len()).any(|part| part == KEY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dance::data::PointShape;

    const SHAPE: Shape = Shape { point: PointShape { dimensions: 2, directed: true }, most: 4 };

    fn general(text: &str) -> serde_json::Result<Asked> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let asked = ReadAsked::new(SHAPE).deserialize(&mut deserializer)?;
        deserializer.end().map(|()| asked)
    }

    #[test]
    fn one_point_is_read_as_by_the_general_reader() {
        for (text, quick) in [
            (r#"{"embedding":[1,2]}"#, true),
            (" { \"embedding\" :\n [ 1.5 , -2e-3 ] } ", true),
            (r#"{"id":"a","embedding":[1,2]}"#, true),
            (r#"{"id":"ä, :","alpha":0.2,"embedding":[1,2],"include":["p-values"]}"#, true),
            (r#"{"embedding":[1,2],"alpha":[0.1,0.05],"empty":"top1","id":7}"#, true),
            (r#"{"embedding":[1,2],"embedding":[3,4]}"#, true),
            (r#"{"embedding":[1,2],"embedding":3}"#, true),
            (r#"{"embedding":[0,0]}"#, true),
            (r#"{"embedding":[1]}"#, true),
            (r#"{"embedding":[1,1e60]}"#, true),
            (r#"{"embedding":[1,2,3]}"#, false),
            (r#"{"embedding":[1,null]}"#, false),
            (r#"{"embedding":3,"embedding":[1,2]}"#, false),
            (r#"{"\u0065mbedding":3,"embedding":[1,2]}"#, false),
            (r#"{"id":"[","embedding":[1,2]}"#, false),
            (r#"{"id":"\"embedding\":[","embedding":[1,2]}"#, false),
            (r#"{"alpha":[0.1],"embedding":[1,2]}"#, false),
            (r#"{"points":[[1,2]]}"#, false),
            (r#"{"points":[{"embedding":[1,2]}]}"#, false),
            (r#"{"id":{"embedding":[1,2]}}"#, false),
            (r#"{"id":{"x":1,"embedding":[1,2]}}"#, false),
        ] {
            let asked = read(text.as_bytes(), SHAPE);
            assert_eq!(asked.is_some(), quick, "{text}");
            if let Some(asked) = asked {
                let expected = general(text).unwrap();
                assert_eq!(format!("{asked:?}"), format!("{expected:?}"), "{text}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_left_to_the_general_reader() {
        for text in [
            "",
            "[1,2]",
            r#"{"embedding":[1,2]"#,
            r#"{"embedding":[1,2]}}"#,
            r#"{"embedding":[1,2],}"#,
            r#"{"embedding":[1,2]0}"#,
            r#"{,"embedding":[1,2]}"#,
            r#"{"x" "embedding":[1,2]}"#,
            r#"{"x","embedding":[1,2]}"#,
            r#"{"id":"{"embedding":[1,2]}"#,
            r#"{"embedding":[1,1e400]}"#,
            r#"{"embedding":[1,2],"points":[[1,2]]}"#,
            r#"{"embedding":[1,2],"x":1}"#,
            r#"{"embedding":[1,2],"alpha":2}"#,
            "{\u{c}\"embedding\":[1,2]}",
            r#"["embedding":[1,2]]"#,
        ] {
            assert!(general(text).is_err(), "{text}");
            assert!(read(text.as_bytes(), SHAPE).is_none(), "{text}");
        }
    }
}
