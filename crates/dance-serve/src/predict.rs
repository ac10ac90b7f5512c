//! `POST /v1/predict`: a prediction set for every point.

use std::fmt;
use std::sync::Arc;

use axum::extract::{Request, State as Shared};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use dance::model::{self, Answer};
use dance::scores::EmptySets;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body;
use crate::gather::Answered;
use crate::one_point;
use crate::points::{Points, ReadNumbers, ReadPoints, Row, Shape, TOO_MANY};
use crate::problem::{Problem, RowProblem};
use crate::served::Served;
use crate::state::State;
use crate::telemetry;

/// Most levels of a request.
pub(crate) const MOST_LEVELS: usize = 20;
pub(crate) const DEFAULT_ALPHA: f64 = 0.1;

/// What can be asked for beside the sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Include {
    /// Of each label in the set: by the kernel machine, or by the posterior of combined evidence.
    Probabilities,
    /// Of each label in the set.
    PValues,
    /// The points that speak for each label in the set.
    Neighbors,
}

/// What becomes of empty sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Empty {
    /// They stay empty.
    #[default]
    Keep,
    /// They get the most probable label.
    Top1,
}

/// How points are to be answered.
#[derive(Clone, Debug)]
pub(crate) struct How {
    pub(crate) alphas: Vec<f64>,
    pub(crate) include: model::Include,
    pub(crate) empty: EmptySets,
}

impl Default for How {
    fn default() -> Self {
        Self { alphas: vec![DEFAULT_ALPHA], include: model::Include::default(), empty: EmptySets::Keep }
    }
}

impl How {
    pub(crate) fn set_include(&mut self, include: &[Include]) {
        self.include = model::Include {
            probabilities: include.contains(&Include::Probabilities),
            p_values: include.contains(&Include::PValues),
            neighbors: include.contains(&Include::Neighbors),
        };
    }

    pub(crate) fn set_alphas(&mut self, alphas: Vec<f64>) -> Result<(), String> {
        if alphas.is_empty() || alphas.len() > MOST_LEVELS {
            return Err(format!("`alpha` is one level or an array of 1 to {MOST_LEVELS}"));
        }
        if let Some(wrong) = alphas.iter().find(|alpha| !(**alpha > 0.0 && **alpha < 1.0)) {
            return Err(format!("`alpha` {wrong}: an error level lies between 0 and 1, such as 0.1"));
        }
        self.alphas = alphas;
        Ok(())
    }
}

/// What is asked: one point (`embedding`, `id`) or many (`points`).
#[derive(ToSchema)]
#[allow(dead_code)] // describes what is read; the reading is by hand, so that a wrong row costs only itself
#[schema(as = PredictRequest)]
pub(crate) struct Described {
    /// One point.
    #[schema(nullable = false)]
    embedding: Option<Vec<f32>>,
    /// Its id, which comes back with the answer.
    #[schema(value_type = Option<crate::problem::Id>, nullable = false)]
    id: Option<String>,
    /// Many points: `{"embedding": […], "id": …}` or a bare array of numbers each. A row that is neither gets a problem in place of an
    /// answer; the others are answered.
    #[schema(value_type = Option<Vec<serde_json::Value>>, nullable = false)]
    points: Option<Vec<String>>,
    /// Error level, or several: a set misses the true label in about this share of cases.
    #[schema(value_type = Option<Levels>, nullable = false)]
    alpha: Option<f64>,
    /// What to add to each answer.
    #[schema(nullable = false)]
    include: Option<Vec<Include>>,
    /// What becomes of empty sets.
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

/// What is asked, read.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) points: Points,
    pub(crate) how: How,
}

pub(crate) struct ReadAsked {
    pub(crate) shape: Shape,
    /// What the first `embedding` holds, where that has been read already.
    pub(crate) known: Option<Row>,
}

impl ReadAsked {
    pub(crate) fn new(shape: Shape) -> Self {
        Self { shape, known: None }
    }
}

impl<'de> DeserializeSeed<'de> for ReadAsked {
    type Value = Asked;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Asked, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ReadAsked {
    type Value = Asked;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with `embedding` or `points`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Asked, A::Error> {
        let Self { shape, mut known } = self;
        let (mut one, mut many, mut how) = (None::<Row>, None::<Points>, How::default());
        while let Some(key) = entries.next_key::<String>()? {
            match key.as_str() {
                "embedding" => {
                    let row = match known.take() {
                        Some(row) => entries.next_value::<IgnoredAny>().map(|_| row)?,
                        None => entries.next_value_seed(ReadNumbers(shape))?,
                    };
                    let id = one.take().and_then(|row| row.id);
                    one = Some(Row { id, ..row });
                }
                "id" => one.get_or_insert_default().id = Some(entries.next_value()?),
                "points" => many = Some(entries.next_value_seed(ReadPoints(shape))?),
                "alpha" => {
                    let alphas = match entries.next_value::<Levels>() {
                        Ok(Levels::One(alpha)) => vec![alpha],
                        Ok(Levels::Several(alphas)) => alphas,
                        Err(_) => return Err(A::Error::custom("`alpha` is a number or an array of numbers")),
                    };
                    how.set_alphas(alphas).map_err(A::Error::custom)?;
                }
                "include" => how.set_include(&entries.next_value::<Vec<Include>>()?),
                "empty" => {
                    how.empty = match entries.next_value()? {
                        Empty::Keep => EmptySets::Keep,
                        Empty::Top1 => EmptySets::Top1,
                    }
                }
                other => {
                    let known = "`embedding`, `id`, `points`, `alpha`, `include` and `empty`";
                    return Err(A::Error::custom(format!("`{other}` is not known; there are {known}")));
                }
            }
        }
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
        Ok(Asked { points, how })
    }
}

/// What comes back: the answers in the order of the points, one after the other for several levels, and the rows that have none.
#[derive(Serialize)]
#[allow(clippy::struct_field_names)] // as they are called in the answer
pub(crate) struct Answers<'a> {
    /// The model that answered.
    pub(crate) model: &'a str,
    pub(crate) guarantee: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
    pub(crate) answers: Vec<Answer<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) problems: Vec<RowProblem>,
}

/// What a point must be for the model that is there.
pub(crate) fn shape(state: &State, served: &Served) -> Shape {
    Shape { point: served.model.fitted().point_shape(), most: state.settings.limits.points }
}

#[utoipa::path(
    post, path = "/v1/predict", tag = "sets",
    request_body(content(
        (Described = "application/json"),
        (Vec<u8> = "application/vnd.apache.arrow.stream"),
    )),
    responses(
        (status = 200, description = "The sets", content((crate::openapi::PredictResponse = "application/json"), (Vec<u8> = "application/vnd.apache.arrow.stream"))),
        crate::openapi::Refusals,
    )
)]
/// Prediction sets for one point or many. Ten requests with a point each and one with ten points give the same answers.
pub(crate) async fn predict(
    Shared(state): Shared<Arc<State>>,
    request: Request,
) -> Result<Response, Problem> {
    #[cfg(feature = "arrow")]
    let (query, accept) =
        (request.uri().query().unwrap_or_default().to_owned(), crate::arrow::accepted(request.headers()));
    let read = body::read(&state, request).await?;
    let shape = shape(&state, &state.slot.get());
    #[cfg(feature = "arrow")]
    if read.media_type == crate::arrow::MEDIA_TYPE {
        let asked = crate::arrow::read(&read.bytes, &query, shape)?;
        let answered = answer(&state, asked, read).await?;
        return respond(&answered, accept.unwrap_or(true));
    }
    let asked = match one_point::read(read.json_text()?, shape) {
        Some(asked) => asked,
        None => read.json(ReadAsked::new(shape)).map_err(too_many)?,
    };
    let answered = answer(&state, asked, read).await?;
    #[cfg(feature = "arrow")]
    return respond(&answered, accept.unwrap_or(false));
    #[cfg(not(feature = "arrow"))]
    respond(&answered, false)
}

/// Too many points are too large a request, not a wrong one.
pub(crate) fn too_many(problem: Problem) -> Problem {
    match problem.detail().strip_prefix(TOO_MANY) {
        Some(rest) => Problem::too_large(format!("{TOO_MANY}{rest}")),
        None => problem,
    }
}

/// What the model says, piece by piece.
pub(crate) struct Told {
    pieces: Vec<Answered>,
    /// Row and id of each point that was asked about.
    good: Vec<(usize, Option<serde_json::Value>)>,
    problems: Vec<RowProblem>,
    how: How,
}

async fn answer(state: &Arc<State>, mut asked: Asked, read: body::Read<'_>) -> Result<Told, Problem> {
    let mut told = Told {
        pieces: Vec::new(),
        good: Vec::new(),
        problems: std::mem::take(&mut asked.points.problems),
        how: asked.how,
    };
    if !asked.points.good.is_empty() {
        let points = asked.points.matrix(state.slot.get().dimensions())?;
        let (way, _turn) = read.done();
        told.pieces = state.gather.ask(points, told.how.include.neighbors, way).await?;
        told.good = std::mem::take(&mut asked.points.good);
    }
    // Points that the model itself refuses.
    let mut first = 0;
    let mut refused = Vec::new();
    for piece in &told.pieces {
        refused.extend(piece.refused.iter().map(|(place, detail)| (first + place, detail.clone())));
        first += piece.scored.len() + piece.refused.len();
    }
    for (place, detail) in refused.into_iter().rev() {
        let (row, id) = told.good.remove(place);
        told.problems.push(RowProblem { row, id, detail });
    }
    told.problems.sort_by_key(|problem| problem.row);
    telemetry::points(told.good.len(), told.problems.len());
    if told.good.is_empty() { Err(Problem::rows(told.problems)) } else { Ok(told) }
}

impl Told {
    pub(crate) fn answers(&self) -> Result<Answers<'_>, Problem> {
        let Some(last) = self.pieces.last() else { return Err(Problem::internal()) };
        let mut all = Answers {
            model: &last.served.id,
            guarantee: &last.served.guarantee,
            warnings: Vec::new(),
            answers: Vec::with_capacity(self.good.len() * self.how.alphas.len()),
            problems: self.problems.clone(),
        };
        let mut names = self.good.iter();
        for Answered { served, scored, .. } in &self.pieces {
            let filled;
            let scored = if self.how.empty == EmptySets::Keep {
                scored
            } else {
                filled = scored.clone().with_empty(self.how.empty);
                &filled
            };
            let mut levels = Vec::with_capacity(self.how.alphas.len());
            for &alpha in &self.how.alphas {
                let decision =
                    served.model.decide(alpha).map_err(|error| Problem::wrong(error.to_string()))?;
                for warning in decision.warnings() {
                    if !all.warnings.contains(&warning) {
                        all.warnings.push(warning);
                    }
                }
                levels.push(served.model.answers(scored, &decision, self.how.include).into_iter());
            }
            for _ in 0..scored.len() {
                let Some((row, id)) = names.next() else { return Err(Problem::internal()) };
                for level in &mut levels {
                    let Some(answer) = level.next() else { return Err(Problem::internal()) };
                    all.answers.push(Answer { row: *row, id: id.clone(), ..answer });
                }
            }
        }
        Ok(all)
    }
}

fn respond(told: &Told, arrow: bool) -> Result<Response, Problem> {
    let answers = told.answers()?;
    #[cfg(feature = "arrow")]
    if let (true, Some(last)) = (arrow, told.pieces.last()) {
        return crate::arrow::respond(&last.served.model, &answers, told.how.include);
    }
    let _ = arrow;
    let mut body = Vec::with_capacity(512 * answers.answers.len().min(4096));
    serde_json::to_writer(&mut body, &answers).map_err(|_| Problem::internal())?;
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}
