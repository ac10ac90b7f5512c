//! The current time in UTC, as RFC 3339 text.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the current time, to the millisecond.
pub(crate) fn now() -> String {
    rfc3339(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Formats a time since 1970. Years are counted from March, so that a leap day is the last of its year, in eras of
/// 400 years.
fn rfc3339(since: Duration) -> String {
    let (seconds, days) = (since.as_secs() % 86_400, since.as_secs() / 86_400);
    let shifted = days + 719_468; // days since the first of March of the year 0
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_agree_with_the_calendar() {
        // From `date -u -d @SECONDS`.
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_782_399, "2000-02-28T23:59:59.007Z"),
            (951_782_400, "2000-02-29T00:00:00.007Z"),
            (951_868_800, "2000-03-01T00:00:00.007Z"),
            (1_735_689_599, "2024-12-31T23:59:59.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
        ] {
            assert_eq!(rfc3339(Duration::from_millis(seconds * 1000 + 7)), expected);
        }
    }
}
