//! `POST /v1/predict`: a prediction set for every point.

use std::fmt;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State as Shared};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use dance::model::{self, Answer};
use dance::scores::EmptySets;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::batching::ScoredPiece;
use crate::body;
use crate::one_point;
use crate::points::{NumbersSeed, Points, PointsSeed, Row, Shape, TOO_MANY};
use crate::problem::{Problem, RowProblem};
use crate::served::{ModelName, ServedModel};
use crate::state::State;
use crate::telemetry::{self, Answered};

/// The most error levels of a request.
pub(crate) const MOST_LEVELS: usize = 20;

/// A list that answers have beside the set, with one entry per label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Include {
    /// The probability of each label in the set.
    Probabilities,
    /// The p-value of each label in the set.
    PValues,
    /// The reference points in support of each label in the set.
    Neighbors,
}

/// The treatment of empty sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Empty {
    /// Empty sets stay empty.
    #[default]
    Keep,
    /// Empty sets get the most probable label.
    Top1,
}

/// The options of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// The error levels; `None` for those of the model.
    pub(crate) alphas: Option<Vec<f64>>,
    pub(crate) include: model::Include,
    pub(crate) empty: EmptySets,
}

impl Options {
    pub(crate) fn set_include(&mut self, include: &[Include]) {
        self.include = model::Include {
            probabilities: include.contains(&Include::Probabilities),
            p_values: include.contains(&Include::PValues),
            neighbors: include.contains(&Include::Neighbors),
        };
    }

    pub(crate) fn set_empty(&mut self, empty: Empty) {
        self.empty = match empty {
            Empty::Keep => EmptySets::Keep,
            Empty::Top1 => EmptySets::Top1,
        };
    }

    /// Reads the option `name` from a JSON object.
    fn read<'de, A: MapAccess<'de>>(&mut self, name: &str, entries: &mut A) -> Result<(), A::Error> {
        match name {
            "alpha" => {
                let alphas = match entries.next_value::<Levels>() {
                    Ok(Levels::One(alpha)) => vec![alpha],
                    Ok(Levels::Several(alphas)) => alphas,
                    Err(_) => return Err(A::Error::custom("`alpha` is a number or an array of numbers")),
                };
                self.set_alphas(alphas).map_err(A::Error::custom)?;
            }
            "include" => self.set_include(&entries.next_value::<Vec<Include>>()?),
            "empty" => self.set_empty(entries.next_value()?),
            other => {
                let known = "`embedding`, `id`, `points`, `alpha`, `include` and `empty`";
                return Err(A::Error::custom(format!("`{other}` is not known; there are {known}")));
            }
        }
        Ok(())
    }

    pub(crate) fn set_alphas(&mut self, alphas: Vec<f64>) -> Result<(), String> {
        if alphas.is_empty() || alphas.len() > MOST_LEVELS {
            return Err(format!("`alpha` is one level or an array of 1 to {MOST_LEVELS}"));
        }
        if let Some(wrong) = alphas.iter().find(|alpha| !(**alpha > 0.0 && **alpha < 1.0)) {
            return Err(format!("`alpha` {wrong}: an error level lies between 0 and 1, such as 0.1"));
        }
        self.alphas = Some(alphas);
        Ok(())
    }
}

/// One point (`embedding`, `id`) or many (`points`), and the options.
#[derive(ToSchema)]
// The reader is written by hand, so that an invalid row does not cost the others.
#[allow(dead_code)] // a schema of the API description, never constructed
#[schema(as = PredictRequest)]
pub(crate) struct PredictRequestSchema {
    /// The embedding of one point.
    #[schema(nullable = false)]
    embedding: Option<Vec<f32>>,
    /// The id of one point, which the answer has too.
    #[schema(value_type = Option<crate::problem::Id>, nullable = false)]
    id: Option<String>,
    /// Many points: `{"embedding": […], "id": …}` or a bare array of numbers each. An invalid row gets a problem in
    /// place of an answer; the others are answered.
    #[schema(value_type = Option<Vec<serde_json::Value>>, nullable = false)]
    points: Option<Vec<String>>,
    /// The error level, or several; without it, those of the model. The probability that a set misses the
    /// true label is at most the level.
    #[schema(value_type = Option<Levels>, nullable = false)]
    alpha: Option<f64>,
    /// The lists that each answer has beside the set.
    #[schema(nullable = false)]
    include: Option<Vec<Include>>,
    /// The treatment of empty sets.
    #[schema(nullable = false)]
    empty: Option<Empty>,
}

/// One error level, or several.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum Levels {
    One(f64),
    Several(Vec<f64>),
}

/// A request as it was read.
#[derive(Debug)]
pub(crate) struct PredictRequest {
    pub(crate) points: Points,
    pub(crate) options: Options,
}

/// Reads a request for a model of this shape.
pub(crate) struct PredictRequestSeed {
    pub(crate) shape: Shape,
    /// The first `embedding`, if it has been parsed before; its value in the text is skipped.
    pub(crate) known: Option<Row>,
}

impl PredictRequestSeed {
    pub(crate) fn new(shape: Shape) -> Self {
        Self { shape, known: None }
    }
}

impl<'de> DeserializeSeed<'de> for PredictRequestSeed {
    type Value = PredictRequest;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<PredictRequest, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for PredictRequestSeed {
    type Value = PredictRequest;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with `embedding` or `points`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<PredictRequest, A::Error> {
        let Self { shape, mut known } = self;
        let (mut one, mut many, mut options) = (None::<Row>, None::<Points>, Options::default());
        while let Some(key) = entries.next_key::<String>()? {
            match key.as_str() {
                // `embedding` and `id` belong to one row and come in any order.
                "embedding" => {
                    let row = match known.take() {
                        Some(row) => entries.next_value::<IgnoredAny>().map(|_| row)?,
                        None => entries.next_value_seed(NumbersSeed(shape))?,
                    };
                    let id = one.take().and_then(|row| row.id);
                    one = Some(Row { id, ..row });
                }
                "id" => one.get_or_insert_default().id = Some(entries.next_value()?),
                "points" => many = Some(entries.next_value_seed(PointsSeed(shape))?),
                other => options.read(other, &mut entries)?,
            }
        }
        // A request has one point or many, not both.
        let points = match (one, many) {
            (Some(_), Some(_)) => return Err(A::Error::custom("give `embedding` or `points`, not both")),
            (None, None) => return Err(A::Error::custom("give `embedding` or `points`")),
            (None, Some(points)) => points,
            (Some(row), None) => {
                let mut points = Points::default();
                points.push(row, shape);
                points
            }
        };
        Ok(PredictRequest { points, options })
    }
}

/// The response: the answers in the order of the points, with all levels of a point one after the other, and the rows
/// without answers.
#[derive(Serialize)]
#[allow(clippy::struct_field_names)] // the names of the JSON members
pub(crate) struct PredictResponse<'a> {
    pub(crate) model: &'a ModelName,
    pub(crate) guarantee: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
    pub(crate) answers: Vec<Answer<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) problems: Vec<RowProblem>,
}

/// Returns the requirements on points that the served model and the limits of the server make.
pub(crate) fn shape(state: &State, served: &ServedModel) -> Shape {
    Shape { point: served.model.fitted().point_shape(), most: state.settings.limits.points }
}

#[utoipa::path(
    post, path = "/v1/predict",
    request_body(content(
        (PredictRequestSchema = "application/json"),
        (Vec<u8> = "application/vnd.apache.arrow.stream"),
    )),
    responses(
        (
            status = 200, description = "The sets",
            content(
                (crate::openapi::PredictResponseSchema = "application/json"),
                (Vec<u8> = "application/vnd.apache.arrow.stream"),
            )
        ),
        crate::openapi::Refusals,
    )
)]
/// Prediction sets for one point or many. A point gets the same answer alone and among others.
pub(crate) async fn predict(Shared(state): Shared<Arc<State>>, request: Request) -> Result<Response, Problem> {
    #[cfg(feature = "arrow")]
    let (query, accept) =
        (request.uri().query().unwrap_or_default().to_owned(), crate::arrow::accept_header(request.headers()));
    let body = body::read(&state, request).await?;
    let shape = shape(&state, &state.slot.get());
    #[cfg(feature = "arrow")]
    if body.media_type == crate::arrow::MEDIA_TYPE {
        let request = crate::arrow::read(&body.bytes, &query, shape)?;
        let scored = score(&state, request, body).await?;
        return respond(&scored, accept.unwrap_or(true));
    }
    let request = match one_point::read(body.json_text()?, shape) {
        Some(request) => request,
        None => body.json(PredictRequestSeed::new(shape)).map_err(too_many)?,
    };
    let scored = score(&state, request, body).await?;
    #[cfg(feature = "arrow")]
    return respond(&scored, accept.unwrap_or(false));
    #[cfg(not(feature = "arrow"))]
    respond(&scored, false)
}

/// Turns the problem of too many points, which serde reports as any other, into status 413.
pub(crate) fn too_many(problem: Problem) -> Problem {
    match problem.detail().strip_prefix(TOO_MANY) {
        Some(rest) => Problem::too_large(format!("{TOO_MANY}{rest}")),
        None => problem,
    }
}

/// The scores of a request, from which [`PredictResponse`] follows at its levels.
pub(crate) struct ScoredRequest {
    pieces: Vec<ScoredPiece>,
    /// The row and the id of every scored point.
    valid: Vec<(usize, Option<serde_json::Value>)>,
    problems: Vec<RowProblem>,
    options: Options,
}

pub(crate) async fn score(
    state: &Arc<State>,
    mut request: PredictRequest,
    body: body::RequestBody<'_>,
) -> Result<ScoredRequest, Problem> {
    let mut all = ScoredRequest {
        pieces: Vec::new(),
        valid: Vec::new(),
        problems: std::mem::take(&mut request.points.problems),
        options: request.options,
    };
    if !request.points.valid.is_empty() {
        let points = request.points.matrix(state.slot.get().dimensions())?;
        let (arrival, _turn) = body.release();
        all.pieces = state.batcher.score(points, all.options.include.neighbors, arrival).await?;
        all.valid = std::mem::take(&mut request.points.valid);
    }
    // The model may refuse points that the reader let pass. They become problems of their rows.
    let mut first = 0;
    let mut refused = Vec::new();
    for piece in &all.pieces {
        refused.extend(piece.refused.iter().map(|(place, detail)| (first + place, detail.clone())));
        first += piece.scored.len() + piece.refused.len();
    }
    for (place, detail) in refused.into_iter().rev() {
        let (row, id) = all.valid.remove(place);
        all.problems.push(RowProblem { row, id, detail });
    }
    all.problems.sort_by_key(|problem| problem.row);
    telemetry::points(all.valid.len(), all.problems.len());
    if all.valid.is_empty() { Err(Problem::rows(all.problems)) } else { Ok(all) }
}

impl ScoredRequest {
    /// Returns the model that answered the last points.
    pub(crate) fn served(&self) -> Result<&Arc<ServedModel>, Problem> {
        self.pieces.last().map(|piece| &piece.served).ok_or_else(Problem::internal)
    }

    /// Returns the entry of the log.
    pub(crate) fn answered(&self) -> Result<Answered, Problem> {
        Ok(Answered { points: self.valid.len(), served: Arc::clone(self.served()?) })
    }

    /// Returns the response, and counts its points and sets.
    pub(crate) fn response(&self) -> Result<PredictResponse<'_>, Problem> {
        let last = self.served()?;
        let alphas = self.options.alphas.clone().unwrap_or_else(|| last.alphas());
        let mut all = PredictResponse {
            model: &last.name,
            guarantee: &last.guarantee,
            warnings: Vec::new(),
            answers: Vec::with_capacity(self.valid.len() * alphas.len()),
            problems: self.problems.clone(),
        };
        let mut rows = self.valid.iter();
        for ScoredPiece { served, scored, .. } in &self.pieces {
            let filled;
            let scored = if self.options.empty == EmptySets::Keep {
                scored
            } else {
                filled = scored.clone().with_empty(self.options.empty);
                &filled
            };
            // The model answers all points at one level; the response has all levels of one point together.
            let mut levels = Vec::with_capacity(alphas.len());
            for &alpha in &alphas {
                let decision = served.model.decide(alpha).map_err(|error| Problem::invalid(error.to_string()))?;
                for warning in decision.warnings() {
                    if !all.warnings.contains(&warning) {
                        all.warnings.push(warning);
                    }
                }
                levels.push(served.model.answers(scored, &decision, self.options.include).into_iter());
            }
            for &novelty in &scored.novelty {
                let Some((row, id)) = rows.next() else { return Err(Problem::internal()) };
                telemetry::novelty(novelty);
                for level in &mut levels {
                    let Some(answer) = level.next() else { return Err(Problem::internal()) };
                    telemetry::set(&answer);
                    all.answers.push(Answer { row: *row, id: id.clone(), ..answer });
                }
            }
        }
        Ok(all)
    }
}

fn respond(scored: &ScoredRequest, arrow: bool) -> Result<Response, Problem> {
    let response = scored.response()?;
    let answered = scored.answered()?;
    #[cfg(feature = "arrow")]
    if arrow {
        let response = crate::arrow::respond(scored.served()?, &response, scored.options.include)?;
        return Ok((Extension(answered), response).into_response());
    }
    let _ = arrow;
    let mut body = Vec::with_capacity(512 * response.answers.len().min(4096));
    serde_json::to_writer(&mut body, &response).map_err(|_| Problem::internal())?;
    Ok((Extension(answered), [(header::CONTENT_TYPE, "application/json")], body).into_response())
}
