//! Arrow IPC streams for many points: a column `embedding` comes in, a row per answer goes out.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::DataType;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use dance::data::{Frame, arrow};
use dance::model::{Include, Refusal};
use serde_json::Value;

use crate::points::{Points, Shape};
use crate::predict::{self, Options, PredictRequest, PredictResponse};
use crate::problem::{Problem, RowProblem};
use crate::served::ServedModel;

pub(crate) const MEDIA_TYPE: &str = "application/vnd.apache.arrow.stream";

/// Returns whether the client accepts Arrow (`true`) or JSON (`false`); `None` without a preference.
pub(crate) fn accept_header(headers: &HeaderMap) -> Option<bool> {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.contains(MEDIA_TYPE) {
        Some(true)
    } else if accept.contains("application/json") {
        Some(false)
    } else {
        None
    }
}

/// Reads the points of a stream, with the options from the query:
/// `?alpha=0.1,0.05&include=p_values&empty=top1`.
pub(crate) fn read(bytes: &[u8], query: &str, shape: Shape) -> Result<PredictRequest, Problem> {
    let options = read_options(query)?;
    let invalid =
        |error: &dyn std::fmt::Display| Problem::malformed(format!("the body is no Arrow IPC stream: {error}"));
    let mut points = Points::default();
    for batch in StreamReader::try_new(bytes, None).map_err(|error| invalid(&error))? {
        let batch = batch.map_err(|error| invalid(&error))?;
        if points.rows() + batch.num_rows() > shape.most {
            return Err(Problem::too_large(format!(
                "a request has at most {} points; send them in several",
                shape.most
            )));
        }
        let Some(embeddings) = batch.column_by_name("embedding") else {
            return Err(Problem::invalid("the stream has no column `embedding`"));
        };
        let ids = batch.column_by_name("id");
        let id = |row: usize| Ok(ids.map(|ids| id(ids, row)).transpose()?.flatten());
        let found = arrow::points(embeddings.clone(), shape.point)
            .map_err(|problem| Problem::invalid(format!("column `embedding` {problem}")))?;
        points.extend(found, id)?;
    }
    Ok(PredictRequest { points, options })
}

/// Reads the options from a query.
fn read_options(query: &str) -> Result<Options, Problem> {
    let mut options = Options::default();
    for (name, value) in
        query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")))
    {
        let value = value.replace("%2C", ",").replace("%2c", ",");
        match name {
            "alpha" => {
                let alphas: Result<Vec<f64>, _> = value.split(',').map(str::parse).collect();
                let alphas =
                    alphas.map_err(|_| Problem::invalid("`alpha` is a number, or several with commas between them"))?;
                options.set_alphas(alphas).map_err(Problem::invalid)?;
            }
            "include" => {
                let include = |name: &str| {
                    serde_json::from_value::<predict::Include>(name.into())
                        .map_err(|error| Problem::invalid(error.to_string()))
                };
                options.set_include(&value.split(',').map(include).collect::<Result<Vec<_>, _>>()?);
            }
            "empty" => {
                let empty = serde_json::from_value::<predict::Empty>(value.into());
                options.set_empty(empty.map_err(|error| Problem::invalid(error.to_string()))?);
            }
            other => {
                return Err(Problem::invalid(format!(
                    "`{other}` is not known; with Arrow there are `alpha`, `include` and `empty`"
                )));
            }
        }
    }
    Ok(options)
}

fn id(column: &ArrayRef, row: usize) -> Result<Option<Value>, Problem> {
    if column.is_null(row) {
        return Ok(None);
    }
    match column.data_type() {
        DataType::Utf8 => Ok(Some(column.as_string::<i32>().value(row).into())),
        DataType::LargeUtf8 => Ok(Some(column.as_string::<i64>().value(row).into())),
        DataType::Int64 => Ok(Some(column.as_primitive::<Int64Type>().value(row).into())),
        other => {
            Err(Problem::invalid(format!("column `id` has type {other}; texts and 64-bit integers are supported")))
        }
    }
}

/// Returns the answers as a stream of one batch, with the columns of `dance predict`. The column `error` has the
/// problem of an invalid row, and null elsewhere. The metadata have the guarantee and the model.
pub(crate) fn respond(served: &ServedModel, all: &PredictResponse<'_>, include: Include) -> Result<Response, Problem> {
    let refusal = |problem: &RowProblem| Refusal {
        row: problem.row,
        line: None,
        error: problem.detail.clone(),
        id: problem.id.clone(),
    };
    let refused: Vec<Refusal> = all.problems.iter().map(refusal).collect();
    let mut frame = served.model.frame(&all.answers, Some(&refused), include, false);
    frame.notes.push(("model", serde_json::to_string(all.model).unwrap_or_default()));
    let bytes = stream(&frame);
    Ok(([(header::CONTENT_TYPE, MEDIA_TYPE)], bytes.map_err(|_| Problem::internal())?).into_response())
}

fn stream(frame: &Frame) -> Result<Vec<u8>, arrow_schema::ArrowError> {
    let batch = frame.record_batch()?;
    let mut writer = StreamWriter::try_new(Vec::new(), batch.schema_ref())?;
    writer.write(&batch)?;
    writer.into_inner()
}
