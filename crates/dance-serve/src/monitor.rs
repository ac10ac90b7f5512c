//! `GET /v1/monitor`: what the journal says about the promise, over time.
//!
//! Only points that came by chance count: coverage of points that were picked says nothing about new ones. The band around coverage is for
//! one look at it; `change`, a test martingale, may be looked at any number of times.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State as Shared};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::journal::{Brief, How};
use crate::level::{self, Level};
use crate::predict::DEFAULT_ALPHA;
use crate::problem::Problem;
use crate::reviewable::band;
use crate::state::State;
use crate::watch::Change;

/// Most places at which the series is told.
const PLACES: usize = 200;

/// At which error level.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AtLevel {
    /// Error level; the nearest hundredth from 0.01 to 0.50 is taken.
    #[param(minimum = 0.01, maximum = 0.5, default = 0.1)]
    alpha: Option<f64>,
}

impl AtLevel {
    /// Read from a query, with what is wrong said in our own words.
    #[allow(clippy::needless_pass_by_value)] // as axum hands it over
    pub(crate) fn read(
        query: Result<Query<Self>, axum::extract::rejection::QueryRejection>,
    ) -> Result<f64, Problem> {
        let Ok(Query(Self { alpha })) = query else {
            return Err(Problem::wrong("the only parameter here is `alpha`, a number from 0.01 to 0.5"));
        };
        match alpha.unwrap_or(DEFAULT_ALPHA) {
            alpha if (0.01..=0.5).contains(&alpha) => Ok(level::nearest(alpha) as f64 / 100.0),
            alpha => Err(Problem::wrong(format!("`alpha` {alpha}: levels here are from 0.01 to 0.5"))),
        }
    }
}

/// What the journal says.
#[derive(Serialize, ToSchema)]
pub(crate) struct Monitor {
    alpha: f64,
    /// Why labels cannot be written, where they cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    /// Labels of points that came by chance, and of points that were picked.
    chance: usize,
    picked: usize,
    /// Coverage of the points that came by chance, as they came.
    series: Vec<Place>,
    /// Whether points or labels have changed since the calibration.
    change: Change,
    /// Every point whose label is known, with the last label.
    labels: Vec<Known>,
}

/// Coverage up to one point.
#[derive(Serialize, ToSchema)]
struct Place {
    /// Points so far.
    points: usize,
    time: String,
    /// Share of them whose set held the label.
    coverage: f64,
    /// Between which it lies by chance, 95 times in 100, if the promise holds.
    low: f64,
    high: f64,
}

/// A point whose label is known.
#[derive(Serialize, ToSchema)]
struct Known {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    label: String,
    how: How,
    /// At which levels the label was in the set.
    #[schema(value_type = serde_json::Value)]
    level: Level,
    time: String,
}

#[utoipa::path(
    get, path = "/v1/monitor", tag = "labels", params(AtLevel),
    responses((status = 200, description = "What the journal says", body = Monitor), crate::openapi::Refusals)
)]
/// Coverage of the points whose labels became known, over time.
pub(crate) async fn monitor(
    Shared(state): Shared<Arc<State>>,
    query: Result<Query<AtLevel>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Monitor>, Problem> {
    let alpha = AtLevel::read(query)?;
    let entries = state.journal.with_entries(<[Brief]>::to_vec);
    let failure = state.journal.failure();
    let work = move || {
        let served = state.slot.get();
        let count = |how| entries.iter().filter(|entry| entry.how == how).count();
        let drawn: Vec<&Brief> = entries.iter().filter(|entry| entry.how == How::Chance).collect();
        let step = drawn.len().div_ceil(PLACES).max(1);
        let (mut covered, mut series) = (0, Vec::new());
        for (points, entry) in (1..).zip(&drawn) {
            covered += usize::from(entry.level.holds(level::nearest(alpha)));
            if points % step == 0 || points == drawn.len() {
                let (low, high) = band(&served.model, points, alpha);
                let coverage = covered as f64 / points as f64;
                series.push(Place { points, time: entry.time.clone(), coverage, low, high });
            }
        }
        let mut last = std::collections::HashMap::new();
        for (place, entry) in entries.iter().enumerate() {
            last.insert(entry.point, place);
        }
        let mut last: Vec<usize> = last.into_values().collect();
        last.sort_unstable();
        let known = |place: usize| {
            let Brief { id, label, how, level, time, .. } = entries[place].clone();
            Known { id, label, how, level, time }
        };
        Monitor {
            alpha,
            failure,
            chance: count(How::Chance),
            picked: count(How::Picked),
            series,
            change: state.watch.change(state.settings.false_alarm),
            labels: last.into_iter().map(known).collect(),
        }
    };
    tokio::task::spawn_blocking(work).await.map(Json).map_err(|_| Problem::internal())
}
