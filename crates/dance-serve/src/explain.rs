//! `POST /v1/explain`: why each label is, or is not, in the set of one point.

use std::sync::Arc;

use axum::extract::{Request, State as Shared};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use dance::conformal::MethodName;
use dance::model::ReferencePoint;
use dance::{Context, Matrix, PredictOptions};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body;
use crate::level::{self, Level};
use crate::members::{Numbers, place, there};
use crate::predict::{DEFAULT_ALPHA, shape};
use crate::problem::{Problem, RowProblem};
use crate::served::Served;
use crate::state::State;

/// Reference points that are looked at, so that labels far away have examples too.
const NEAR: usize = 5_000;
/// Examples of each label.
const EXAMPLES: usize = 5;

/// What is asked: a point by its embedding, or a point of the page by its place.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ExplainRequest)]
pub(crate) struct Asked {
    #[schema(nullable = false, value_type = Option<Vec<f32>>)]
    #[serde(default, deserialize_with = "there")]
    embedding: Option<Numbers>,
    /// The place of a point in `/v1/points`, from 0.
    #[schema(nullable = false)]
    #[serde(default, deserialize_with = "place")]
    point: Option<usize>,
    /// Error level.
    #[schema(exclusive_minimum = 0.0, exclusive_maximum = 1.0, default = 0.1)]
    #[serde(default = "default_alpha")]
    alpha: f64,
}

fn default_alpha() -> f64 {
    DEFAULT_ALPHA
}

/// Why a point has the set it has.
#[derive(Serialize, ToSchema)]
#[schema(as = Explanation)]
pub(crate) struct Explanation<'a> {
    /// The model that says so.
    model: &'a str,
    guarantee: String,
    alpha: f64,
    /// The most probable label of the set; of all labels where it is empty.
    prediction: &'a str,
    /// Calibration points behind the p-values.
    calibration_points: usize,
    /// Distance to the nearest labelled point: large for a point unlike anything seen.
    nearest: f64,
    /// A p-value for coming from where the calibration points come from, whatever the label; null where an older model file does not
    /// say.
    novelty: Option<f64>,
    /// Every label, best first.
    labels: Vec<Reason<'a>>,
}

/// What speaks for a label.
#[derive(Serialize, ToSchema)]
struct Reason<'a> {
    label: &'a str,
    in_set: bool,
    /// The share of calibration points that conform no better; null where two scores decide separately.
    p_value: Option<f64>,
    rank_p_value: f64,
    contrast_p_value: f64,
    probability: f32,
    /// At which levels it is in the set: the number of hundredths up to which, or fifty digits 0 and 1.
    #[schema(value_type = serde_json::Value)]
    level: Level,
    /// The nearest labelled points that carry it.
    examples: Vec<Example<'a>>,
}

/// A labelled point near by.
#[derive(Serialize, ToSchema)]
struct Example<'a> {
    #[serde(flatten)]
    #[schema(inline, value_type = crate::openapi::ReferencePoint)]
    point: ReferencePoint<'a>,
    /// In the space that the model has learned.
    distance: f64,
    /// Its place among all labelled points, from 1.
    rank: usize,
}

#[utoipa::path(
    post, path = "/v1/explain", tag = "sets",
    request_body = Asked,
    responses((status = 200, description = "Why", body = Explanation<'_>), crate::openapi::Refusals)
)]
/// Why each label is, or is not, in the set of one point: p-values, and the labelled points near by.
pub(crate) async fn explain(
    Shared(state): Shared<Arc<State>>,
    request: Request,
) -> Result<Response, Problem> {
    let read = body::read(&state, request).await?;
    let asked: Asked = read.json(std::marker::PhantomData)?;
    let (_, _turn) = read.done();
    if !(asked.alpha > 0.0 && asked.alpha < 1.0) {
        return Err(Problem::wrong(format!(
            "`alpha` {}: an error level lies between 0 and 1, such as 0.1",
            asked.alpha
        )));
    }
    let served = state.slot.get();
    let point = match (asked.embedding, asked.point) {
        (Some(Numbers(row)), None) => {
            let shape = shape(&state, &served);
            let (values, _) = row
                .check(shape)
                .map_err(|(detail, id)| Problem::rows(vec![RowProblem { row: 0, id, detail }]))?;
            Matrix::new(values, 1, shape.point.dimensions).map_err(|_| Problem::internal())?
        }
        (None, Some(place)) => match &state.points {
            Some(points) if place < points.len() => points.embeddings.select(&[place]),
            Some(points) => {
                return Err(Problem::wrong(format!("`point` {place}: there are {}, from 0", points.len())));
            }
            None => {
                return Err(Problem::wrong(
                    "`point`: this server has no points of its own; start it with --data",
                ));
            }
        },
        _ => return Err(Problem::wrong("give either `embedding` or `point`")),
    };
    let work = move || explanation(&served, &point, asked.alpha, &state.context);
    let body = tokio::task::spawn_blocking(work).await.map_err(|_| Problem::internal())??;
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

fn explanation(
    served: &Served,
    point: &Matrix,
    alpha: f64,
    context: &Context<'_>,
) -> Result<Vec<u8>, Problem> {
    let refused =
        |error: dance::Error| Problem::rows(vec![RowProblem { row: 0, id: None, detail: error.to_string() }]);
    let model = &served.model;
    let scored =
        model.score(point, PredictOptions::default().probabilities(true), context).map_err(refused)?;
    let decided = model.predict(&scored, &model.decide(alpha).map_err(refused)?);
    let levels = level::of_points(model, &scored).map_err(refused)?.pop().unwrap_or_default();
    let reference_labels = model.predictor().reference_labels();
    let near = model.neighbors(point, NEAR.min(reference_labels.len()), context).map_err(refused)?;
    let mut examples: Vec<Vec<Example<'_>>> = model.classes().iter().map(|_| Vec::new()).collect();
    for (place, (&id, squared)) in near.ids(0).iter().zip(near.squared(0)).enumerate() {
        let of_label = &mut examples[reference_labels[id as usize] as usize];
        if of_label.len() < EXAMPLES {
            of_label.push(Example {
                point: model.reference_point(id),
                distance: squared.sqrt(),
                rank: place + 1,
            });
        }
    }
    let (counts, combined) = (&scored.counts, model.predictor().method() != MethodName::Dance);
    let mut labels: Vec<Reason<'_>> = (0..)
        .zip(model.classes())
        .zip(examples)
        .map(|((label, name), examples)| {
            let of_label = counts.get(0, label);
            Reason {
                label: name,
                in_set: decided.sets.contains(0, label),
                p_value: combined.then(|| counts.p_value(of_label.combined)),
                rank_p_value: counts.p_value(of_label.rank),
                contrast_p_value: counts.p_value(of_label.contrast),
                probability: scored.classified.as_ref().map_or(0.0, |all| all.probability(0, label)),
                level: levels.get(&label).copied().unwrap_or_default(),
                examples,
            }
        })
        .collect();
    labels.sort_by(|a, b| {
        let p =
            |reason: &Reason<'_>| reason.p_value.unwrap_or(reason.rank_p_value.min(reason.contrast_p_value));
        p(b).total_cmp(&p(a)).then(b.probability.total_cmp(&a.probability))
    });
    let explanation = Explanation {
        model: &served.id,
        guarantee: model.guarantee(),
        alpha,
        prediction: decided.best.as_ref().map_or("", |best| &model.classes()[best.labels[0] as usize]),
        calibration_points: counts.calibration_points(),
        nearest: scored.nearest[0],
        novelty: scored.novelty.as_ref().map(|all| all[0]),
        labels,
    };
    serde_json::to_vec(&explanation).map_err(|_| Problem::internal())
}
