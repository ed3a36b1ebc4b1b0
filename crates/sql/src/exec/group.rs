//! Groups: in memory as long as that is enough, the rest by way of files.
//!
//! When the groups take more than their share of the budget, no new ones are made: rows of other
//! groups go to files in the order of their keys, and groups come out of there one at a time.
//!
//! Values of an aggregate that wait for all others, distinct ones and those that have an order,
//! leave memory first, and are sorted behind their group's key (`waiting`). When the groups
//! themselves outgrow the share, as texts that are put together do, what they have so far goes to
//! the files too.
//!
//! Invariants: each group takes its rows in the order they come in, whichever way they go, so that
//! sums of floats are the same; a key is evaluated once for a row. Groups come out in the order of
//! their keys, unless those are cut for being long.
//! Does not do: the result of one group beyond the budget.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::Arc;

use rightlink::Budget;

use super::columns::is_steady;
use super::groups::{Columns, Groups};
use super::ordered::{self, Question};
use super::query::project;
use super::spill::{Spill, Spilled, identify, identity_of};
use super::waiting::{self, Waiting};
use crate::error::Result;
use crate::exec::batch::{Batch, ROWS};
use crate::exec::memory::Memory;
use crate::exec::sort::SHARE;
use crate::exec::{Operator, Ready, Stream};
use crate::expr::Context;
use crate::expr::aggregate::{ARGUMENTS, Aggregate, Input, Kind, Ordered, State};
use crate::plan::Group;
use crate::plan::node::{Node, Op};
use crate::types::{Datum, Row};

/// Groups of a stream.
pub(super) struct Grouped {
    node: Arc<Node>,
    budget: Budget,
    input: Option<Box<dyn Operator>>,
    output: Output,
}

enum Output {
    Memory(Ready, #[expect(dead_code, reason = "held as long as the groups are")] Memory),
    Files(Box<Files>),
}

impl Grouped {
    pub(super) fn new(node: &Arc<Node>, input: Box<dyn Operator>, budget: &Budget) -> Grouped {
        let output = Output::Memory(Ready::new(Vec::new()), Memory::new(budget));
        let (node, budget) = (Arc::clone(node), budget.clone());
        Grouped { node, budget, input: Some(input), output }
    }
}

impl Stream for Grouped {
    fn next(&mut self, _: usize, context: &Context) -> Result<Option<Row>> {
        let Op::Aggregate { group, .. } = &self.node.op else { unreachable!("opened for groups") };
        if let Some(mut input) = self.input.take() {
            let mut gathering = Gathering::new(group, &self.budget, context);
            while let Some(batch) = input.next(ROWS, context)? {
                gathering.take_batch(&batch)?;
            }
            self.output = gathering.finish()?;
        }
        match &mut self.output {
            Output::Memory(rows, _) => Ok(rows.take()),
            Output::Files(files) => files.next(group, context),
        }
    }
}

/// What a row gives to each aggregate: a value and a separator, or nothing.
type Inputs<'i> = &'i mut dyn FnMut(usize) -> Result<Option<Input>>;

struct Gathering<'a> {
    group: &'a Group,
    context: &'a Context,
    /// Can keys and arguments be evaluated column by column?
    steady: bool,
    groups: Groups,
    /// What the groups take, and the values in them that wait.
    held: Memory,
    values: Memory,
    /// The share of the budget.
    most: Option<usize>,
    /// Are no new groups made in memory?
    closed: bool,
    /// Rows of groups that are not in memory, and states that were.
    rows: Option<Spill>,
    /// The values that wait of each aggregate that has such.
    waiting: Option<Vec<Option<Spill>>>,
}

impl<'a> Gathering<'a> {
    fn new(group: &'a Group, budget: &Budget, context: &'a Context) -> Gathering<'a> {
        let mut groups = Groups::default();
        if group.keys.is_empty() && group.sets.is_empty() {
            groups.insert(Groups::hash(&[]), Row::new(), fresh(group));
        }
        for number in (0..group.sets.len()).filter(|number| group.sets[*number].is_empty()) {
            let key = of_set(group, number, &vec![Datum::Null; group.keys.len()]);
            groups.insert(Groups::hash(&key), key, fresh(group));
        }
        let exprs = group.aggregates.iter().flat_map(|aggregate| aggregate.exprs());
        let steady = group.keys.iter().chain(exprs).all(is_steady);
        let (held, values) = (Memory::new(budget), Memory::new(budget));
        let (rows, waiting) = (None, None);
        Gathering {
            group,
            context,
            steady,
            groups,
            held,
            values,
            most: None,
            closed: false,
            rows,
            waiting,
        }
    }

    /// Bytes of the budget that the groups may have.
    fn most(&mut self) -> usize {
        // Asked first when there is a row: what is below has taken its share by then.
        let share = || self.context.settings.work_memory(self.held.available() / SHARE);
        *self.most.get_or_insert_with(share)
    }

    /// Takes the rows of a batch.
    fn take_batch(&mut self, batch: &Batch) -> Result<()> {
        let (group, context) = (self.group, self.context);
        if !self.steady {
            let mut row = Row::new();
            for at in 0..batch.len {
                batch.read_row(at, &mut row);
                let key = project(&group.keys, &row, context)?;
                if group.sets.is_empty() {
                    self.take(&key, &mut |of| group.aggregates[of].input(&row, context))?;
                    continue;
                }
                // What is evaluated once goes to a group of each set.
                let inputs = group.aggregates.iter().map(|one| one.input(&row, context));
                let inputs = inputs.collect::<Result<Vec<_>>>()?;
                context.spend(group.sets.len())?;
                for number in 0..group.sets.len() {
                    let key = of_set(group, number, &key);
                    self.take(&key, &mut |of| Ok(inputs[of].clone()))?;
                }
            }
            return Ok(());
        }
        context.check()?;
        let columns = Columns::evaluate(group, batch, context)?;
        let taken = match group.sets.is_empty() {
            true => self.take_columns(&columns, batch.len)?,
            false => 0,
        };
        for at in taken..batch.len {
            let key = columns.key(at);
            if group.sets.is_empty() {
                self.take(&key, &mut |of| Ok(columns.input(of, at)))?;
            }
            context.spend(group.sets.len())?;
            for number in 0..group.sets.len() {
                let key = of_set(group, number, &key);
                self.take(&key, &mut |of| Ok(columns.input(of, at)))?;
            }
        }
        Ok(())
    }

    /// Takes the first rows of a batch into groups in memory, one aggregate after the other: how
    /// many rows. The others are taken one by one.
    fn take_columns(&mut self, columns: &Columns<'_>, len: usize) -> Result<usize> {
        let group = self.group;
        let is_distinct = || group.aggregates.iter().any(|aggregate| aggregate.distinct);
        if self.closed || self.waiting.is_some() || is_distinct() {
            return Ok(0);
        }
        let most = self.most();
        let (mut places, mut full) = (Vec::with_capacity(len), false);
        if group.keys.is_empty() {
            places.resize(len, 0);
        } else {
            for (at, hash) in columns.hashes(len).into_iter().enumerate() {
                if let Some(place) = self.groups.find(hash, |key| columns.is_key(at, key)) {
                    places.push(place);
                    continue;
                }
                let key = columns.key(at);
                full = self.charge_group(&key);
                places.push(self.groups.insert(hash, key, fresh(group)));
                if full || self.held.used() > most {
                    break;
                }
            }
        }
        for (of, aggregate) in group.aggregates.iter().enumerate() {
            let grown = self.groups.add(aggregate, of, columns, &places)?;
            full |= grown > 0 && self.memory_of(aggregate).charge(grown).is_err();
        }
        if full || self.held.used() + self.values.used() > most {
            self.relieve(full)?;
        }
        Ok(places.len())
    }

    /// What counts the values that an aggregate keeps.
    fn memory_of(&mut self, aggregate: &Aggregate) -> &mut Memory {
        if aggregate.waits() { &mut self.values } else { &mut self.held }
    }

    /// Counts a new group. True if the budget has nothing left for it.
    fn charge_group(&mut self, key: &[Datum]) -> bool {
        let states = 64 + size_of::<State>() * self.group.aggregates.len();
        let full = self.held.charge(states).is_err();
        self.held.charge_row(key).is_err() || full
    }

    /// Takes a row of the group with this key.
    fn take(&mut self, key: &[Datum], inputs: Inputs<'_>) -> Result<()> {
        let most = self.most();
        let mut full = false;
        let hash = Groups::hash(key);
        let same = |own: &[Datum]| own.iter().zip(key).all(|(a, b)| a.compare(b).is_eq());
        let mut place = self.groups.find(hash, same);
        if !self.closed && place.is_none() {
            full = self.charge_group(key);
            place = Some(self.groups.insert(hash, key.to_vec(), fresh(self.group)));
        }
        let Some(place) = place else { return self.put(key, inputs) };
        let states = &mut self.groups.all[place].1;
        for (at, (aggregate, state)) in self.group.aggregates.iter().zip(states).enumerate() {
            let Some(mut input) = inputs(at)? else { continue };
            match self.waiting.as_mut().and_then(|spills| spills[at].as_mut()) {
                Some(spill) => {
                    aggregate.take_direct(state, &mut input);
                    aggregate.note_row(state);
                    waiting::put(spill, aggregate, key, input)?;
                }
                None => {
                    let grown = aggregate.add(state, input)?;
                    let of = if aggregate.waits() { &mut self.values } else { &mut self.held };
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
        let waits = self.group.aggregates.iter().any(Aggregate::waits);
        if waits && self.waiting.is_none() {
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
        let waiting = self.group.aggregates.iter().filter(|aggregate| aggregate.waits());
        let files = 1 + waiting.count();
        Spill::new(self.most() / 2 / files, self.context)
    }

    /// Values that wait leave memory, now and from now on.
    fn put_values(&mut self) -> Result<()> {
        // What they take goes to the sorts that they go to.
        self.values.release();
        let mut spills = Vec::with_capacity(self.group.aggregates.len());
        for aggregate in &self.group.aggregates {
            spills.push(if aggregate.waits() { Some(self.spill()?) } else { None });
        }
        for (key, states) in &mut self.groups.all {
            let parts = states.iter_mut().zip(&self.group.aggregates).zip(&mut spills);
            for ((state, aggregate), spill) in parts {
                let Some(spill) = spill else { continue };
                let rows = state.give_up_rows().into_iter().map(Input::of_row);
                for input in state.give_up().chain(rows) {
                    waiting::put(spill, aggregate, &key.0, input)?;
                }
            }
        }
        self.waiting = Some(spills);
        Ok(())
    }

    /// What all groups have so far leaves memory.
    fn put_groups(&mut self) -> Result<()> {
        self.closed = true;
        for (Ordered(key), states) in self.groups.sorted() {
            let mut row = vec![Datum::Bool(true)];
            row.extend_from_slice(&key);
            states.into_iter().for_each(|state| state.write(&mut row));
            self.put_row(&key, &row)?;
        }
        self.held.release();
        Ok(())
    }

    /// A row of a group that is not in memory.
    fn put(&mut self, key: &[Datum], inputs: Inputs<'_>) -> Result<()> {
        let mut plain = vec![Datum::Bool(false)];
        plain.extend_from_slice(key);
        for (at, aggregate) in self.group.aggregates.iter().enumerate() {
            let spill = self.waiting.as_mut().and_then(|spills| spills[at].as_mut());
            match (spill, inputs(at)?) {
                (Some(spill), Some(input)) => {
                    waiting::put(spill, aggregate, key, input)?;
                    plain.push(Datum::Bool(false));
                }
                (None, Some(input)) => {
                    plain.push(Datum::Bool(true));
                    plain.extend(input.into_row());
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
        if self.rows.is_none() && self.waiting.is_none() {
            let groups = self.groups.sorted();
            let mut rows = Vec::with_capacity(groups.len());
            for (Ordered(key), states) in groups {
                rows.push(finished(self.group, key, Making::of(states), self.context)?);
            }
            return Ok(Output::Memory(Ready::new(rows), self.held));
        }
        let spill = match self.rows.take() {
            Some(spill) => spill,
            None => self.spill()?,
        };
        let room = spill.key_room() / 2;
        let mut waiting = Vec::with_capacity(self.group.aggregates.len());
        for (at, spill) in self.waiting.into_iter().flatten().enumerate() {
            if let Some(spill) = spill {
                let keys = self.group.key_width();
                waiting.push(Waiting::of(at, keys, spill, self.held.budget())?);
            }
        }
        let mut groups = self.groups.sorted();
        // In order already, but for keys that are cut.
        groups.sort_by(|(Ordered(a), _), (Ordered(b), _)| {
            identity_of(a, room).cmp(&identity_of(b, room))
        });
        Ok(Output::Files(Box::new(Files {
            groups: groups.into_iter().peekable(),
            _held: self.held,
            rows: spill.finish()?,
            ahead: None,
            waiting,
            room,
            memory: self.values,
            ready: Ready::new(Vec::new()),
        })))
    }
}

/// The key of the group that a row belongs to in one of the sets: nulls for keys that the set has
/// not, and its number.
fn of_set(group: &Group, number: usize, key: &[Datum]) -> Row {
    let mut own = vec![Datum::Null; key.len()];
    for at in &group.sets[number] {
        own[*at].clone_from(&key[*at]);
    }
    own.push(Datum::Int4(number as i32));
    own
}

fn fresh(group: &Group) -> Vec<State> {
    group.aggregates.iter().map(Aggregate::start).collect()
}

/// A group whose rows are all there.
struct Making {
    states: Vec<State>,
    /// Questions about ordered sets whose rows come from files.
    questions: Vec<Option<Question>>,
}

impl Making {
    fn of(states: Vec<State>) -> Making {
        let questions = states.iter().map(|_| None).collect();
        Making { states, questions }
    }

    /// Takes in the next value from files of aggregate `at`.
    fn take(
        &mut self,
        at: usize,
        aggregate: &Aggregate,
        mut input: Input,
        memory: &mut Memory,
        context: &Context,
    ) -> Result<()> {
        let state = &mut self.states[at];
        aggregate.take_direct(state, &mut input);
        if let Kind::OrderedSet(set) = aggregate.kind {
            let question = match &mut self.questions[at] {
                Some(question) => question,
                slot => slot.insert(Question::new(aggregate, set, state, context)?),
            };
            question.take(aggregate, input.into_row());
            return Ok(());
        }
        memory.charge(aggregate.take_now(state, input)?)
    }
}

/// The row that a group makes.
fn finished(group: &Group, key: Row, making: Making, context: &Context) -> Result<Row> {
    let mut row = key;
    let number = match group.sets.is_empty() {
        true => 0,
        false => row.pop().and_then(|number| number.as_int()).unwrap_or(0) as usize,
    };
    let parts = group.aggregates.iter().zip(making.states).zip(making.questions);
    for ((aggregate, state), question) in parts {
        row.push(match question {
            Some(question) => question.answer(aggregate)?,
            _ if aggregate.gathers() => ordered::finish(aggregate, state, context)?,
            _ => aggregate.finish(state)?,
        });
    }
    row.extend(group.marks.iter().map(|values| Datum::Int4(values[number])));
    Ok(row)
}

/// Groups that come from memory and from files.
struct Files {
    groups: Peekable<std::vec::IntoIter<(Ordered, Vec<State>)>>,
    /// For `groups`.
    _held: Memory,
    rows: Spilled,
    /// The row behind those that were taken, and its identity.
    ahead: Option<(Vec<u8>, Row)>,
    waiting: Vec<Waiting>,
    /// Bytes of an identity.
    room: usize,
    /// For the groups in the making.
    memory: Memory,
    ready: Ready,
}

impl Files {
    fn next(&mut self, group: &Group, context: &Context) -> Result<Option<Row>> {
        loop {
            if let Some(row) = self.ready.take() {
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
        let mut groups: BTreeMap<Ordered, Making> = BTreeMap::new();
        let same = |(Ordered(key), _): &(Ordered, _)| identity_of(key, room) == identity;
        while let Some((key, states)) = self.groups.next_if(same) {
            groups.insert(key, Making::of(states));
        }
        while let Some((other, row)) = self.ahead.take() {
            if other != identity {
                self.ahead = Some((other, row));
                break;
            }
            add(&mut groups, group, row, &mut self.memory)?;
            self.ahead = self.rows.next(context)?;
        }
        for waiting in &mut self.waiting {
            let aggregate = &group.aggregates[waiting.at];
            while let Some(row) = waiting.next(aggregate, &identity, context)? {
                let key = Ordered(row[..group.key_width()].to_vec());
                let making = groups.get_mut(&key).expect("each value has its group");
                let input = Input::of_row(row[group.key_width()..].to_vec());
                making.take(waiting.at, aggregate, input, &mut self.memory, context)?;
            }
        }
        let rows =
            groups.into_iter().map(|(Ordered(key), making)| finished(group, key, making, context));
        self.ready = Ready::new(rows.collect::<Result<_>>()?);
        Ok(true)
    }
}

/// Adds a row that was put into the files to its group.
fn add(
    groups: &mut BTreeMap<Ordered, Making>,
    group: &Group,
    row: Row,
    memory: &mut Memory,
) -> Result<()> {
    let mut values = row.into_iter();
    let is_state = values.next() == Some(Datum::Bool(true));
    let key = Ordered(values.by_ref().take(group.key_width()).collect());
    if is_state {
        let states: Vec<State> =
            group.aggregates.iter().map(|_| State::read(&mut values)).collect();
        memory.charge_row(&key.0)?;
        memory.charge(states.iter().map(State::held_bytes).sum())?;
        groups.insert(key, Making::of(states));
        return Ok(());
    }
    if !groups.contains_key(&key) {
        memory.charge_row(&key.0)?;
    }
    let making = groups.entry(key).or_insert_with(|| Making::of(fresh(group)));
    for (aggregate, state) in group.aggregates.iter().zip(&mut making.states) {
        match values.next() {
            Some(Datum::Bool(true)) => {
                let width = ARGUMENTS + aggregate.rest().count();
                let input = Input::of_row(values.by_ref().take(width).collect());
                let grown = aggregate.add(state, input)?;
                memory.charge(grown)?;
            }
            // The value waits elsewhere.
            Some(Datum::Bool(false)) => aggregate.note_row(state),
            _ => {}
        }
    }
    Ok(())
}
