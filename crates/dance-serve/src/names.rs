//! Labels and ids of JSON, which keep their kind: a text, a whole number or a truth value. A label is compared by its
//! name, so that 7 and `"7"` are one label.

use dance::data::{Kind, Value as Name};
use serde_json::Value;

/// The largest whole number up to which every f64 is exact.
const EXACT: f64 = 9_007_199_254_740_992.0; // 2^53

/// Returns the name of a label; `None` for a value that is no label. Some programs write 7 as 7.0.
pub(crate) fn name_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(truth) => Some(Name::Boolean(*truth).to_string()),
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() <= EXACT);
            whole.map(|number| (number as i64).to_string())
        }
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns the JSON of a name of this kind.
pub(crate) fn value_of(kind: Kind, name: &str) -> Value {
    match kind.value(name) {
        Name::Text(text) => text.into(),
        Name::Integer(number) => number.into(),
        Name::Float(number) => number.into(),
        Name::Boolean(truth) => truth.into(),
    }
}

/// Returns whether a value can be an id: a text or a whole number of 64 bits. Some programs write 7 as 7.0.
pub(crate) fn is_id(value: &Value) -> bool {
    const MOST: f64 = 18_446_744_073_709_551_616.0; // 2^64
    match value {
        Value::Number(number) if number.is_f64() => number
            .as_f64()
            // -2^63 is refused as f64, since integers below it are rounded to it.
            .is_some_and(|number| number.fract() == 0.0 && number > -MOST / 2.0 && number < MOST),
        Value::String(_) | Value::Number(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_label_that_was_given_can_be_sent_back() {
        for (kind, name) in [(Kind::Integer, "-7"), (Kind::Float, "7"), (Kind::Boolean, "True"), (Kind::Text, "7")] {
            assert_eq!(name_of(&value_of(kind, name)).as_deref(), Some(name));
        }
        assert_eq!(value_of(Kind::Integer, "cat"), json!("cat"));
        for wrong in [json!(null), json!(1.5), json!([7]), json!(1e300)] {
            assert_eq!(name_of(&wrong), None, "{wrong}");
        }
    }
}
