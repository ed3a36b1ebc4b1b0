//! Units of time and their names, as PostgreSQL's input and `extract` know them.
//!
//! Invariants: names are compared by their first [`SIGNIFICANT`] characters, as in PostgreSQL.
//! Does not do: names of months, days of the week and zones.

/// A unit of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    Timezone,
    TimezoneHour,
    TimezoneMinute,
}

/// Characters of a name that count.
const SIGNIFICANT: usize = 10;

const NAMES: [(Unit, &[&str]); 16] = [
    (Unit::Microsecond, &["microsecon", "us", "usec", "usecond", "useconds", "usecs"]),
    (Unit::Millisecond, &["millisecon", "ms", "msec", "msecond", "mseconds", "msecs"]),
    (Unit::Second, &["s", "sec", "second", "seconds", "secs"]),
    (Unit::Minute, &["m", "min", "mins", "minute", "minutes"]),
    (Unit::Hour, &["h", "hour", "hours", "hr", "hrs"]),
    (Unit::Day, &["d", "day", "days"]),
    (Unit::Week, &["w", "week", "weeks"]),
    (Unit::Month, &["mon", "mons", "month", "months"]),
    (Unit::Quarter, &["qtr", "quarter"]),
    (Unit::Year, &["y", "year", "years", "yr", "yrs"]),
    (Unit::Decade, &["dec", "decade", "decades", "decs"]),
    (Unit::Century, &["c", "cent", "centuries", "century"]),
    (Unit::Millennium, &["mil", "millennia", "millennium", "mils"]),
    (Unit::Timezone, &["timezone"]),
    (Unit::TimezoneHour, &["timezone_h"]),
    (Unit::TimezoneMinute, &["timezone_m"]),
];

impl Unit {
    /// The unit that `name` names, in any case.
    pub fn named(name: &str) -> Option<Unit> {
        let lower = name.to_ascii_lowercase();
        let counted = lower.get(..SIGNIFICANT).unwrap_or(&lower);
        let known = NAMES.iter().find(|(_, names)| names.contains(&counted));
        known.map(|(unit, _)| *unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_characters_of_a_name_count() {
        for (name, unit) in [
            ("m", Some(Unit::Minute)),
            ("MON", Some(Unit::Month)),
            ("microseconds", Some(Unit::Microsecond)),
            ("microsecondish", Some(Unit::Microsecond)),
            ("microseco", None),
            ("centuries", Some(Unit::Century)),
            ("quarters", None),
            ("", None),
            ("fortnight", None),
            ("äääääää", None),
        ] {
            assert_eq!(Unit::named(name), unit, "{name}");
        }
    }
}
