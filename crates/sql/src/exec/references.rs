//! Foreign keys: rows that refer have what they refer to, and what happens to them when it goes.
//!
//! While a statement runs it notes keys; when it is done they are looked at. First the actions:
//! what they change notes keys in turn, until nothing is left to act on, however long the chain.
//! Then it is asked whether every key that is referred to is there: rows that one action leaves
//! without a parent for a moment, and another takes away, are none that a statement fails by.
//! RESTRICT looks when its turn among the actions comes.
//!
//! Parents are looked for by the thousand, as a join by an index does, and locked one by one.
//!
//! A row that is referred to is locked until the end of the transaction, together with others that
//! refer to it, so that it and its keys stay while its other columns may change. What refers is
//! looked for as everything is now, so that rows which the snapshot does not show are found too;
//! whoever inserts one holds its parent's lock, which the statement that takes the parent away has
//! waited for.
//!
//! Invariants: a statement that leaves a row without its parent fails, and so does its transaction.
//! What is deferred is kept for the end of the transaction (`expr::deferred`), when the same is
//! asked of things as they are then. Actions are never deferred.
//! Does not do: MATCH FULL.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rightlink::{Budget, Busy, RowId, RowLock, ScanOptions, Transaction, Value, Writer, Written};

use crate::bind::{Binder, Catalog};
use crate::error::{Result, SqlError, code};
use crate::exec::failure::{carry, unless};
use crate::exec::memory::{Memory, row_bytes};
use crate::exec::rows;
use crate::exec::tables::Tables;
use crate::expr::aggregate::Ordered;
use crate::expr::deferred::{Deferrable, Deferred, KeyName, Keys};
use crate::expr::{Context, Expr, Pace};
use crate::names::bare;
use crate::notes::{Action, ForeignKey};
use crate::parse::Lines;
use crate::plan::{ParentKey, Rules, Table, UniqueKey};
use crate::types::cast::{cast, is_implicit};
use crate::types::{Category, Datum, Row, SqlType, Times};

/// Keys that a statement has to answer for.
pub(crate) struct Pending {
    /// For each foreign key of the table, keys that must be there, as its own columns have them.
    wanted: Vec<BTreeSet<Ordered>>,
    /// For each unique constraint that may be checked late, keys that rows got.
    unique: Vec<BTreeSet<Ordered>>,
    /// So many of these are looked at before the statement ends.
    thin_at: usize,
    gone: Gone,
    memory: Memory,
}

/// Tells whether several rows may have a key.
pub(crate) type MayShare<'m> = &'m mut dyn FnMut(&UniqueKey, &[Value]) -> Result<bool>;

/// Keys of unique constraints that are kept before they are looked at.
const THIN_AT: usize = if cfg!(debug_assertions) { 64 } else { 1 << 16 };

/// Keys of rows that went.
#[derive(Default)]
struct Gone {
    /// Places in the table of the columns that are kept.
    keyed: Vec<usize>,
    /// What they were, and what stands in the row's place.
    rows: Vec<(Row, Option<Row>)>,
}

impl Pending {
    pub(crate) fn new(rules: &Rules, budget: &Budget) -> Pending {
        let wanted = rules.keys.iter().map(|_| BTreeSet::new()).collect();
        let unique = rules.unique.iter().map(|_| BTreeSet::new()).collect();
        let gone = Gone { keyed: rules.keyed.clone(), rows: Vec::new() };
        Pending { wanted, unique, thin_at: THIN_AT, gone, memory: Memory::new(budget) }
    }

    /// Notes a row that came, in the place of `old` if there was one.
    pub(crate) fn came(
        &mut self,
        rules: &Rules,
        old: Option<&[Value]>,
        new: &[Value],
    ) -> Result<()> {
        for (key, wanted) in rules.keys.iter().zip(&mut self.wanted) {
            let changed =
                old.is_none_or(|old| key.columns.iter().any(|(own, ..)| old[*own] != new[*own]));
            let own = key.columns.iter().map(|(own, ..)| *own);
            if !changed || own.clone().any(|at| new[at].is_null()) {
                continue;
            }
            let value = |at: usize| Datum::stored(new[at].clone(), rules.types[at]);
            let values = own.map(value).collect::<Result<Row>>()?;
            let bytes = row_bytes(&values);
            if wanted.insert(Ordered(values)) {
                self.memory.charge(bytes)?;
            }
        }
        for (key, keys) in rules.unique.iter().zip(&mut self.unique) {
            let Some(values) = key.came(rules, old, new)? else { continue };
            let bytes = row_bytes(&values);
            if keys.insert(Ordered(values)) {
                self.memory.charge(bytes)?;
            }
        }
        Ok(())
    }

    /// Where there are many keys of unique constraints that may be checked late, leaves those out
    /// that no other row can have.
    pub(crate) fn thin_out(&mut self, rules: &Rules, may_share: MayShare<'_>) -> Result<()> {
        let noted = |unique: &[BTreeSet<Ordered>]| unique.iter().map(BTreeSet::len).sum::<usize>();
        if noted(&self.unique) < self.thin_at {
            return Ok(());
        }
        for (key, keys) in rules.unique.iter().zip(&mut self.unique) {
            for Ordered(values) in std::mem::take(keys) {
                if may_share(key, &key.stored(&values)?)? {
                    keys.insert(Ordered(values));
                } else {
                    self.memory.give_back_row(&values);
                }
            }
        }
        self.thin_at = THIN_AT.max(2 * noted(&self.unique));
        Ok(())
    }

    /// Notes a row that went, and what stands in its place.
    pub(crate) fn went(
        &mut self,
        rules: &Rules,
        old: &[Value],
        new: Option<&[Value]>,
    ) -> Result<()> {
        let same = |new: &[Value]| self.gone.keyed.iter().all(|at| old[*at] == new[*at]);
        if !rules.is_parent || new.is_some_and(same) {
            return Ok(());
        }
        let keyed = self.gone.keyed.iter();
        let kept = |row: &[Value]| -> Result<Row> {
            keyed.clone().map(|at| Datum::stored(row[*at].clone(), rules.types[*at])).collect()
        };
        let (old, new) = (kept(old)?, new.map(kept).transpose()?);
        self.memory.charge(row_bytes(&old) + new.as_ref().map_or(0, |new| row_bytes(new)))?;
        self.gone.rows.push((old, new));
        Ok(())
    }
}

impl Gone {
    /// The rows' values of the key that `key` refers to, before and after, where it went.
    fn keys(&self, key: &ParentKey) -> impl Iterator<Item = (Row, Option<Row>)> {
        let place = |(_, theirs, _): &(usize, usize, _)| {
            let at = self.keyed.iter().position(|at| at == theirs);
            at.expect("what is referred to is a unique key")
        };
        let places: Vec<usize> = key.columns.iter().map(place).collect();
        self.rows.iter().filter_map(move |(old, new)| {
            let of = |row: &Row| -> Row { places.iter().map(|at| row[*at].clone()).collect() };
            let (old, new) = (of(old), new.as_ref().map(of));
            let went = !old.iter().any(Datum::is_null) && new.as_ref() != Some(&old);
            went.then_some((old, new))
        })
    }
}

/// What a value of a column that refers is as a key of the parent; `None` if no key can be equal.
fn as_parent(own: &Datum, ty: SqlType, times: &Times) -> Result<Option<Datum>> {
    let Some(from) = own.type_of() else { return Ok(Some(Datum::Null)) };
    let theirs = match cast(own.clone(), ty, times) {
        Err(error) if error.sqlstate == code::NUMERIC_OUT_OF_RANGE => return Ok(None),
        theirs => theirs?,
    };
    let may_round = ty.category() == Category::Number && !is_implicit(from, ty);
    if may_round && cast(theirs.clone(), from, times)?.compare(own).is_ne() {
        return Ok(None);
    }
    Ok(Some(theirs))
}

/// The same of all values of a key.
pub(super) fn all_as_parent(key: &ParentKey, own: &[Datum], times: &Times) -> Result<Option<Row>> {
    let parts = key.columns.iter().zip(own);
    parts.map(|((.., ty), own)| as_parent(own, *ty, times)).collect()
}

/// Looks at the keys that a statement on `table` left.
pub(crate) fn settle(
    pending: Pending,
    (table, rules): (&Table, &Rules),
    txn: &mut Transaction,
    (context, budget): (&Context, &Budget),
) -> Result<()> {
    let memory = Memory::new(budget);
    let (queue, children) = (VecDeque::new(), BTreeMap::new());
    let (left, came) = (Vec::new(), Vec::new());
    let mut work = Work { context, budget, children, queue, left, came, memory };
    work.take(Side::Own(table, rules), pending)?;
    while let Some((side, gone)) = work.queue.pop_front() {
        work.visit(&side, &gone, txn)?;
    }
    work.check_rows(txn)?;
    work.left.iter().try_for_each(|left| left.check(txn, context))
}

/// A foreign key of `table` as it may wait.
fn deferrable<'k>(table: &Table, key: &'k ParentKey) -> Deferrable<'k> {
    let ForeignKey { name, deferral, .. } = &key.key;
    Deferrable { table: table.info.id, name, deferral: *deferral }
}

/// Where the keys of a foreign key of `table` wait, if they do.
fn waits_in<'c>(context: &'c Context, table: &Table, key: &ParentKey) -> Option<&'c Deferred> {
    let deferred = context.deferred.as_deref()?;
    deferred.waits(&deferrable(table, key)).then_some(deferred)
}

/// Looks at keys that waited.
pub(crate) fn settle_deferred(
    due: Vec<(KeyName, Keys)>,
    txn: &mut Transaction,
    context: &Context,
) -> Result<()> {
    let tables = txn.catalog().tables()?;
    for ((table, name), keys) in due {
        // A table that was dropped has no rows to answer for.
        let Some(table) = tables.iter().find(|known| known.id == table) else { continue };
        let child = Arc::new(Child::open(&table.name, txn, context)?);
        let mut unique = child.rules.unique.iter();
        if let Some(key) = unique.find(|key| bare(&key.index) == name) {
            key.check_now(&child.table, keys.wanted, txn, context)?;
            continue;
        }
        let Some(at) = child.rules.keys.iter().position(|key| key.key.name == name) else {
            continue;
        };
        let link = Link { child: Arc::clone(&child), at };
        for missing in without_parents(link.key(), keys.wanted, true, txn, context)? {
            if is_there(&child.table, link.key(), &missing, txn)? {
                return Err(not_present(&child.table, link.key(), &missing));
            }
        }
        for Ordered(old) in &keys.gone {
            context.check_interrupt()?;
            if !link.has_parent(old, txn)? && link.is_referred(old, txn)? {
                return Err(link.still_referred(old));
            }
        }
    }
    Ok(())
}

/// A table that rows came to or went from.
enum Side<'s> {
    /// The one that the statement names.
    Own(&'s Table, &'s Rules),
    /// One whose rows refer.
    Child(Arc<Child>),
}

impl Side<'_> {
    fn both(&self) -> (&Table, &Rules) {
        match self {
            Side::Own(table, rules) => (table, rules),
            Side::Child(child) => (&child.table, &child.rules),
        }
    }
}

/// Keys of rows that came: those that must be there, and those that must be unique.
struct Came {
    wanted: Vec<BTreeSet<Ordered>>,
    unique: Vec<BTreeSet<Ordered>>,
}

/// What is to be done, and to be looked at when that is done.
struct Work<'s> {
    context: &'s Context,
    budget: &'s Budget,
    /// Tables with foreign keys, by name.
    children: BTreeMap<String, Arc<Child>>,
    /// Where rows went whose children have not been visited.
    queue: VecDeque<(Side<'s>, Arc<Gone>)>,
    left: Vec<Left>,
    came: Vec<(Side<'s>, Came)>,
    memory: Memory,
}

impl<'s> Work<'s> {
    /// Takes over what a statement or an action on a table has noted.
    fn take(&mut self, side: Side<'s>, pending: Pending) -> Result<()> {
        let Pending { wanted, unique, gone, mut memory, .. } = pending;
        let used = memory.used();
        memory.release();
        self.memory.charge(used)?;
        let side = match (gone.rows.is_empty(), side) {
            (true, side) => side,
            (false, Side::Own(table, rules)) => {
                self.queue.push_back((Side::Own(table, rules), Arc::new(gone)));
                Side::Own(table, rules)
            }
            (false, Side::Child(child)) => {
                self.queue.push_back((Side::Child(Arc::clone(&child)), Arc::new(gone)));
                Side::Child(child)
            }
        };
        if wanted.iter().chain(&unique).any(|keys| !keys.is_empty()) {
            self.came.push((side, Came { wanted, unique }));
        }
        Ok(())
    }

    /// Visits the tables that refer to rows that went, and acts on theirs.
    fn visit(&mut self, side: &Side<'_>, gone: &Arc<Gone>, txn: &mut Transaction) -> Result<()> {
        let (table, _) = side.both();
        for name in &table.notes.children {
            let child = self.child(name, txn)?;
            let mut pending = Pending::new(&child.rules, self.budget);
            for (at, key) in child.rules.keys.iter().enumerate() {
                if key.key.parent != table.info.name {
                    continue;
                }
                let link = Link { child: Arc::clone(&child), at };
                let waits = waits_in(self.context, &child.table, key);
                for (old, new) in gone.keys(key) {
                    self.context.check_interrupt()?;
                    match link.action(new.is_some()) {
                        Action::Nothing => {
                            if let Some(deferred) = waits {
                                let key = deferrable(&child.table, key);
                                deferred.went(&key, old, self.budget)?;
                            }
                        }
                        Action::Restrict if !link.is_referred(&old, txn)? => {}
                        Action::Restrict => return Err(link.still_referred(&old)),
                        action => {
                            let change = (action, old.as_slice(), new.as_deref());
                            link.act(change, txn, (self.context, &mut pending))?;
                        }
                    }
                }
                let is_deferred = waits.is_some();
                self.left.push(Left { link, gone: Arc::clone(gone), is_deferred });
            }
            self.take(Side::Child(child), pending)?;
        }
        Ok(())
    }

    fn child(&mut self, name: &str, txn: &mut Transaction) -> Result<Arc<Child>> {
        if let Some(known) = self.children.get(name) {
            return Ok(Arc::clone(known));
        }
        let child = Arc::new(Child::open(name, txn, self.context)?);
        self.children.insert(name.to_owned(), Arc::clone(&child));
        Ok(child)
    }

    /// Finds and locks what rows that came refer to, and sees whether their keys are unique.
    fn check_rows(&mut self, txn: &mut Transaction) -> Result<()> {
        // No statement writes a row twice; only actions may have taken one away again.
        let acted = !self.left.is_empty();
        for (side, came) in std::mem::take(&mut self.came) {
            let (table, rules) = side.both();
            for (key, keys) in rules.unique.iter().zip(came.unique) {
                key.check(table, keys, txn, self.context)?;
            }
            for (key, wanted) in rules.keys.iter().zip(came.wanted) {
                if let Some(deferred) = waits_in(self.context, table, key) {
                    deferred.want(&deferrable(table, key), wanted, self.budget)?;
                    continue;
                }
                for missing in without_parents(key, wanted, acted, txn, self.context)? {
                    if !acted || is_there(table, key, &missing, txn)? {
                        return Err(not_present(table, key, &missing));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Names of columns and their values, as messages show a key.
pub(super) fn shown(names: &[&str], values: &[Datum]) -> String {
    let values: Vec<String> =
        values.iter().map(|v| v.to_text().unwrap_or_else(|| "null".into())).collect();
    format!("Key ({})=({})", names.join(", "), values.join(", "))
}

pub(super) fn not_present(table: &Table, key: &ParentKey, values: &[Datum]) -> SqlError {
    let message = format!(
        "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
        table.bare_name(),
        key.key.name
    );
    let names = key.columns.iter().map(|(own, ..)| table.info.columns[*own].name.as_str());
    let names: Vec<&str> = names.collect();
    let parent = key.parent.bare_name();
    let detail = format!("{} is not present in table \"{parent}\".", shown(&names, values));
    SqlError::new(code::FOREIGN_KEY_VIOLATION, message)
        .detail(detail)
        .of_constraint(&table.info.name, &key.key.name)
}

/// Locks the parents of `wanted`; the keys that have none, or the first of them.
fn without_parents(
    key: &ParentKey,
    wanted: BTreeSet<Ordered>,
    all: bool,
    txn: &mut Transaction,
    context: &Context,
) -> Result<Vec<Row>> {
    let mut missing = Vec::new();
    if wanted.is_empty() {
        return Ok(missing);
    }
    txn.write(&key.parent.info.name, |writer| -> Result<()> {
        let mut left = wanted.into_iter();
        loop {
            let own: Vec<Ordered> = left.by_ref().take(TOGETHER).collect();
            if own.is_empty() {
                return Ok(());
            }
            let parents = Parents::find(key, &own, writer, context)?;
            for (Ordered(own), bound) in own.into_iter().zip(parents.bounds) {
                context.check_interrupt()?;
                let mut held = Written::Gone;
                if let Some(bound) = bound? {
                    let found = match parents.rows.get(&bound) {
                        Some(Some(row)) => Some(*row),
                        _ => writer.find_to_refer(&key.index, &bound)?,
                    };
                    let mut same = |_, row: &[Value]| Ok(key_of(key, row).cmp(&bound).is_eq());
                    if let Some(row) = found {
                        held = writer.lock_row(row, &mut same, RowLock::KeyShared, Busy::Wait)?;
                    }
                }
                if !matches!(held, Written::Done(_)) {
                    missing.push(own);
                    if !all {
                        return Ok(());
                    }
                }
            }
        }
    })?;
    Ok(missing)
}

/// Keys whose parents are looked for together at most, as those of a join by an index are.
const TOGETHER: usize = 4_096;
/// Keys from which on reading ahead is worth a scan.
const FEW: usize = 8;

/// Parents of several keys.
struct Parents {
    /// Each key as the parent has it; `None` if no key can be equal.
    bounds: Vec<Result<Option<Vec<Value>>>>,
    /// Rows by their keys; `None` where the statement sees several.
    rows: BTreeMap<Vec<Value>, Option<RowId>>,
    memory: Memory,
}

impl Parents {
    /// Reads the parents ahead and together. One that is not found so may still be there.
    fn find(
        key: &ParentKey,
        own: &[Ordered],
        writer: &mut Writer<'_>,
        context: &Context,
    ) -> Result<Parents> {
        let bound = |Ordered(own): &Ordered| match all_as_parent(key, own, &context.times)? {
            Some(theirs) => theirs.into_iter().map(rows::to_value).collect::<Result<_>>().map(Some),
            None => Ok(None),
        };
        let bounds: Vec<Result<Option<Vec<Value>>>> = own.iter().map(bound).collect();
        let memory = Memory::new(&context.budget());
        let mut parents = Parents { bounds, rows: BTreeMap::new(), memory };
        // The keys here, in the scan, and with the rows that it finds.
        let bytes = 3 * own.iter().map(|Ordered(own)| row_bytes(own)).sum::<usize>();
        if own.len() < FEW || parents.memory.charge(bytes).is_err() {
            parents.memory.release();
            return Ok(parents);
        }
        let mut options = ScanOptions::index(&key.index);
        let known = parents.bounds.iter().filter_map(|bound| bound.as_ref().ok()?.clone());
        options.any_of = known.collect();
        options.any_of.sort_unstable();
        options.any_of.dedup();
        options.any_order = true;
        options.read_ahead = context.settings.read_ahead(true);
        let mut pace = Pace::default();
        for row in writer.scan(&options)? {
            pace.step(context)?;
            let row = row?;
            let known = parents.rows.entry(key_of(key, &row.values).cloned().collect());
            known.and_modify(|row| *row = None).or_insert(Some(row.id));
        }
        Ok(parents)
    }
}

/// The key of a row of the parent.
fn key_of<'r>(key: &ParentKey, row: &'r [Value]) -> impl Iterator<Item = &'r Value> {
    key.columns.iter().map(|(_, at, _)| &row[*at])
}

/// Has a row of `table` these values in the columns of `key`?
fn is_there(table: &Table, key: &ParentKey, own: &[Datum], txn: &mut Transaction) -> Result<bool> {
    for row in txn.scan(&table.info.name, &scan(table, key, own)?.latest())? {
        let row = row?.values;
        let same = |((at, ..), own): (&(usize, _, _), &Datum)| {
            Datum::stored(row[*at].clone(), table.types[*at]).is_ok_and(|value| value == *own)
        };
        if key.columns.iter().zip(own).all(same) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The scan of the rows of `table` with these values in the columns of `key`: by an index of all
/// rows that begins with them, if there is one.
fn scan(table: &Table, key: &ParentKey, own: &[Datum]) -> Result<ScanOptions> {
    let value = |name: &str| -> Option<Result<Value>> {
        let is_it = |(own, ..): &(usize, _, _)| table.info.columns[*own].name == name;
        let at = key.columns.iter().position(is_it)?;
        Some(rows::to_value(own[at].clone()))
    };
    let by_bytes = |part: &rightlink::KeyColumn| {
        part.collation.given().is_none_or(rightlink::Collation::is_deterministic)
    };
    for index in table.info.indexes.iter().filter(|index| index.is_whole()) {
        if !index.columns.iter().take(own.len()).all(by_bytes) {
            // It would find more than equals the key.
            continue;
        }
        let whole = index.columns.len() == own.len();
        let parts = index.columns.iter().take(own.len()).map(|part| value(&part.name));
        let Some(values) = parts.collect::<Option<Vec<_>>>() else { continue };
        if values.len() == own.len() && (whole || index.method.is_ordered()) {
            let values = values.into_iter().collect::<Result<Vec<_>>>()?;
            return Ok(ScanOptions::index(&index.name).equal(values));
        }
    }
    Ok(ScanOptions::all())
}

/// A table with a foreign key to another.
struct Child {
    table: Arc<Table>,
    rules: Rules,
    /// What its columns get by default.
    defaults: Vec<Expr>,
    /// What dates are as timestamps with a zone, where a key is of one type here and there another.
    times: Times,
}

impl Child {
    fn open(name: &str, txn: &mut Transaction, context: &Context) -> Result<Child> {
        let mut tables = Tables(txn);
        let table = tables.table(name)?;
        let lines = Lines::default();
        let mut binder = Binder::new(&mut tables, &lines, &[]);
        let rules = binder.rules(&table)?;
        let sets =
            |key: &ParentKey| [key.key.on_delete, key.key.on_update].contains(&Action::SetDefault);
        let mut defaults = Vec::new();
        if rules.keys.iter().any(sets) {
            for at in 0..table.types.len() {
                defaults.push(binder.default_of(&table, at)?);
            }
        }
        let sequences = std::mem::take(&mut binder.sequences);
        context.sequences.open(&sequences, txn)?;
        Ok(Child { table, rules, defaults, times: context.times.clone() })
    }
}

/// One foreign key of a child.
struct Link {
    child: Arc<Child>,
    /// Which of its keys.
    at: usize,
}

/// A foreign key that may name none of the keys that went when everything is done.
struct Left {
    link: Link,
    gone: Arc<Gone>,
    /// Does it wait for the end of the transaction where there is no action?
    is_deferred: bool,
}

impl Left {
    fn check(&self, txn: &mut Transaction, context: &Context) -> Result<()> {
        let link = &self.link;
        for (old, new) in self.gone.keys(link.key()) {
            context.check_interrupt()?;
            let action = link.action(new.is_some());
            // Another row may have taken the key over meanwhile, also by the action itself.
            if action == Action::Restrict
                || action == Action::Nothing && self.is_deferred
                || link.has_parent(&old, txn)?
                || !link.is_referred(&old, txn)?
            {
                continue;
            }
            if action != Action::Nothing && !link.is_referred_as_seen(&old, txn)? {
                // What refers came after the snapshot, so that the action has missed it.
                let message = "could not serialize access due to concurrent update";
                return Err(SqlError::new(code::SERIALIZATION_FAILURE, message));
            }
            return Err(link.still_referred(&old));
        }
        Ok(())
    }
}

impl Link {
    fn key(&self) -> &ParentKey {
        &self.child.rules.keys[self.at]
    }

    /// What happens when a key is changed, or else goes with its row.
    fn action(&self, changed: bool) -> Action {
        let key = &self.key().key;
        if changed { key.on_update } else { key.on_delete }
    }

    fn still_referred(&self, old: &[Datum]) -> SqlError {
        let key = self.key();
        let (parent, table) = (&key.parent.info, &self.child.table);
        let child = table.bare_name();
        let names = key.columns.iter().map(|(_, at, _)| parent.columns[*at].name.as_str());
        let names: Vec<&str> = names.collect();
        let message = format!(
            "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \
             \"{child}\"",
            key.parent.bare_name(),
            key.key.name
        );
        let detail = format!("{} is still referenced from table \"{child}\".", shown(&names, old));
        SqlError::new(code::FOREIGN_KEY_VIOLATION, message)
            .detail(detail)
            .of_constraint(&table.info.name, &key.key.name)
    }

    /// The scan of the child's rows that refer to a key of the parent; `None` if none can.
    fn scan(&self, theirs: &[Datum]) -> Result<Option<ScanOptions>> {
        let (table, key) = (&self.child.table, self.key());
        let mut own = Vec::with_capacity(theirs.len());
        for ((at, ..), theirs) in key.columns.iter().zip(theirs) {
            own.push(match cast(theirs.clone(), table.types[*at], &self.child.times) {
                Err(error) if error.sqlstate == code::NUMERIC_OUT_OF_RANGE => return Ok(None),
                own => own?,
            });
        }
        scan(table, key, &own).map(Some)
    }

    fn refers(&self, row: &[Value], theirs: &[Datum]) -> bool {
        let types = &self.child.table.types;
        self.key().columns.iter().zip(theirs).all(|((own, _, ty), theirs)| {
            let own = Datum::stored(row[*own].clone(), types[*own]);
            let own = own.and_then(|own| as_parent(&own, *ty, &self.child.times));
            own.is_ok_and(|own| own.is_some_and(|own| own.compare(theirs).is_eq()))
        })
    }

    fn is_referred(&self, key: &[Datum], txn: &mut Transaction) -> Result<bool> {
        let Some(options) = self.scan(key)? else { return Ok(false) };
        for row in txn.scan(&self.child.table.info.name, &options.latest())? {
            if self.refers(&row?.values, key) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The same in the eyes of the transaction.
    fn is_referred_as_seen(&self, key: &[Datum], txn: &mut Transaction) -> Result<bool> {
        let Some(options) = self.scan(key)? else { return Ok(false) };
        for row in txn.scan(&self.child.table.info.name, &options)? {
            if self.refers(&row?.values, key) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn has_parent(&self, theirs: &[Datum], txn: &mut Transaction) -> Result<bool> {
        let key = self.key();
        let bound = theirs.iter().cloned().map(rows::to_value).collect::<Result<Vec<_>>>()?;
        let options = ScanOptions::index(&key.index).equal(bound).limit(1).latest();
        let found = txn.scan(&key.parent.info.name, &options)?.next().transpose()?;
        Ok(found.is_some())
    }

    /// Changes or deletes the rows that refer to `old`.
    fn act(
        &self,
        (action, old, new): (Action, &[Datum], Option<&[Datum]>),
        txn: &mut Transaction,
        (context, pending): (&Context, &mut Pending),
    ) -> Result<()> {
        let (table, rules) = (&self.child.table, &self.child.rules);
        let Some(options) = self.scan(old)? else { return Ok(()) };
        txn.write(&table.info.name, |writer| -> Result<()> {
            for row in writer.scan(&options)? {
                context.check_interrupt()?;
                let id = row?.id;
                let mut failed = None;
                let mut seen: Option<(Vec<Value>, Option<Vec<Value>>)> = None;
                let written = if action == Action::Cascade && new.is_none() {
                    writer.delete(id, &mut |_, row| {
                        let refers = self.refers(row, old);
                        seen = refers.then(|| (row.to_vec(), None));
                        Ok(refers)
                    })
                } else {
                    writer.update(id, &mut |_, row| {
                        let changed = self.changed(action, row, (old, new), context);
                        let changed = carry(&mut failed, changed)?;
                        seen = changed.as_ref().map(|new| (row.to_vec(), Some(new.clone())));
                        Ok(changed)
                    })
                };
                if let (Written::Done(_), Some((before, after))) = (unless(failed, written)?, seen)
                {
                    if let Some(after) = &after {
                        pending.came(rules, Some(&before), after)?;
                    }
                    pending.went(rules, &before, after.as_deref())?;
                }
            }
            Ok(())
        })
    }

    /// A row that refers to `old` as the action makes it; `None` if it does not refer.
    fn changed(
        &self,
        action: Action,
        row: &[Value],
        (old, new): (&[Datum], Option<&[Datum]>),
        context: &Context,
    ) -> Result<Option<Vec<Value>>> {
        if !self.refers(row, old) {
            return Ok(None);
        }
        let (table, rules) = (&self.child.table, &self.child.rules);
        let mut values: Row = Datum::stored_row(row, &table.types).collect::<Result<_>>()?;
        for (at, (own, ..)) in self.key().columns.iter().enumerate() {
            values[*own] = match (action, new) {
                (Action::Cascade, Some(new)) => {
                    cast(new[at].clone(), table.types[*own], &context.times)?
                }
                (Action::SetDefault, _) => self.child.defaults[*own].eval(&[], context)?,
                _ => Datum::Null,
            };
        }
        rows::checked((table, rules), values, context).map(Some)
    }
}
