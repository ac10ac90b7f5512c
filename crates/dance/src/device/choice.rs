//! The choice of a device, and the list of devices.

use std::str::FromStr;
use std::sync::Arc;

use super::{Cpu, Device};
use crate::error::{Error, Result};

/// The user's choice of a device: `auto`, `cpu`, `cuda` or, for example, `cuda:1`.
///
/// ```
/// use dance::device::DeviceChoice;
/// assert_eq!("cuda:1".parse::<DeviceChoice>()?, DeviceChoice::Cuda(1));
/// let (device, why_not_cuda) = "cpu".parse::<DeviceChoice>()?.open()?;
/// assert_eq!((device.name(), why_not_cuda), ("cpu".into(), None));
/// # Ok::<(), dance::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DeviceChoice {
    /// The first usable NVIDIA graphics processor, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// An NVIDIA graphics processor, by its number, counted from 0.
    Cuda(usize),
}

impl FromStr for DeviceChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let number = |text: &str| text.parse().ok().map(Self::Cuda);
        let choice = match text {
            "auto" => Some(Self::Auto),
            "cpu" => Some(Self::Cpu),
            "cuda" => Some(Self::Cuda(0)),
            _ => text.strip_prefix("cuda:").and_then(number),
        };
        choice.ok_or_else(|| Error::config("device", text, "auto, cpu, cuda, or cuda: and a number such as cuda:1"))
    }
}

impl std::fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

impl DeviceChoice {
    /// Opens the chosen device. If [`Auto`](Self::Auto) opens the CPU, the text says why no graphics processor is
    /// usable.
    pub fn open(self) -> Result<(Arc<dyn Device>, Option<String>)> {
        match self {
            Self::Cpu => Ok((Arc::new(Cpu), None)),
            Self::Cuda(number) => Ok((cuda(number)?, None)),
            Self::Auto => Ok(match cuda(0) {
                Ok(device) => (device, None),
                Err(error) => (Arc::new(Cpu), Some(error.to_string())),
            }),
        }
    }
}

/// An available device: the choice that opens it, the manufacturer's name of the model, and its memory in bytes if
/// known.
type AvailableDevice = (DeviceChoice, String, Option<u64>);

/// Returns the available devices: the CPU, and every graphics processor of NVIDIA's. Each comes with the choice that
/// opens it, the manufacturer's name of the model, and its memory in bytes if known. If no graphics processor is
/// usable, the text says why.
pub fn list() -> (Vec<AvailableDevice>, Option<String>) {
    let mut found = vec![(DeviceChoice::Cpu, processor(), None)];
    let why = match graphics_processors() {
        Ok(devices) => {
            let listed = devices.into_iter().enumerate();
            found.extend(listed.map(|(number, (model, bytes))| (DeviceChoice::Cuda(number), model, Some(bytes))));
            cuda(0).err().map(|error| error.to_string())
        }
        Err(why) => Some(why),
    };
    (found, why)
}

/// Returns the model name of the CPU, or its architecture if the name is unknown.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.to_owned())
}

#[cfg(feature = "cuda")]
fn cuda(number: usize) -> Result<Arc<dyn Device>> {
    Ok(Arc::new(super::cuda::Cuda::open(number)?))
}

#[cfg(feature = "cuda")]
fn graphics_processors() -> Result<Vec<(String, u64)>, String> {
    super::cuda::Cuda::devices()
}

#[cfg(not(feature = "cuda"))]
const LEFT_OUT: &str = "this program was built without the feature `cuda`";

#[cfg(not(feature = "cuda"))]
fn cuda(number: usize) -> Result<Arc<dyn Device>> {
    Err(Error::Device { device: format!("cuda:{number}"), problem: LEFT_OUT.into() })
}

#[cfg(not(feature = "cuda"))]
fn graphics_processors() -> Result<Vec<(String, u64)>, String> {
    Err(LEFT_OUT.into())
}
