//! Arrow IPC streams, for bulk: a column `embedding` in, one row per answer out.

use std::sync::Arc;

use arrow_array::builder::{Float32Builder, Float64Builder, ListBuilder, StringBuilder, UInt64Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::DataType;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use dance::model::{self, Answer};
use serde_json::Value;

use crate::points::{Points, Row, Shape};
use crate::predict::{Answers, Asked, How, Include};
use crate::problem::Problem;

pub(crate) const MEDIA_TYPE: &str = "application/vnd.apache.arrow.stream";

/// Whether Arrow is asked for; `None` where either will do.
pub(crate) fn accepted(headers: &HeaderMap) -> Option<bool> {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.contains(MEDIA_TYPE) {
        Some(true)
    } else if accept.contains("application/json") {
        Some(false)
    } else {
        None
    }
}

/// The points of a stream, with `alpha` and `include` from the query: `?alpha=0.1,0.05&include=p-values`.
pub(crate) fn read(bytes: &[u8], query: &str, shape: Shape) -> Result<Asked, Problem> {
    let how = how(query)?;
    let wrong = |error: &dyn std::fmt::Display| Problem::not_json(format!("no Arrow IPC stream: {error}"));
    let mut points = Points::default();
    for batch in StreamReader::try_new(bytes, None).map_err(|error| wrong(&error))? {
        let batch = batch.map_err(|error| wrong(&error))?;
        if points.rows() + batch.num_rows() > shape.most {
            return Err(Problem::too_large(format!(
                "a request has at most {} points; send them in several",
                shape.most
            )));
        }
        let Some(embeddings) = batch.column_by_name("embedding") else {
            return Err(Problem::wrong("the stream has no column `embedding`"));
        };
        let ids = batch.column_by_name("id");
        for row in 0..batch.num_rows() {
            let mut point = numbers(embeddings, row)?;
            point.id = ids.map(|ids| id(ids, row)).transpose()?.flatten();
            points.push(point, shape);
        }
    }
    Ok(Asked { points, how })
}

fn how(query: &str) -> Result<How, Problem> {
    let mut how = How::default();
    for (name, value) in query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
    {
        let value = value.replace("%2C", ",").replace("%2c", ",");
        match name {
            "alpha" => {
                let alphas: Result<Vec<f64>, _> = value.split(',').map(str::parse).collect();
                let alphas =
                    alphas.map_err(|_| Problem::wrong("`alpha` is a number or several with commas"))?;
                how.set_alphas(alphas).map_err(Problem::wrong)?;
            }
            "include" => {
                let include = |name: &str| {
                    serde_json::from_value::<Include>(name.into())
                        .map_err(|error| Problem::wrong(error.to_string()))
                };
                how.set_include(&value.split(',').map(include).collect::<Result<Vec<_>, _>>()?);
            }
            other => {
                return Err(Problem::wrong(format!(
                    "`{other}` is not known; with Arrow there are `alpha` and `include`"
                )));
            }
        }
    }
    Ok(how)
}

/// The numbers of one row.
fn numbers(column: &ArrayRef, row: usize) -> Result<Row, Problem> {
    if column.is_null(row) {
        return Ok(Row::wrong("is null"));
    }
    let list = match column.data_type() {
        DataType::FixedSizeList(_, _) => column.as_fixed_size_list().value(row),
        DataType::List(_) => column.as_list::<i32>().value(row),
        DataType::LargeList(_) => column.as_list::<i64>().value(row),
        other => {
            return Err(Problem::wrong(format!(
                "column `embedding` has type {other}; lists of 32- or 64-bit numbers are read"
            )));
        }
    };
    if list.null_count() > 0 {
        return Ok(Row::wrong("holds a null; every entry is a number"));
    }
    let values: Vec<f32> = match list.data_type() {
        DataType::Float32 => list.as_primitive::<Float32Type>().values().to_vec(),
        DataType::Float64 => {
            list.as_primitive::<Float64Type>().values().iter().map(|&value| value as f32).collect()
        }
        other => {
            return Err(Problem::wrong(format!(
                "column `embedding` holds lists of {other}; 32- or 64-bit numbers are read"
            )));
        }
    };
    Ok(Row { length: Some(values.len()), values, id: None, problem: None })
}

fn id(column: &ArrayRef, row: usize) -> Result<Option<Value>, Problem> {
    if column.is_null(row) {
        return Ok(None);
    }
    match column.data_type() {
        DataType::Utf8 => Ok(Some(column.as_string::<i32>().value(row).into())),
        DataType::LargeUtf8 => Ok(Some(column.as_string::<i64>().value(row).into())),
        DataType::Int64 => Ok(Some(column.as_primitive::<arrow_array::types::Int64Type>().value(row).into())),
        other => {
            Err(Problem::wrong(format!("column `id` has type {other}; texts and 64-bit integers are read")))
        }
    }
}

/// Answers as a stream of one batch. A row that could not be answered says why in `problem`, where the others have null.
pub(crate) fn respond(answers: &Answers<'_>, include: model::Include) -> Result<Response, Problem> {
    let bytes = write(answers, include).map_err(|_| Problem::internal())?;
    Ok(([(header::CONTENT_TYPE, MEDIA_TYPE)], bytes).into_response())
}

fn write(all: &Answers<'_>, include: model::Include) -> Result<Vec<u8>, arrow_schema::ArrowError> {
    let Answers { answers, problems, .. } = all;
    let nothing = || std::iter::repeat_n(None::<&Answer<'_>>, problems.len());
    let rows = || answers.iter().map(Some).chain(nothing());
    let text =
        |id: &Option<Value>| id.as_ref().map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_owned));
    let mut row = UInt64Builder::new();
    let (mut id, mut prediction, mut problem) =
        (StringBuilder::new(), StringBuilder::new(), StringBuilder::new());
    let (mut alpha, mut probability) = (Float64Builder::new(), Float32Builder::new());
    for answer in answers {
        row.append_value(answer.row as u64);
        id.append_option(text(&answer.id));
        alpha.append_value(answer.alpha);
        prediction.append_value(answer.prediction.to_string());
        probability.append_value(answer.probability);
        problem.append_null();
    }
    for refused in problems {
        row.append_value(refused.row as u64);
        id.append_option(text(&refused.id));
        alpha.append_null();
        prediction.append_null();
        probability.append_null();
        problem.append_value(&refused.detail);
    }
    let mut set = ListBuilder::new(StringBuilder::new());
    for answer in rows() {
        for label in answer.into_iter().flat_map(|answer| &answer.set) {
            set.values().append_value(label.to_string());
        }
        set.append(answer.is_some());
    }
    let doubles = |pick: for<'a> fn(&'a Answer<'_>) -> Option<&'a Vec<f64>>| -> ArrayRef {
        let mut lists = ListBuilder::new(Float64Builder::new());
        for answer in rows() {
            let values = answer.and_then(pick);
            lists.values().append_slice(values.map_or(&[], Vec::as_slice));
            lists.append(values.is_some());
        }
        Arc::new(lists.finish())
    };
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("row", Arc::new(row.finish())),
        ("id", Arc::new(id.finish())),
        ("alpha", Arc::new(alpha.finish())),
        ("prediction", Arc::new(prediction.finish())),
        ("probability", Arc::new(probability.finish())),
        ("set", Arc::new(set.finish())),
    ];
    if include.probabilities {
        let mut lists = ListBuilder::new(Float32Builder::new());
        for answer in rows() {
            let values = answer.and_then(|answer| answer.probabilities.as_ref());
            lists.values().append_slice(values.map_or(&[], Vec::as_slice));
            lists.append(values.is_some());
        }
        columns.push(("probabilities", Arc::new(lists.finish())));
    }
    if include.p_values {
        columns.push(("p_values", doubles(|answer| answer.p_values.as_ref())));
        columns.push(("rank_p_values", doubles(|answer| answer.rank_p_values.as_ref())));
        columns.push(("contrast_p_values", doubles(|answer| answer.contrast_p_values.as_ref())));
    }
    if include.neighbors {
        // Lists of lists of records: as JSON text, as in files.
        let mut texts = StringBuilder::new();
        for answer in rows() {
            texts.append_option(answer.map(|answer| serde_json::json!(answer.neighbors).to_string()));
        }
        columns.push(("neighbors", Arc::new(texts.finish())));
    }
    columns.push(("problem", Arc::new(problem.finish())));
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    )?;
    let mut writer = StreamWriter::try_new(Vec::new(), batch.schema_ref())?;
    writer.write(&batch)?;
    writer.into_inner()
}
