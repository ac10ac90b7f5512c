//! The current time in UTC, as RFC 3339 text.

use std::time::SystemTime;

use jiff::Timestamp;

/// Returns the current time, to the millisecond.
pub(crate) fn now() -> String {
    format!("{:.3}", Timestamp::now())
}

/// Returns a time of the file system, to the second; the current time if the calendar has no such year.
pub(crate) fn seconds(time: SystemTime) -> String {
    format!("{:.0}", Timestamp::try_from(time).unwrap_or_else(|_| Timestamp::now()))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn times_have_a_fixed_number_of_digits() {
        assert_eq!(seconds(UNIX_EPOCH + Duration::from_millis(951_868_800_007)), "2000-03-01T00:00:00Z");
        let now = now();
        assert_eq!((now.len(), &now[23..], &now[10..11]), (24, "Z", "T"));
    }
}
