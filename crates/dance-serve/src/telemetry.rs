//! What is counted, for Prometheus, and what is logged: one JSON object per line on stderr.

use std::io::Write;
use std::sync::{LazyLock, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use dance::model::Watched;
use metrics::{
    Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use serde::Serialize;

use crate::clock;

const SECONDS: [f64; 13] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0];
const POINTS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 256.0];

/// Where everything is counted: one per process, however many servers it has.
pub(crate) fn recorder() -> PrometheusHandle {
    static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
    let handle = RECORDER.get_or_init(|| {
        let buckets = [("dance_request_seconds", &SECONDS[..]), ("dance_batch_points", &POINTS[..])];
        let builder = buckets.into_iter().try_fold(PrometheusBuilder::new(), |builder, (name, values)| {
            builder.set_buckets_for_metric(Matcher::Full(name.into()), values)
        });
        let recorder = builder.unwrap_or_default().build_recorder();
        let handle = recorder.handle();
        // Where the program that uses this crate has a recorder of its own, that one counts.
        let _ = metrics::set_global_recorder(recorder);
        describe_counter!("dance_requests_total", "Requests by route, method and status");
        describe_histogram!("dance_request_seconds", "From the head of a request to its answer, by route");
        describe_gauge!("dance_requests_in_flight", "Requests that are being answered");
        describe_counter!("dance_points_total", "Points that were answered");
        describe_counter!("dance_points_refused_total", "Points that could not be answered");
        describe_histogram!("dance_batch_points", "Points that were answered together");
        describe_counter!("dance_labels_total", "Labels that became known, by how their points were found");
        describe_counter!("dance_reloads_total", "New models, by outcome");
        describe_gauge!("dance_journal_healthy", "1 while labels can be written");
        describe_gauge!("dance_monitor_points", "Labels that came by chance to the model that is served");
        describe_gauge!("dance_monitor_capital", "What a bet on a change has made of 1, by what is watched");
        describe_gauge!("dance_monitor_alarm", "1 when the monitor has raised an alarm, by what is watched");
        handle
    });
    handle.clone()
}

/// What every request counts, looked up by its name once.
struct Everywhere {
    in_flight: Gauge,
    points: Counter,
    refused: Counter,
    batch: Histogram,
}

static EVERYWHERE: LazyLock<Everywhere> = LazyLock::new(|| {
    // What is looked up before there is a recorder counts nowhere.
    recorder();
    Everywhere {
        in_flight: gauge!("dance_requests_in_flight"),
        points: counter!("dance_points_total"),
        refused: counter!("dance_points_refused_total"),
        batch: histogram!("dance_batch_points"),
    }
});

/// What is counted of one route, method and status.
struct Counted {
    route: String,
    method: &'static str,
    status: u16,
    requests: Counter,
    seconds: Histogram,
}

/// Few: routes and methods are ours, and so are the statuses.
static COUNTED: RwLock<Vec<Counted>> = RwLock::new(Vec::new());

impl Counted {
    fn new(route: &str, method: &'static str, status: u16) -> Self {
        let labels =
            [("route", route.to_owned()), ("method", method.to_owned()), ("status", status.to_string())];
        Self {
            route: route.to_owned(),
            method,
            status,
            requests: counter!("dance_requests_total", &labels),
            seconds: histogram!("dance_request_seconds", "route" => route.to_owned()),
        }
    }

    fn count(&self, took: Duration) {
        self.requests.increment(1);
        self.seconds.record(took.as_secs_f64());
    }
}

fn count(route: &str, method: &'static str, status: u16, took: Duration) {
    let same =
        |counted: &&Counted| (counted.status, counted.method, &*counted.route) == (status, method, route);
    if let Some(counted) = COUNTED.read().unwrap_or_else(PoisonError::into_inner).iter().find(same) {
        return counted.count(took);
    }
    // Another thread may have come first: then there are two of them, which count in the same place.
    let counted = Counted::new(route, method, status);
    counted.count(took);
    COUNTED.write().unwrap_or_else(PoisonError::into_inner).push(counted);
}

pub(crate) fn begin() {
    EVERYWHERE.in_flight.increment(1.0);
}

/// A request that has been answered.
pub(crate) struct Request<'a> {
    pub(crate) id: &'a str,
    pub(crate) method: &'static str,
    /// The route, not the path: paths are as many as ids.
    pub(crate) route: &'a str,
    pub(crate) path: &'a str,
    pub(crate) status: u16,
    pub(crate) took: Duration,
}

pub(crate) fn end(request: &Request<'_>, log: bool) {
    let Request { id, method, route, path, status, took } = *request;
    EVERYWHERE.in_flight.decrement(1.0);
    count(route, method, status, took);
    if log {
        let ms = (took.as_secs_f64() * 1e6).round() / 1e3;
        let level = if status >= 500 { "error" } else { "info" };
        line(&RequestLine { level, method, ms, path, request: id, status, time: clock::now() });
    }
}

/// A line of the log about a request.
#[derive(Serialize)]
struct RequestLine<'a> {
    level: &'a str,
    method: &'a str,
    ms: f64,
    path: &'a str,
    request: &'a str,
    status: u16,
    time: String,
}

/// A line of the log about anything else.
#[derive(Serialize)]
struct EventLine<'a> {
    event: &'a str,
    level: &'a str,
    time: String,
}

pub(crate) fn batch(points: usize) {
    EVERYWHERE.batch.record(points as f64);
}

pub(crate) fn points(answered: usize, refused: usize) {
    EVERYWHERE.points.increment(answered as u64);
    EVERYWHERE.refused.increment(refused as u64);
}

pub(crate) fn labels(how: &'static str, count: usize) {
    counter!("dance_labels_total", "how" => how).increment(count as u64);
}

pub(crate) fn reload(fine: bool) {
    counter!("dance_reloads_total", "outcome" => if fine { "taken" } else { "refused" }).increment(1);
}

pub(crate) fn journal(healthy: bool) {
    gauge!("dance_journal_healthy").set(if healthy { 1.0 } else { 0.0 });
}

/// What the monitor watches, in a word.
pub(crate) fn watched(what: Watched) -> &'static str {
    match what {
        Watched::Inputs => "inputs",
        Watched::Labels => "labels",
    }
}

pub(crate) fn monitor(what: Watched, points: usize, capital: f64, alarm: bool) {
    gauge!("dance_monitor_points").set(points as f64);
    gauge!("dance_monitor_capital", "watched" => watched(what)).set(capital);
    gauge!("dance_monitor_alarm", "watched" => watched(what)).set(if alarm { 1.0 } else { 0.0 });
}

/// Something that happened beside requests.
pub(crate) fn event(level: &str, text: &str) {
    line(&EventLine { event: text, level, time: clock::now() });
}

fn line(fields: &impl Serialize) {
    let mut text = Vec::with_capacity(256);
    if serde_json::to_writer(&mut text, fields).is_ok() {
        text.push(b'\n');
        // One piece: stderr keeps none, and every word would be a call to the system. JSON escapes control characters; a closed
        // stderr is no reason to stop.
        let _ = std::io::stderr().write_all(&text);
    }
}
