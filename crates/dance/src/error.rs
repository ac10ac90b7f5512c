//! The error type of the library. Every error says what is wrong, where, and what to do.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// `Result` with this library's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Any failure of the library. No input of a user causes a panic.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused a file operation.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("{}: cannot be written: {source}", path.display())]
    Write {
        /// The path of the file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A file has another format than its name says, is truncated, or holds a type that cannot be read.
    #[error("{}: {}", path.display(), shortened(problem))]
    Format {
        /// The path of the file.
        path: PathBuf,
        /// The problem and its remedy.
        problem: String,
    },
    /// A file lacks an array, tensor or column that is needed.
    #[error("{}: has no `{}`; it holds {}. {help}", path.display(), shortened(key), list(found))]
    MissingKey {
        /// The path of the file.
        path: PathBuf,
        /// The name of the missing array, tensor or column.
        key: String,
        /// The names of the arrays, tensors or columns that the file has.
        found: Vec<String>,
        /// The remedy.
        help: &'static str,
    },
    /// A number of the input is not finite.
    #[error(
        "{origin}: row {row}, column {column} is {value}; every number must be finite. Remove the row or mend the \
         encoder's output"
    )]
    NotFinite {
        /// The file or array in which the problem was found.
        origin: String,
        /// The row, counted from 0.
        row: usize,
        /// The column, counted from 0, of the number that is not finite.
        column: usize,
        /// The number that is not finite.
        value: f32,
    },
    /// Two sizes that must agree differ.
    #[error("{}: expected {expected}, found {found}", shortened(what))]
    Shape {
        /// The array or quantity whose size is wrong.
        what: String,
        /// The required size.
        expected: String,
        /// The actual size.
        found: String,
    },
    /// A label that cannot be used.
    #[error("{origin}: label at row {row}: {}", shortened(problem))]
    Label {
        /// The file or array in which the problem was found.
        origin: String,
        /// The row, counted from 0.
        row: usize,
        /// The problem and its remedy.
        problem: String,
    },
    /// Embeddings that are to be used together were made by different encoders.
    #[error("{origin}: made by {found}, where {expected} is needed. {hint}")]
    Encoder {
        /// The file or array in which the problem was found.
        origin: String,
        /// The encoder with which the embeddings should have been made.
        expected: String,
        /// The encoder with which the embeddings were made.
        found: String,
        /// The remedy.
        hint: &'static str,
    },
    /// The data cannot be used, for example because all points are equal or have one class.
    #[error("{}", shortened(_0))]
    Data(String),
    /// A setting is outside its range.
    #[error("{name} = {}: must be {expected}", shortened(value))]
    Config {
        /// The setting's name.
        name: &'static str,
        /// The value of the setting.
        value: String,
        /// The values that are allowed.
        expected: &'static str,
    },
    /// Two settings that contradict each other.
    #[error("`{setting}` = {value} cannot be used with `{other}` = {other_value}: drop `{setting}`{alternative}")]
    Conflict {
        /// The setting to drop.
        setting: &'static str,
        /// The value of the setting to drop.
        value: String,
        /// The other setting, which the setting to drop contradicts.
        other: &'static str,
        /// The value of the other setting.
        other_value: String,
        /// Another remedy, such as ", or choose `method` = dance"; empty if there is none.
        alternative: &'static str,
    },
    /// A job would need more memory than it may use. The job was refused before it allocated any of it.
    #[error(
        "{what} needs {} of memory and has {}. {hint}",
        human_bytes(*needed), human_bytes(*limit)
    )]
    Memory {
        /// The name of the job.
        what: String,
        /// The largest number of bytes that the job would have allocated at one time.
        needed: u64,
        /// The number of bytes that the job may use, or that are free.
        limit: u64,
        /// The remedy.
        hint: String,
    },
    /// The kernel matrix has no Cholesky factor, even with a larger ridge parameter.
    #[error(
        "the kernel matrix of {n} points is not positive definite in 32-bit arithmetic, not even with ridge \
         {ridge:.1e}; use a smaller bandwidth ({bandwidth:.3} now) or a larger ridge"
    )]
    NotPositiveDefinite {
        /// The number of training points.
        n: usize,
        /// The largest ridge parameter that was tried.
        ridge: f64,
        /// The bandwidth of the kernel.
        bandwidth: f64,
    },
    /// A device cannot be used, or failed during a job.
    #[error("{device}: {}", shortened(problem))]
    Device {
        /// The device's name.
        device: String,
        /// The problem and its remedy.
        problem: String,
    },
    /// The observer stopped the job.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Returns [`Error::Io`] for a failed operation on the file `path`.
    pub fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    /// Returns [`Error::Format`] for the file `path`, whose contents are wrong. `problem` says what is wrong and what
    /// to do.
    pub fn format(path: &Path, problem: impl Into<String>) -> Self {
        Self::Format { path: path.to_owned(), problem: problem.into() }
    }

    /// Returns [`Error::Config`] for the setting `name`, whose `value` is outside its range. `expected` states the
    /// range.
    pub fn config(name: &'static str, value: impl std::fmt::Display, expected: &'static str) -> Self {
        Self::Config { name, value: value.to_string(), expected }
    }
}

/// Shortens a text of more than 1,000 bytes to its start and its end, since a file may hold a name of any length.
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
    let mut text = names.iter().take(SHOWN).map(|name| format!("`{}`", shortened(name))).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text += &format!(" and {} more", names.len() - SHOWN);
    }
    text
}

/// Formats a number of bytes with a unit from B to TiB, such as `1.5 GiB`. The unit is the largest that gives a number
/// of at least 1.
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

    /// Messages with long names stay short, keep their start and end, and are cut between characters.
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
