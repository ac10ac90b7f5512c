//! Conformal prediction sets for any classifier built on embeddings.
//!
//! ```
//! use dance::data::{io, split};
//! use dance::{Config, Context, Fitted, PredictOptions, device::Cpu};
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("points.csv");
//! # let line = |i: usize| format!("{},{},{}\n", ["a", "b", "c"][i % 3], 10 * (i % 3) + i % 7, i % 5 + 1);
//! # std::fs::write(&path, "label,x,y\n".to_owned() + &(0..90).map(line).collect::<String>())?;
//! # let mut config = Config::default();
//! # config.tune.evaluations = 2;
//!
//! let context = Context::new(0)?; // one thread per core
//! let data = io::read(&path, &io::ReadOptions::default())?.into_dataset()?;
//! let parts = split::uniform(data.len(), &[0.4, 0.4, 0.2], 0)?;
//! let [fit, calibration, test] = [0, 1, 2].map(|part| data.select(&parts[part]));
//! let model = Fitted::fit(&Cpu, &fit, &config, &context)?.calibrate(&Cpu, &calibration, &context)?;
//! let scored = model.score(&test.embeddings, PredictOptions::default(), &context)?;
//! let sets = model.predict(&scored, &model.decide(0.1)?).sets; // a set holds its query's label with probability 0.9
//! println!("{:?}", sets.get(0).iter().map(|&label| &model.classes()[label as usize]).collect::<Vec<_>>());
//! # assert_eq!(sets.len(), test.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The modules, in the order in which data pass through them. Each module uses only the modules before it:
//! 1. [`numeric`] and [`device`]: arithmetic, and the processor on which heavy work runs.
//! 2. [`data`]: labelled points are read from files, checked, split and normalised.
//! 3. [`machine`]: a kernel machine learns a metric for the points.
//! 4. [`neighbors`]: exact nearest neighbors under the learned metric.
//! 5. [`scores`] and `posterior`: nonconformity scores of labels, and class probabilities from several experts
//!    combined.
//! 6. [`conformal`]: calibration, p-values of labels, and sets with a guarantee.
//! 7. [`evaluation`] and [`stream`]: metrics of sets and probabilities; tests for changes in a stream of points.
//! 8. [`model`]: the facade `fit → calibrate → score → decide → predict`, and the model file.
//!
//! A [`Context`] carries threads, progress and interruption. An [`Error`] says what is wrong, where, and what to do.

// Basic modules that all others may use. They use none of the modules below.
mod context;
mod error;
pub mod kernel;
pub mod method;
mod setters;
pub mod whole_file;

// The modules of the list above.
pub mod conformal;
pub mod data;
pub mod device;
pub mod evaluation;
pub mod machine;
pub mod model;
pub mod neighbors;
pub mod numeric;
mod posterior;
pub mod scores;
pub mod stream;

pub use context::{Context, Evaluation, Event, Observer, Quality};
pub use data::{Dataset, Table};
pub use error::{Error, Result, human_bytes, shortened};
pub use model::{Config, Dance, Fitted, PredictOptions, Prediction, Sampling, Scored};
pub use numeric::{Matrix, Rows};
