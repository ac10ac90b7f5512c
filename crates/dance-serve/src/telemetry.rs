//! Telemetry: metrics for Prometheus, and the log, one JSON object per line on stderr.

use std::io::Write;
use std::sync::{LazyLock, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use dance::model::StreamPart;
use metrics::{
    Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use serde::Serialize;

use crate::clock;

const SECONDS: [f64; 13] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0];
const POINTS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 256.0];

/// Returns the recorder of all metrics. A process has one, which its servers share.
pub(crate) fn recorder() -> PrometheusHandle {
    static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
    let handle = RECORDER.get_or_init(|| {
        let buckets = [("dance_request_seconds", &SECONDS[..]), ("dance_batch_points", &POINTS[..])];
        let builder = buckets.into_iter().try_fold(PrometheusBuilder::new(), |builder, (name, values)| {
            builder.set_buckets_for_metric(Matcher::Full(name.into()), values)
        });
        let recorder = builder.unwrap_or_default().build_recorder();
        let handle = recorder.handle();
        // A recorder that the program has installed before takes precedence.
        let _ = metrics::set_global_recorder(recorder);
        describe_counter!("dance_requests_total", "Requests by route, method and status");
        describe_histogram!("dance_request_seconds", "Time from the head of a request to its response, by route");
        describe_gauge!("dance_requests_in_flight", "Requests in progress");
        describe_counter!("dance_points_total", "Points with an answer");
        describe_counter!("dance_points_refused_total", "Points without an answer");
        describe_histogram!("dance_batch_points", "Points of a batch");
        describe_counter!("dance_labels_total", "Labels that became known, by the provenance of their points");
        describe_counter!("dance_reloads_total", "Reloads of the model, by outcome");
        describe_gauge!("dance_journal_healthy", "1 while labels can be written");
        describe_gauge!("dance_monitor_points", "Labels of random points, while the present model was served");
        describe_gauge!("dance_monitor_capital", "Capital of the bet on a change, by martingale");
        describe_gauge!("dance_monitor_alarm", "1 after an alarm, by martingale");
        handle
    });
    handle.clone()
}

/// The metrics of all requests together, each looked up by its name once.
struct RequestMetrics {
    in_flight: Gauge,
    points: Counter,
    refused: Counter,
    batch: Histogram,
}

static REQUESTS: LazyLock<RequestMetrics> = LazyLock::new(|| {
    // A metric that is looked up before there is a recorder would be lost.
    recorder();
    RequestMetrics {
        in_flight: gauge!("dance_requests_in_flight"),
        points: counter!("dance_points_total"),
        refused: counter!("dance_points_refused_total"),
        batch: histogram!("dance_batch_points"),
    }
});

/// The metrics of one route, method and status.
struct RouteMetrics {
    route: String,
    method: &'static str,
    status: u16,
    requests: Counter,
    seconds: Histogram,
}

/// The metrics of all routes. The list is short, since clients cannot add routes, methods or statuses.
static ROUTES: RwLock<Vec<RouteMetrics>> = RwLock::new(Vec::new());

impl RouteMetrics {
    fn new(route: &str, method: &'static str, status: u16) -> Self {
        let labels = [("route", route.to_owned()), ("method", method.to_owned()), ("status", status.to_string())];
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
    let same = |own: &&RouteMetrics| (own.status, own.method, &*own.route) == (status, method, route);
    if let Some(own) = ROUTES.read().unwrap_or_else(PoisonError::into_inner).iter().find(same) {
        return own.count(took);
    }
    // Two threads may add the same metrics. Both entries count in the same place.
    let own = RouteMetrics::new(route, method, status);
    own.count(took);
    ROUTES.write().unwrap_or_else(PoisonError::into_inner).push(own);
}

pub(crate) fn begin() {
    REQUESTS.in_flight.increment(1.0);
}

/// A request with its response.
pub(crate) struct Request<'a> {
    pub(crate) id: &'a str,
    pub(crate) method: &'static str,
    /// The route, by which requests are counted: there are as many paths as ids.
    pub(crate) route: &'a str,
    pub(crate) path: &'a str,
    pub(crate) status: u16,
    pub(crate) took: Duration,
}

pub(crate) fn end(request: &Request<'_>, log: bool) {
    let Request { id, method, route, path, status, took } = *request;
    REQUESTS.in_flight.decrement(1.0);
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

/// A line of the log about any other event.
#[derive(Serialize)]
struct EventLine<'a> {
    event: &'a str,
    level: &'a str,
    time: String,
}

pub(crate) fn batch(points: usize) {
    REQUESTS.batch.record(points as f64);
}

pub(crate) fn points(answered: usize, refused: usize) {
    REQUESTS.points.increment(answered as u64);
    REQUESTS.refused.increment(refused as u64);
}

pub(crate) fn labels(provenance: &'static str, count: usize) {
    counter!("dance_labels_total", "provenance" => provenance).increment(count as u64);
}

pub(crate) fn reload(succeeded: bool) {
    counter!("dance_reloads_total", "outcome" => if succeeded { "taken" } else { "refused" }).increment(1);
}

pub(crate) fn journal(healthy: bool) {
    gauge!("dance_journal_healthy").set(if healthy { 1.0 } else { 0.0 });
}

/// Returns the name of a martingale.
pub(crate) fn martingale_name(what: StreamPart) -> &'static str {
    match what {
        StreamPart::Inputs => "inputs",
        StreamPart::Labels => "labels",
    }
}

pub(crate) fn monitor(what: StreamPart, points: usize, capital: f64, alarm: bool) {
    gauge!("dance_monitor_points").set(points as f64);
    gauge!("dance_monitor_capital", "watched" => martingale_name(what)).set(capital);
    gauge!("dance_monitor_alarm", "watched" => martingale_name(what)).set(if alarm { 1.0 } else { 0.0 });
}

/// Logs an event that is not a request.
pub(crate) fn event(level: &str, text: &str) {
    line(&EventLine { event: text, level, time: clock::now() });
}

fn line(fields: &impl Serialize) {
    let mut text = Vec::with_capacity(256);
    if serde_json::to_writer(&mut text, fields).is_ok() {
        text.push(b'\n');
        // The line is written in one call, since stderr has no buffer. A closed stderr is ignored.
        let _ = std::io::stderr().write_all(&text);
    }
}
