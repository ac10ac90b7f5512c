//! The facade: fit a kernel machine, calibrate it, predict sets for new points.
//!
//! ```
//! use dance::{Config, Context, Dance, Fitted, PredictOptions, device::Cpu};
//! use dance::data::{io, split};
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("points.csv");
//! # let line = |i: usize| format!("{},{},{}\n", ["a", "b", "c"][i % 3], 10 * (i % 3) + i % 7, i % 5 + 1);
//! # std::fs::write(&path, "label,x,y\n".to_owned() + &(0..90).map(line).collect::<String>())?;
//! let context = Context::new(0)?; // one thread per core, no observer
//! let data = io::read(&path, &io::ReadOptions::default())?.into_dataset()?;
//! let parts = split::uniform(data.len(), &[0.4, 0.4, 0.2], 0)?;
//! let mut config = Config::default();
//! # config.tune.evaluations = 2;
//! let fitted = Fitted::fit(&Cpu, &data.select(&parts[0]), &config, &context)?;
//! let model = fitted.calibrate(&Cpu, &data.select(&parts[1]), &context)?;
//!
//! let test = data.select(&parts[2]);
//! let scored = model.score(&test.embeddings, PredictOptions::default(), &context)?;
//! let prediction = model.predict(&scored, &model.decide(0.1)?); // and at any other level, without another search
//! assert_eq!(prediction.sets.len(), test.len());
//!
//! model.save(folder.path().join("model.dance"))?;
//! let again = Dance::load(&Cpu, folder.path().join("model.dance"), &context)?;
//! assert_eq!(again.classes(), model.classes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod answer_columns;
mod audit;
mod config;
mod dance;
mod file;
mod fitted;
mod median;
mod model_point;
mod monitor;
mod new_labels;
mod notices;
mod overlap;
mod sampling;
mod select;
mod shift;
mod validate;

pub use crate::conformal::{PredictOptions, Prediction, Scored};
pub use answer::{Answer, Include, Refusal};
pub use audit::{
    Audit, AuditOptions, ConfusedClasses, Copies, LabelError, LabelErrors, Order, Outlier, OverlapPoint,
    RARE, Space, TwofoldClass, benjamini_hochberg,
};
pub use config::Config;
pub use dance::{Dance, ReferencePoint};
pub use file::{FORMAT, hash_of};
pub use fitted::Fitted;
pub use model_point::ModelPoint;
pub use monitor::{Alarm, Monitor, MonitorState, Watched};
pub use new_labels::Unseen;
pub use overlap::{Judges, Overlap, SeenAs};
pub use sampling::Sampling;
pub use select::{SelectOptions, Selection};
pub use shift::rejection_sample;
