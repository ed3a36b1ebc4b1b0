//! The proleptic Gregorian calendar: days since 2000-01-01 to year, month and day, and back; which
//! of them are dates and timestamps.
//!
//! Invariants: years are astronomical (0 is 1 BC); every `i32` day number has a civil date and both
//! directions agree. The range is PostgreSQL's: from the first Julian day, 4714-11-24 BC.
//! Does not do: time zones, leap seconds.

use std::ops::Range;

/// Days since 2000-01-01 that are dates: to 5874897-12-31.
pub const DATES: Range<i64> = -2_451_545..2_145_031_949;
/// Microseconds since 2000-01-01 00:00 that are timestamps: to the end of 294276-12-31.
pub const TIMESTAMPS: Range<i64> = -211_813_488_000_000_000..9_223_371_331_200_000_000;

/// Days from 0000-03-01 to 2000-01-01.
const DAYS_TO_EPOCH: i64 = 730_425;
/// Days of 400 years, after which the calendar repeats.
const ERA_DAYS: i64 = 146_097;

/// A day of the calendar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CivilDate {
    /// Astronomical year: 0 is 1 BC.
    pub year: i64,
    /// Month, from 1.
    pub month: u32,
    /// Day of the month, from 1.
    pub day: u32,
}

/// Is `year` a leap year?
pub(super) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days of a month, counted from 1.
pub fn days_in_month(year: i64, month: u32) -> u32 {
    assert!((1..=12).contains(&month), "a month is between 1 and 12");
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 2000-01-01 to the given date; `year` is astronomical (0 is 1 BC).
pub fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    assert!(day >= 1 && day <= days_in_month(year, month), "the day exists in its month");
    // Years that start in March put the leap day at their end, so month lengths need no table.
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * ERA_DAYS + day_of_era - DAYS_TO_EPOCH
}

/// The date of a day number counted from 2000-01-01.
pub fn civil_from_days(days: i64) -> CivilDate {
    let shifted = days + DAYS_TO_EPOCH;
    let era = shifted.div_euclid(ERA_DAYS);
    let day_of_era = shifted.rem_euclid(ERA_DAYS);
    let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / (ERA_DAYS - 1);
    let year_of_era = (day_of_era - leap_days) / 365;
    let year_start = year_of_era * 365 + year_of_era / 4 - year_of_era / 100;
    let day_of_year = day_of_era - year_start;
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
    let month = ((month_from_march + 2) % 12 + 1) as u32;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    debug_assert!((1..=12).contains(&month) && (1..=31).contains(&day));
    CivilDate { year, month, day }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days() {
        assert_eq!(days_from_civil(2000, 1, 1), 0);
        assert_eq!(days_from_civil(1970, 1, 1), -10_957);
        assert_eq!(days_from_civil(2000, 3, 1), 60);
        assert_eq!(days_from_civil(-4713, 11, 24), -2_451_545);
        assert_eq!(civil_from_days(i64::from(i32::MAX)).year, 5_881_610);
        assert_eq!(days_from_civil(-4713, 11, 24), DATES.start);
        assert_eq!(days_from_civil(5_874_898, 1, 1), DATES.end);
        assert_eq!(DATES.start * 86_400_000_000, TIMESTAMPS.start);
        assert_eq!(days_from_civil(294_277, 1, 1) * 86_400_000_000, TIMESTAMPS.end);
    }

    #[test]
    fn every_day_follows_the_one_before_for_over_two_eras() {
        let mut expected = CivilDate { year: 1599, month: 12, day: 31 };
        for days in days_from_civil(1600, 1, 1)..days_from_civil(2500, 1, 1) {
            let CivilDate { year, month, day } = expected;
            expected = match (month, day == days_in_month(year, month)) {
                (12, true) => CivilDate { year: year + 1, month: 1, day: 1 },
                (_, true) => CivilDate { month: month + 1, day: 1, ..expected },
                _ => CivilDate { day: day + 1, ..expected },
            };
            assert_eq!(civil_from_days(days), expected);
            let CivilDate { year, month, day } = expected;
            assert_eq!(days_from_civil(year, month, day), days);
        }
    }
}
