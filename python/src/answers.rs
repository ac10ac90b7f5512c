//! Answers as flat arrays, which become columns of Arrow without a copy of each value.

use dance::conformal::Decision;
use dance::data::Value;
use dance::model::ModelPoint;
use dance::scores::{Counts, LabelCounts};
use dance::{Dance, Prediction, Scored};
use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::Mapped;

/// The lists that an answer holds beside the set.
#[derive(Clone, Copy)]
pub(crate) struct Include {
    pub(crate) probabilities: bool,
    pub(crate) p_values: bool,
    pub(crate) neighbors: bool,
}

/// The sets of all points at one error level, with the lists that were requested. The labels of a point lie between two
/// offsets, the best conforming first, as in the JSON of the program.
#[pyclass(frozen, module = "dance_conformal._native")]
pub(crate) struct Answers {
    predictions: Vec<i32>,
    probability: Vec<f32>,
    largest_p: Vec<f64>,
    offsets: Vec<i32>,
    labels: Vec<i32>,
    new_label: Option<Vec<bool>>,
    probabilities: Option<Vec<f32>>,
    p_values: Option<Vec<f64>>,
    novelty: Vec<f64>,
    support: Option<Vec<String>>,
    warnings: Vec<String>,
}

impl Answers {
    pub(crate) fn new(dance: &Dance, scored: &Scored, alpha: f64, include: Include) -> PyResult<Self> {
        let decision = dance.decide(alpha).mapped()?;
        let warnings = decision.warnings();
        let Prediction { sets, decision, support, new_label, .. } = dance.predict(scored, &decision);
        let classified = scored.classified.clone().unwrap_or_default();
        if classified.labels.len() != scored.len() {
            return Err(PyValueError::new_err("the points were scored without best labels"));
        }
        let predicted = classified.labels.iter().enumerate();
        let mut answers = Self {
            predictions: predicted.clone().map(|(_, &label)| label as i32).collect(),
            probability: predicted.map(|(row, &label)| classified.probability(row, label)).collect(),
            largest_p: Vec::with_capacity(sets.len()),
            offsets: vec![0],
            labels: Vec::with_capacity(sets.labels().len()),
            new_label,
            probabilities: include.probabilities.then(Vec::new),
            p_values: include.p_values.then(Vec::new),
            novelty: scored.novelty.clone(),
            support: include.neighbors.then(Vec::new),
            warnings,
        };

        for (query, set) in sets.iter().enumerate() {
            let order = scored.conforming(query, set);
            let largest = decision.largest_p_value(&scored.counts, query, dance.classes().len());
            answers.largest_p.push(largest);
            // The lists beside the set: one value per label, in the order of the labels.
            for &place in &order {
                let label = set[place];
                answers.labels.push(label as i32);
                if let Some(all) = &mut answers.probabilities {
                    all.push(classified.probability(query, label));
                }
                if let Some(all) = &mut answers.p_values {
                    all.push(p_value(&decision, &scored.counts, scored.counts.get(query, label)));
                }
            }
            let end = i32::try_from(answers.labels.len());
            answers.offsets.push(end.map_err(|_| {
                PyValueError::new_err(
                    "the sets of a batch hold more than two thousand million labels; use smaller batches",
                )
            })?);
            // Support lies in the order of the set, and is listed in the order of the answer.
            if let (Some(all), Some(support)) = (&mut answers.support, &support) {
                let begin = sets.offsets()[query];
                let named = |&place: &usize| -> Vec<ModelPoint<Value<'_>>> {
                    support[begin + place].iter().map(|&id| dance.reference_point(id)).collect()
                };
                let lists: Vec<_> = order.iter().map(named).collect();
                all.push(crate::model::to_json(&lists)?);
            }
        }
        Ok(answers)
    }
}

/// Returns the p-value that decides about a label.
pub(crate) fn p_value(decision: &Decision, all: &LabelCounts, counts: Counts) -> f64 {
    decision.p_value(all, counts)
}

#[pymethods]
impl Answers {
    /// The most probable label of every point.
    #[getter]
    fn predictions<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i32>> {
        PyArray1::from_slice(py, &self.predictions)
    }

    /// The probability of the most probable label.
    #[getter]
    fn probability<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        PyArray1::from_slice(py, &self.probability)
    }

    /// The largest p-value of any label.
    #[getter]
    fn largest_p<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.largest_p)
    }

    /// The start of every point's lists, then the end of the last.
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i32>> {
        PyArray1::from_slice(py, &self.offsets)
    }

    /// The labels of all sets.
    #[getter]
    fn labels<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i32>> {
        PyArray1::from_slice(py, &self.labels)
    }

    /// For every set, true where it holds a new label; `None` where sets cannot hold a new label.
    #[getter]
    fn new_label<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<bool>>> {
        self.new_label.as_ref().map(|all| PyArray1::from_slice(py, all))
    }

    /// The probabilities of the labels, where they were requested.
    #[getter]
    fn probabilities<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f32>>> {
        self.probabilities.as_ref().map(|all| PyArray1::from_slice(py, all))
    }

    /// The p-values of the labels, where they were requested.
    #[getter]
    fn p_values<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f64>>> {
        self.p_values.as_ref().map(|all| PyArray1::from_slice(py, all))
    }

    /// The points in support of every label, one JSON text per point, where they were requested.
    #[getter]
    fn support(&self) -> Option<Vec<String>> {
        self.support.clone()
    }

    /// The novelty p-value of every point.
    #[getter]
    fn novelty<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.novelty)
    }

    /// Warnings about the error level.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }
}
