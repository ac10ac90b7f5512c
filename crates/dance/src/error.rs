//! The one error type of the library: every variant carries what is wrong, where, and what to do about it.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// `Result` with this library's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong. Nothing a user can feed the library panics instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused a file operation.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file in question.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("{}: cannot be written: {source}", path.display())]
    Write {
        /// The file in question.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file is not what its name says, is truncated, or holds a type that cannot be read.
    #[error("{}: {}", path.display(), shortened(problem))]
    Format {
        /// The file in question.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
    /// An array, tensor or column that is needed is not in the file.
    #[error("{}: has no `{}`; it holds {}. {help}", path.display(), shortened(key), list(found))]
    MissingKey {
        /// The file in question.
        path: PathBuf,
        /// The name that was looked for.
        key: String,
        /// The names that are there.
        found: Vec<String>,
        /// What to do.
        help: &'static str,
    },
    /// A number that is not finite.
    #[error(
        "{origin}: row {row}, column {column} is {value}; every number must be finite. Remove the row or mend the encoder's output"
    )]
    NotFinite {
        /// The file or array.
        origin: String,
        /// 0-based row.
        row: usize,
        /// 0-based column.
        column: usize,
        /// The offending value.
        value: f32,
    },
    /// Two things that must agree in size do not.
    #[error("{}: expected {expected}, found {found}", shortened(what))]
    Shape {
        /// What was compared.
        what: String,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A label that cannot be used.
    #[error("{origin}: label at row {row}: {}", shortened(problem))]
    Label {
        /// The file or array.
        origin: String,
        /// 0-based row.
        row: usize,
        /// What is wrong and what to do.
        problem: String,
    },
    /// Embeddings of another encoder than those before.
    #[error("{origin}: made by {found}, where {expected} is needed. {hint}")]
    Encoder {
        /// The file or array.
        origin: String,
        /// The encoder that the others are of.
        expected: String,
        /// The encoder of these.
        found: String,
        /// What to do.
        hint: &'static str,
    },
    /// The data cannot support what was asked of it (one class, too few points, all points equal …).
    #[error("{}", shortened(_0))]
    Data(String),
    /// An option outside its range.
    #[error("{name} = {}: must be {expected}", shortened(value))]
    Config {
        /// The option's name.
        name: &'static str,
        /// The value given.
        value: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// Two settings that contradict each other.
    #[error(
        "`{setting}` = {value} cannot be used with `{other}` = {other_value}: drop `{setting}`{alternative}"
    )]
    Conflict {
        /// The setting to drop.
        setting: &'static str,
        /// Its value.
        value: String,
        /// The setting that it contradicts.
        other: &'static str,
        /// The value of the other setting.
        other_value: String,
        /// Another way out, such as ", or choose `method` = dance"; empty where there is none.
        alternative: &'static str,
    },
    /// The job would need more memory than it may take. Nothing was allocated.
    #[error(
        "{what} needs {} of memory and has {}. {hint}",
        human_bytes(*needed), human_bytes(*limit)
    )]
    Memory {
        /// The job.
        what: String,
        /// Bytes it would allocate at its peak.
        needed: u64,
        /// Bytes allowed, or free.
        limit: u64,
        /// The way out.
        hint: String,
    },
    /// The kernel matrix could not be factorised even with a larger ridge.
    #[error(
        "the kernel matrix of {n} points is not positive definite in 32-bit arithmetic, not even with ridge {ridge:.1e}; \
         use a smaller bandwidth ({bandwidth:.3} now) or a larger ridge"
    )]
    NotPositiveDefinite {
        /// Number of training points.
        n: usize,
        /// The largest ridge tried.
        ridge: f64,
        /// The bandwidth in use.
        bandwidth: f64,
    },
    /// A device cannot be used, or failed in the middle.
    #[error("{device}: {}", shortened(problem))]
    Device {
        /// What it is called.
        device: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The observer asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// An operation on a file failed.
    pub fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    /// A file is not what it should be.
    pub fn format(path: &Path, problem: impl Into<String>) -> Self {
        Self::Format { path: path.to_owned(), problem: problem.into() }
    }

    /// An option is outside its range.
    pub fn config(name: &'static str, value: impl std::fmt::Display, expected: &'static str) -> Self {
        Self::Config { name, value: value.to_string(), expected }
    }
}

/// The text, or its begin and end where it is longer than anybody reads: a file may hold a name or a cell of any length.
pub fn shortened(text: &str) -> Cow<'_, str> {
    const LONGEST: usize = 1000;
    const BEGIN: usize = 600;
    const END: usize = 300;
    if text.len() <= LONGEST {
        return Cow::Borrowed(text);
    }
    let whole = |place: &usize| text.is_char_boundary(*place);
    let begin = (0..=BEGIN).rev().find(whole).unwrap_or(0);
    let end = (text.len() - END..text.len()).find(whole).unwrap_or(text.len());
    Cow::Owned(format!("{} … {} bytes … {}", &text[..begin], end - begin, &text[end..]))
}

fn list(names: &[String]) -> String {
    const SHOWN: usize = 8;
    if names.is_empty() {
        return "nothing".into();
    }
    let mut text =
        names.iter().take(SHOWN).map(|name| format!("`{}`", shortened(name))).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text += &format!(" and {} more", names.len() - SHOWN);
    }
    text
}

/// Bytes in the unit a person would choose: `1.5 GiB`.
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever a file holds, a message is short, whole characters, and has its begin and its end.
    #[test]
    fn messages_have_a_longest_length() {
        let long = "ä".repeat(5_000_000);
        let path = Path::new("d.csv");
        for error in [
            Error::format(path, format!("line 3: `{long}` is not a number")),
            Error::Data(format!("line 3: `{long}` is not a number")),
            Error::Label { origin: "d.csv".into(), row: 3, problem: long.clone() + " is not a number" },
            Error::MissingKey {
                path: path.into(),
                key: long.clone(),
                found: vec![long.clone(); 3],
                help: "is not a number",
            },
        ] {
            let text = error.to_string();
            assert!(text.len() < 5_000 && text.contains(" bytes … "), "{} bytes", text.len());
            assert!(text.ends_with("is not a number"), "{}", &text[text.len() - 40..]);
        }
        assert_eq!(shortened("short"), "short");
    }
}
