//! Answers as flat arrays, which become columns of Arrow as they are.

use dance::model::{Best, Include, ReferencePoint};
use dance::{Dance, Prediction};
use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::Mapped;

/// The sets of all points at one level, and what was asked for beside them. Lists of labels follow each other; those of a point
/// are between two offsets, most conforming first, as the program writes them.
#[pyclass(frozen, module = "dance_conformal._native")]
pub(crate) struct Answers {
    best: Vec<i32>,
    probability: Vec<f32>,
    largest_p: Vec<f64>,
    offsets: Vec<i32>,
    labels: Vec<i32>,
    probabilities: Option<Vec<f32>>,
    p_values: Option<Vec<f64>>,
    neighbors: Option<Vec<String>>,
    warnings: Vec<String>,
}

impl Answers {
    pub(crate) fn new(dance: &Dance, scored: &dance::Scored, alpha: f64, include: Include) -> PyResult<Self> {
        let decision = dance.decide(alpha).mapped()?;
        let warnings = decision.warnings();
        let Prediction { sets, decision, best, support, .. } = dance.predict(scored, &decision);
        let best = match best {
            Some(best) => best,
            None if scored.is_empty() => Best::default(),
            None => return Err(PyValueError::new_err("the points were scored without best labels")),
        };
        let mut answers = Self {
            best: best.labels.iter().map(|&label| label as i32).collect(),
            probability: best.probabilities,
            largest_p: Vec::with_capacity(sets.len()),
            offsets: vec![0],
            labels: Vec::with_capacity(sets.labels.len()),
            probabilities: include.probabilities.then(Vec::new),
            p_values: include.p_values.then(Vec::new),
            neighbors: include.neighbors.then(Vec::new),
            warnings,
        };
        for (query, set) in sets.iter().enumerate() {
            let order = scored.conforming(query, set);
            answers.largest_p.push(decision.largest_p_value(&scored.counts, query, dance.classes().len()));
            for &place in &order {
                let label = set[place];
                answers.labels.push(label as i32);
                if let (Some(all), Some(classified)) = (&mut answers.probabilities, &scored.classified) {
                    all.push(classified.probability(query, label));
                }
                if let Some(all) = &mut answers.p_values {
                    all.push(decision.p_value(&scored.counts, scored.counts.get(query, label)));
                }
            }
            let end = i32::try_from(answers.labels.len());
            answers.offsets.push(end.map_err(|_| {
                PyValueError::new_err(
                    "the sets of a batch hold more than two thousand million labels; use smaller batches",
                )
            })?);
            if let (Some(all), Some(support)) = (&mut answers.neighbors, &support) {
                let begin = sets.offsets[query];
                let named = |&place: &usize| -> Vec<ReferencePoint<'_>> {
                    support[begin + place].iter().map(|&id| dance.reference_point(id)).collect()
                };
                let lists: Vec<_> = order.iter().map(named).collect();
                all.push(crate::model::to_json(&lists)?);
            }
        }
        Ok(answers)
    }
}

#[pymethods]
impl Answers {
    /// The most probable label of every set, of all labels where the set is empty.
    #[getter]
    fn best<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i32>> {
        PyArray1::from_slice(py, &self.best)
    }

    /// Its probability.
    #[getter]
    fn probability<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        PyArray1::from_slice(py, &self.probability)
    }

    /// The largest p-value of any label.
    #[getter]
    fn largest_p<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.largest_p)
    }

    /// Where the lists of every point begin, and where the last ends.
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i32>> {
        PyArray1::from_slice(py, &self.offsets)
    }

    /// The labels of all sets.
    #[getter]
    fn labels<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i32>> {
        PyArray1::from_slice(py, &self.labels)
    }

    /// Their probabilities, where asked for.
    #[getter]
    fn probabilities<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f32>>> {
        self.probabilities.as_ref().map(|all| PyArray1::from_slice(py, all))
    }

    /// Their p-values, where asked for.
    #[getter]
    fn p_values<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f64>>> {
        self.p_values.as_ref().map(|all| PyArray1::from_slice(py, all))
    }

    /// The points that speak for every label, a JSON text per point, where asked for.
    #[getter]
    fn neighbors(&self) -> Option<Vec<String>> {
        self.neighbors.clone()
    }

    /// What the user should know.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }
}
