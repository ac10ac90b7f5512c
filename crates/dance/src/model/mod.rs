//! The interface to the whole library: fit a kernel machine, calibrate it, predict sets for new points.

mod audit;
mod config;
mod dance;
mod file;
mod fitted;
mod fitted_bytes;
mod model_point;
mod monitor;
mod overlap;
mod select;
mod shift;

pub use crate::conformal::{PredictOptions, Prediction, Scored};
pub use audit::{Audit, AuditOptions, Copies, LabelError, RARE, benjamini_hochberg};
pub use config::{Config, Sampling};
pub use dance::Dance;
pub use file::FORMAT;
pub use fitted::{Fitted, hash_of};
pub use model_point::ModelPoint;
pub use monitor::{Alarm, Monitor, StreamPart};
pub use overlap::{ModelPart, new_label_share};
pub use select::{SelectOptions, Selection};
pub use shift::rejection_sample;
