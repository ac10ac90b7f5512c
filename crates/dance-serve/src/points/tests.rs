//! Tests of points: valid and invalid rows.

use super::*;

const SHAPE: Shape = Shape { point: PointShape { dimensions: 2, directed: true }, most: 4 };

fn read(text: &str) -> serde_json::Result<Points> {
    PointsSeed(SHAPE).deserialize(&mut serde_json::Deserializer::from_str(text))
}

#[test]
fn valid_rows_keep_their_places_among_invalid_ones() {
    let points = read(r#"[[1,2],{"id":"x","embedding":[1]},{"embedding":[3,4.5],"id":7},"no"]"#).unwrap();
    assert_eq!(points.values, [1.0, 2.0, 3.0, 4.5]);
    assert_eq!(points.valid, [(0, None), (2, Some(Value::from(7)))]);
    let wrong: Vec<_> = points.problems.iter().map(|row| (row.row, row.id.clone())).collect();
    assert_eq!(wrong, [(1, Some(Value::from("x"))), (3, None)]);
}

#[test]
fn ids_may_be_written_with_a_decimal_point() {
    let points = read(r#"[{"embedding":[1,2],"id":7.0},{"embedding":[1,2],"id":18446744073709551615}]"#).unwrap();
    assert_eq!(points.valid.len(), 2, "{points:?}");
    let least = r#"[{"embedding":[1,2],"id":-9223372036854775808},{"embedding":[1,2],"id":-9223372036854775809}]"#;
    assert_eq!(read(least).unwrap().valid.len(), 1);
}

#[test]
fn invalid_rows_have_their_problem() {
    for (row, part) in [
        ("[1]", "1 numbers, but the model was fitted with 2"),
        ("[1,2,3,4]", "4 numbers"),
        ("[1,1e60]", "number 1 is inf"),
        ("[1,null]", "entry 1 is not a number"),
        ("[1,\"2\"]", "entry 1 is not a number"),
        ("[[1,2],{\"a\":[]}]", "entry 0 is not a number"),
        ("[0,-0.0]", "no direction"),
        ("{}", "has no `embedding`"),
        ("{\"embedding\":{\"a\":1}}", "array of numbers"),
        ("{\"embedding\":3}", "array of numbers"),
        ("{\"embedding\":[1,2],\"id\":[]}", "an id is"),
        ("{\"embedding\":[1,2],\"id\":null}", "an id is"),
        ("{\"embedding\":[1,2],\"id\":1.5}", "an id is"),
        ("{\"embedding\":[1,2],\"id\":1e30}", "an id is"),
        ("{\"embedding\":[1,2],\"vector\":1}", "`vector` is not known"),
        ("7", "must be"),
        ("null", "must be"),
        ("true", "must be"),
    ] {
        let points = read(&format!("[{row}]")).unwrap();
        assert!(points.valid.is_empty() && points.problems[0].detail.contains(part), "{row}: {points:?}");
    }
    assert!(read("[[1,2],[1,2],[1,2],[1,2],[1,2]]").unwrap_err().to_string().starts_with(TOO_MANY));
    assert!(read("[[1,NaN]]").unwrap_err().is_syntax());
}
