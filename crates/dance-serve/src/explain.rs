//! `POST /v1/explain`: the reasons for which each label is in the set of one point, or is not.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Request, State as Shared};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use dance::data::Value;
use dance::model::ModelPoint;
use dance::scores::Counts;
use dance::{Context, Dance, Matrix, PredictOptions, Prediction, Scored};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body;
use crate::level::{self, Level};
use crate::members::{Numbers, not_null, place};
use crate::predict::{DEFAULT_ALPHA, shape};
use crate::problem::{Problem, RowProblem};
use crate::served::ServedModel;
use crate::state::State;

/// The nearest reference points among which examples are found. There are many, so that distant labels have examples
/// too.
const NEAREST: usize = 5_000;
/// The most examples of a label.
const EXAMPLES: usize = 5;

/// A point by its embedding, or a point of the page by its place.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExplainRequest {
    #[schema(nullable = false, value_type = Option<Vec<f32>>)]
    #[serde(default, deserialize_with = "not_null")]
    embedding: Option<Numbers>,
    /// The place of a point in `/v1/points`, from 0.
    #[schema(nullable = false)]
    #[serde(default, deserialize_with = "place")]
    point: Option<usize>,
    /// The error level.
    #[schema(exclusive_minimum = 0.0, exclusive_maximum = 1.0, default = 0.1)]
    #[serde(default = "default_alpha")]
    alpha: f64,
}

fn default_alpha() -> f64 {
    DEFAULT_ALPHA
}

/// The explanation of one set.
#[derive(Serialize, ToSchema)]
pub(crate) struct Explanation<'a> {
    /// The id of the model.
    model: &'a str,
    guarantee: &'a str,
    alpha: f64,
    /// The most probable label, in the set or not.
    prediction: &'a str,
    /// The number of calibration points behind the p-values.
    calibration_points: usize,
    /// The distance to the nearest reference point, in the learned space.
    nearest: f64,
    /// The novelty p-value: small where the point is unlike all calibration points, whatever its label.
    novelty: f64,
    /// The levels at which the set holds "a new label", one that no point of the model has; null where sets cannot.
    #[schema(value_type = serde_json::Value)]
    new_label: Option<Level>,
    /// Every label, the best conforming first.
    labels: Vec<LabelReason<'a>>,
}

/// The reasons for one label.
#[derive(Serialize, ToSchema)]
struct LabelReason<'a> {
    label: &'a str,
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
    /// The levels at which the label is in the set: the number of hundredths up to which it is, or fifty digits 0 and
    /// 1.
    #[schema(value_type = serde_json::Value)]
    level: Level,
    /// The nearest reference points with the label.
    examples: Vec<Example<'a>>,
}

/// A reference point near the query.
#[derive(Serialize, ToSchema)]
struct Example<'a> {
    #[serde(flatten)]
    #[schema(inline, value_type = crate::openapi::ReferencePoint)]
    point: ModelPoint<Value<'a>>,
    /// The distance in the learned space.
    distance: f64,
    /// The rank among all reference points by distance, from 1.
    rank: usize,
}

#[utoipa::path(
    post, path = "/v1/explain", tag = "sets",
    request_body = ExplainRequest,
    responses((status = 200, description = "The explanation", body = Explanation<'_>), crate::openapi::Refusals)
)]
/// The p-value, the probability and the nearest examples of every label, for one point.
pub(crate) async fn explain(Shared(state): Shared<Arc<State>>, request: Request) -> Result<Response, Problem> {
    let body = body::read(&state, request).await?;
    let request: ExplainRequest = body.json(std::marker::PhantomData)?;
    let (_, _turn) = body.release();
    let alpha = request.alpha;
    if !(alpha > 0.0 && alpha < 1.0) {
        let problem = format!("`alpha` {alpha}: an error level lies between 0 and 1, such as 0.1");
        return Err(Problem::invalid(problem));
    }
    let served = state.slot.get();
    let point = point(&state, &served, request)?;
    let work = move || {
        let explanation = explanation(&served, &point, alpha, &state.context).map_err(invalid_point)?;
        serde_json::to_vec(&explanation).map_err(|_| Problem::internal())
    };
    let json = tokio::task::spawn_blocking(work).await.map_err(|_| Problem::internal())??;
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

/// Returns the embedding of a request, or that of a point of the page.
fn point(state: &State, served: &ServedModel, request: ExplainRequest) -> Result<Matrix, Problem> {
    match (request.embedding, request.point) {
        (Some(Numbers(row)), None) => {
            let shape = shape(state, served);
            let (values, _) =
                row.check(shape).map_err(|(detail, id)| Problem::rows(vec![RowProblem { row: 0, id, detail }]))?;
            Matrix::new(values, 1, shape.point.dimensions).map_err(|_| Problem::internal())
        }
        (None, Some(place)) => match &state.points {
            Some(points) if place < points.len() => Ok(points.embeddings.select(&[place])),
            Some(points) => Err(Problem::invalid(format!("`point` {place}: there are {}, from 0", points.len()))),
            None => Err(Problem::invalid("`point`: this server has no points of its own; start it with --data")),
        },
        _ => Err(Problem::invalid("give either `embedding` or `point`")),
    }
}

#[allow(clippy::needless_pass_by_value)] // for map_err
fn invalid_point(error: dance::Error) -> Problem {
    Problem::rows(vec![RowProblem { row: 0, id: None, detail: error.to_string() }])
}

/// Returns the explanation of one point.
pub(crate) fn explanation<'a>(
    served: &'a ServedModel,
    point: &Matrix,
    alpha: f64,
    context: &Context<'_>,
) -> dance::Result<Explanation<'a>> {
    let model = &served.model;
    let scored = model.score(point, PredictOptions::default().probabilities(true), context)?;
    let prediction = model.predict(&scored, &model.decide(alpha)?);
    let levels = level::of_points(model, &scored)?.pop().unwrap_or_default();
    let examples = examples(model, point, context)?;
    let best = scored.classified.as_ref().map(|best| best.labels[0] as usize);
    let new_labels = model.allows_new_labels();
    Ok(Explanation {
        model: &served.id,
        guarantee: &served.guarantee,
        alpha,
        prediction: best.map_or("", |label| &model.classes()[label]),
        calibration_points: scored.counts.calibration_points(),
        nearest: scored.nearest[0],
        novelty: scored.novelty[0],
        new_label: new_labels.then(|| levels.get(&level::new_label(model)).copied().unwrap_or_default()),
        labels: reasons(model, &scored, &prediction, &levels, examples),
    })
}

/// Returns the nearest reference points of every label.
fn examples<'a>(model: &'a Dance, point: &Matrix, context: &Context<'_>) -> dance::Result<Vec<Vec<Example<'a>>>> {
    let labels = model.reference_labels();
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
) -> Vec<LabelReason<'a>> {
    let counts = &scored.counts;
    let reason = |((label, name), examples): ((u32, &'a String), Vec<Example<'a>>)| {
        let own = counts.get(0, label);
        let by_score =
            |count: fn(Counts) -> u32| matches!(own, Counts::Both { .. }).then(|| counts.p_value(count(own)));
        LabelReason {
            label: name,
            in_set: prediction.sets.contains(0, label),
            p_value: prediction.decision.p_value(counts, own),
            rank_p_value: by_score(Counts::rank),
            contrast_p_value: by_score(Counts::contrast),
            probability: scored.classified.as_ref().map_or(0.0, |all| all.probability(0, label)),
            level: levels.get(&label).copied().unwrap_or_default(),
            examples,
        }
    };
    let mut reasons: Vec<LabelReason<'_>> = (0..).zip(model.classes()).zip(examples).map(reason).collect();
    reasons.sort_by(|a, b| b.p_value.total_cmp(&a.p_value).then(b.probability.total_cmp(&a.probability)));
    reasons
}
