//! Requests with one point, the most frequent ones. Their embedding is parsed [in one pass](decimal), the rest as in
//! any request.

use serde::de::DeserializeSeed;

use crate::decimal;
use crate::points::{Row, Shape};
use crate::predict::{PredictRequest, PredictRequestSeed};

/// Reads a request whose first array is `embedding`. The result is `None` for every other body, and for one with a
/// problem, which [`PredictRequestSeed`] then reports.
pub(crate) fn read(text: &[u8], shape: Shape) -> Option<PredictRequest> {
    let begin = text.iter().position(|&byte| byte == b'[')?;
    let (head, array) = text.split_at(begin);
    if !ends_in_the_key(head) {
        return None;
    }
    let mut values = Vec::with_capacity(shape.point.dimensions);
    let length = decimal::array(array, shape.point.dimensions, &mut values)?;
    let known = Row { length: Some(values.len()), values, ..Row::default() };
    // The rest of the request is read with a 0 in place of the array.
    let rest = [head, b"0", &array[length..]].concat();
    let mut deserializer = serde_json::Deserializer::from_slice(&rest);
    let request = PredictRequestSeed { shape, known: Some(known) }.deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    Some(request)
}

/// Returns whether the text before an array ends in the key `embedding` of the outermost object and has that key
/// nowhere else. Texts with a second object or an escape are refused, since a key could be hidden in them.
fn ends_in_the_key(head: &[u8]) -> bool {
    const KEY: &[u8] = b"\"embedding\"";
    let key = head.trim_ascii_end().strip_suffix(b":").and_then(|head| head.trim_ascii_end().strip_suffix(KEY));
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

    fn by_serde(text: &str) -> serde_json::Result<PredictRequest> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let request = PredictRequestSeed::new(SHAPE).deserialize(&mut deserializer)?;
        deserializer.end().map(|()| request)
    }

    #[test]
    fn one_point_is_read_as_by_serde() {
        for (text, quick) in [
            (r#"{"embedding":[1,2]}"#, true),
            (" { \"embedding\" :\n [ 1.5 , -2e-3 ] } ", true),
            (r#"{"id":"a","embedding":[1,2]}"#, true),
            (r#"{"id":"ä, :","alpha":0.2,"embedding":[1,2],"include":["p_values"]}"#, true),
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
            let request = read(text.as_bytes(), SHAPE);
            assert_eq!(request.is_some(), quick, "{text}");
            if let Some(request) = request {
                let expected = by_serde(text).unwrap();
                assert_eq!(format!("{request:?}"), format!("{expected:?}"), "{text}");
            }
        }
    }

    #[test]
    fn invalid_requests_are_left_to_serde() {
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
            assert!(by_serde(text).is_err(), "{text}");
            assert!(read(text.as_bytes(), SHAPE).is_none(), "{text}");
        }
    }
}
