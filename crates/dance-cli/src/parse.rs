//! Parsers of option values.

use dance::conformal::Mix;
use dance::data::io::Format;

/// Error levels, in the order given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Alphas(pub(crate) Vec<f64>);

impl Alphas {
    /// Returns the levels that were given, or those that `model` remembers.
    pub(crate) fn or_of(given: Option<&Self>, model: &dance::Dance) -> Self {
        given.cloned().unwrap_or_else(|| Self(model.fitted().config.alphas.clone()))
    }
}

/// Shares of the data for kernel, calibration and, if there are three, test.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Split(pub(crate) Vec<f64>);

/// A range to search, or a fixed number where both ends are equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range(pub(crate) f64, pub(crate) f64);

/// Parses the format of a file, which is named by its extension.
pub(crate) fn format(text: &str) -> Result<Format, String> {
    let found = Format::ALL.into_iter().find(|format| format.extension() == text);
    found.ok_or_else(|| format!("one of {}", Format::ALL.map(Format::extension).join(", ")))
}

pub(crate) fn alpha(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(alpha) if alpha > 0.0 && alpha < 1.0 => Ok(alpha),
        _ => Err("a level must be between 0 and 1, such as 0.1".into()),
    }
}

pub(crate) fn alphas(text: &str) -> Result<Alphas, String> {
    let alphas: Vec<f64> = text.split(',').map(alpha).collect::<Result<_, _>>()?;
    match alphas.iter().enumerate().find(|(place, alpha)| alphas[..*place].contains(alpha)) {
        Some((_, twice)) => Err(format!("level {twice} is given twice")),
        None => Ok(Alphas(alphas)),
    }
}

pub(crate) fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share must be between 0 and 1, such as 0.9".into()),
    }
}

/// The coverage that passes a check.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MinCoverage {
    /// Any coverage that chance explains.
    ByChance,
    /// This coverage or more, at every level.
    Everywhere(f64),
    /// This coverage or more, at some levels.
    At(Vec<(f64, f64)>),
}

/// The word for a coverage that chance explains.
pub(crate) const BY_CHANCE: &str = "chance";

impl MinCoverage {
    pub(crate) fn at(&self, alpha: f64) -> Option<f64> {
        match self {
            Self::ByChance => None,
            Self::Everywhere(least) => Some(*least),
            Self::At(pairs) => pairs.iter().find(|pair| pair.0 == alpha).map(|pair| pair.1),
        }
    }

    /// Returns the levels that it names.
    pub(crate) fn levels(&self) -> Vec<f64> {
        match self {
            Self::ByChance | Self::Everywhere(_) => Vec::new(),
            Self::At(pairs) => pairs.iter().map(|pair| pair.0).collect(),
        }
    }
}

impl std::fmt::Display for MinCoverage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ByChance => f.write_str(BY_CHANCE),
            Self::Everywhere(least) => write!(f, "{least}"),
            Self::At(pairs) => {
                let pairs = pairs.iter().map(|(level, least)| format!("{level}={least}"));
                f.write_str(&pairs.collect::<Vec<_>>().join(","))
            }
        }
    }
}

pub(crate) fn min_coverage(text: &str) -> Result<MinCoverage, String> {
    if text == BY_CHANCE {
        return Ok(MinCoverage::ByChance);
    }
    if !text.contains('=') {
        return share(text).map(MinCoverage::Everywhere);
    }
    let pair = |pair: &str| {
        let (level, least) = pair.split_once('=').ok_or("give LEVEL=SHARE, such as 0.1=0.88,0.05=0.93")?;
        Ok((alpha(level.trim())?, share(least.trim())?))
    };
    let pairs: Vec<(f64, f64)> = text.split(',').map(pair).collect::<Result<_, String>>()?;
    match pairs.iter().enumerate().find(|(place, pair)| pairs[..*place].iter().any(|other| other.0 == pair.0)) {
        Some((_, (level, _))) => Err(format!("level {level} is given twice")),
        None => Ok(MinCoverage::At(pairs)),
    }
}

pub(crate) fn split(text: &str) -> Result<Split, String> {
    let wrong = "two or three positive shares that sum to 1 (kernel, calibration, test), such as 0.4,0.4,0.2";
    let shares: Vec<f64> =
        text.split(',').map(|share| share.trim().parse().map_err(|_| wrong)).collect::<Result<_, _>>()?;
    let sum: f64 = shares.iter().sum();
    // NaN fails the second condition.
    if !(2..=3).contains(&shares.len()) || !shares.iter().all(|&share| share > 0.0) || (sum - 1.0).abs() > 1e-9 {
        return Err(wrong.into());
    }
    Ok(Split(shares))
}

/// Parses `NAME=VALUE,…`, each name once.
pub(crate) fn settings(text: &str) -> Result<Vec<(&str, &str)>, String> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for pair in text.split(',') {
        let (name, value) = pair.split_once('=').ok_or_else(|| format!("give NAME=VALUE, not `{pair}`"))?;
        pairs.push((name.trim(), value.trim()));
    }
    match pairs.iter().enumerate().find(|(place, pair)| pairs[..*place].iter().any(|other| other.0 == pair.0)) {
        Some((_, (name, _))) => Err(format!("`{name}` is given twice")),
        None => Ok(pairs),
    }
}

pub(crate) fn bandwidth(text: &str) -> Result<Range, String> {
    range(text, f64::MIN_POSITIVE)
        .ok_or_else(|| "a positive number of median distances such as 2, or a range such as 0.1..20".into())
}

pub(crate) fn shape(text: &str) -> Result<Range, String> {
    range(text, 0.5).ok_or_else(|| "a number from 0.5 up such as 1, or a range such as 0.5..2".into())
}

fn range(text: &str, least: f64) -> Option<Range> {
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    let (low, high): (f64, f64) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    (low >= least && low <= high && high.is_finite()).then_some(Range(low, high))
}

pub(crate) fn not_negative(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value >= 0.0 && value.is_finite() => Ok(value),
        _ => Err("must be a number from 0 up".into()),
    }
}

pub(crate) fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("must be a positive number".into()),
    }
}

pub(crate) fn whole(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "must be a whole number from 0 up".into())
}

pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(value) if value > 0 => Ok(value),
        _ => Err("must be a whole number from 1 up".into()),
    }
}

pub(crate) fn mix(text: &str) -> Result<Mix, String> {
    text.parse().map_err(|_| "`auto`, or a number from 0 (k-NN set) to 1 (CLR set)".into())
}

/// Parses an amount of memory (`8GiB`, `500MB`, `1e9B`). Binary units end in `iB`, decimal ones in `B`.
pub(crate) fn memory(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, f64); 9] = [
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("TiB", 1_099_511_627_776.0),
        ("KB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("B", 1.0),
    ];
    let unit = UNITS.iter().find(|(unit, _)| text.len() > unit.len() && ends_with(text, unit));
    let (number, factor) = unit.map_or((text, 1.0), |(unit, factor)| (&text[..text.len() - unit.len()], *factor));
    match number.trim().parse::<f64>() {
        Ok(number) if unit.is_none() && number.is_finite() => {
            Err(format!("a unit is missing: {number}GiB, {number}MB or {number}B"))
        }
        Ok(number) if number > 0.0 && number.is_finite() => Ok((number * factor) as u64),
        _ => Err("an amount of memory, such as 8GiB or 500MB".into()),
    }
}

fn ends_with(text: &str, unit: &str) -> bool {
    text.get(text.len() - unit.len()..).is_some_and(|end| end.eq_ignore_ascii_case(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_refused() {
        assert_eq!(alphas("0.1, 0.05"), Ok(Alphas(vec![0.1, 0.05])));
        assert_eq!(format("tsv"), Ok(Format::Tsv));
        assert!(format("xlsx").unwrap_err().contains("npz, npy"));
        for wrong in ["", "0", "1", "-0.1", "nan", "ten", "0.1,,0.2", "0.1,0.1"] {
            assert!(alphas(wrong).is_err(), "{wrong}");
        }
        assert_eq!(split("0.4,0.4,0.2"), Ok(Split(vec![0.4, 0.4, 0.2])));
        for wrong in ["1", "0.5,0.6", "0.5,0.5,0", "nan,0.5", "0.2,0.2,0.2,0.4"] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
        assert_eq!(bandwidth("2"), Ok(Range(2.0, 2.0)));
        assert_eq!(shape("0.5..2"), Ok(Range(0.5, 2.0)));
        assert!(shape("0.4").is_err() && shape("2..1").is_err() && bandwidth("0").is_err());
        assert_eq!(memory("8GiB"), Ok(8 << 30));
        assert_eq!(memory("1.5 kb"), Ok(1500));
        assert_eq!(memory("1e9B"), Ok(1_000_000_000));
        for wrong in ["", "GiB", "-1GB", "many", "é", "8"] {
            assert!(memory(wrong).is_err(), "{wrong}");
        }
        assert_eq!(mix("auto"), Ok(Mix::Auto));
        assert!(mix("1.5").is_err());
    }
}
