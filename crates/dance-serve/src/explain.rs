//! `POST /v1/explain`: the reasons for which each label is in the set of one point, or is not.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Request, State as Shared};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use dance::data::Value as Name;
use dance::model::ReferencePoint;
use dance::scores::Counts;
use dance::{Context, Dance, Matrix, PredictOptions, Prediction, Scored};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::body;
use crate::level::{self, Level};
use crate::members::{Numbers, not_null, place};
use crate::names::is_id;
use crate::predict::shape;
use crate::problem::{Problem, RowProblem};
use crate::reviewable::NO_POINTS;
use crate::served::{ModelName, ServedModel};
use crate::state::State;

/// The nearest reference points among which examples are found. There are many, so that distant labels have examples
/// too.
const NEAREST: usize = 5_000;
/// The most examples of a label.
const EXAMPLES: usize = 5;

/// A point by its embedding.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExplainRequest {
    /// The embedding of the point.
    #[schema(value_type = Vec<f32>)]
    embedding: Numbers,
    /// The id of the point, which the response has too.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = Option<crate::problem::Id>, nullable = false)]
    id: Option<Value>,
    /// The error level; without it, the first of the model.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(exclusive_minimum = 0.0, exclusive_maximum = 1.0, nullable = false)]
    alpha: Option<f64>,
}

/// A point of the page by its place, or one by its embedding.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PageRequest {
    #[serde(default, deserialize_with = "not_null")]
    embedding: Option<Numbers>,
    /// The place of a point of the page, from 0.
    #[serde(default, deserialize_with = "place")]
    point: Option<usize>,
    #[serde(default, deserialize_with = "not_null")]
    alpha: Option<f64>,
}

/// The explanation of one set.
#[derive(Serialize, ToSchema)]
pub(crate) struct Explanation<'a> {
    /// The model that answered.
    model: &'a ModelName,
    guarantee: &'a str,
    /// The id of the point, as the request has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<crate::problem::Id>, nullable = false)]
    pub(crate) id: Option<Value>,
    alpha: f64,
    /// The most probable label, in the set or not.
    #[schema(value_type = crate::openapi::Label)]
    prediction: Name<'a>,
    /// The probability of `prediction`.
    probability: f32,
    /// The number of calibration points behind the p-values.
    calibration_points: usize,
    /// The distance to the nearest reference point, in the learned space.
    nearest: f64,
    /// The novelty p-value: small where the point is unlike all calibration points, whatever its label.
    novelty: f64,
    /// The set holds "a new label" too, one that no point of the model has. Only models with new labels send it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    new_label: Option<bool>,
    /// The levels at which the set holds "a new label", for the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(ignore)]
    new_label_level: Option<Level>,
    /// Every label, the best conforming first.
    labels: Vec<LabelReason<'a>>,
}

/// The reasons for one label.
#[derive(Serialize, ToSchema)]
struct LabelReason<'a> {
    #[schema(value_type = crate::openapi::Label)]
    label: Name<'a>,
    in_set: bool,
    /// The p-value that decides: the label is in the set if and only if it exceeds `alpha`.
    p_value: f64,
    /// The p-value by the rank score alone, in the method dance.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    rank_p_value: Option<f64>,
    /// The p-value by the contrastive score alone, in the method dance.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    contrast_p_value: Option<f64>,
    probability: f32,
    /// The largest error level, of the hundredths from 0.01 to 0.50, at which the label is in the set; 0 if none is.
    alpha_max: f64,
    /// The levels at which the label is in the set, for the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(ignore)]
    level: Option<Level>,
    /// The nearest reference points with the label.
    examples: Vec<Example<'a>>,
}

/// A reference point near the query.
#[derive(Serialize, ToSchema)]
struct Example<'a> {
    #[serde(flatten)]
    #[schema(inline, value_type = crate::openapi::ReferencePoint)]
    point: ReferencePoint<'a>,
    /// The distance in the learned space.
    distance: f64,
    /// The rank among all reference points by distance, from 1.
    rank: usize,
}

#[utoipa::path(
    post, path = "/v1/explain",
    request_body = ExplainRequest,
    responses((status = 200, description = "The explanation", body = Explanation<'_>), crate::openapi::Refusals)
)]
/// The p-value, the probability and the nearest examples of every label, for one point.
pub(crate) async fn explain(Shared(state): Shared<Arc<State>>, request: Request) -> Result<Response, Problem> {
    let body = body::read(&state, request).await?;
    let ExplainRequest { embedding, id, alpha } = body.json(std::marker::PhantomData)?;
    let (_, _turn) = body.release();
    if id.as_ref().is_some_and(|id| !is_id(id)) {
        return Err(Problem::invalid("`id`: an id is a text or a whole number"));
    }
    let served = state.slot.get();
    let point = embedded(&state, &served, embedding)?;
    respond(state, served, point, alpha, id, false).await
}

/// Explains a point for the page, by its place or its embedding, with the levels of every label.
pub(crate) async fn explain_for_page(Shared(state): Shared<Arc<State>>, request: Request) -> Result<Response, Problem> {
    let body = body::read(&state, request).await?;
    let request: PageRequest = body.json(std::marker::PhantomData)?;
    let (_, _turn) = body.release();
    let served = state.slot.get();
    let point = match (request.embedding, request.point) {
        (Some(embedding), None) => embedded(&state, &served, embedding)?,
        (None, Some(place)) => match &state.points {
            Some(points) if place < points.len() => points.embeddings.select(&[place]),
            Some(points) => {
                return Err(Problem::invalid(format!("`point` {place}: there are {}, from 0", points.len())));
            }
            None => return Err(Problem::not_found(NO_POINTS)),
        },
        _ => return Err(Problem::invalid("give either `embedding` or `point`")),
    };
    respond(state, served, point, request.alpha, None, true).await
}

/// Returns the point of an embedding.
fn embedded(state: &State, served: &ServedModel, Numbers(row): Numbers) -> Result<Matrix, Problem> {
    let shape = shape(state, served);
    let (values, _) =
        row.check(shape).map_err(|(detail, id)| Problem::rows(vec![RowProblem { row: 0, id, detail }]))?;
    Matrix::new(values, 1, shape.point.dimensions).map_err(|_| Problem::internal())
}

async fn respond(
    state: Arc<State>,
    served: Arc<ServedModel>,
    point: Matrix,
    alpha: Option<f64>,
    id: Option<Value>,
    for_page: bool,
) -> Result<Response, Problem> {
    let alpha = alpha.unwrap_or_else(|| served.alpha());
    if !(alpha > 0.0 && alpha < 1.0) {
        let problem = format!("`alpha` {alpha}: an error level lies between 0 and 1, such as 0.1");
        return Err(Problem::invalid(problem));
    }
    let work = move || {
        let found = explanation(&served, &point, alpha, for_page, &state.context).map_err(invalid_point)?;
        serde_json::to_vec(&Explanation { id, ..found }).map_err(|_| Problem::internal())
    };
    let json = tokio::task::spawn_blocking(work).await.map_err(|_| Problem::internal())??;
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

#[allow(clippy::needless_pass_by_value)] // for map_err
fn invalid_point(error: dance::Error) -> Problem {
    Problem::rows(vec![RowProblem { row: 0, id: None, detail: error.to_string() }])
}

/// Returns the explanation of one point. The page gets the levels of every label too.
pub(crate) fn explanation<'a>(
    served: &'a ServedModel,
    point: &Matrix,
    alpha: f64,
    for_page: bool,
    context: &Context<'_>,
) -> dance::Result<Explanation<'a>> {
    let model = &served.model;
    let scored = model.score(point, PredictOptions::default().probabilities(true), context)?;
    let prediction = model.predict(&scored, &model.decide(alpha)?);
    let levels = level::of_points(model, &scored)?.pop().unwrap_or_default();
    let examples = examples(model, point, context)?;
    let best = scored.classified.as_ref().map(|best| (best.labels[0], best.probability(0, best.labels[0])));
    let kind = model.label_kind();
    let new_labels = model.predictor().method().new_labels() && for_page;
    Ok(Explanation {
        model: &served.name,
        guarantee: &served.guarantee,
        id: None,
        alpha,
        prediction: kind.value(best.map_or("", |(label, _)| &model.classes()[label as usize])),
        probability: best.map_or(0.0, |(_, probability)| probability),
        calibration_points: scored.counts.calibration_points(),
        nearest: scored.nearest[0],
        novelty: scored.novelty[0],
        new_label: prediction.new_label.as_ref().map(|all| all[0]),
        new_label_level: new_labels.then(|| levels.get(&level::new_label(model)).copied().unwrap_or_default()),
        labels: reasons(model, &scored, &prediction, &levels, examples, for_page),
    })
}

/// Returns the nearest reference points of every label.
fn examples<'a>(model: &'a Dance, point: &Matrix, context: &Context<'_>) -> dance::Result<Vec<Vec<Example<'a>>>> {
    let labels = model.predictor().reference_labels();
    let near = model.neighbors(point, NEAREST.min(labels.len()), context)?;
    let mut examples: Vec<Vec<Example<'a>>> = model.classes().iter().map(|_| Vec::new()).collect();
    for (place, (&id, squared)) in near.ids(0).iter().zip(near.squared(0)).enumerate() {
        let of_label = &mut examples[labels[id as usize] as usize];
        if of_label.len() < EXAMPLES {
            let distance = squared.sqrt();
            of_label.push(Example { point: model.reference_point(id), distance, rank: place + 1 });
        }
    }
    Ok(examples)
}

/// Returns the reasons for every label of one scored point, by descending p-value, then by probability.
fn reasons<'a>(
    model: &'a Dance,
    scored: &Scored,
    prediction: &Prediction,
    levels: &BTreeMap<u32, Level>,
    examples: Vec<Vec<Example<'a>>>,
    for_page: bool,
) -> Vec<LabelReason<'a>> {
    let counts = &scored.counts;
    let reason = |((label, name), examples): ((u32, &'a String), Vec<Example<'a>>)| {
        let own = counts.get(0, label);
        let by_score =
            |count: fn(Counts) -> u32| matches!(own, Counts::Both { .. }).then(|| counts.p_value(count(own)));
        let level = levels.get(&label).copied().unwrap_or_default();
        LabelReason {
            label: model.label_kind().value(name),
            in_set: prediction.sets.contains(0, label),
            p_value: prediction.decision.p_value(counts, own),
            rank_p_value: by_score(Counts::rank),
            contrast_p_value: by_score(Counts::contrast),
            probability: scored.classified.as_ref().map_or(0.0, |all| all.probability(0, label)),
            alpha_max: level.highest(),
            level: for_page.then_some(level),
            examples,
        }
    };
    let mut reasons: Vec<LabelReason<'_>> = (0..).zip(model.classes()).zip(examples).map(reason).collect();
    reasons.sort_by(|a, b| b.p_value.total_cmp(&a.p_value).then(b.probability.total_cmp(&a.probability)));
    reasons
}
