//! The tour's questions: single rows, ranges through indexes, and an update.
//!
//! Invariants: every answer is counted and timed in this run.
//! Does not do: anything the `scan` command could not.

use std::time::Duration;

use rightlink::{Database, Row, ScanOptions, Type, Value};

use super::{TABLE, Tour};
use crate::clock::Stopwatch;
use crate::failure::{Exit, Failure};
use crate::figures::{count, duration, plural};

/// Primary keys looked up.
const LOOK_UPS: u64 = 1000;
/// Rows of the data file.
const ROWS: u64 = 27_004;

/// A range of one index, in words and in values.
struct Question {
    words: &'static str,
    index: &'static str,
    from: &'static [(Type, &'static str)],
    to: &'static [(Type, &'static str)],
}

const QUESTIONS: [Question; 4] = [
    Question {
        words: "flights of the plane N725MQ",
        index: "flights_tail",
        from: &[(Type::Text, "N725MQ")],
        to: &[(Type::Text, "N725MQ")],
    },
    Question {
        words: "departures planned for 31 January, 6 to 9 o'clock",
        index: "flights_hour",
        from: &[(Type::TimestampTz, "2013-01-31T11:00:00Z")],
        to: &[(Type::TimestampTz, "2013-01-31T13:00:00Z")],
    },
    Question {
        words: "departures from JFK on 15 January",
        index: "flights_origin",
        from: &[(Type::Text, "JFK"), (Type::TimestampTz, "2013-01-15T05:00:00Z")],
        to: &[(Type::Text, "JFK"), (Type::TimestampTz, "2013-01-16T04:00:00Z")],
    },
    Question {
        words: "days on which American Airlines flew its flight 1",
        index: "flights_carrier",
        from: &[(Type::Text, "AA"), (Type::Int4, "1")],
        to: &[(Type::Text, "AA"), (Type::Int4, "1")],
    },
];

/// Rows of a scan and how long it took.
fn timed(db: &Database, options: &ScanOptions) -> Result<(Vec<Row>, Duration), Failure> {
    let clock = Stopwatch::start();
    let rows = db.begin().scan(TABLE, options)?.collect::<Result<Vec<_>, _>>()?;
    Ok((rows, clock.elapsed()))
}

fn key(parts: &[(Type, &str)]) -> Result<Vec<Value>, Failure> {
    Ok(parts.iter().map(|(ty, text)| Value::parse(*ty, text)).collect::<Result<Vec<_>, _>>()?)
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

/// All flights of a carrier.
pub(super) fn of_carrier(db: &Database, carrier: &str) -> Result<Vec<Row>, Failure> {
    let options = ScanOptions::index("flights_carrier").equal(vec![text(carrier)]).columns(["id"]);
    Ok(timed(db, &options)?.0)
}

impl Tour<'_> {
    /// Single rows by primary key.
    pub(super) fn look_up(&mut self, db: &Database) -> Result<(), Failure> {
        self.begin("Look up single rows")?;
        let clock = Stopwatch::start();
        let mut work = db.begin();
        for _ in 0..LOOK_UPS {
            let id = self.random.below(ROWS) as i32 + 1;
            let row = work.get(TABLE, &[Value::Int4(id)])?;
            let found = row.is_some_and(|row| row.values.first() == Some(&Value::Int4(id)));
            if !found {
                return Err(Failure::new(Exit::Damage, format!("the flight with id {id} is lost")));
            }
        }
        let each = clock.elapsed() / LOOK_UPS as u32;
        let micros = (each.as_nanos() / 1000) as u64;
        self.note("look-up", [("rows", LOOK_UPS.into()), ("us_each", micros.into())])?;
        self.say(&format!(
            "{} flights by random primary keys: {} each.",
            count(LOOK_UPS),
            duration(each)
        ))
    }

    /// Ranges of all five indexes.
    pub(super) fn ranges(&mut self, db: &Database) -> Result<(), Failure> {
        self.begin("Ask for ranges, each through an index")?;
        for question in &QUESTIONS {
            let options = ScanOptions::index(question.index);
            let options = options.from(key(question.from)?).to(key(question.to)?);
            let (rows, time) = timed(db, &options)?;
            self.tell_range(question.words, question.index, rows.len() as u64, time)?;
        }
        self.worst(db)
    }

    fn tell_range(
        &mut self,
        words: &str,
        index: &str,
        rows: u64,
        time: Duration,
    ) -> Result<(), Failure> {
        let micros = time.as_micros() as u64;
        self.note(
            "range",
            [("index", index.into()), ("rows", rows.into()), ("us", micros.into())],
        )?;
        self.say(&format!("{:>5}  {words:<50} {:>7}  {index}", count(rows), duration(time)))
    }

    /// The longest delays into one airport: the first entries of an index, no sorting.
    fn worst(&mut self, db: &Database) -> Result<(), Failure> {
        let columns = ["carrier", "flight", "tailnum", "arr_delay", "time_hour"];
        let options = ScanOptions::index("flights_delay").equal(vec![text("ORD")]).limit(5);
        let (rows, time) = timed(db, &options.columns(columns))?;
        self.tell_range("the worst arrivals at Chicago O'Hare:", "flights_delay", 5, time)?;
        for row in &rows {
            let cells: Vec<String> = row.values.iter().map(ToString::to_string).collect();
            let [carrier, flight, tail, delay, hour] = cells.as_slice() else { continue };
            self.say(&format!(
                "         {carrier} {flight:<5} {tail:<7} {delay:>5} min late, {hour}"
            ))?;
        }
        self.compare_with_heap(db)
    }

    fn compare_with_heap(&mut self, db: &Database) -> Result<(), Failure> {
        let (rows, time) = timed(db, &ScanOptions::all().columns(["dest", "arr_delay"]))?;
        self.note("heap", [("rows", rows.len().into()), ("us", (time.as_micros() as u64).into())])?;
        self.say(&format!(
            "Without an index each would read all {} rows, which took {}.",
            count(rows.len() as u64),
            duration(time)
        ))
    }

    /// AirTran became Southwest: some hundred rows get a new carrier. Returns Southwest's flights.
    pub(super) fn update(&mut self, db: &Database) -> Result<u64, Failure> {
        self.begin("Update some hundred rows in one transaction")?;
        let clock = Stopwatch::start();
        let moved = move_carrier(db, "FL", "WN")?;
        let time = clock.elapsed();
        let (left, there) = (of_carrier(db, "FL")?.len(), of_carrier(db, "WN")?.len() as u64);
        if left > 0 {
            return Err(Failure::new(Exit::Damage, "the update left rows under their old key"));
        }
        self.note("update", [("rows", moved.into()), ("us", (time.as_micros() as u64).into())])?;
        self.say(&format!(
            "AirTran (FL) merges into Southwest (WN): {} in {}, committed and on disk.",
            plural(moved, "row"),
            duration(time)
        ))?;
        self.say(&format!(
            "The index on carrier went along by itself: FL has 0 flights now, WN has {}.",
            count(there)
        ))?;
        Ok(there)
    }
}

fn move_carrier(db: &Database, from: &str, to: &str) -> Result<u64, Failure> {
    let moved = db.with_retry(|work| {
        let options = ScanOptions::index("flights_carrier").equal(vec![text(from)]).columns(["id"]);
        let rows = work.scan(TABLE, &options)?.collect::<Result<Vec<_>, _>>()?;
        for row in &rows {
            work.update(TABLE, row.id, &[("carrier", text(to))])?;
        }
        Ok(rows.len() as u64)
    })?;
    Ok(moved)
}
