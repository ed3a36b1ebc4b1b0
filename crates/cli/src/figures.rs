//! Numbers as people write and read them: sizes, counts, durations.
//!
//! Invariants: sizes are binary (1K = 1024). Does not do: locales.

use std::time::Duration;

/// Reads a size: digits and an optional K, M or G.
pub(crate) fn parse_bytes(text: &str) -> Result<usize, String> {
    let bad = || format!("{text:?} is no size: digits and K, M or G, such as 128M");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text[digits.len()..].to_ascii_uppercase();
    let shift = match unit.trim_end_matches('B').trim_end_matches('I') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Err(bad()),
    };
    let number: usize = digits.parse().map_err(|_| bad())?;
    number.checked_mul(1 << shift).ok_or_else(bad)
}

/// 27004 as `27,004`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 row`, `2 rows`.
pub(crate) fn plural(number: u64, noun: &str) -> String {
    plural_of(number, noun, &format!("{noun}s"))
}

/// `1 batch`, `2 batches`.
pub(crate) fn plural_of(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// A size with one decimal at most.
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = number as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{number} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// A duration in the unit that suits it.
pub(crate) fn duration(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s < 0.001 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 100.0 => format!("{s:.1} s"),
        s => format!("{}:{:02} min", s as u64 / 60, s as u64 % 60),
    }
}

/// Things per second, 0 when there was no time.
pub(crate) fn rate(number: u64, time: Duration) -> u64 {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 { (number as f64 / seconds) as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("16k"), Ok(16 << 10));
        assert_eq!(parse_bytes("128M"), Ok(128 << 20));
        assert_eq!(parse_bytes("2GiB"), Ok(2 << 30));
        for bad in ["", "M", "-1", "1.5G", "10T", "99999999999G"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn people_can_read_them() {
        assert_eq!(count(27_004), "27,004");
        assert_eq!(count(999), "999");
        assert_eq!(plural(1, "row"), "1 row");
        assert_eq!(plural(2000, "row"), "2,000 rows");
        assert_eq!(bytes(1000), "1000 B");
        assert_eq!(bytes(2 << 20), "2.0 MiB");
        assert_eq!(duration(Duration::from_micros(250)), "250 µs");
        assert_eq!(duration(Duration::from_millis(12)), "12 ms");
        assert_eq!(duration(Duration::from_millis(1250)), "1.2 s");
        assert_eq!(duration(Duration::from_secs(125)), "2:05 min");
        assert_eq!(rate(100, Duration::ZERO), 0);
        assert_eq!(rate(100, Duration::from_millis(500)), 200);
    }
}
