//! The Recursive Feature Machine, a kernel machine that learns its own metric (the paper, §2.3 and appendix B). The
//! modules are the loop (`rfm`), the search for the kernel's bandwidth and shape (`tune`), and the fitted machine as a
//! classifier ([`Classifier`]). Callers fit a machine with [`Fitted`](crate::Fitted).

mod classifier;
mod rfm;
#[cfg(test)]
mod tests;
pub(crate) mod tune;

pub use classifier::{Classified, Classifier, Probabilities};
pub(crate) use classifier::{OutputScale, default_floor};
pub use rfm::Part;
pub(crate) use rfm::{Rfm, RfmConfig};
pub use tune::TuneConfig;
