//! Clients that work on lists, registers, conditions, unique keys and foreign keys of one database,
//! and note what they asked for and were told.
//!
//! Invariants: a value or id is given once; ticks are taken before a statement is sent and after
//! its answer.
//! Does not do: judging (`check`).

use rightlink_env::sync::{Arc, AtomicU64, Ordering};
use rightlink_env::{Rng, thread};

use super::record::{Event, History, Keyed, Level, Object, Outcome, Statement, Transaction};

/// Rows as text; `None` is null.
pub(crate) type Rows = Vec<Vec<Option<String>>>;

/// Why a statement failed.
#[derive(Debug)]
#[expect(dead_code, reason = "the message is for whoever reads a panic")]
pub(crate) struct Refused {
    pub(crate) sqlstate: String,
    pub(crate) message: String,
}

/// Something that runs one statement.
pub(crate) trait Client {
    fn run(&mut self, sql: &str) -> Result<Rows, Refused>;
}

/// Tables of the workloads. Lists and unique keys come and go; registers are there from the start.
pub(crate) const TABLES: &str = "
    create table l (k int primary key, v text not null);
    create table r (k int primary key, v bigint not null, prev bigint);
    create table p (id bigint primary key, grp int not null, pad text);
    create index p_grp on p (grp);
    create table u (id bigint not null, k int not null, prev bigint);
    create unique index u_k on u (k);
    create table a (id bigint primary key, k int not null unique);
    create table b (id bigint primary key, a bigint not null references a (id));
    create index b_a on b (a)";

/// Objects are numbered by kind.
const LISTS: Object = 0;
const REGISTERS: Object = 1 << 20;
const GROUPS: Object = 2 << 20;
const KEYS: Object = 3 << 20;
const PARENTS: Object = 4 << 20;
const CHILDREN: Object = 5 << 20;
/// Objects of a kind at a time; later ones take their place.
const AT_A_TIME: u64 = 4;
/// Transactions after which all objects but registers are other ones.
const LIFE: u64 = 150;
/// Registers.
pub(crate) const COUNT_OF_REGISTERS: u32 = 12;

/// What the clients of a history share.
pub(crate) struct Shared {
    clock: AtomicU64,
    next: AtomicU64,
    begun: AtomicU64,
}

impl Shared {
    pub(crate) fn new() -> Arc<Shared> {
        let [clock, next, begun] = [1, 1, 0].map(AtomicU64::new);
        Arc::new(Shared { clock, next, begun })
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// A number that was never given before.
    fn fresh(&self) -> i64 {
        self.next.fetch_add(1, Ordering::SeqCst) as i64
    }

    /// Which objects are in use.
    fn generation(&self) -> Object {
        (self.begun.load(Ordering::SeqCst) / LIFE) as Object
    }
}

/// What a client does, beside its statements.
#[derive(Clone, Copy)]
pub(crate) struct Habits {
    /// Repeatable read in so many of eight transactions.
    pub(crate) repeatable: u64,
    /// Read committed passes for repeatable read: a lie that the checker must find.
    pub(crate) lies: bool,
    /// Commits are durable before they are acknowledged.
    pub(crate) durable: bool,
}

/// One client at work.
pub(crate) struct Worker<'c> {
    client: &'c mut dyn Client,
    shared: Arc<Shared>,
    rng: Rng,
    habits: Habits,
    level: Level,
    /// Nobody answers any more.
    is_gone: bool,
    statements: Vec<Statement>,
    /// Rows of tables that were seen last, to write next.
    known_rows: Vec<i64>,
    known_parents: Vec<i64>,
    known_children: Vec<i64>,
}

/// Why a transaction goes no further.
enum Stop {
    /// The statement failed as statements may.
    Failed,
    /// The connection is gone.
    Gone,
}

/// Errors that concurrent transactions may get.
const EXPECTED: [&str; 6] = ["40001", "40P01", "23505", "23503", "55P03", "25P02"];
/// Errors of a client whose server is gone.
pub(crate) const GONE: &str = "08006";

fn number(value: &Option<String>) -> i64 {
    let text = value.as_ref().expect("no null is asked for");
    text.parse().expect("a number")
}

fn list_of(value: &Option<String>) -> Vec<i64> {
    let text = value.as_ref().expect("no null is asked for");
    text.split(',').map(|part| part.parse().expect("a list of numbers")).collect()
}

fn first_numbers(rows: &Rows) -> Vec<i64> {
    rows.iter().map(|row| number(&row[0])).collect()
}

fn keyed(rows: &Rows) -> Vec<Keyed> {
    rows.iter().map(|row| Keyed { id: number(&row[0]), key: number(&row[1]) }).collect()
}

fn ids_of(rows: &[Keyed], key: i64) -> Vec<i64> {
    rows.iter().filter(|row| row.key == key).map(|row| row.id).collect()
}

impl<'c> Worker<'c> {
    pub(crate) fn new(
        client: &'c mut dyn Client,
        shared: &Arc<Shared>,
        seed: u64,
        habits: Habits,
    ) -> Worker<'c> {
        Worker {
            client,
            shared: Arc::clone(shared),
            rng: Rng::from_seed(seed),
            habits,
            level: Level::Committed,
            is_gone: false,
            statements: Vec::new(),
            known_rows: Vec::new(),
            known_parents: Vec::new(),
            known_children: Vec::new(),
        }
    }

    /// Runs `count` transactions, as long as there is somebody who answers.
    pub(crate) fn work(mut self, count: u64) -> Vec<Transaction> {
        let setting = if self.habits.durable { "on" } else { "off" };
        let mut done = Vec::new();
        for sql in ["set lock_timeout = 2000", &format!("set synchronous_commit = {setting}")] {
            if self.client.run(sql).is_err() {
                return done;
            }
        }
        for _ in 0..count {
            self.shared.begun.fetch_add(1, Ordering::SeqCst);
            done.push(self.transaction());
            if self.is_gone {
                break;
            }
        }
        done
    }

    fn transaction(&mut self) -> Transaction {
        let repeatable = self.rng.below(8) < self.habits.repeatable;
        let really =
            if repeatable && !self.habits.lies { "repeatable read" } else { "read committed" };
        self.level = if repeatable { Level::Repeatable } else { Level::Committed };
        self.statements = Vec::new();
        let ended = match self.client.run(&format!("begin isolation level {really}")) {
            Ok(_) => self.body(),
            Err(error) => Err(self.stop(&error, "begin")),
        };
        let commits = ended.is_ok() && !self.rng.chance(1, 12);
        let end_sent = self.shared.tick();
        let outcome = match (ended, commits) {
            // Its commit was not asked for.
            (Err(Stop::Gone), _) => Outcome::Aborted,
            (_, commits) => {
                let answer = self.client.run(if commits { "commit" } else { "rollback" });
                match answer.map_err(|error| self.stop(&error, "the end")) {
                    Ok(_) if commits => Outcome::Committed,
                    Err(Stop::Gone) if commits => Outcome::Unknown,
                    Ok(_) | Err(_) => Outcome::Aborted,
                }
            }
        };
        let end_answered = self.shared.tick();
        let statements = std::mem::take(&mut self.statements);
        Transaction { level: self.level, outcome, statements, end_sent, end_answered }
    }

    fn stop(&mut self, error: &Refused, sql: &str) -> Stop {
        if error.sqlstate == GONE {
            self.is_gone = true;
            return Stop::Gone;
        }
        assert!(EXPECTED.contains(&error.sqlstate.as_str()), "{sql}: {error:?}");
        Stop::Failed
    }

    /// The statements of a transaction, some of them in savepoints.
    fn body(&mut self) -> Result<(), Stop> {
        for _ in 0..1 + self.rng.below(4) {
            self.pause();
            if !self.rng.chance(1, 5) {
                self.step()?;
                continue;
            }
            let from = self.statements.len();
            self.run("savepoint s")?;
            let stopped = match self.step() {
                Err(Stop::Gone) => return Err(Stop::Gone),
                Err(Stop::Failed) => true,
                Ok(()) => self.rng.chance(1, 2),
            };
            if stopped {
                self.run("rollback to s")?;
                let at = self.shared.tick();
                self.statements.push(Statement {
                    sent: at,
                    answered: at,
                    events: Vec::new(),
                    failed: false,
                    undoes: Some(from),
                });
            }
            self.run("release s")?;
        }
        Ok(())
    }

    /// Lets others run now and then.
    fn pause(&mut self) {
        match self.rng.below(8) {
            0 => thread::sleep(std::time::Duration::from_micros(self.rng.below(300))),
            1..4 => thread::yield_now(),
            _ => {}
        }
    }

    fn run(&mut self, sql: &str) -> Result<Rows, Stop> {
        let answer = self.client.run(sql);
        answer.map_err(|error| self.stop(&error, sql))
    }

    /// Runs a statement and notes what `events` makes of its answer.
    fn note(&mut self, sql: &str, events: impl FnOnce(&Rows) -> Vec<Event>) -> Result<Rows, Stop> {
        let sent = self.shared.tick();
        let rows = self.run(sql);
        let answered = self.shared.tick();
        let (events, failed) = match &rows {
            Ok(rows) => (events(rows), false),
            Err(_) => (Vec::new(), true),
        };
        self.statements.push(Statement { sent, answered, events, failed, undoes: None });
        rows
    }

    /// One of the objects of a kind that are in use now.
    fn object(&mut self) -> Object {
        let generation = self.shared.generation() * AT_A_TIME as Object;
        generation + self.rng.below(AT_A_TIME) as Object
    }

    fn step(&mut self) -> Result<(), Stop> {
        match self.rng.below(20) {
            0..3 => self.append(),
            3..6 => self.read_lists(),
            6 | 7 => self.set_register(),
            8 | 9 => self.read_registers(),
            10 | 11 => self.change_group(),
            12 | 13 => self.read_group(),
            14 | 15 => self.change_key(),
            16 => self.read_keys(),
            17 => self.dispute_key(),
            18 => self.change_family(),
            _ => self.read_family(),
        }
    }

    fn append(&mut self) -> Result<(), Stop> {
        let (k, value) = (self.object(), self.shared.fresh());
        let object = LISTS + k;
        let sql = format!(
            "insert into l values ({k}, '{value}') \
             on conflict (k) do update set v = l.v || ',' || excluded.v returning v"
        );
        self.note(&sql, |rows| {
            let [row] = &rows[..] else { panic!("an upsert has one row, not {rows:?}") };
            let seen = list_of(&row[0]);
            vec![Event::Put { object, value, replaced: None }, Event::List { object, seen }]
        })?;
        Ok(())
    }

    fn read_lists(&mut self) -> Result<(), Stop> {
        let (k, other) = (self.object(), self.object());
        let (sql, asked) = match self.rng.below(5) {
            0 => (format!("select k, v from l where k = {k}"), vec![k]),
            1 => (format!("select k, v from l where k + 0 = {k}"), vec![k]),
            2 => (format!("select k, v from l where k = {k} for update"), vec![k]),
            3 => (format!("select k, v from l where k in ({k}, {other})"), vec![k, other]),
            _ => {
                let (low, high) = (k.min(other), k.max(other));
                let asked = (low..=high).collect();
                (format!("select k, v from l where k between {low} and {high}"), asked)
            }
        };
        self.note(&sql, |rows| lists(rows, asked))?;
        Ok(())
    }

    fn set_register(&mut self) -> Result<(), Stop> {
        let k = self.rng.below(u64::from(COUNT_OF_REGISTERS)) as Object;
        let value = self.shared.fresh();
        let sql = format!("update r set prev = v, v = {value} where k = {k} returning prev");
        self.note(&sql, |rows| {
            let [row] = &rows[..] else { panic!("a register is one row, not {rows:?}") };
            let replaced = Some(number(&row[0]));
            vec![Event::Put { object: REGISTERS + k, value, replaced }]
        })?;
        Ok(())
    }

    fn read_registers(&mut self) -> Result<(), Stop> {
        let k = self.rng.below(u64::from(COUNT_OF_REGISTERS));
        let sql = match self.rng.below(4) {
            0 => "select k, v from r".to_owned(),
            1 => format!("select k, v from r where k >= {k}"),
            2 => format!("select k, v from r where k = {k} for share"),
            _ => format!("select k, v from r where k = {k}"),
        };
        self.note(&sql, registers)?;
        Ok(())
    }

    fn change_group(&mut self) -> Result<(), Stop> {
        let (group, id) = (self.object(), self.shared.fresh());
        let insert = Event::Insert { object: GROUPS + group, id };
        let old = self.known_rows.pop();
        match (self.rng.below(3), old) {
            (0, Some(old)) => {
                let sql = format!("delete from p where id = {old} returning id");
                self.note(&sql, |rows| deletes(&first_numbers(rows)))?;
            }
            (1, Some(old)) => {
                // A row that moves is another one.
                let sql =
                    format!("update p set id = {id}, grp = {group} where id = {old} returning id");
                self.note(&sql, |rows| match rows.len() {
                    0 => Vec::new(),
                    _ => vec![Event::Delete { id: old }, insert],
                })?;
            }
            _ => {
                let sql = format!("insert into p values ({id}, {group}, repeat('x', {}))", id % 90);
                self.note(&sql, |_| vec![insert])?;
            }
        }
        Ok(())
    }

    fn read_group(&mut self) -> Result<(), Stop> {
        let group = self.object();
        let object = GROUPS + group;
        let sql = match self.rng.below(3) {
            0 => format!("select id from p where grp = {group}"),
            1 => format!("select id from p where grp + 0 = {group}"),
            _ => format!("select id from p where grp = {group} order by id desc"),
        };
        let rows =
            self.note(&sql, |rows| vec![Event::Members { object, ids: first_numbers(rows) }])?;
        self.known_rows = first_numbers(&rows);
        let found = rows.len() as i64;
        if self.level == Level::Repeatable && !self.habits.lies && self.rng.chance(1, 2) {
            let sql = format!("select count(*) from p where grp = {group}");
            self.note(&sql, |rows| same(found, number(&rows[0][0]), "rows and their count"))?;
        }
        Ok(())
    }

    /// Takes a key that it may see another row have, which others may have deleted since, and
    /// reads it again.
    fn dispute_key(&mut self) -> Result<(), Stop> {
        let (k, id) = (self.key(), self.shared.fresh());
        let by_key = format!("select id, k from u where k = {k}");
        self.note(&by_key, |rows| keys(rows, &[k]))?;
        thread::sleep(std::time::Duration::from_micros(self.rng.below(3_000)));
        let insert = Event::Insert { object: KEYS + k, id };
        self.note(&format!("insert into u values ({id}, {k})"), |_| vec![insert])?;
        self.note(&by_key, |rows| keys(rows, &[k]))?;
        Ok(())
    }

    /// One of the unique keys that are in use now, of which there are fewer.
    fn key(&mut self) -> Object {
        self.object() & !2
    }

    fn change_key(&mut self) -> Result<(), Stop> {
        let (k, id) = (self.key(), self.shared.fresh());
        let insert = Event::Insert { object: KEYS + k, id };
        match self.rng.below(6) {
            0 | 1 => {
                self.note(&format!("insert into u values ({id}, {k})"), |_| vec![insert])?;
            }
            2 => {
                let sql = format!("update u set prev = id, id = {id} where k = {k} returning prev");
                self.note(&sql, |rows| match &rows[..] {
                    [] => Vec::new(),
                    [row] => vec![Event::Delete { id: number(&row[0]) }, insert],
                    more => vec![Event::Odd(format!("{} rows of a key updated", more.len()))],
                })?;
            }
            3 | 4 => {
                let sql = format!("delete from u where k = {k} returning id");
                self.note(&sql, |rows| deletes(&first_numbers(rows)))?;
            }
            _ => {
                let sql = format!(
                    "insert into u values ({id}, {k}) on conflict (k) do update \
                     set prev = u.id, id = {id} returning prev"
                );
                self.note(&sql, |rows| {
                    let old = rows[0][0].is_some().then(|| number(&rows[0][0]));
                    let delete = old.map(|id| Event::Delete { id });
                    delete.into_iter().chain([insert]).collect()
                })?;
            }
        }
        Ok(())
    }

    fn read_keys(&mut self) -> Result<(), Stop> {
        let k = self.key();
        let (by, asked) = match self.rng.below(5) {
            0 | 1 => (format!("where k = {k}"), vec![k]),
            2 => (format!("where k + 0 = {k}"), vec![k]),
            3 => (format!("where k in ({k}, -1)"), vec![k]),
            _ => {
                let first = k - k % AT_A_TIME as Object;
                let asked: Vec<_> = (first..first + AT_A_TIME as Object).collect();
                (format!("where k >= {first} and k < {}", first + AT_A_TIME as Object), asked)
            }
        };
        self.note(&format!("select id, k from u {by}"), |rows| keys(rows, &asked))?;
        Ok(())
    }

    fn change_family(&mut self) -> Result<(), Stop> {
        let id = self.shared.fresh();
        let (parent, child) = (self.known_parents.pop(), self.known_children.pop());
        match (self.rng.below(6), parent, child) {
            (0 | 1, Some(parent), _) => {
                let sql = format!("insert into b values ({id}, {parent})");
                self.note(&sql, |_| vec![Event::Insert { object: CHILDREN, id }])?;
            }
            (2, Some(parent), _) => {
                let sql = format!("delete from a where id = {parent} returning id");
                self.note(&sql, |rows| deletes(&first_numbers(rows)))?;
            }
            (3, _, Some(child)) => {
                let sql = format!("delete from b where id = {child} returning id");
                self.note(&sql, |rows| deletes(&first_numbers(rows)))?;
            }
            (4, _, Some(child)) => {
                let sql = format!("delete from b where id <= {child} returning id");
                self.note(&sql, |rows| deletes(&first_numbers(rows)))?;
            }
            _ => {
                let key = self.rng.below(12);
                let sql = format!("insert into a values ({id}, {key})");
                self.note(&sql, |_| vec![Event::Insert { object: PARENTS, id }])?;
                self.known_parents.push(id);
            }
        }
        Ok(())
    }

    fn read_family(&mut self) -> Result<(), Stop> {
        let mut children = Vec::new();
        let rows = self.note("select id, a from b", |rows| {
            children = keyed(rows);
            let ids = children.iter().map(|child| child.id).collect();
            vec![Event::Members { object: CHILDREN, ids }]
        })?;
        self.known_children = first_numbers(&rows);
        let repeatable = self.level == Level::Repeatable && !self.habits.lies;
        let rows = self.note("select id from a", |rows| {
            let parents = first_numbers(rows);
            let members = Event::Members { object: PARENTS, ids: parents.clone() };
            match repeatable {
                true => vec![members, Event::References { children, parents }],
                false => vec![members],
            }
        })?;
        self.known_parents = first_numbers(&rows);
        Ok(())
    }
}

fn deletes(ids: &[i64]) -> Vec<Event> {
    ids.iter().map(|id| Event::Delete { id: *id }).collect()
}

fn same(a: i64, b: i64, what: &str) -> Vec<Event> {
    if a == b { Vec::new() } else { vec![Event::Odd(format!("{what}: {a} and {b}"))] }
}

/// What each of the lists `asked` for holds; one that is not there holds nothing.
fn lists(rows: &Rows, mut asked: Vec<Object>) -> Vec<Event> {
    asked.sort_unstable();
    asked.dedup();
    let read = |k: Object| {
        let mut of = rows.iter().filter(|row| number(&row[0]) == i64::from(k));
        let seen = of.next().map(|row| list_of(&row[1])).unwrap_or_default();
        let more = of.next().map(|_| Event::Odd(format!("list {k} is there twice")));
        more.into_iter().chain([Event::List { object: LISTS + k, seen }])
    };
    asked.into_iter().flat_map(read).collect()
}

fn registers(rows: &Rows) -> Vec<Event> {
    let event = |row: &Vec<Option<String>>| Event::Register {
        object: REGISTERS + number(&row[0]) as Object,
        value: number(&row[1]),
    };
    rows.iter().map(event).collect()
}

/// Who has each of the keys `asked` for, and that no two have one.
fn keys(rows: &Rows, asked: &[Object]) -> Vec<Event> {
    let rows = keyed(rows);
    let members =
        |k: &Object| Event::Members { object: KEYS + *k, ids: ids_of(&rows, i64::from(*k)) };
    let mut events: Vec<Event> = asked.iter().map(members).collect();
    events.push(Event::Keys { rows });
    events
}

/// What is there after all transactions.
pub(crate) fn read_last(client: &mut dyn Client, history: &mut History) -> Result<(), Refused> {
    let mut last = Vec::new();
    let objects: Vec<Object> = history
        .transactions
        .iter()
        .flat_map(|it| &it.statements)
        .flat_map(|it| &it.events)
        .filter_map(|event| match event {
            Event::Put { object, .. } | Event::Insert { object, .. } => Some(*object),
            _ => None,
        })
        .collect();
    let of = |kind: Object| {
        let mut of: Vec<Object> =
            objects.iter().filter(|it| **it >> 20 == kind >> 20).map(|it| it & 0xF_FFFF).collect();
        of.sort_unstable();
        of.dedup();
        of
    };
    last.extend(lists(&client.run("select k, v from l")?, of(LISTS)));
    last.extend(registers(&client.run("select k, v from r")?));
    let rows = keyed(&client.run("select id, grp from p")?);
    last.extend(of(GROUPS).into_iter().map(|group| Event::Members {
        object: GROUPS + group,
        ids: ids_of(&rows, i64::from(group)),
    }));
    last.extend(keys(&client.run("select id, k from u")?, &of(KEYS)));
    let (parents, children) =
        (client.run("select id, k from a")?, client.run("select id, a from b")?);
    last.push(Event::Keys { rows: keyed(&parents) });
    let (parents, children) = (first_numbers(&parents), keyed(&children));
    last.push(Event::Members { object: PARENTS, ids: parents.clone() });
    let ids = children.iter().map(|child| child.id).collect();
    last.push(Event::Members { object: CHILDREN, ids });
    last.push(Event::References { children, parents });
    history.last = last;
    Ok(())
}
