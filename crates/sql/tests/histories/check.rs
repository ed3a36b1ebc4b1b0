//! Judges a history: is there an order of snapshots and commits that explains all that was read?
//!
//! Each transaction that committed has a moment at which it did, and each view (a statement's under
//! read committed, the transaction's under repeatable read) one at which it was taken. Reads order
//! them: who wrote what a view shows committed before it, who wrote what it does not show
//! committed after it, and a repeatable transaction replaces nothing that came after its view. The
//! clients' clock orders them, too. The history is sound if nothing is before itself.
//!
//! This is Adya's phenomena by their cycles (G0, G1c, G-single) in the form in which snapshot
//! isolation has none, with both levels in one history. Phenomena that show in one read (G1a, G1b,
//! an own write that is not seen) are looked for where it is read.
//!
//! Does not do: serializability; write skew is allowed at both levels.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::graph::{Because, Edge, Graph, Node};
use super::record::{Event, History, Keyed, Level, Object, Outcome, Transaction};

/// What is wrong with a history.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Anomaly {
    /// Writes of two transactions are in two orders.
    G0,
    /// What an aborted transaction wrote was read, or stayed.
    G1a,
    /// What a transaction wrote and replaced itself was read.
    G1b,
    /// Transactions read from each other in a circle.
    G1c,
    /// A snapshot shows one part of a transaction, or a state and a later one.
    GSingle,
    /// A transaction replaced what its snapshot does not show.
    LostUpdate,
    /// A cycle with several versions that were missed.
    GSnapshot,
    /// A view shows less than was there when it was taken, by the clients' clock, or more.
    Stale,
    /// A committed write is gone.
    Lost,
    /// A list was read that is no beginning of the last one, or a value that nobody wrote.
    Order,
    /// A transaction did not see its own write, or saw what it had undone.
    Own,
    /// Two rows have one unique key.
    Duplicate,
    /// A row refers to one that is not there.
    Orphan,
    /// The client compared two answers that differ.
    Odd,
}

/// An anomaly, and where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Finding {
    pub(crate) anomaly: Anomaly,
    pub(crate) what: String,
}

/// Who wrote a value or row.
#[derive(Clone, Copy)]
struct Writer {
    transaction: usize,
    /// A return to a savepoint undid it.
    undone: bool,
}

/// A row of a condition.
#[derive(Clone)]
struct Member {
    writer: Writer,
    /// Who deleted it and kept that; more than one is an anomaly of its own.
    deleted: Vec<usize>,
}

#[derive(Default)]
struct Checker {
    findings: Vec<Finding>,
    /// Values of lists and registers.
    values: HashMap<(Object, i64), Writer>,
    members: HashMap<i64, Member>,
    /// Rows that ever met each condition.
    rows_of: HashMap<Object, Vec<i64>>,
    /// The last contents, in the order in which they came.
    orders: HashMap<Object, Vec<i64>>,
    place: HashMap<(Object, i64), usize>,
    committed: Vec<bool>,
    graph: Graph,
    commit_of: Vec<Node>,
}

/// What a transaction wrote and has not undone, while its statements are gone through.
#[derive(Default)]
struct Own {
    /// With the number of the statement.
    puts: Vec<(usize, Object, i64)>,
    inserts: Vec<(usize, i64)>,
    deletes: Vec<(usize, i64)>,
}

impl Own {
    fn undo(&mut self, from: usize) {
        self.puts.retain(|(at, ..)| *at < from);
        self.inserts.retain(|(at, _)| *at < from);
        self.deletes.retain(|(at, _)| *at < from);
    }

    fn note(&mut self, at: usize, event: &Event) {
        match event {
            Event::Put { object, value, .. } => self.puts.push((at, *object, *value)),
            Event::Insert { id, .. } => self.inserts.push((at, *id)),
            Event::Delete { id } => self.deletes.push((at, *id)),
            _ => {}
        }
    }

    fn values(&self, object: Object) -> Vec<i64> {
        let of = self.puts.iter().filter(|(_, put, _)| *put == object);
        of.map(|(_, _, value)| *value).collect()
    }

    fn inserted(&self, id: i64) -> bool {
        self.inserts.iter().any(|(_, own)| *own == id)
    }

    fn deleted(&self, id: i64) -> bool {
        self.deletes.iter().any(|(_, own)| *own == id)
    }
}

/// All that is wrong with `history`; empty if nothing is.
pub(crate) fn check(history: &History) -> Vec<Finding> {
    let mut checker = Checker::default();
    checker.collect(history);
    checker.decide(history);
    checker.order(history);
    checker.link(history);
    for cycle in std::mem::take(&mut checker.graph).cycles() {
        let anomaly = classify(&cycle);
        let edges = cycle.iter().filter(|edge| edge.because != Because::Clock);
        let what = edges.map(|edge| format!("{:?} {}", edge.because, edge.object));
        checker.find(anomaly, what.collect::<Vec<_>>().join(", "));
    }
    checker.findings
}

/// What a cycle is called.
fn classify(cycle: &[Edge]) -> Anomaly {
    let count = |because| cycle.iter().filter(|edge| edge.because == because).count();
    let of = |because| cycle.iter().filter(move |edge| edge.because == because);
    let missed = of(Because::Missed).map(|edge| edge.object).collect::<Vec<_>>();
    let replaced = of(Because::Replaced).any(|edge| missed == [edge.object]);
    match (count(Because::Missed), count(Because::Read), count(Because::Replaced)) {
        (0, 0, 0) => unreachable!("the clock goes one way"),
        (1, 0, 1) if replaced => Anomaly::LostUpdate,
        (0, 0, _) if cycle.iter().all(|edge| edge.because == Because::Replaced) => Anomaly::G0,
        (0, ..) if is_clocked(cycle) => Anomaly::Stale,
        (0, 0, _) => Anomaly::G0,
        (0, ..) => Anomaly::G1c,
        (1, 0, 0) => Anomaly::Stale,
        (1, ..) => Anomaly::GSingle,
        _ => Anomaly::GSnapshot,
    }
}

/// Is the clock of different clients part of a cycle? An own view before the own end is one edge.
fn is_clocked(cycle: &[Edge]) -> bool {
    let clock = |edge: &Edge| edge.because == Because::Clock;
    (0..cycle.len()).any(|at| clock(&cycle[at]) && clock(&cycle[(at + 1) % cycle.len()]))
}

impl Checker {
    fn find(&mut self, anomaly: Anomaly, what: String) {
        self.findings.push(Finding { anomaly, what });
    }

    /// Who wrote what.
    fn collect(&mut self, history: &History) {
        for (transaction, it) in history.transactions.iter().enumerate() {
            let undone = undone(it);
            let events = it.statements.iter().enumerate();
            for (at, event) in events.flat_map(|(at, it)| it.events.iter().map(move |e| (at, e))) {
                let writer = Writer { transaction, undone: undone[at] };
                match event {
                    Event::Put { object, value, .. } => {
                        self.values.insert((*object, *value), writer);
                    }
                    Event::Insert { object, id } => {
                        let member = Member { writer, deleted: Vec::new() };
                        self.members.insert(*id, member);
                        self.rows_of.entry(*object).or_default().push(*id);
                    }
                    _ => {}
                }
            }
        }
        for (transaction, it) in history.transactions.iter().enumerate() {
            let undone = undone(it);
            for (at, event) in it
                .statements
                .iter()
                .enumerate()
                .flat_map(|(at, it)| it.events.iter().map(move |event| (at, event)))
            {
                if let (Event::Delete { id }, false) = (event, undone[at])
                    && let Some(member) = self.members.get_mut(id)
                {
                    member.deleted.push(transaction);
                }
            }
        }
    }

    /// What became of each transaction. One whose end is unknown has committed if anything of it
    /// was there at the end, or somebody else's row that it deleted was not.
    fn decide(&mut self, history: &History) {
        let mut there: HashSet<(Object, i64)> = HashSet::new();
        let mut ids: HashSet<i64> = HashSet::new();
        for event in &history.last {
            match event {
                Event::List { object, seen } => there.extend(seen.iter().map(|v| (*object, *v))),
                Event::Register { object, value } => drop(there.insert((*object, *value))),
                Event::Members { ids: last, .. } => ids.extend(last),
                _ => {}
            }
        }
        // What a register held is there as what somebody replaced.
        let mut replaced: HashSet<(Object, i64)> = HashSet::new();
        let committed = |it: &&Transaction| it.outcome == Outcome::Committed;
        for it in history.transactions.iter().filter(committed) {
            for event in it.statements.iter().flat_map(|it| &it.events) {
                if let Event::Put { object, replaced: Some(value), .. } = event {
                    replaced.insert((*object, *value));
                }
            }
        }
        let stands = |at: usize| history.transactions[at].outcome == Outcome::Committed;
        for (number, it) in history.transactions.iter().enumerate() {
            let undone = undone(it);
            let kept = it.statements.iter().zip(&undone).filter(|(_, undone)| !**undone);
            let mut events = kept.flat_map(|(it, _)| &it.events);
            self.committed.push(match it.outcome {
                Outcome::Committed => true,
                Outcome::Aborted => false,
                Outcome::Unknown => events.any(|event| match event {
                    Event::Put { object, value, .. } => {
                        there.contains(&(*object, *value)) || replaced.contains(&(*object, *value))
                    }
                    Event::Insert { id, .. } => {
                        let gone = || self.members[id].deleted.iter().any(|by| stands(*by));
                        ids.contains(id) || gone()
                    }
                    Event::Delete { id } => self.members.get(id).is_some_and(|member| {
                        let by_others =
                            member.deleted.iter().any(|by| *by != number && stands(*by));
                        let came = stands(member.writer.transaction) && !member.writer.undone;
                        came && !ids.contains(id) && !by_others
                    }),
                    _ => false,
                }),
            });
        }
    }

    fn counts(&self, writer: Writer) -> bool {
        self.committed[writer.transaction] && !writer.undone
    }

    /// Versions in the order in which they replaced each other, and what is lost of them.
    fn order(&mut self, history: &History) {
        let mut links: BTreeMap<(Object, i64), Vec<i64>> = BTreeMap::new();
        for (number, it) in history.transactions.iter().enumerate() {
            let undone = undone(it);
            for (at, statement) in it.statements.iter().enumerate() {
                for event in &statement.events {
                    if let Event::Put { object, value, replaced: Some(old) } = event
                        && self.committed[number]
                        && !undone[at]
                    {
                        links.entry((*object, *old)).or_default().push(*value);
                    }
                }
            }
        }
        for event in &history.last {
            match event {
                Event::List { object, seen } => drop(self.orders.insert(*object, seen.clone())),
                Event::Register { object, value } => {
                    let mut order = Vec::new();
                    let mut at = 0;
                    while let Some(next) = links.get(&(*object, at)) {
                        if let [_, _, ..] = next[..] {
                            let what = format!("{at} of {object} was replaced by {next:?}");
                            self.find(Anomaly::LostUpdate, what);
                        }
                        at = next[0];
                        order.push(at);
                    }
                    if at != *value {
                        let what = format!("register {object} holds {value}, not {at}");
                        self.find(Anomaly::Lost, what);
                    }
                    self.orders.insert(*object, order);
                }
                Event::Members { object, ids } => self.check_last_members(*object, ids),
                Event::Keys { rows } => self.check_keys(rows, None, "at the end"),
                Event::References { children, parents } => {
                    self.check_references(children, parents, "at the end");
                }
                _ => {}
            }
        }
        let orders = std::mem::take(&mut self.orders);
        for (object, order) in &orders {
            for (at, value) in order.iter().enumerate() {
                match self.values.get(&(*object, *value)).copied() {
                    None => self.find(Anomaly::Order, format!("nobody wrote {value} of {object}")),
                    Some(writer) if !self.counts(writer) => {
                        let what = format!("{value} of {object} was rolled back and is there");
                        self.find(Anomaly::G1a, what);
                    }
                    Some(_) => {}
                }
                if self.place.insert((*object, *value), at).is_some() {
                    self.find(Anomaly::Order, format!("{value} of {object} is there twice"));
                }
            }
        }
        self.orders = orders;
        let lost: Vec<(Object, i64)> = self
            .values
            .iter()
            .filter(|((object, value), writer)| {
                let known = self.orders.contains_key(object);
                known && self.counts(**writer) && !self.place.contains_key(&(*object, *value))
            })
            .map(|(key, _)| *key)
            .collect();
        for (object, value) in lost {
            self.find(Anomaly::Lost, format!("{value} of {object}"));
        }
    }

    fn check_last_members(&mut self, object: Object, ids: &[i64]) {
        let there: HashSet<i64> = ids.iter().copied().collect();
        if let Some(id) = self.unknown(ids) {
            self.find(Anomaly::Order, format!("nobody inserted {id}"));
        }
        for id in self.rows_of.get(&object).cloned().unwrap_or_default() {
            let member = self.members[&id].clone();
            let gone = member.deleted.iter().filter(|by| self.committed[**by]).count();
            match (self.counts(member.writer), gone, there.contains(&id)) {
                (false, _, true) => {
                    self.find(Anomaly::G1a, format!("row {id} was rolled back and is there"));
                }
                (true, 0, false) => self.find(Anomaly::Lost, format!("row {id} of {object}")),
                (true, 1.., true) => {
                    self.find(Anomaly::Lost, format!("the end of row {id} of {object}"));
                }
                _ => {}
            }
            if gone > 1 {
                self.find(Anomaly::LostUpdate, format!("row {id} was deleted {gone} times"));
            }
        }
    }

    /// The first row that nobody is known to have inserted.
    fn unknown(&self, ids: &[i64]) -> Option<i64> {
        ids.iter().copied().find(|id| !self.members.contains_key(id))
    }

    /// Who is before whom.
    fn link(&mut self, history: &History) {
        for _ in &history.transactions {
            let node = self.graph.node();
            self.commit_of.push(node);
        }
        // Where a transaction's writes come in: behind its view, if it has one.
        let mut enters = self.commit_of.clone();
        let mut clock = Clock::default();
        for (number, it) in history.transactions.iter().enumerate() {
            let commit = self.commit_of[number];
            let mut view = None;
            // When the first statement was sent of those since which there may be a view.
            let mut first = None;
            let mut own = Own::default();
            for (at, statement) in it.statements.iter().enumerate() {
                if let Some(from) = statement.undoes {
                    own.undo(from);
                    continue;
                }
                if it.level == Level::Committed {
                    first = None;
                }
                let sent = *first.get_or_insert(statement.sent);
                if statement.failed {
                    continue;
                }
                let node = match (it.level, view) {
                    (Level::Repeatable, Some(node)) => node,
                    _ => {
                        let node = self.graph.node();
                        clock.between(node, Some(sent), Some(statement.answered));
                        self.graph.before(Edge {
                            from: node,
                            to: commit,
                            because: Because::Clock,
                            object: 0,
                        });
                        node
                    }
                };
                view = Some(node);
                if it.level == Level::Repeatable {
                    enters[number] = node;
                }
                for event in &statement.events {
                    let seen = Seen { number, view: node, level: it.level, own: &own };
                    self.read(&seen, event);
                    own.note(at, event);
                }
            }
            if self.committed[number] {
                let answered = (it.outcome == Outcome::Committed).then_some(it.end_answered);
                clock.between(commit, Some(it.end_sent), answered);
            }
        }
        self.replacements(&enters);
        clock.link(&mut self.graph);
    }

    /// Each version was committed before the next one could come.
    fn replacements(&mut self, enters: &[Node]) {
        for (object, order) in &self.orders {
            for pair in order.windows(2) {
                let [Some(a), Some(b)] =
                    [pair[0], pair[1]].map(|value| self.values.get(&(*object, value)))
                else {
                    continue;
                };
                if a.transaction != b.transaction {
                    self.graph.before(Edge {
                        from: self.commit_of[a.transaction],
                        to: enters[b.transaction],
                        because: Because::Replaced,
                        object: *object,
                    });
                }
            }
        }
    }

    fn read(&mut self, seen: &Seen<'_>, event: &Event) {
        match event {
            Event::List { object, seen: list } => {
                let own = seen.own.values(*object);
                match list.strip_suffix(&own[..]) {
                    Some(others) => self.read_others(seen, *object, others),
                    None => {
                        let what = format!("{list:?} of {object} does not end with {own:?}");
                        self.find(Anomaly::Own, seen.of(what));
                    }
                }
            }
            Event::Register { object, value } => match seen.own.values(*object).last() {
                Some(own) if own == value => {}
                Some(own) => {
                    let what = format!("register {object} holds {value}, not the own {own}");
                    self.find(Anomaly::Own, seen.of(what));
                }
                None => {
                    let end = match (*value, self.place.get(&(*object, *value))) {
                        (0, _) => 0,
                        (_, Some(place)) => place + 1,
                        (_, None) => {
                            self.unexplained(seen, *object, *value);
                            return;
                        }
                    };
                    self.read_version(seen, *object, end);
                }
            },
            Event::Members { object, ids } => self.read_members(seen, *object, ids),
            Event::Keys { rows } => self.check_keys(rows, Some(seen), "in a view"),
            Event::References { children, parents } => {
                // A child that others deleted since may be seen when its parent is an own end.
                let is_own = |child: &&Keyed| seen.own.deleted(child.key);
                let children: Vec<Keyed> =
                    children.iter().filter(|child| !is_own(child)).copied().collect();
                self.check_references(&children, parents, &seen.of("in a view".into()));
            }
            Event::Odd(what) => self.find(Anomaly::Odd, seen.of(what.clone())),
            Event::Put { .. } | Event::Insert { .. } | Event::Delete { .. } => {}
        }
    }

    /// `others` must be a beginning of what the list came to.
    fn read_others(&mut self, seen: &Seen<'_>, object: Object, others: &[i64]) {
        let order = self.orders.get(&object).map_or(&[][..], Vec::as_slice);
        if order.starts_with(others) {
            self.read_version(seen, object, others.len());
            return;
        }
        let odd = others.iter().zip(order).position(|(a, b)| a != b);
        let at = odd.unwrap_or(order.len());
        self.unexplained(seen, object, others[at]);
    }

    /// A value was read that is not in the order of versions at that place.
    fn unexplained(&mut self, seen: &Seen<'_>, object: Object, value: i64) {
        let what = format!("{value} of {object}");
        let anomaly = match self.values.get(&(object, value)) {
            Some(writer) if !self.counts(*writer) => Anomaly::G1a,
            _ => Anomaly::Order,
        };
        self.find(anomaly, seen.of(what));
    }

    /// The first `end` versions were there, and no more.
    fn read_version(&mut self, seen: &Seen<'_>, object: Object, end: usize) {
        let order = self.orders.get(&object).map_or(&[][..], Vec::as_slice);
        let writer = |at: usize| {
            let value = order.get(at)?;
            self.values.get(&(object, *value)).map(|writer| writer.transaction)
        };
        let last = end.checked_sub(1).and_then(writer);
        let next = writer(end);
        if let Some(last) = last
            && last != seen.number
        {
            if next == Some(last) {
                let what = format!("{object} in the middle of what one transaction wrote");
                self.find(Anomaly::G1b, seen.of(what));
            }
            self.before(self.commit_of[last], seen.view, Because::Read, object);
        }
        if let Some(next) = next
            && next != seen.number
        {
            self.before(seen.view, self.commit_of[next], Because::Missed, object);
        }
    }

    fn before(&mut self, from: Node, to: Node, because: Because, object: Object) {
        self.graph.before(Edge { from, to, because, object });
    }

    fn read_members(&mut self, seen: &Seen<'_>, object: Object, ids: &[i64]) {
        let there: HashSet<i64> = ids.iter().copied().collect();
        if there.len() < ids.len() {
            self.find(Anomaly::Order, seen.of(format!("a row of {object} is there twice")));
        }
        if let Some(id) = self.unknown(ids) {
            self.find(Anomaly::Order, seen.of(format!("nobody inserted {id}")));
        }
        for id in self.rows_of.get(&object).cloned().unwrap_or_default() {
            let member = &self.members[&id];
            let (writer, is_there) = (member.writer, there.contains(&id));
            let deleted = member.deleted.iter().copied().find(|by| self.committed[*by]);
            let own = writer.transaction == seen.number;
            if own || seen.own.deleted(id) {
                let wanted = seen.own.inserted(id) && !seen.own.deleted(id);
                if own && is_there != wanted || is_there && seen.own.deleted(id) {
                    let what = format!("row {id} of {object}: {is_there} instead of {wanted}");
                    self.find(Anomaly::Own, seen.of(what));
                }
                continue;
            }
            if !self.counts(writer) {
                if is_there {
                    self.find(Anomaly::G1a, seen.of(format!("row {id} of {object}")));
                }
                continue;
            }
            let came = self.commit_of[writer.transaction];
            match (is_there, deleted) {
                (true, by) => {
                    self.before(came, seen.view, Because::Read, object);
                    if let Some(by) = by.filter(|by| *by != seen.number) {
                        self.before(seen.view, self.commit_of[by], Because::Missed, object);
                    }
                }
                (false, None) => self.before(seen.view, came, Because::Missed, object),
                // It had not come yet, or was gone already.
                (false, Some(_)) => {}
            }
        }
    }

    /// A repeatable view may show a key twice: the row that others deleted, and the own one.
    fn check_keys(&mut self, rows: &[Keyed], seen: Option<&Seen<'_>>, of: &str) {
        let mut known: HashMap<i64, Vec<i64>> = HashMap::new();
        for row in rows {
            known.entry(row.key).or_default().push(row.id);
        }
        for (key, ids) in known.into_iter().filter(|(_, ids)| ids.len() > 1) {
            let own = |id: &&i64| seen.is_some_and(|seen| seen.own.inserted(**id));
            let repeatable = seen.is_some_and(|seen| seen.level == Level::Repeatable);
            if !(repeatable && ids.len() == 2 && ids.iter().filter(own).count() == 1) {
                self.find(Anomaly::Duplicate, format!("key {key} {of}: rows {ids:?}"));
            }
        }
    }

    fn check_references(&mut self, children: &[Keyed], parents: &[i64], of: &str) {
        let parents: HashSet<&i64> = parents.iter().collect();
        for child in children.iter().filter(|child| !parents.contains(&child.key)) {
            let what = format!("row {} refers to {} {of}", child.id, child.key);
            self.find(Anomaly::Orphan, what);
        }
    }
}

/// Who reads.
struct Seen<'s> {
    number: usize,
    view: Node,
    level: Level,
    own: &'s Own,
}

impl Seen<'_> {
    fn of(&self, what: String) -> String {
        format!("transaction {} ({:?}): {what}", self.number, self.level)
    }
}

/// Which statements of a transaction a return to a savepoint undid.
fn undone(transaction: &Transaction) -> Vec<bool> {
    let mut undone = vec![false; transaction.statements.len()];
    for (at, statement) in transaction.statements.iter().enumerate() {
        if let Some(from) = statement.undoes {
            undone[from..at].fill(true);
        }
    }
    undone
}

/// The clients' clock: moments that lie between two ticks.
#[derive(Default)]
struct Clock {
    ticks: Vec<Tick>,
}

/// A moment is after this tick, or before it.
struct Tick {
    at: u64,
    node: Node,
    after: bool,
}

impl Clock {
    fn between(&mut self, node: Node, sent: Option<u64>, answered: Option<u64>) {
        let sent = sent.map(|at| Tick { at, node, after: true });
        let answered = answered.map(|at| Tick { at, node, after: false });
        self.ticks.extend(sent.into_iter().chain(answered));
    }

    /// A chain of moments that stands for the ticks.
    fn link(mut self, graph: &mut Graph) {
        self.ticks.sort_by_key(|tick| tick.at);
        let edge = |from, to| Edge { from, to, because: Because::Clock, object: 0 };
        // The moment of now, and has anything begun after it?
        let (mut now, mut is_left) = (graph.node(), false);
        for tick in &self.ticks {
            if tick.after {
                graph.before(edge(now, tick.node));
                is_left = true;
                continue;
            }
            if is_left {
                let next = graph.node();
                graph.before(edge(now, next));
                (now, is_left) = (next, false);
            }
            graph.before(edge(tick.node, now));
        }
    }
}
