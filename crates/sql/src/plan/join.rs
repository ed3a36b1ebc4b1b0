//! How two sides are joined: by a loop, by a hash table, by an index.
//!
//! Equalities between the sides are the keys of a hash table, or are looked up in an index of the
//! right side. Everything else is asked of pairs of rows. Outer, semi and anti joins, which stay
//! where they are written, choose here how they run.
//!
//! Invariants: each condition is asked once. Does not do: the order of inner joins (`order`).

use std::collections::BTreeSet;
use std::sync::Arc;

use rightlink::{Collation, IndexInfo};

use crate::error::Result;
use crate::expr::{ColumnId, Expr, columns_of};
use crate::plan::TableScan;
use crate::plan::lower::{Lowered, Lowerer, Want, kept_places};
use crate::plan::made::MadeSide;
use crate::plan::node::Estimate;
use crate::plan::node::{HashKey, How, Instead, JoinNode, KeyPart, Op};
use crate::plan::path;
use crate::plan::rel::{self, Join, JoinKind, Rel};
use crate::plan::term::{compares_alike, flatten, put_dear_last};
use crate::settings::planner::penalty;
use crate::types::SqlType;

/// Selectivity of a condition on two relations about which nothing is known.
pub(super) const UNKNOWN: f64 = 1.0 / 3.0;
pub(super) const EQUAL: f64 = 0.005;
/// Cost of a pair of rows, of a row that is put into a hash table, and of one that is looked for.
pub(super) const PAIR: f64 = 0.0025;
pub(super) const BUILD: f64 = 0.02;
pub(super) const PROBE: f64 = 0.015;
pub(super) const ROW: f64 = 0.01;
/// Cost of finding the rows of a relation that is made up that have one value.
const FIND: f64 = 0.02;
/// Keys up to which a join by an index stays one, and from which on it does too.
const LEAST_KEYS: f64 = 64.0;
const MOST_KEYS: f64 = 1e9;

/// Rows that keys can be looked up in.
#[derive(Clone)]
pub(super) struct KeyedSide {
    pub(super) source: KeyedSource,
    pub(super) conditions: Vec<Expr>,
}

/// Where they are.
#[derive(Clone)]
pub(super) enum KeyedSource {
    Table(rel::Scan),
    Made(MadeSide),
}

/// The relation in which keys are looked up.
pub(super) struct Lookup {
    /// The index of a table.
    pub(super) index: Option<IndexInfo>,
    /// For each key column the number of the equality that gives its value.
    pub(super) parts: Vec<usize>,
    pub(super) estimate: Estimate,
}

/// A condition between relations.
pub(super) struct Tie {
    pub(super) expr: Expr,
    /// The relations that it names.
    pub(super) of: u64,
    pub(super) equality: Option<Equality>,
    pub(super) share: f64,
}

/// A condition that two values are equal.
#[derive(Clone)]
pub(super) struct Equality {
    pub(super) sides: [Expr; 2],
    pub(super) types: [SqlType; 2],
    pub(super) of: [u64; 2],
}

/// How two sets of relations are joined.
#[derive(Clone, Debug)]
pub(super) enum Method {
    Loop,
    Apply,
    Hash,
    Keyed,
}

/// A side whose rows are looked up.
struct KeyedHow {
    how: How,
    /// Columns of its rows.
    layout: Vec<ColumnId>,
    estimate: Estimate,
    /// Conditions that the keys do not stand for.
    rest: Vec<Expr>,
}

/// A relation that is made up, what is asked of its rows, and which equality finds them.
struct MadeLookup {
    made: MadeSide,
    conditions: Vec<Expr>,
    first: usize,
}

/// Another way to join, for more keys than these.
struct Other {
    after: u64,
    how: How,
}

/// Two sides of a join.
pub(super) struct Pair {
    pub(super) kind: JoinKind,
    pub(super) left: Lowered,
    pub(super) right: Side,
    /// The relations of each side.
    pub(super) of_left: u64,
    pub(super) of_right: u64,
    pub(super) rows: f64,
    /// Do the rows have to come in the order of the left side?
    pub(super) keeps_order: bool,
}

/// The right side of a join.
pub(super) enum Side {
    Rows(Lowered, Method),
    Keyed(KeyedSide),
}

impl Lowerer<'_> {
    /// The best relation to look keys up in.
    pub(super) fn keyed(
        &self,
        side: &KeyedSide,
        equalities: &[Equality],
        rows: f64,
    ) -> Option<Lookup> {
        match &side.source {
            KeyedSource::Table(scan) => self.keyed_table(scan, equalities, rows),
            KeyedSource::Made(made) => keyed_made(made, equalities, rows),
        }
    }

    /// The index that keys are best looked up in.
    fn keyed_table(&self, rel: &rel::Scan, equalities: &[Equality], rows: f64) -> Option<Lookup> {
        let table = &rel.table;
        let scan = bare_scan(table, self.known_statistics(table));
        let column_of = |name: &str| table.info.columns.iter().position(|c| c.name == *name);
        // The equality, if its value can be a key of the column as it is.
        let gives = |column: usize, equality: &Equality| {
            let own = table.types[column];
            let is_column = matches!(equality.sides[1], Expr::Column(id)
                if rel.columns.get(column) == Some(&id));
            let fits = |ty: SqlType| ty == own || compares_alike(ty, own);
            is_column && fits(equality.types[0]) && fits(equality.types[1])
        };
        let mut best: Option<Lookup> = None;
        for index in table.info.indexes.iter().filter(|index| index.is_whole()) {
            let mut parts = Vec::new();
            for part in &index.columns {
                let exact = part.collation.given().is_none_or(Collation::is_deterministic);
                let found = column_of(&part.name).and_then(|column| {
                    equalities.iter().position(|equality| gives(column, equality))
                });
                match found.filter(|_| exact) {
                    Some(at) => parts.push(at),
                    None => break,
                }
            }
            let whole = parts.len() == index.columns.len();
            if parts.is_empty() || (!whole && !index.method.is_ordered()) {
                continue;
            }
            let estimate = path::of_keys(&scan, index, parts.len(), rows);
            if best.as_ref().is_none_or(|known| estimate.total < known.estimate.total) {
                best = Some(Lookup { index: Some(index.clone()), parts, estimate });
            }
        }
        best
    }

    /// A join that stays where it is.
    pub(super) fn outer_join(&mut self, join: Join, want: &Want<'_>) -> Result<Lowered> {
        let Join { kind, left, right, on, .. } = join;
        let on = flatten(on);
        let (own, other): (BTreeSet<ColumnId>, BTreeSet<ColumnId>) =
            (left.columns().into_iter().collect(), right.columns().into_iter().collect());
        let of = |named: &BTreeSet<ColumnId>| {
            u64::from(!named.is_disjoint(&own)) | u64::from(!named.is_disjoint(&other)) << 1
        };
        let dependent = !right.free().is_disjoint(&own);
        let mut needed = want.needed.clone();
        on.iter().for_each(|one| columns_of(one, &mut needed));
        needed.extend(right.free());
        let keyed = keyed_side(&right);
        let source = keyed.as_ref().map(|side| &side.source);
        // A row of a catalog costs as much to look at as a query that asks catalogs.
        let of_catalog = matches!(source, Some(KeyedSource::Made(_)));
        let mut ties = Vec::with_capacity(on.len());
        for expr in on {
            let mut named = BTreeSet::new();
            columns_of(&expr, &mut named);
            let equality = equality(&expr, &of, of_catalog);
            ties.push(Tie { of: of(&named), equality, share: UNKNOWN, expr });
        }
        let equalities: Vec<Equality> =
            ties.iter().filter_map(|tie| turned(tie.equality.as_ref()?, 1, 2)).collect();
        let switches = self.known.switches();
        let may_be_keyed = !dependent
            && matches!(kind, JoinKind::Left | JoinKind::Semi | JoinKind::Anti)
            && switches.keyed_join();
        // A join by an index has the order of the left side, and reads for the rows that are taken.
        let streams = may_be_keyed
            && keyed.as_ref().is_some_and(|side| self.keyed(side, &equalities, 1.0).is_some());
        let of_left = want.order.iter().all(|key| own.contains(&key.at));
        let orders = streams && of_left && !want.asks_all && want.limit.is_some();
        let left = self.lower(
            left,
            &Want {
                order: if orders { want.order } else { &[] },
                limit: want.limit.filter(|_| orders),
                any_order: want.any_order,
                is_cut: want.is_cut,
                ..Want::of(&needed)
            },
        )?;
        let is_ordered = left.ordered && !want.order.is_empty();
        let right = self.lower(right, &Want::of(&needed))?;
        let (a, b) = (left.node.estimate, right.node.estimate);
        let rows = match kind {
            JoinKind::Semi | JoinKind::Anti => (a.rows * 0.5).max(1.0),
            JoinKind::Full => a.rows + b.rows,
            _ => match self.partners(&equalities, b.rows) {
                Some(partners) => a.rows * partners.max(1.0),
                None => a.rows.max((a.rows * b.rows * EQUAL).min(a.rows * 10.0)),
            },
        };
        // Rows of the left side that are looked at, if no sort stands above.
        let taken = match want.limit {
            Some(limit) if want.order.is_empty() || is_ordered => a.rows.min(limit.max(1.0)),
            _ => a.rows,
        };
        let lookup = match (&keyed, kind) {
            (Some(side), JoinKind::Left | JoinKind::Semi | JoinKind::Anti) if !dependent => {
                self.keyed(side, &equalities, taken).map(|found| found.estimate.total)
            }
            _ => None,
        };
        let by_key = lookup.map(|total| total + penalty(switches.keyed_join()));
        let by_hash = b.total + b.rows * BUILD + penalty(switches.hashjoin);
        let by_loop = b.total + a.rows * b.rows * PAIR + penalty(switches.nestloop);
        // Which costs less is a matter of chance where the numbers of rows are guessed.
        let hashes = !equalities.is_empty() && (switches.hashjoin || !switches.nestloop);
        let by_other = if hashes { by_hash } else { by_loop };
        let right = match by_key {
            _ if dependent => Side::Rows(right, Method::Apply),
            Some(total) if equalities.is_empty() || total < by_other => {
                Side::Keyed(keyed.expect("it was looked up"))
            }
            _ if hashes => Side::Rows(right, Method::Hash),
            _ => Side::Rows(right, Method::Loop),
        };
        let keeps_order = is_ordered && matches!(right, Side::Keyed(_));
        let pair = Pair { kind, left, right, of_left: 1, of_right: 2, rows, keeps_order };
        self.paired(pair, ties, &needed, want.needed)
    }

    /// The node of a join whose conditions are `ties`. Of its columns those go on that are named
    /// `above` it; `needed` has those, too, that conditions name.
    pub(super) fn paired(
        &mut self,
        pair: Pair,
        ties: Vec<Tie>,
        needed: &BTreeSet<ColumnId>,
        above: &BTreeSet<ColumnId>,
    ) -> Result<Lowered> {
        let Pair { kind, left, right, of_left, of_right, rows, keeps_order } = pair;
        let keeps_right = !matches!(kind, JoinKind::Semi | JoinKind::Anti);
        let mut residual: Vec<Expr> = Vec::new();
        let mut equalities: Vec<(Equality, Expr)> = Vec::new();
        for tie in ties {
            match tie.equality.as_ref().and_then(|one| turned(one, of_left, of_right)) {
                Some(equality) => equalities.push((equality, tie.expr)),
                None => residual.push(tie.expr),
            }
        }
        let a = left.node.estimate;
        let mut instead = None;
        let (how, right_layout, b) = match right {
            Side::Keyed(side) => {
                let made = self.keyed_how(side, equalities, &left, needed)?;
                residual.extend(made.rest);
                if let How::Keyed { scan, index, keys, .. } = &made.how
                    && !keeps_order
                {
                    instead = self.instead(scan, index, keys, a.rows);
                }
                (made.how, made.layout, made.estimate)
            }
            Side::Rows(right, Method::Hash) if !equalities.is_empty() => {
                let mut keys = Vec::with_capacity(equalities.len());
                for (equality, _) in equalities {
                    let [mut own, mut other] = equality.sides;
                    self.place(&mut own, &left.layout)?;
                    self.place(&mut other, &right.layout)?;
                    keys.push(HashKey { left: own, right: other });
                }
                let b = right.node.estimate;
                (How::Hash { right: right.node, keys }, right.layout, b)
            }
            Side::Rows(right, method) => {
                residual.extend(equalities.into_iter().map(|(_, expr)| expr));
                let b = right.node.estimate;
                let how = match method {
                    Method::Apply => {
                        let binds = self.binds(&left.layout);
                        How::Apply { right: right.node, binds }
                    }
                    _ => How::Loop { right: right.node },
                };
                (how, right.layout, b)
            }
        };
        let mut both = left.layout.clone();
        both.extend(&right_layout);
        put_dear_last(&mut residual);
        residual.iter_mut().try_for_each(|one| self.place(one, &both))?;
        let condition = match residual.len() {
            0 | 1 => residual.pop(),
            _ => Some(Expr::And(residual)),
        };
        let total = match &how {
            How::Loop { .. } => a.total + b.total + a.rows * b.rows * PAIR,
            How::Apply { .. } => a.total + a.rows.max(1.0) * b.total,
            How::Hash { .. } => a.total + b.total + b.rows * BUILD + a.rows * PROBE,
            How::Keyed { .. } | How::Made { .. } => a.total + b.total + a.rows * PROBE,
        };
        let startup = match &how {
            How::Loop { .. } | How::Hash { .. } => a.startup + b.total,
            How::Apply { .. } | How::Keyed { .. } | How::Made { .. } => a.startup + b.startup,
        };
        let all = if keeps_right { both } else { left.layout };
        let kept = kept_places(&all, above);
        let layout: Vec<ColumnId> = kept.iter().map(|at| all[*at]).collect();
        let width = a.width + if keeps_right { b.width } else { 0 };
        let estimate = Estimate { startup, total: total + rows * ROW, rows, width };
        let right_width = right_layout.len();
        let mut join = JoinNode { kind, left: left.node, how, condition, right_width, kept };
        if let How::Keyed { keeps_order: kept, .. } = &mut join.how {
            *kept = keeps_order;
        }
        if let (Some(Other { after, how: other }), How::Keyed { .. }) = (instead, &join.how) {
            let other = JoinNode { how: other, ..join.clone() };
            let other = self.node(Op::Join(Box::new(other)), layout.len(), estimate);
            if let How::Keyed { instead, .. } = &mut join.how {
                *instead = Some(Box::new(Instead { after, join: other }));
            }
        }
        let node = self.node(Op::Join(Box::new(join)), layout.len(), estimate);
        Ok(Lowered { node, layout, ordered: keeps_order })
    }

    /// How rows of a table are looked up for those of `left`.
    fn keyed_how(
        &mut self,
        side: KeyedSide,
        equalities: Vec<(Equality, Expr)>,
        left: &Lowered,
        needed: &BTreeSet<ColumnId>,
    ) -> Result<KeyedHow> {
        let list: Vec<Equality> = equalities.iter().map(|(one, _)| one.clone()).collect();
        let found = self.keyed(&side, &list, left.node.estimate.rows);
        let Lookup { index, parts, estimate } = found.expect("an index was found before");
        let (scan, index) = match (side.source, index) {
            (KeyedSource::Table(scan), Some(index)) => (scan, index),
            (KeyedSource::Made(made), _) => {
                let rows = MadeLookup { made, conditions: side.conditions, first: parts[0] };
                return self.made_how(rows, list, left, needed, estimate);
            }
            (KeyedSource::Table(_), None) => unreachable!("keys of a table have an index"),
        };
        let mut wanted = needed.clone();
        let mut columns = Vec::with_capacity(parts.len());
        for at in &parts {
            let Expr::Column(id) = list[*at].sides[1] else {
                unreachable!("a key column is a column")
            };
            wanted.insert(id);
            columns.push(id);
        }
        let (scan, layout) = self.table_scan(scan, side.conditions, &wanted)?;
        let mut keys = Vec::with_capacity(parts.len());
        for (at, id) in parts.iter().zip(columns) {
            let mut value = list[*at].sides[0].clone();
            self.place(&mut value, &left.layout)?;
            let place = layout.iter().position(|known| *known == id);
            let place = place.expect("key columns are wanted");
            let ty = scan.table.types[scan.columns[place]];
            keys.push(KeyPart { value, ty, at: place });
        }
        let rest = equalities.into_iter().enumerate();
        let rest = rest.filter(|(at, _)| !parts.contains(at)).map(|(_, (_, expr))| expr);
        let rest = rest.collect();
        let (scan, index) = (Box::new(scan), Box::new(index));
        let how = How::Keyed { scan, index, keys, keeps_order: false, instead: None };
        Ok(KeyedHow { how, layout, estimate, rest })
    }

    /// How rows of a relation that is made up are looked up for those of `left`.
    fn made_how(
        &mut self,
        lookup: MadeLookup,
        mut equalities: Vec<Equality>,
        left: &Lowered,
        needed: &BTreeSet<ColumnId>,
        estimate: Estimate,
    ) -> Result<KeyedHow> {
        let MadeLookup { made, conditions, first } = lookup;
        equalities.swap(0, first);
        let mut wanted = needed.clone();
        conditions.iter().for_each(|one| columns_of(one, &mut wanted));
        equalities.iter().for_each(|one| columns_of(&one.sides[1], &mut wanted));
        let (scan, layout) = self.made_relation(&made, &wanted);
        let column = made.place(&equalities[0].sides[1]).expect("the first key is a column");
        let mut keys = Vec::with_capacity(equalities.len());
        for equality in equalities {
            let [mut own, mut other] = equality.sides;
            self.place(&mut own, &left.layout)?;
            self.place(&mut other, &layout)?;
            keys.push(HashKey { left: own, right: other });
        }
        let how = How::Made { scan: Box::new(scan), column, keys };
        Ok(KeyedHow { how, layout, estimate, rest: conditions })
    }

    /// How a join by an index for the keys of so many rows goes on when there are far more of them.
    fn instead(
        &mut self,
        scan: &TableScan,
        index: &IndexInfo,
        keys: &[KeyPart],
        rows: f64,
    ) -> Option<Other> {
        let switches = self.known.switches();
        if !switches.hashjoin || !switches.seqscan {
            return None;
        }
        let mut whole = scan.clone();
        path::choose_scan(
            &mut whole,
            &path::Demand { params: self.params, switches, ..path::Demand::default() },
        );
        whole.any_order = true;
        let estimate = path::estimate(&whole, self.params);
        let by_hash = estimate.total + estimate.rows * BUILD;
        // Below this the guess was good enough.
        let mut after = rows.max(LEAST_KEYS) * 4.0;
        while path::of_keys(scan, index, keys.len(), after).total < by_hash {
            after *= 2.0;
            if after > MOST_KEYS {
                return None;
            }
        }
        let width = scan.columns.len() + usize::from(scan.with_tid);
        let right = self.node(Op::Scan(Box::new(whole)), width, estimate);
        let keys = keys.iter();
        let keys = keys.map(|key| HashKey { left: key.value.clone(), right: Expr::Column(key.at) });
        Some(Other { after: after as u64, how: How::Hash { right, keys: keys.collect() } })
    }

    /// Slots of the columns of a layout that some query inside reads.
    fn binds(&mut self, layout: &[ColumnId]) -> Vec<(usize, Expr)> {
        let mut binds = Vec::new();
        for (at, id) in layout.iter().enumerate() {
            if let Some(slot) = self.known_slot(*id) {
                binds.push((slot, Expr::Column(at)));
            }
        }
        binds
    }
}

/// An equality with the side that is of `left` first; `None` if it is not between the two.
pub(super) fn turned(equality: &Equality, left: u64, right: u64) -> Option<Equality> {
    let within = |of: u64, set: u64| of != 0 && of & !set == 0;
    let [a, b] = equality.of;
    if within(a, left) && within(b, right) {
        return Some(equality.clone());
    }
    if within(b, left) && within(a, right) {
        let (mut turned, [x, y]) = (equality.clone(), equality.types);
        turned.sides.reverse();
        (turned.types, turned.of) = ([y, x], [b, a]);
        return Some(turned);
    }
    None
}

/// Have equal values of two types equal hashes?
pub(crate) fn hash_alike(a: SqlType, b: SqlType) -> bool {
    let float = |ty: SqlType| matches!(ty, SqlType::Float4 | SqlType::Float8);
    a == b || compares_alike(a, b) || (float(a) && float(b))
}

/// The two values that a condition says are equal, if equal ones can be found by a hash. A value
/// that asks a query is one of them only `with_queries`: as a key it runs for each row of its side,
/// where as a condition it runs for the pairs that all other conditions leave.
pub(super) fn equality(
    expr: &Expr,
    of: &dyn Fn(&BTreeSet<ColumnId>) -> u64,
    with_queries: bool,
) -> Option<Equality> {
    let Expr::Call(function, args) = expr else { return None };
    let ([a, b], [x, y]) = (args.as_slice(), function.args.as_slice()) else { return None };
    let steady = |expr: &Expr| (with_queries || !expr.has_query()) && !expr.is_volatile();
    if function.name != "=" || !hash_alike(*x, *y) || !steady(a) || !steady(b) {
        return None;
    }
    let side = |expr: &Expr| {
        let mut named = BTreeSet::new();
        columns_of(expr, &mut named);
        of(&named)
    };
    let of = [side(a), side(b)];
    let apart = of[0] != 0 && of[1] != 0 && of[0] & of[1] == 0;
    apart.then(|| Equality { sides: [a.clone(), b.clone()], types: [*x, *y], of })
}

/// The equality, whose right side is a column of a relation that is made up, that leaves fewest of
/// its rows.
fn keyed_made(made: &MadeSide, equalities: &[Equality], rows: f64) -> Option<Lookup> {
    let values = |equality: &Equality| {
        let [a, b] = equality.types;
        let is_float = matches!(a, SqlType::Float4 | SqlType::Float8);
        let fits = (a == b || compares_alike(a, b)) && !is_float;
        made.values_of(&equality.sides[1]).filter(|_| fits)
    };
    let known = equalities.iter().enumerate();
    let known = known.filter_map(|(at, equality)| Some((at, values(equality)?)));
    let (at, values) = known.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let each = made.rows() / values;
    let total = rows * (FIND + each * ROW);
    let estimate = Estimate { startup: 0.0, total, rows: each, width: made.width() * 16 };
    Some(Lookup { index: None, parts: vec![at], estimate })
}

/// A relation that keys can be looked up in.
pub(super) fn keyed_side(rel: &Rel) -> Option<KeyedSide> {
    let (input, conditions) = match rel {
        Rel::Filter { input, conditions } => (&**input, conditions.clone()),
        other => (other, Vec::new()),
    };
    let source = match input {
        Rel::Scan(scan) => KeyedSource::Table((**scan).clone()),
        other => KeyedSource::Made(MadeSide::of(other)?),
    };
    Some(KeyedSide { source, conditions })
}

/// The same of a table.
pub(super) fn is_keyed_table(rel: &Rel) -> bool {
    keyed_side(rel).is_some_and(|side| matches!(side.source, KeyedSource::Table(_)))
}

/// A scan of a table for what is known about it.
pub(super) fn bare_scan(
    table: &Arc<crate::plan::Table>,
    statistics: Option<Arc<crate::statistics::Statistics>>,
) -> TableScan {
    TableScan {
        table: Arc::clone(table),
        alias: String::new(),
        columns: (0..table.types.len()).collect(),
        with_tid: false,
        path: path::Path::Sequential,
        filter: None,
        statistics,
        asked: None,
        by_values: false,
        any_order: true,
    }
}
