//! Groups: in memory as long as that is enough, the rest by way of files.
//!
//! When the groups take more than their share of the budget, no new ones are made: rows of other
//! groups go to files in the order of their keys, and groups come out of there one at a time.
//! Distinct values of an aggregate leave memory first, and are sorted with their group's key. When
//! the groups themselves outgrow the share, as texts that are put together do, what they have so
//! far goes to the files too.
//!
//! Invariants: each group takes its rows in the order they come in, whichever way they go, so that
//! sums of floats are the same; a key is evaluated once for a row. Groups come out in the order of
//! their keys, unless those are cut for being long.
//! Does not do: one group beyond the budget.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::Arc;

use rightlink::Budget;

use super::query::project;
use super::spill::{Spill, Spilled, identify};
use crate::error::Result;
use crate::exec::memory::Memory;
use crate::exec::sort::SHARE;
use crate::exec::{Ready, Stream};
use crate::expr::Context;
use crate::expr::aggregate::{Aggregate, Input, Ordered, State};
use crate::plan::{Group, Select};
use crate::types::{Datum, Row};

/// Groups of a stream.
pub(super) struct Grouped {
    select: Arc<Select>,
    budget: Budget,
    input: Option<Box<dyn Stream>>,
    output: Output,
}

enum Output {
    Memory(Ready, #[expect(dead_code, reason = "held as long as the groups are")] Memory),
    Files(Box<Files>),
}

impl Grouped {
    pub(super) fn new(select: &Arc<Select>, input: Box<dyn Stream>, budget: &Budget) -> Grouped {
        let output = Output::Memory(Ready::new(Vec::new()), Memory::new(budget));
        let (select, budget) = (Arc::clone(select), budget.clone());
        Grouped { select, budget, input: Some(input), output }
    }
}

impl Stream for Grouped {
    fn next(&mut self, context: &Context) -> Result<Option<Row>> {
        let group = self.select.group.as_ref().expect("opened for groups");
        if let Some(mut input) = self.input.take() {
            let mut gathering = Gathering::new(group, &self.budget, context);
            while let Some(row) = input.next(context)? {
                gathering.take(&row)?;
            }
            self.output = gathering.finish()?;
        }
        loop {
            let row = match &mut self.output {
                Output::Memory(rows, _) => rows.next(context)?,
                Output::Files(files) => files.next(group, context)?,
            };
            match (&row, &group.having) {
                (Some(row), Some(having)) if !having.holds(row, context)? => {}
                _ => return Ok(row),
            }
        }
    }
}

struct Gathering<'a> {
    group: &'a Group,
    context: &'a Context,
    groups: BTreeMap<Ordered, Vec<State>>,
    /// What the groups take, and the distinct values in them.
    held: Memory,
    values: Memory,
    /// The share of the budget.
    most: Option<usize>,
    /// Are no new groups made in memory?
    closed: bool,
    /// Rows of groups that are not in memory, and states that were.
    rows: Option<Spill>,
    /// Distinct values of each aggregate that has such.
    distinct: Option<Vec<Option<Spill>>>,
}

impl<'a> Gathering<'a> {
    fn new(group: &'a Group, budget: &Budget, context: &'a Context) -> Gathering<'a> {
        let mut groups = BTreeMap::new();
        if group.keys.is_empty() {
            groups.insert(Ordered(Vec::new()), fresh(group));
        }
        let (held, values) = (Memory::new(budget), Memory::new(budget));
        let (rows, distinct) = (None, None);
        Gathering {
            group,
            context,
            groups,
            held,
            values,
            most: None,
            closed: false,
            rows,
            distinct,
        }
    }

    /// Bytes of the budget that the groups may have.
    fn most(&mut self) -> usize {
        // Asked first when there is a row: what is below has taken its share by then.
        let share = || self.context.settings.work_memory(self.held.available() / SHARE);
        *self.most.get_or_insert_with(share)
    }

    fn take(&mut self, row: &[Datum]) -> Result<()> {
        let most = self.most();
        let key = Ordered(project(&self.group.keys, row, self.context)?);
        let mut full = false;
        if !self.closed && !self.groups.contains_key(&key) {
            full |=
                self.held.charge(64 + size_of::<State>() * self.group.aggregates.len()).is_err();
            full |= self.held.charge_row(&key.0).is_err();
            self.groups.insert(key.clone(), fresh(self.group));
        }
        let Some(states) = self.groups.get_mut(&key) else { return self.put(&key.0, row) };
        for (at, (aggregate, state)) in self.group.aggregates.iter().zip(states).enumerate() {
            let Some(input) = aggregate.input(row, self.context)? else { continue };
            match &mut self.distinct {
                Some(spills) if aggregate.distinct => put_value(spills, at, &key.0, input)?,
                _ => {
                    let grown = aggregate.add(state, input)?;
                    let of = if aggregate.distinct { &mut self.values } else { &mut self.held };
                    full |= grown > 0 && of.charge(grown).is_err();
                }
            }
        }
        let allowed = if self.closed { 2 * most } else { most };
        match full || self.held.used() + self.values.used() > allowed {
            true => self.relieve(full),
            false => Ok(()),
        }
    }

    /// Holds less in memory; hardly anything if the budget is used up.
    fn relieve(&mut self, full: bool) -> Result<()> {
        if full {
            // What is held goes to the sorts that it goes to.
            self.held.release();
            self.values.release();
        }
        let distinct = self.group.aggregates.iter().any(|aggregate| aggregate.distinct);
        if distinct && self.distinct.is_none() {
            self.put_values()?;
        } else if !self.closed && !full {
            self.closed = true;
            return Ok(());
        }
        if full || self.closed {
            self.put_groups()?;
        }
        Ok(())
    }

    fn spill(&mut self) -> Result<Spill> {
        let distinct = self.group.aggregates.iter().filter(|aggregate| aggregate.distinct);
        let files = 1 + distinct.count();
        Spill::new(self.most() / 2 / files, self.context)
    }

    /// Distinct values leave memory, now and from now on.
    fn put_values(&mut self) -> Result<()> {
        let mut spills = Vec::with_capacity(self.group.aggregates.len());
        for aggregate in &self.group.aggregates {
            spills.push(if aggregate.distinct { Some(self.spill()?) } else { None });
        }
        for (key, states) in &mut self.groups {
            for (at, state) in states.iter_mut().enumerate() {
                for input in state.give_up() {
                    put_value(&mut spills, at, &key.0, input)?;
                }
            }
        }
        self.values.release();
        self.distinct = Some(spills);
        Ok(())
    }

    /// What all groups have so far leaves memory.
    fn put_groups(&mut self) -> Result<()> {
        self.closed = true;
        for (Ordered(key), states) in std::mem::take(&mut self.groups) {
            let mut row = vec![Datum::Bool(true)];
            row.extend_from_slice(&key);
            states.into_iter().for_each(|state| state.write(&mut row));
            self.put_row(&key, &row)?;
        }
        self.held.release();
        Ok(())
    }

    /// A row of a group that is not in memory.
    fn put(&mut self, key: &[Datum], row: &[Datum]) -> Result<()> {
        if self.distinct.is_none() && self.group.aggregates.iter().any(|one| one.distinct) {
            self.put_values()?;
        }
        let mut plain = vec![Datum::Bool(false)];
        plain.extend_from_slice(key);
        for (at, aggregate) in self.group.aggregates.iter().enumerate() {
            let input = aggregate.input(row, self.context)?;
            match (&mut self.distinct, input) {
                (Some(spills), Some(input)) if aggregate.distinct => {
                    put_value(spills, at, key, input)?;
                    plain.push(Datum::Null);
                }
                (_, Some(input)) => {
                    plain.push(Datum::Bool(true));
                    plain.extend(input);
                }
                (_, None) => plain.push(Datum::Null),
            }
        }
        self.put_row(key, &plain)
    }

    fn put_row(&mut self, key: &[Datum], row: &[Datum]) -> Result<()> {
        let mut spill = match self.rows.take() {
            Some(spill) => spill,
            None => self.spill()?,
        };
        let mut identity = Vec::new();
        identify(&mut identity, key, spill.key_room() / 2);
        spill.push(&identity, row)?;
        self.rows = Some(spill);
        Ok(())
    }

    fn finish(mut self) -> Result<Output> {
        if self.rows.is_none() && self.distinct.is_none() {
            let mut rows = Vec::with_capacity(self.groups.len());
            for (Ordered(key), states) in self.groups {
                rows.push(finished(self.group, key, states)?);
            }
            return Ok(Output::Memory(Ready::new(rows), self.held));
        }
        let spill = match self.rows.take() {
            Some(spill) => spill,
            None => self.spill()?,
        };
        let room = spill.key_room() / 2;
        let mut distinct = Vec::with_capacity(self.group.aggregates.len());
        for (at, spill) in self.distinct.into_iter().flatten().enumerate() {
            if let Some(spill) = spill {
                let spilled = spill.finish()?;
                distinct.push(Distinct { at, spilled, ahead: None, last: Vec::new(), room });
            }
        }
        let mut groups: Vec<_> = self.groups.into_iter().collect();
        // In order already, but for keys that are cut.
        groups.sort_by(|(Ordered(a), _), (Ordered(b), _)| {
            identity_of(a, room).cmp(&identity_of(b, room))
        });
        Ok(Output::Files(Box::new(Files {
            groups: groups.into_iter().peekable(),
            _held: self.held,
            rows: spill.finish()?,
            ahead: None,
            distinct,
            room,
            memory: self.values,
            ready: Ready::new(Vec::new()),
        })))
    }
}

fn fresh(group: &Group) -> Vec<State> {
    group.aggregates.iter().map(Aggregate::start).collect()
}

/// The row that a group makes.
fn finished(group: &Group, key: Row, states: Vec<State>) -> Result<Row> {
    let mut row = key;
    for (aggregate, state) in group.aggregates.iter().zip(states) {
        row.push(aggregate.finish(state)?);
    }
    Ok(row)
}

fn identity_of(key: &[Datum], room: usize) -> Vec<u8> {
    let mut identity = Vec::new();
    identify(&mut identity, key, room);
    identity
}

/// A distinct value of aggregate `at`, in the order of groups and of values in them.
fn put_value(spills: &mut [Option<Spill>], at: usize, key: &[Datum], input: Input) -> Result<()> {
    let spill = spills[at].as_mut().expect("made for each aggregate of distinct values");
    let room = spill.key_room() / 2;
    let mut identity = identity_of(key, room);
    identify(&mut identity, &input, room);
    let mut row = key.to_vec();
    row.extend(input);
    spill.push(&identity, &row)
}

/// Groups that come from memory and from files.
struct Files {
    groups: Peekable<std::vec::IntoIter<(Ordered, Vec<State>)>>,
    /// For `groups`.
    _held: Memory,
    rows: Spilled,
    /// The row behind those that were taken, and its identity.
    ahead: Option<(Vec<u8>, Row)>,
    distinct: Vec<Distinct>,
    /// Bytes of an identity.
    room: usize,
    /// For the groups in the making.
    memory: Memory,
    ready: Ready,
}

impl Files {
    fn next(&mut self, group: &Group, context: &Context) -> Result<Option<Row>> {
        loop {
            if let Some(row) = self.ready.next(context)? {
                return Ok(Some(row));
            }
            if !self.make(group, context)? {
                return Ok(None);
            }
        }
    }

    /// Makes the groups of the next identity: one, or several whose keys are long and have it in
    /// common. `false` if there are no more.
    fn make(&mut self, group: &Group, context: &Context) -> Result<bool> {
        if self.ahead.is_none() {
            self.ahead = self.rows.next(context)?;
        }
        let room = self.room;
        let held = self.groups.peek().map(|(Ordered(key), _)| identity_of(key, room));
        let identity = match (held, &self.ahead) {
            (None, None) => return Ok(false),
            (Some(held), Some((ahead, _))) => held.min(ahead.clone()),
            (Some(held), None) => held,
            (None, Some((ahead, _))) => ahead.clone(),
        };
        self.memory.release();
        let mut groups: BTreeMap<Ordered, Vec<State>> = BTreeMap::new();
        let same = |(Ordered(key), _): &(Ordered, _)| identity_of(key, room) == identity;
        while let Some((key, states)) = self.groups.next_if(same) {
            groups.insert(key, states);
        }
        while let Some((other, row)) = self.ahead.take() {
            if other != identity {
                self.ahead = Some((other, row));
                break;
            }
            add(&mut groups, group, row, &mut self.memory)?;
            self.ahead = self.rows.next(context)?;
        }
        for distinct in &mut self.distinct {
            distinct.add(&mut groups, (group, &identity), &mut self.memory, context)?;
        }
        let rows = groups.into_iter().map(|(Ordered(key), states)| finished(group, key, states));
        self.ready = Ready::new(rows.collect::<Result<_>>()?);
        Ok(true)
    }
}

/// Adds a row that was put into the files to its group.
fn add(
    groups: &mut BTreeMap<Ordered, Vec<State>>,
    group: &Group,
    row: Row,
    memory: &mut Memory,
) -> Result<()> {
    let mut values = row.into_iter();
    let is_state = values.next() == Some(Datum::Bool(true));
    let key = Ordered(values.by_ref().take(group.keys.len()).collect());
    if is_state {
        let states: Vec<State> =
            group.aggregates.iter().map(|_| State::read(&mut values)).collect();
        memory.charge_row(&key.0)?;
        groups.insert(key, states);
        return Ok(());
    }
    if !groups.contains_key(&key) {
        memory.charge_row(&key.0)?;
    }
    let states = groups.entry(key).or_insert_with(|| fresh(group));
    for (aggregate, state) in group.aggregates.iter().zip(states) {
        if values.next() == Some(Datum::Bool(true)) {
            let mut value = || values.next().expect("an argument was written");
            let grown = aggregate.add(state, [value(), value()])?;
            memory.charge(grown)?;
        }
    }
    Ok(())
}

/// Distinct values of an aggregate from files.
struct Distinct {
    /// Which aggregate.
    at: usize,
    spilled: Spilled,
    /// The row behind those that were taken, and its identity.
    ahead: Option<(Vec<u8>, Row)>,
    /// Rows that have the identity of the last one.
    last: Vec<Ordered>,
    /// Bytes of the identity of a group.
    room: usize,
}

impl Distinct {
    /// Adds the values of the groups of one identity.
    fn add(
        &mut self,
        groups: &mut BTreeMap<Ordered, Vec<State>>,
        (group, wanted): (&Group, &[u8]),
        memory: &mut Memory,
        context: &Context,
    ) -> Result<()> {
        let (keys, aggregate) = (group.keys.len(), &group.aggregates[self.at]);
        let mut last = Vec::new();
        loop {
            if self.ahead.is_none() {
                self.ahead = self.spilled.next(context)?;
            }
            let Some((identity, row)) = self.ahead.take() else { return Ok(()) };
            if identity_of(&row[..keys], self.room) != wanted {
                self.ahead = Some((identity, row));
                return Ok(());
            }
            if identity != last {
                self.last.clear();
                last = identity;
            }
            let ordered = Ordered(row);
            if self.last.contains(&ordered) {
                continue;
            }
            let Ordered(row) = &ordered;
            let states = groups.get_mut(&Ordered(row[..keys].to_vec()));
            let state = &mut states.expect("each value has its group")[self.at];
            let input = [row[keys].clone(), row[keys + 1].clone()];
            memory.charge(aggregate.take(state, input)?)?;
            self.last.push(ordered);
        }
    }
}
