//! Points with labels as Python passes them, and their split into fit and calibration points.

use std::collections::HashSet;

use dance::data::{Kind, Source, split as splits};
use dance::{Dataset, Sampling};
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays;
use crate::errors::Mapped;

/// Points, the class number of each, the names of the classes, the kind of the labels, and the row of each point in the
/// user's array.
#[derive(FromPyObject)]
pub(crate) struct PointsWithLabels<'py>(
    PyReadonlyArray2<'py, f32>,
    PyReadonlyArray1<'py, u32>,
    Vec<String>,
    String,
    PyReadonlyArray1<'py, u32>,
);

impl PointsWithLabels<'_> {
    /// Returns a data set of the library. It may have points of one class alone, and classes without points.
    pub(crate) fn dataset(self) -> PyResult<Dataset> {
        let Self(points, labels, classes, kind, rows) = self;
        let label_kind: Kind = serde_json::from_value(kind.into())
            .map_err(|error| PyValueError::new_err(format!("kind of labels: {error}")))?;
        let (embeddings, labels) = (arrays::matrix(&points)?, labels.as_array().to_vec());
        let rows = rows.as_array().to_vec();
        let n = embeddings.rows();
        if n == 0 || labels.len() != n || rows.len() != n {
            let found = format!("{n} points, {} labels and {} rows", labels.len(), rows.len());
            return Err(PyValueError::new_err(format!("{found}: as many are needed of each, and at least one")));
        }
        if let Some(&label) = labels.iter().find(|&&label| label as usize >= classes.len()) {
            return Err(PyValueError::new_err(format!("label {label} is none of the {} classes", classes.len())));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = classes.iter().find(|name| !seen.insert(name.as_str())) {
            let message = format!("two labels are both written `{twice}`; every class needs a name of its own");
            return Err(PyValueError::new_err(message));
        }
        Ok(Dataset {
            embeddings,
            labels,
            classes,
            ids: None,
            prototypes: None,
            rows,
            source: Source::default(),
            label_kind,
            id_kind: Kind::Text,
            picked: None,
        })
    }
}

/// The sampling of calibration points: its name, the number of points before it, and the number of points without
/// labels.
pub(crate) type Drawn = (String, usize, usize);

/// Returns the sampling that Python names.
pub(crate) fn sampling((name, of, unlabelled): &Drawn) -> PyResult<Sampling> {
    Ok(match (&name[..], *of, *unlabelled) {
        ("random", ..) => Sampling::Random,
        ("groups", ..) => Sampling::Grouped,
        ("window", points, _) => Sampling::Window { points },
        ("weights", of, _) => Sampling::Weighted { of },
        ("label_shift", of, unlabeled) => Sampling::LabelShift { of, unlabeled },
        _ => return Err(PyValueError::new_err(format!("no sampling `{name}`"))),
    })
}

/// Returns the rows of the parts of a seeded split of `points` points for a fit and its calibration. Groups stay whole,
/// and calibration gets one row of each.
#[pyfunction]
#[pyo3(signature = (points, fractions, seed, groups=None))]
pub(crate) fn split<'py>(
    py: Python<'py>,
    points: usize,
    fractions: Vec<f64>,
    seed: u64,
    groups: Option<PyReadonlyArray1<'_, u32>>,
) -> PyResult<Vec<Bound<'py, PyArray1<i64>>>> {
    let parts = match groups {
        Some(groups) => splits::grouped_for_calibration(&groups.as_array().to_vec(), &fractions, seed),
        None => splits::uniform(points, &fractions, seed),
    };
    Ok(parts.mapped()?.iter().map(|rows| arrays::places(py, rows)).collect())
}

/// Returns one row of every group, drawn at random.
#[pyfunction]
pub(crate) fn one_of_each<'py>(
    py: Python<'py>,
    groups: PyReadonlyArray1<'_, u32>,
    seed: u64,
) -> Bound<'py, PyArray1<i64>> {
    arrays::places(py, &splits::one_of_each(&groups.as_array().to_vec(), seed))
}
