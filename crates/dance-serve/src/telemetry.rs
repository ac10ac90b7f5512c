//! Telemetry: metrics for Prometheus, and the log, one JSON object per line on stderr.

use std::io::Write;
use std::sync::{Arc, LazyLock, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use axum::http::HeaderMap;
use dance::model::{Answer, StreamPart};
use metrics::{
    Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use serde::Serialize;

use crate::clock;
use crate::served::ServedModel;

const SECONDS: [f64; 13] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0];
const POINTS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 256.0];
const LABELS: [f64; 10] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0, 50.0, 100.0];
/// The novelty p-value up to which a point counts as novel: of points like the calibration points, one in a hundred.
const NOVEL: f64 = 0.01;
/// The error levels that have metrics of their own, in hundredths: a client can send any.
const LEVELS: usize = 50;

/// The kind of a metric.
#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

macro_rules! metrics {
    ($($constant:ident $kind:ident $name:literal $help:literal,)*) => {
        /// The names of metrics.
        mod name {
            $(pub(super) const $constant: &str = $name;)*
        }
        /// Every metric of requests, sets, labels and drift, with its help.
        const METRICS: &[(Kind, &str, &str)] = &[$((Kind::$kind, name::$constant, $help)),*];
    };
}

metrics![
    REQUESTS Counter "dance_requests_total" "Requests by route, method and status",
    SECONDS Histogram "dance_request_seconds" "Time from the head of a request to its response, by route",
    IN_FLIGHT Gauge "dance_requests_in_flight" "Requests in progress",
    POINTS Counter "dance_points_total" "Points with an answer",
    REFUSED Counter "dance_points_refused_total" "Points without an answer",
    NOVEL Counter "dance_novel_points_total" "Points whose novelty p-value is at most 0.01",
    SET_SIZE Histogram "dance_set_size" "Labels of a set, by alpha",
    EMPTY Counter "dance_sets_empty_total" "Sets without a label, by alpha",
    SINGLE Counter "dance_sets_single_total" "Sets with one label, by alpha",
    BATCH Histogram "dance_batch_points" "Points of a batch",
    LABELS Counter "dance_labels_total" "Labels that became known, by the provenance of their points",
    RELOADS Counter "dance_reloads_total" "Reloads of the model, by outcome",
    JOURNAL Gauge "dance_journal_healthy" "1 while labels can be written",
    DRIFT_POINTS Gauge "dance_drift_points" "Labels of random points, while the present model was served",
    DRIFT_EVIDENCE Gauge "dance_drift_evidence" "Evidence of a change, by what is watched; it begins with 1",
    DRIFT_ALARM Gauge "dance_drift_alarm" "1 after an alarm, by what is watched",
];

/// Returns the recorder of all metrics. A process has one, which its servers share.
pub(crate) fn recorder() -> PrometheusHandle {
    static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
    let handle = RECORDER.get_or_init(|| {
        let buckets = [(name::SECONDS, &SECONDS[..]), (name::BATCH, &POINTS[..]), (name::SET_SIZE, &LABELS[..])];
        let builder = buckets.into_iter().try_fold(PrometheusBuilder::new(), |builder, (name, values)| {
            builder.set_buckets_for_metric(Matcher::Full(name.into()), values)
        });
        let recorder = builder.unwrap_or_default().build_recorder();
        let handle = recorder.handle();
        // A recorder that the program has installed before takes precedence.
        let _ = metrics::set_global_recorder(recorder);
        for &(kind, name, help) in METRICS {
            match kind {
                Kind::Counter => describe_counter!(name, help),
                Kind::Gauge => describe_gauge!(name, help),
                Kind::Histogram => describe_histogram!(name, help),
            }
        }
        handle
    });
    handle.clone()
}

/// The metrics of all requests together, each looked up by its name once.
struct RequestMetrics {
    in_flight: Gauge,
    points: Counter,
    refused: Counter,
    novel: Counter,
    batch: Histogram,
}

static REQUESTS: LazyLock<RequestMetrics> = LazyLock::new(|| {
    // A metric that is looked up before there is a recorder would be lost.
    recorder();
    RequestMetrics {
        in_flight: gauge!(name::IN_FLIGHT),
        points: counter!(name::POINTS),
        refused: counter!(name::REFUSED),
        novel: counter!(name::NOVEL),
        batch: histogram!(name::BATCH),
    }
});

/// The metrics of sets at one error level.
struct SetMetrics {
    size: Histogram,
    empty: Counter,
    single: Counter,
}

impl SetMetrics {
    /// Returns the metrics of the sets at `alpha`. Levels other than hundredths from 0.01 to 0.50 share theirs.
    fn at(alpha: f64) -> &'static Self {
        static SETS: [OnceLock<SetMetrics>; LEVELS + 1] = [const { OnceLock::new() }; LEVELS + 1];
        let hundredths = (alpha * 100.0).round();
        let is_level = (alpha * 100.0 - hundredths).abs() < 1e-9 && (1.0..=LEVELS as f64).contains(&hundredths);
        SETS[if is_level { hundredths as usize } else { 0 }].get_or_init(|| {
            recorder();
            let alpha = if is_level { (hundredths / 100.0).to_string() } else { "other".into() };
            Self {
                size: histogram!(name::SET_SIZE, "alpha" => alpha.clone()),
                empty: counter!(name::EMPTY, "alpha" => alpha.clone()),
                single: counter!(name::SINGLE, "alpha" => alpha),
            }
        })
    }
}

/// Counts the set of an answer. "A new label" is a label of its set.
pub(crate) fn set(answer: &Answer<'_>) {
    let metrics = SetMetrics::at(answer.alpha);
    let size = answer.set.len() + usize::from(answer.new_label == Some(true));
    metrics.size.record(size as f64);
    match size {
        0 => metrics.empty.increment(1),
        1 => metrics.single.increment(1),
        _ => {}
    }
}

/// Counts a point that is novel.
pub(crate) fn novelty(p_value: f64) {
    if p_value <= NOVEL {
        REQUESTS.novel.increment(1);
    }
}

/// The metrics of one route, method and status.
struct RouteMetrics {
    route: &'static str,
    method: &'static str,
    status: u16,
    requests: Counter,
    seconds: Histogram,
}

/// The metrics of all routes. The list is short, since clients cannot add routes, methods or statuses.
static ROUTES: RwLock<Vec<RouteMetrics>> = RwLock::new(Vec::new());

impl RouteMetrics {
    fn new(route: &'static str, method: &'static str, status: u16) -> Self {
        let labels = [("route", route.to_owned()), ("method", method.to_owned()), ("status", status.to_string())];
        Self {
            route,
            method,
            status,
            requests: counter!(name::REQUESTS, &labels),
            seconds: histogram!(name::SECONDS, "route" => route),
        }
    }

    fn count(&self, took: Duration) {
        self.requests.increment(1);
        self.seconds.record(took.as_secs_f64());
    }
}

fn count(route: &'static str, method: &'static str, status: u16, took: Duration) {
    let same = |own: &&RouteMetrics| (own.status, own.method, own.route) == (status, method, route);
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

/// The trace that a request belongs to, by its header `traceparent` of the W3C.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    /// The id of the trace.
    trace: String,
    /// The id of the span that sent the request.
    span: String,
}

impl Trace {
    /// Returns the trace of a valid header: `00-TRACE-SPAN-FLAGS`, in hexadecimal digits.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut parts = headers.get("traceparent")?.to_str().ok()?.split('-');
        let mut part = |length: usize| {
            let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            parts.next().filter(|part| part.len() == length && part.bytes().all(is_digit))
        };
        let (version, trace, span, _flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        // Version ff is forbidden, later versions may have more parts, and an id of zeros is none.
        let is_id = |id: &str| id.bytes().any(|byte| byte != b'0');
        let is_valid = version != "ff" && (version != "00" || parts.next().is_none()) && is_id(trace) && is_id(span);
        is_valid.then(|| Self { trace: trace.to_owned(), span: span.to_owned() })
    }
}

/// The points of a request that were answered, with the model that answered. A response carries them for the log.
#[derive(Clone)]
pub(crate) struct Answered {
    pub(crate) points: usize,
    pub(crate) served: Arc<ServedModel>,
}

/// A request with its response.
pub(crate) struct Request<'a> {
    pub(crate) id: &'a str,
    pub(crate) method: &'static str,
    /// The route, by which requests are counted: there are as many paths as ids.
    pub(crate) route: &'static str,
    pub(crate) path: &'a str,
    pub(crate) status: u16,
    pub(crate) took: Duration,
    /// The name of the key.
    pub(crate) key: Option<&'a str>,
    pub(crate) trace: Option<Trace>,
    pub(crate) points: Option<&'a Answered>,
}

pub(crate) fn end(request: &Request<'_>, log: bool) {
    REQUESTS.in_flight.decrement(1.0);
    count(request.route, request.method, request.status, request.took);
    if log {
        line(&RequestLine {
            key: request.key,
            level: if request.status >= 500 { "error" } else { "info" },
            method: request.method,
            model: request.points.map(|answered| &*answered.served.name.hash),
            ms: (request.took.as_secs_f64() * 1e6).round() / 1e3,
            path: request.path,
            points: request.points.map(|answered| answered.points),
            request: request.id,
            span: request.trace.as_ref().map(|trace| &*trace.span),
            status: request.status,
            time: clock::now(),
            trace: request.trace.as_ref().map(|trace| &*trace.trace),
        });
    }
}

/// A line of the log about a request.
#[derive(Serialize)]
struct RequestLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    level: &'a str,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    ms: f64,
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    points: Option<usize>,
    request: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    span: Option<&'a str>,
    status: u16,
    time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a str>,
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
    counter!(name::LABELS, "provenance" => provenance).increment(count as u64);
}

pub(crate) fn reload(succeeded: bool) {
    counter!(name::RELOADS, "outcome" => if succeeded { "taken" } else { "refused" }).increment(1);
}

pub(crate) fn journal(healthy: bool) {
    gauge!(name::JOURNAL).set(if healthy { 1.0 } else { 0.0 });
}

/// Returns the name of a martingale.
pub(crate) fn martingale_name(what: StreamPart) -> &'static str {
    match what {
        StreamPart::Inputs => "inputs",
        StreamPart::Labels => "labels",
    }
}

pub(crate) fn drift(what: StreamPart, points: usize, evidence: f64, alarm: bool) {
    gauge!(name::DRIFT_POINTS).set(points as f64);
    gauge!(name::DRIFT_EVIDENCE, "watched" => martingale_name(what)).set(evidence);
    gauge!(name::DRIFT_ALARM, "watched" => martingale_name(what)).set(if alarm { 1.0 } else { 0.0 });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_from_its_header() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("traceparent", text.parse().unwrap());
            Trace::of(&headers).map(|trace| (trace.trace, trace.span))
        };
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let both = Some((trace.into(), span.into()));
        assert_eq!(of(&format!("00-{trace}-{span}-01")), both);
        assert_eq!(of(&format!("01-{trace}-{span}-01-more")), both);
        for wrong in [
            format!("00-{trace}-{span}-01-more"),
            format!("ff-{trace}-{span}-01"),
            format!("00-{trace}-{span}"),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            "00".into(),
        ] {
            assert_eq!(of(&wrong), None, "{wrong}");
        }
    }

    /// The dashboard and the alert rules name metrics that the server has, and they watch everything that matters.
    #[test]
    fn monitoring_uses_metrics_of_the_server() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/monitoring/");
        let read = |name: &str| std::fs::read_to_string(format!("{folder}{name}")).unwrap();
        let (dashboard, rules) = (read("grafana-dashboard.json"), read("alerts.yml"));
        serde_json::from_str::<serde_json::Value>(&dashboard).unwrap();
        let names: Vec<&str> = METRICS.iter().map(|(_, name, _)| *name).chain(crate::process::NAMES).collect();
        let words = |text: &str| -> Vec<String> {
            let words = text.split(|sign: char| !(sign.is_ascii_alphanumeric() || sign == '_'));
            let ours = words.filter(|word| word.starts_with("dance_") || word.starts_with("process_"));
            ours.map(str::to_owned).collect()
        };
        let used = [words(&dashboard), words(&rules)].concat();
        for word in &used {
            let plain = ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
            assert!(names.contains(&plain) || names.contains(&&**word), "no metric is called {word}");
        }
        for (_, name, _) in METRICS {
            assert!(used.iter().any(|word| word.starts_with(name)), "neither of both shows {name}");
        }
    }
}
