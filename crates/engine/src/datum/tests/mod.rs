//! Tests of values: text forms, order, limits.

use std::hash::{DefaultHasher, Hash, Hasher};

use rightlink_env::Rng;

use super::*;

fn parse(ty: Type, text: &str) -> Value {
    Value::parse(ty, text).unwrap()
}

/// A value of `ty` that is random, or (one time in four) one of the awkward ones.
pub(crate) fn random_value(rng: &mut Rng, ty: Type) -> Value {
    let bits = if rng.chance(1, 4) {
        *rng.pick(&[0, 1, u64::MAX, 1 << 63, (1 << 63) - 1, 0x7FF8 << 48, 0x8000_0000]).unwrap()
    } else {
        rng.next_u64()
    };
    match ty {
        Type::Bool => Value::Bool(bits & 1 == 1),
        Type::Int2 => Value::Int2(bits as i16),
        Type::Int4 => Value::Int4(bits as i32),
        Type::Int8 => Value::Int8(bits as i64),
        Type::Float4 => Value::Float4(f32::from_bits(bits as u32)),
        Type::Float8 => Value::Float8(f64::from_bits(bits)),
        Type::Text => Value::Text(random_short(rng, b"\0\x01\x02abz~").map(char::from).collect()),
        Type::Bytes => Value::Bytes(random_short(rng, b"\0\x01\x02az\xFE\xFF").collect()),
        Type::Uuid => Value::Uuid((u128::from(bits) << 64 | 7).to_be_bytes()),
        Type::Date => Value::Date(bits as i32),
        Type::Timestamp => Value::Timestamp(bits as i64),
        Type::TimestampTz => Value::TimestampTz(bits as i64),
        Type::Decimal => Value::Decimal(random_decimal(rng)),
        Type::Interval => Value::Interval(Interval {
            months: if bits & 1 == 0 { 0 } else { rng.next_u32() as i32 },
            days: if bits & 2 == 0 { rng.below(90) as i32 - 45 } else { rng.next_u32() as i32 },
            micros: bits as i64,
        }),
        Type::Time => Value::Time((bits % (86_400_000_000 + 1)) as i64),
        Type::Json => {
            let number = rng.below(50);
            let texts = ["null", " [] ", "{\"a\": [1, \"b\"]}"].map(str::to_owned);
            let mut texts = texts.into_iter().chain([number.to_string()]);
            Value::Json(texts.nth(rng.index(4)).unwrap())
        }
    }
}

/// Of few digits about the point, so that many are equal or near; now and then of very many.
fn random_decimal(rng: &mut Rng) -> Decimal {
    let scale = rng.below(5) as u16;
    match rng.below(16) {
        0 => Decimal::nan(),
        1 => Decimal::infinity(rng.chance(1, 2)),
        2 => format!("{}e{}", rng.next_u64(), rng.below(400) as i64 - 200).parse().unwrap(),
        3 => Decimal::from_unscaled(i128::from(rng.next_u64() as i64), scale).unwrap(),
        _ => Decimal::from_unscaled(i128::from(rng.below(20_000)) - 10_000, scale).unwrap(),
    }
}

fn random_short(rng: &mut Rng, alphabet: &'static [u8]) -> impl Iterator<Item = u8> {
    let mut bits = rng.next_u64();
    let len = bits as usize % 6;
    (0..len).map(move |_| {
        bits >>= 8;
        alphabet[bits as usize % alphabet.len()]
    })
}

#[test]
fn tags_and_names_are_what_the_format_says() {
    for (position, ty) in Type::ALL.into_iter().enumerate() {
        assert_eq!(usize::from(ty.tag()), position + 1);
        assert_eq!(Type::from_tag(ty.tag()), Some(ty));
        assert_eq!(Type::from_name(ty.name()), Some(ty));
    }
    assert_eq!(Type::from_tag(0), None);
    assert_eq!(Type::from_tag(17), None);
    assert_eq!(Type::from_name("BIGINT"), Some(Type::Int8));
    assert_eq!(Type::from_name("money"), None);
}

fn is_beyond_the_calendar(value: &Value) -> bool {
    match *value {
        Value::Date(i32::MIN | i32::MAX) => false,
        Value::Date(days) => !DATES.contains(&i64::from(days)),
        Value::Timestamp(i64::MIN | i64::MAX) | Value::TimestampTz(i64::MIN | i64::MAX) => false,
        Value::Timestamp(micros) | Value::TimestampTz(micros) => !TIMESTAMPS.contains(&micros),
        _ => false,
    }
}

#[test]
fn text_round_trips_for_random_values_of_all_types() {
    let mut rng = Rng::from_seed(1);
    for ty in Type::ALL {
        for _ in 0..20_000 {
            let value = random_value(&mut rng, ty);
            if is_beyond_the_calendar(&value) {
                assert!(Value::parse(ty, &value.to_string()).is_err(), "{value}");
                continue;
            }
            // Text alone keeps the spaces around it; all other types print without.
            assert_eq!(parse(ty, &value.to_string()), value, "{ty} {value}");
        }
    }
}

#[test]
fn dates() {
    for (text, days) in [
        ("2000-01-01", 0),
        ("1999-12-31", -1),
        ("2024-02-29", 8825),
        ("4714-11-24 BC", -2_451_545),
        ("5874897-12-31", 2_145_031_948),
        ("infinity", i32::MAX),
    ] {
        assert_eq!(parse(Type::Date, text), Value::Date(days));
        assert_eq!(Value::Date(days).to_string(), text);
    }
    for (text, shown) in
        [("123-1-5", "0123-01-05"), (" 2000-01-01 BC", "2000-01-01 BC"), ("Epoch", "1970-01-01")]
    {
        assert_eq!(parse(Type::Date, text).to_string(), shown);
    }
    // A store loses nothing.
    for text in ["2024-01-01T10:00:00.000Z", "2024-01-01 10:00", "2024-01-01+02"] {
        assert!(Value::parse(Type::Date, text).is_err(), "{text}");
    }
    for text in [
        "2023-02-29",
        "1900-02-29",
        "2000-13-01",
        "2000-00-10",
        "2000-1-32",
        "2000-01-01 25:00",
        "2000-01-01-02",
        "\u{3000}2000-01-01",
        "5874898-01-01",
        "4714-11-23 BC",
        "0000-01-01",
        "2000-01-01x",
        "20000101",
        "",
        "99-01-01",
        "9999999-01-01",
        "é",
    ] {
        let error = Value::parse(Type::Date, text).unwrap_err().to_string();
        assert!(error.contains("date value") && error.contains(text), "{error}");
    }
}

#[test]
fn timestamps() {
    let day = 86_400_000_000;
    for (text, micros, shown) in [
        ("2000-01-01 00:00:00", 0, "2000-01-01 00:00:00"),
        ("1999-12-31T23:59:59.5", -500_000, "1999-12-31 23:59:59.5"),
        ("2000-01-02", day, "2000-01-02 00:00:00"),
        ("2000-01-01 24:00", day, "2000-01-02 00:00:00"),
        ("2000-01-01 00:00:00.0000005", 0, "2000-01-01 00:00:00"),
        ("2000-01-01 00:00:00.0000015", 2, "2000-01-01 00:00:00.000002"),
        ("2000-01-01 0:0:1", 1_000_000, "2000-01-01 00:00:01"),
        ("2000-01-01 00:00:60", 60_000_000, "2000-01-01 00:01:00"),
        ("2000-01-01 00:00:01.", 1_000_000, "2000-01-01 00:00:01"),
        ("-infinity", i64::MIN, "-infinity"),
    ] {
        assert_eq!(parse(Type::Timestamp, text), Value::Timestamp(micros), "{text}");
        assert_eq!(Value::Timestamp(micros).to_string(), shown);
    }
    for text in [
        "2000-01-01 25:00",
        "2000-01-01 10:60",
        "2000-01-01 10",
        "2000-01-01 10:00:61",
        "2000-01-01 24:00:01",
        "2000-01-01 10:00:00 x",
        "2000-01-01 10:00:00+02",
        "2000-01-01 10:00:00Z",
        "294277-01-01",
    ] {
        assert!(Value::parse(Type::Timestamp, text).is_err(), "{text}");
    }
}

#[test]
fn the_ends_of_time_print_and_read_back() {
    for micros in [TIMESTAMPS.start, TIMESTAMPS.start + 1, TIMESTAMPS.end - 1] {
        let plain = (Type::Timestamp, Value::Timestamp(micros));
        for (kind, value) in [plain, (Type::TimestampTz, Value::TimestampTz(micros))] {
            assert_eq!(parse(kind, &value.to_string()), value);
        }
    }
    // Values beyond print; they are not read.
    for micros in [i64::MIN + 1, TIMESTAMPS.start - 1, TIMESTAMPS.end, i64::MAX - 1] {
        let text = Value::Timestamp(micros).to_string();
        assert!(Value::parse(Type::Timestamp, &text).is_err(), "{text}");
    }
    // A zone brings a day back into the range, or out of it.
    let first = parse(Type::TimestampTz, "4714-11-23 23:00:00-10 BC");
    assert_eq!(first.to_string(), "4714-11-24 09:00:00+00 BC");
    assert!(Value::parse(Type::TimestampTz, "4714-11-24 00:00:00+10 BC").is_err());
}

#[test]
fn zoned_timestamps_are_kept_in_utc() {
    let hour = 3_600_000_000;
    for (text, micros) in [
        ("2000-01-01 00:00:00", 0),
        ("2000-01-01T02:00:00Z", 2 * hour),
        ("2000-01-01 02:00:00+02", 0),
        ("2000-01-01 02:00:00 -0230", 2 * hour + hour * 5 / 2),
        ("2000-01-01 02:00:00+01:30", hour / 2),
    ] {
        assert_eq!(parse(Type::TimestampTz, text), Value::TimestampTz(micros), "{text}");
    }
    assert_eq!(Value::TimestampTz(-1).to_string(), "1999-12-31 23:59:59.999999+00");
    let read = |text| datetime::read_timestamp(text).unwrap_err();
    assert_eq!(read("2000-01-01 02:00:00+99"), DateTimeError::ZoneRange);
    assert_eq!(read("2000-01-01 02:00:00+023015"), DateTimeError::ZoneRange);
    assert_eq!(read("2000-01-01 25:00:00"), DateTimeError::FieldRange);
    assert_eq!(read("2000-01-01 02:00:00+"), DateTimeError::Syntax);
    assert_eq!(read("999999-01-01"), DateTimeError::OutOfRange);
    assert!(Value::parse(Type::TimestampTz, "2000-01-01 02:00:00 Paris").is_err());
}

#[test]
fn floats_print_as_postgresql_does() {
    for (value, shown) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.5, "1.5"),
        (1e14, "100000000000000"),
        (1e15, "1e+15"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (f64::NEG_INFINITY, "-Infinity"),
        (f64::NAN, "NaN"),
    ] {
        assert_eq!(Value::Float8(value).to_string(), shown);
    }
    // A decimal in the middle between two floats stands for neither; of two equally near ones the
    // even one is printed.
    for (value, shown) in [
        (562_949_953_421_312.0 + 0.25, "562949953421312.2"),
        (562_949_953_421_312.0 + 0.75, "562949953421312.8"),
        (-9_007_199_254_740_993.0, "-9.007199254740992e+15"),
        (9.5e-321, "9.5e-321"),
        (5e-324, "5e-324"),
        (2.225_073_858_507_201_4e-308, "2.2250738585072014e-308"),
        (4_503_599_627_370_496.0, "4.503599627370496e+15"),
        (123_456.75, "123456.75"),
        (100.0, "100"),
    ] {
        assert_eq!(Value::Float8(value).to_string(), shown);
    }
    for (value, shown) in [
        (3e10, "3.0000001e+10"),
        (9.5e-44, "9.5e-44"),
        (1e-45, "1e-45"),
        (8_388_608.0, "8.388608e+06"),
    ] {
        assert_eq!(Value::Float4(value).to_string(), shown);
    }
    assert_eq!(Value::Float4(1e6).to_string(), "1e+06");
    assert_eq!(Value::Float4(0.1).to_string(), "0.1");
    for text in ["1e400", "", "1.2.3", "0x10", "infinite"] {
        assert!(Value::parse(Type::Float8, text).is_err(), "{text}");
    }
    assert!(Value::parse(Type::Float4, "1e39").is_err());
}

#[test]
fn small_types_refuse_what_does_not_fit() {
    assert!(Value::parse(Type::Int2, "32768").is_err());
    assert!(Value::parse(Type::Int4, "\u{3000}9").is_err(), "blanks are those of ASCII");
    assert!(Value::parse(Type::Int4, "2147483648").is_err());
    assert!(Value::parse(Type::Int8, "9223372036854775808").is_err());
    assert_eq!(parse(Type::Int2, " -32768 "), Value::Int2(i16::MIN));
    assert_eq!(parse(Type::Bool, "YES"), Value::Bool(true));
    assert!(Value::parse(Type::Bool, "2").is_err());
    assert_eq!(parse(Type::Bytes, "\\x00fF"), Value::Bytes(vec![0, 255]));
    assert!(Value::parse(Type::Bytes, "\\x0").is_err());
    assert!(Value::parse(Type::Bytes, "00").is_err());
}

/// One below the largest value of a type, that, and one more; likewise the smallest. Times of day,
/// decimals and JSON have tests of their own.
#[test]
fn limits_are_where_the_types_end() {
    let ends: [(Type, [&str; 3]); 19] = [
        (Type::Int2, ["32766", "32767", "32768"]),
        (Type::Int2, ["-32767", "-32768", "-32769"]),
        (Type::Int4, ["2147483646", "2147483647", "2147483648"]),
        (Type::Int4, ["-2147483647", "-2147483648", "-2147483649"]),
        (Type::Int8, ["9223372036854775806", "9223372036854775807", "9223372036854775808"]),
        (Type::Int8, ["-9223372036854775807", "-9223372036854775808", "-9223372036854775809"]),
        (Type::Float4, ["3.4028233e+38", "3.4028235e+38", "3.4028237e+38"]),
        (Type::Float4, ["-3.4028233e+38", "-3.4028235e+38", "-3.4028237e+38"]),
        (
            Type::Float8,
            ["1.7976931348623155e+308", "1.7976931348623157e+308", "1.7976931348623159e+308"],
        ),
        (Type::Date, ["5874897-12-30", "5874897-12-31", "5874898-01-01"]),
        (Type::Date, ["4714-11-25 BC", "4714-11-24 BC", "4714-11-23 BC"]),
        (
            Type::Timestamp,
            [
                "294276-12-31 23:59:59.999998",
                "294276-12-31 23:59:59.999999",
                "294277-01-01 00:00:00",
            ],
        ),
        (
            Type::Timestamp,
            ["4714-11-24 00:00:00.000001 BC", "4714-11-24 00:00:00 BC", "4714-11-23 23:59:59 BC"],
        ),
        (
            Type::TimestampTz,
            [
                "294276-12-31 23:59:59.999998+00",
                "294276-12-31 23:59:59.999999+00",
                "294277-01-01 00:00:00+00",
            ],
        ),
        (Type::Interval, ["2147483646 days", "2147483647 days", "2147483648 days"]),
        (Type::Interval, ["-2147483647 days", "-2147483648 days", "-2147483649 days"]),
        (Type::Interval, ["2147483646 mons", "2147483647 mons", "2147483648 mons"]),
        (
            Type::Interval,
            ["2562047788:00:54.775806", "2562047788:00:54.775807", "2562047788:00:54.775808"],
        ),
        (
            Type::Interval,
            ["-2562047788:00:54.775807", "-2562047788:00:54.775808", "-2562047788:00:54.775809"],
        ),
    ];
    for (ty, [inside, last, beyond]) in ends {
        for text in [inside, last] {
            let value = parse(ty, text);
            assert_eq!(parse(ty, &value.to_string()), value, "{ty} {text}");
            if ty != Type::Interval {
                assert_eq!(value.to_string(), text, "{ty}");
            }
        }
        assert_ne!(parse(ty, inside), parse(ty, last), "{ty} {last}");
        let error = Value::parse(ty, beyond).unwrap_err().to_string();
        assert!(error.contains(beyond), "{ty} {beyond}: {error}");
    }
}

#[test]
fn times_of_day() {
    let hour = 3_600_000_000;
    for (text, micros, shown) in [
        ("00:00", 0, "00:00:00"),
        ("1:02:03.5", hour + 123_500_000, "01:02:03.5"),
        ("23:59:59.999999", 24 * hour - 1, "23:59:59.999999"),
        ("24:00", 24 * hour, "24:00:00"),
    ] {
        assert_eq!(parse(Type::Time, text), Value::Time(micros), "{text}");
        assert_eq!(Value::Time(micros).to_string(), shown);
        assert!(Value::Time(micros).is_sound());
    }
    for text in ["", "24:00:00.000001", "12", "12:60", "12:00+01", "-1:00"] {
        assert!(Value::parse(Type::Time, text).is_err(), "{text}");
    }
    assert!(!Value::Time(-1).is_sound() && !Value::Time(24 * hour + 1).is_sound());
}

#[test]
fn json_is_kept_as_it_was_given() {
    assert_eq!(parse(Type::Json, " {\"a\":  1}").to_string(), " {\"a\":  1}");
    let error = Value::parse(Type::Json, "{a: 1}").unwrap_err().to_string();
    assert!(error.contains("json value \"{a: 1}\""), "{error}");
    assert!(!Value::Json("{".into()).is_sound());
}

#[test]
fn uuids() {
    let shown = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
    for text in
        [shown, "{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}", "a0eebc999c0b4ef8bb6d6bb9bd380a11"]
    {
        assert_eq!(parse(Type::Uuid, text).to_string(), shown);
    }
    for text in [
        "",
        "12-34-56-78-9a-bc-de-f0-12-34-56-78-9a-bc-de-f0",
        " a0eebc999c0b4ef8bb6d6bb9bd380a11",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 ",
        "-a0eebc999c0b4ef8bb6d6bb9bd380a11",
        "a0eebc999c0b4ef8bb6d6bb9bd380a1",
        "a0eebc999c0b4ef8bb6d6bb9bd380a1122",
        "{a0eebc999c0b4ef8bb6d6bb9bd380a11",
    ] {
        assert!(Value::parse(Type::Uuid, text).is_err(), "{text}");
    }
}

#[test]
fn floats_are_totally_ordered_and_equal_ones_hash_alike() {
    let hash = |value: &Value| {
        let mut state = DefaultHasher::new();
        value.hash(&mut state);
        state.finish()
    };
    let ordered = [f64::NEG_INFINITY, -1.0, 0.0, f64::MIN_POSITIVE, f64::INFINITY, f64::NAN];
    for pair in ordered.windows(2) {
        assert!(Value::Float8(pair[0]) < Value::Float8(pair[1]));
    }
    let pairs = [(0.0, -0.0), (f64::NAN, f64::from_bits(0xFFF8_0000_0000_0001))];
    for (a, b) in pairs.map(|(a, b)| (Value::Float8(a), Value::Float8(b))) {
        assert_eq!(a, b);
        assert_eq!(hash(&a), hash(&b));
    }
    assert!(Value::Null > Value::Bool(true) && Value::Null == Value::Null);
}

#[test]
fn long_input_is_not_repeated_whole_in_the_error() {
    let error = Value::parse(Type::Int4, &"é".repeat(5_000)).unwrap_err().to_string();
    assert!(error.len() < 300 && error.contains("..."), "{error}");
}
