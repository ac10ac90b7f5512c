//! `GET /v1/monitor`: the coverage of the labels in the journal, over time.
//!
//! Only random points are measured: the coverage of picked points is no estimate for new ones. The band around
//! coverage holds for one look at a fixed number of points. The test martingales of `change` stay valid however often
//! one looks.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State as Shared};
use dance::Dance;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::change::Change;
use crate::journal::{Provenance, Summary};
use crate::level;
use crate::problem::Problem;
use crate::reviewable::band;
use crate::state::State;

/// The most places of the series.
const PLACES: usize = 200;

/// The error level of a query.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LevelQuery {
    /// Error level, by default that of the model; the nearest hundredth from 0.01 to 0.50 is taken.
    #[param(minimum = 0.01, maximum = 0.5)]
    alpha: Option<f64>,
}

impl LevelQuery {
    /// Returns the level, rounded to a hundredth; without one, that of the model.
    #[allow(clippy::needless_pass_by_value)] // axum's extractor is a value
    pub(crate) fn alpha(query: Result<Query<Self>, QueryRejection>, state: &State) -> Result<f64, Problem> {
        let Ok(Query(Self { alpha })) = query else {
            return Err(Problem::invalid("the only parameter here is `alpha`, a number from 0.01 to 0.5"));
        };
        match alpha.unwrap_or_else(|| state.slot.get().alpha().clamp(0.01, 0.5)) {
            alpha if (0.01..=0.5).contains(&alpha) => Ok(level::nearest(alpha) as f64 / 100.0),
            alpha => Err(Problem::invalid(format!("`alpha` {alpha}: levels here are from 0.01 to 0.5"))),
        }
    }
}

/// The coverage of the labels in the journal, which `GET /v1/labels` lists.
#[derive(Serialize, ToSchema)]
pub(crate) struct Monitor {
    alpha: f64,
    /// The error that keeps labels from being written, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    /// The number of labels of random points.
    random: usize,
    /// The number of labels of picked points.
    picked: usize,
    /// The running coverage of the random points.
    series: Vec<SeriesPlace>,
    /// The evidence that points or labels have changed since the calibration.
    change: Change,
}

/// The coverage up to one point.
#[derive(Serialize, ToSchema)]
struct SeriesPlace {
    /// The number of points so far.
    points: usize,
    time: String,
    /// Share of them whose set held the label.
    coverage: f64,
    /// The lower end of the band in which coverage lies 95 times in 100 if the guarantee holds.
    low: f64,
    /// The upper end of the band.
    high: f64,
}

#[utoipa::path(
    get, path = "/v1/monitor", params(LevelQuery),
    responses((status = 200, description = "The coverage over time", body = Monitor), crate::openapi::Refusals)
)]
/// The coverage of the points whose labels became known, over time.
pub(crate) async fn monitor(
    Shared(state): Shared<Arc<State>>,
    query: Result<Query<LevelQuery>, QueryRejection>,
) -> Result<Json<Monitor>, Problem> {
    let alpha = LevelQuery::alpha(query, &state)?;
    let entries = state.journal.summaries();
    let failure = state.journal.failure();
    let work = move || {
        let count = |provenance| entries.iter().filter(|entry| entry.provenance == provenance).count();
        Monitor {
            alpha,
            failure,
            random: count(Provenance::Random),
            picked: count(Provenance::Picked),
            series: series(&state.slot.get().model, &entries, alpha),
            change: state.change.report(),
        }
    };
    tokio::task::spawn_blocking(work).await.map(Json).map_err(|_| Problem::internal())
}

/// Returns the running coverage of the random points, at no more than about [`PLACES`] places.
fn series(model: &Dance, entries: &[Summary], alpha: f64) -> Vec<SeriesPlace> {
    let drawn: Vec<&Summary> = entries.iter().filter(|entry| entry.provenance == Provenance::Random).collect();
    let step = drawn.len().div_ceil(PLACES).max(1);
    let (mut covered, mut series) = (0, Vec::new());
    for (points, entry) in (1..).zip(&drawn) {
        covered += usize::from(entry.level.holds(level::nearest(alpha)));
        if points % step == 0 || points == drawn.len() {
            let (low, high) = band(model, points, alpha);
            let coverage = covered as f64 / points as f64;
            series.push(SeriesPlace { points, time: entry.time.clone(), coverage, low, high });
        }
    }
    series
}
