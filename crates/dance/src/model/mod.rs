//! The facade: fit a kernel machine, calibrate it, predict sets for new points.

mod audit;
mod config;
mod dance;
mod file;
mod fitted;
mod fitted_bytes;
mod median;
mod model_point;
mod monitor;
mod new_labels;
mod notices;
mod overlap;
mod sampling;
mod select;
mod shift;

pub use crate::conformal::{PredictOptions, Prediction, Scored};
pub use audit::{
    Audit, AuditOptions, ConfusedClasses, Copies, LabelError, LabelErrors, Order, Outlier, OverlapPoint, RARE, Space,
    TwofoldClass, benjamini_hochberg,
};
pub use config::Config;
pub use dance::{Dance, ReferencePoint};
pub use file::{FORMAT, hash_of};
pub use fitted::Fitted;
pub use model_point::ModelPoint;
pub use monitor::{Alarm, Monitor, MonitorState, StreamPart};
pub use new_labels::NewLabelShare;
pub use overlap::{ModelPart, Overlap};
pub use sampling::Sampling;
pub use select::{SelectOptions, Selection};
pub use shift::rejection_sample;
