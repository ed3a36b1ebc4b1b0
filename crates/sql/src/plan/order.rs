//! In which order relations are joined, and how.
//!
//! Relations that inner joins bring together are joined in the cheapest order: of up to
//! [`MAX_EXHAUSTIVE`] by dynamic programming over their subsets, beyond that by always joining the
//! cheapest pair. A relation that reads columns of others is joined behind them. Outer, semi and
//! anti joins stay where they are written.
//!
//! Invariants: each condition is asked once, at the first join that has all of its columns.
//! Does not do: orders that rows could come in.
//!
//! Selinger et al., Access Path Selection in a Relational Database Management System, 1979.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rightlink::{Collation, IndexInfo};

use crate::error::Result;
use crate::expr::Expr;
use crate::plan::lower::{Lowered, Lowerer, Want, plain};
use crate::plan::model::Model;
use crate::plan::node::{HashKey, How, JoinNode, KeyPart, Op};
use crate::plan::path::{self, Estimate, flatten, is_integer};
use crate::plan::rel::{self, ColumnId, Join, JoinKind, Rel};
use crate::plan::{TableScan, rel::columns_of};
use crate::types::SqlType;

/// Relations up to which all orders are looked at.
const MAX_EXHAUSTIVE: usize = 10;
/// Selectivity of a condition on two relations about which nothing is known.
const UNKNOWN: f64 = 1.0 / 3.0;
const EQUAL: f64 = 0.005;
/// Cost of a pair of rows, of a row that is put into a hash table, and of one that is looked for.
const PAIR: f64 = 0.0025;
const BUILD: f64 = 0.02;
const PROBE: f64 = 0.015;
const ROW: f64 = 0.01;

/// A relation of a join of several.
struct Leaf {
    lowered: Option<Lowered>,
    estimate: Estimate,
    /// If it is rows of a table, for lookups by key: the scan and its conditions.
    scan: Option<KeyedSide>,
    /// The others whose columns it reads.
    needs: u64,
}

/// Rows of a table that keys can be looked up in.
#[derive(Clone)]
struct KeyedSide {
    scan: rel::Scan,
    conditions: Vec<Expr>,
}

/// The index that keys are looked up in.
struct Lookup {
    index: IndexInfo,
    /// For each key column the number of the equality that gives its value.
    parts: Vec<usize>,
    estimate: Estimate,
}

/// A condition between relations.
struct Tie {
    expr: Expr,
    /// The relations that it names.
    of: u64,
    equality: Option<Equality>,
    share: f64,
}

/// A condition that two values are equal.
#[derive(Clone)]
struct Equality {
    sides: [Expr; 2],
    types: [SqlType; 2],
    of: [u64; 2],
}

/// How two sets of relations are joined.
#[derive(Clone, Debug)]
enum Method {
    Loop,
    Apply,
    Hash,
    Keyed,
}

#[derive(Clone, Debug)]
enum Tree {
    Leaf(usize),
    Join(Box<Tree>, Box<Tree>, Method),
}

/// The best way to join a set.
#[derive(Clone, Debug)]
struct Best {
    tree: Tree,
    startup: f64,
    total: f64,
    rows: f64,
}

/// A set of relations, and the best way to join it.
#[derive(Clone, Copy)]
struct Part<'b> {
    set: u64,
    best: &'b Best,
}

impl Best {
    fn cost(&self, share: f64) -> f64 {
        self.startup + (self.total - self.startup) * share
    }
}

/// Relations and conditions of a join of several.
struct Cluster {
    leaves: Vec<Leaf>,
    ties: Vec<Tie>,
    /// The share of the result that is wanted.
    share: f64,
}

impl Lowerer<'_> {
    /// Lowers a join.
    pub(super) fn join(&mut self, join: Join, want: &Want<'_>) -> Result<Lowered> {
        match join.kind {
            JoinKind::Inner => self.inner(join, want),
            _ => self.outer_join(join, want),
        }
    }

    /// All relations that inner joins bring together.
    fn inner(&mut self, join: Join, want: &Want<'_>) -> Result<Lowered> {
        let (mut rels, mut conditions) = (Vec::new(), Vec::new());
        gather(Rel::Join(Box::new(join)), &mut rels, &mut conditions);
        let owners: Vec<BTreeSet<ColumnId>> =
            rels.iter().map(|rel| rel.columns().into_iter().collect()).collect();
        let of = |named: &BTreeSet<ColumnId>| {
            let mut set = 0u64;
            for (at, own) in owners.iter().enumerate() {
                if !named.is_disjoint(own) {
                    set |= 1 << at;
                }
            }
            set
        };
        if rels.len() > 63 {
            let message = "a join of more than 63 relations";
            return Err(crate::error::SqlError::unsupported(message));
        }
        let mut needed = want.needed.clone();
        conditions.iter().for_each(|one| columns_of(one, &mut needed));
        rels.iter().for_each(|rel| needed.extend(rel.free()));
        let mut leaves = Vec::with_capacity(rels.len());
        for (at, rel) in rels.into_iter().enumerate() {
            let needs = of(&rel.free()) & !(1 << at);
            let scan = keyed_side(&rel);
            let lowered = self.lower(
                rel,
                &Want { any_order: want.any_order, is_cut: want.is_cut, ..Want::of(&needed) },
            )?;
            let estimate = lowered.node.estimate;
            leaves.push(Leaf { lowered: Some(lowered), estimate, scan, needs });
        }
        let mut ties = Vec::with_capacity(conditions.len());
        for expr in conditions {
            let mut named = BTreeSet::new();
            columns_of(&expr, &mut named);
            let equality = equality(&expr, &of);
            let share = self.share(&expr, equality.as_ref(), &leaves);
            ties.push(Tie { of: of(&named), equality, share, expr });
        }
        let mut cluster = Cluster { leaves, ties, share: 1.0 };
        let all = (1u64 << cluster.leaves.len()) - 1;
        if let Some(limit) = want.limit {
            let rows = cluster.rows(all);
            cluster.share = (limit / rows.max(1.0)).clamp(0.0, 1.0);
        }
        let best = match cluster.leaves.len() <= MAX_EXHAUSTIVE {
            true => self.exhaustive(&cluster),
            false => self.greedy(&cluster),
        };
        self.built(best.tree, &mut cluster, &needed)
    }

    /// The share of pairs of rows for which a condition holds.
    fn share(&self, expr: &Expr, equality: Option<&Equality>, leaves: &[Leaf]) -> f64 {
        let Some(equality) = equality else {
            return match expr {
                Expr::Call(function, _) if function.name == "=" => EQUAL,
                _ => UNKNOWN,
            };
        };
        let values = equality.sides.iter().zip(equality.of).map(|(side, of)| {
            let rows = leaves[of.trailing_zeros() as usize].estimate.rows;
            self.values_of(side).map_or(200.0f64.min(rows), |values| values.max(1.0))
        });
        1.0 / values.fold(1.0f64, f64::max)
    }

    /// How many different values an expression has, if it is a column of a table.
    fn values_of(&self, expr: &Expr) -> Option<f64> {
        let expr = match expr {
            Expr::Pad(inner, _) | Expr::Cast(inner, _) => inner,
            other => other,
        };
        let Expr::Column(id) = expr else { return None };
        let origin = self.origins.get(id)?;
        let (table, name) = (&origin.table, &origin.table.info.columns[origin.at].name);
        let scan = bare_scan(table, self.known_statistics(table));
        let rows = Model::new(&scan, self.params).rows_of_table();
        let unique = table.info.indexes.iter().any(|index| {
            index.unique
                && index.is_whole()
                && matches!(index.columns.as_slice(), [only] if only.name == *name)
        });
        if unique {
            return Some(rows);
        }
        let known = scan.statistics.as_ref()?;
        let column = known.column(name, table.types[origin.at])?;
        Some(column.values_among(rows))
    }

    /// The cheapest of all orders.
    fn exhaustive(&self, cluster: &Cluster) -> Best {
        let count = cluster.leaves.len();
        let mut best: BTreeMap<u64, Best> = BTreeMap::new();
        for at in 0..count {
            best.insert(1 << at, cluster.alone(at));
        }
        for set in 1u64..1 << count {
            if set.count_ones() < 2 {
                continue;
            }
            // Pairs that no condition ties only where nothing else is there.
            for tied in [true, false] {
                let mut left = (set - 1) & set;
                while left > 0 {
                    let right = set & !left;
                    if (cluster.is_tied(left, right) == tied)
                        && let (Some(a), Some(b)) = (best.get(&left), best.get(&right))
                        && let Some(made) = self.pair(
                            cluster,
                            &Part { set: left, best: a },
                            &Part { set: right, best: b },
                        )
                        && best.get(&set).is_none_or(|known| {
                            made.cost(cluster.share) < known.cost(cluster.share)
                        })
                    {
                        best.insert(set, made);
                    }
                    left = (left - 1) & set;
                }
                if best.contains_key(&set) {
                    break;
                }
            }
        }
        let all = (1u64 << count) - 1;
        best.remove(&all).expect("a relation is behind those that it reads")
    }

    /// Always the pair that costs least.
    fn greedy(&self, cluster: &Cluster) -> Best {
        let mut parts: Vec<(u64, Best)> =
            (0..cluster.leaves.len()).map(|at| (1 << at, cluster.alone(at))).collect();
        while parts.len() > 1 {
            let mut found: Option<(usize, usize, Best, bool)> = None;
            for a in 0..parts.len() {
                for b in 0..parts.len() {
                    if a == b {
                        continue;
                    }
                    let (left, right) = (&parts[a], &parts[b]);
                    let tied = cluster.is_tied(left.0, right.0);
                    let left = Part { set: left.0, best: &left.1 };
                    let right = Part { set: right.0, best: &right.1 };
                    let Some(made) = self.pair(cluster, &left, &right) else { continue };
                    let better = found.as_ref().is_none_or(|(_, _, known, of_tied)| {
                        let costs = (made.rows + made.total, known.rows + known.total);
                        (tied, !of_tied) == (true, true) || (tied == *of_tied && costs.0 < costs.1)
                    });
                    if better {
                        found = Some((a, b, made, tied));
                    }
                }
            }
            let (a, b, made, _) = found.expect("a relation is behind those that it reads");
            let set = parts[a].0 | parts[b].0;
            parts.remove(a.max(b));
            parts.remove(a.min(b));
            parts.push((set, made));
        }
        parts.remove(0).1
    }

    /// The cheapest way to join two sets, the right one's rows looked for with the left one's.
    fn pair(&self, cluster: &Cluster, left: &Part<'_>, right: &Part<'_>) -> Option<Best> {
        let (Part { set: left, best: a }, Part { set: right, best: b }) = (*left, *right);
        let rows = cluster.rows(left | right);
        let tree = |method| Tree::Join(Box::new(a.tree.clone()), Box::new(b.tree.clone()), method);
        let needs = cluster.needs(right);
        if cluster.needs(left) != 0 {
            return None;
        }
        if needs != 0 {
            let single = right.count_ones() == 1 && needs & !left == 0;
            let total = a.total + a.rows.max(1.0) * b.total + rows * ROW;
            let startup = a.startup + b.startup;
            return single.then(|| Best { tree: tree(Method::Apply), startup, total, rows });
        }
        let pairs = a.rows * b.rows;
        let total = a.total + b.total + b.rows * ROW + pairs * PAIR;
        let mut best = Best { tree: tree(Method::Loop), startup: a.startup + b.total, total, rows };
        let mut offer = |made: Best| {
            if made.cost(cluster.share) < best.cost(cluster.share) {
                best = made;
            }
        };
        if cluster.equalities(left, right).next().is_some() {
            let total = a.total + b.total + b.rows * BUILD + a.rows * PROBE + rows * ROW;
            let startup = a.startup + b.total + b.rows * BUILD;
            offer(Best { tree: tree(Method::Hash), startup, total, rows });
        }
        if let Some(found) = self.keyed_best(cluster, left, right, a.rows) {
            let total = a.total + found.total + a.rows * PROBE + rows * ROW;
            let startup = a.startup + found.startup;
            offer(Best { tree: tree(Method::Keyed), startup, total, rows });
        }
        Some(best)
    }

    /// What looking up the rows of a table costs for the keys that so many rows have.
    fn keyed_best(&self, cluster: &Cluster, left: u64, right: u64, rows: f64) -> Option<Estimate> {
        if right.count_ones() != 1 {
            return None;
        }
        let leaf = &cluster.leaves[right.trailing_zeros() as usize];
        let side = leaf.scan.as_ref()?;
        let equalities: Vec<Equality> = cluster.equalities(left, right).collect();
        self.keyed(side, &equalities, rows).map(|found| found.estimate)
    }

    /// The index that keys are best looked up in.
    fn keyed(&self, side: &KeyedSide, equalities: &[Equality], rows: f64) -> Option<Lookup> {
        let table = &side.scan.table;
        let scan = bare_scan(table, self.known_statistics(table));
        let column_of = |name: &str| table.info.columns.iter().position(|c| c.name == *name);
        // The equality, if its value can be a key of the column as it is.
        let gives = |column: usize, equality: &Equality| {
            let own = table.types[column];
            let is_column = matches!(equality.sides[1], Expr::Column(id)
                if side.scan.columns.get(column) == Some(&id));
            let fits = |ty: SqlType| ty == own || (is_integer(ty) && is_integer(own));
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
                best = Some(Lookup { index: index.clone(), parts, estimate });
            }
        }
        best
    }

    /// Makes nodes of a tree.
    fn built(
        &mut self,
        tree: Tree,
        cluster: &mut Cluster,
        needed: &BTreeSet<ColumnId>,
    ) -> Result<Lowered> {
        match tree {
            Tree::Leaf(at) => {
                Ok(cluster.leaves[at].lowered.take().expect("each leaf is used once"))
            }
            Tree::Join(left, right, method) => {
                let (of_left, of_right) = (set_of(&left), set_of(&right));
                let rows = cluster.rows(of_left | of_right);
                let left = self.built(*left, cluster, needed)?;
                let right = match (&method, &*right) {
                    (Method::Keyed, Tree::Leaf(at)) => {
                        Side::Keyed(cluster.leaves[*at].scan.clone().expect("it has an index"))
                    }
                    _ => Side::Rows(self.built(*right, cluster, needed)?, method),
                };
                let here = |tie: &mut Tie| {
                    let both = of_left | of_right;
                    tie.of & !both == 0 && tie.of & of_left != 0 && tie.of & of_right != 0
                };
                let ties: Vec<Tie> = cluster.ties.extract_if(.., here).collect();
                let pair = Pair { kind: JoinKind::Inner, left, right, of_left, of_right, rows };
                self.paired(pair, ties, needed)
            }
        }
    }

    /// A join that stays where it is.
    fn outer_join(&mut self, join: Join, want: &Want<'_>) -> Result<Lowered> {
        let Join { kind, left, right, on } = join;
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
        let left = self.lower(
            left,
            &Want { any_order: want.any_order, is_cut: want.is_cut, ..Want::of(&needed) },
        )?;
        let right = self.lower(right, &Want::of(&needed))?;
        let mut ties = Vec::with_capacity(on.len());
        for expr in on {
            let mut named = BTreeSet::new();
            columns_of(&expr, &mut named);
            let equality = equality(&expr, &of);
            ties.push(Tie { of: of(&named), equality, share: UNKNOWN, expr });
        }
        let (a, b) = (left.node.estimate, right.node.estimate);
        let rows = match kind {
            JoinKind::Semi | JoinKind::Anti => (a.rows * 0.5).max(1.0),
            JoinKind::Full => a.rows + b.rows,
            _ => a.rows.max((a.rows * b.rows * EQUAL).min(a.rows * 10.0)),
        };
        let equalities: Vec<Equality> =
            ties.iter().filter_map(|tie| turned(tie.equality.as_ref()?, 1, 2)).collect();
        let lookup = match (&keyed, kind) {
            (Some(side), JoinKind::Left | JoinKind::Semi | JoinKind::Anti) if !dependent => {
                self.keyed(side, &equalities, a.rows).map(|found| found.estimate.total)
            }
            _ => None,
        };
        let by_hash = b.total + b.rows * BUILD;
        let right = match (dependent, equalities.is_empty(), lookup) {
            (true, ..) => Side::Rows(right, Method::Apply),
            (_, _, Some(total)) if equalities.is_empty() || total < by_hash => {
                Side::Keyed(keyed.expect("it was looked up"))
            }
            (_, false, _) => Side::Rows(right, Method::Hash),
            (_, true, _) => Side::Rows(right, Method::Loop),
        };
        let pair = Pair { kind, left, right, of_left: 1, of_right: 2, rows };
        self.paired(pair, ties, &needed)
    }

    /// The node of a join whose conditions are `ties`.
    fn paired(
        &mut self,
        pair: Pair,
        ties: Vec<Tie>,
        needed: &BTreeSet<ColumnId>,
    ) -> Result<Lowered> {
        let Pair { kind, left, right, of_left, of_right, rows } = pair;
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
        let (how, right_layout, b) = match right {
            Side::Keyed(side) => {
                let list: Vec<Equality> = equalities.iter().map(|(one, _)| one.clone()).collect();
                let found = self.keyed(&side, &list, a.rows);
                let Lookup { index, parts, estimate } = found.expect("an index was found before");
                let mut wanted = needed.clone();
                let mut columns = Vec::with_capacity(parts.len());
                for at in &parts {
                    let Expr::Column(id) = list[*at].sides[1] else {
                        unreachable!("a key column is a column")
                    };
                    wanted.insert(id);
                    columns.push(id);
                }
                let (scan, layout) = self.table_scan(side.scan, side.conditions, &wanted)?;
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
                residual.extend(rest);
                (
                    How::Keyed { scan: Box::new(scan), index: Box::new(index), keys },
                    layout,
                    estimate,
                )
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
        residual.iter_mut().try_for_each(|one| self.place(one, &both))?;
        let condition = match residual.len() {
            0 | 1 => residual.pop(),
            _ => Some(Expr::And(residual)),
        };
        let total = match &how {
            How::Loop { .. } => a.total + b.total + a.rows * b.rows * PAIR,
            How::Apply { .. } => a.total + a.rows.max(1.0) * b.total,
            How::Hash { .. } => a.total + b.total + b.rows * BUILD + a.rows * PROBE,
            How::Keyed { .. } => a.total + b.total + a.rows * PROBE,
        };
        let startup = match &how {
            How::Loop { .. } | How::Hash { .. } => a.startup + b.total,
            How::Apply { .. } | How::Keyed { .. } => a.startup + b.startup,
        };
        let layout = if keeps_right { both } else { left.layout };
        let width = a.width + if keeps_right { b.width } else { 0 };
        let estimate = Estimate { startup, total: total + rows * ROW, rows, width };
        let right_width = right_layout.len();
        let join = JoinNode { kind, left: left.node, how, condition, right_width };
        Ok(plain(self.node(Op::Join(Box::new(join)), layout.len(), estimate), layout))
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

/// Two sides of a join.
struct Pair {
    kind: JoinKind,
    left: Lowered,
    right: Side,
    /// The relations of each side.
    of_left: u64,
    of_right: u64,
    rows: f64,
}

/// The right side of a join.
enum Side {
    Rows(Lowered, Method),
    Keyed(KeyedSide),
}

impl Cluster {
    /// One relation by itself.
    fn alone(&self, at: usize) -> Best {
        let Estimate { startup, total, rows, .. } = self.leaves[at].estimate;
        Best { tree: Tree::Leaf(at), startup, total, rows }
    }

    /// Does a condition, or what one reads of the other, tie two sets?
    fn is_tied(&self, left: u64, right: u64) -> bool {
        let both = left | right;
        let ties = |tie: &Tie| tie.of & !both == 0 && tie.of & left != 0 && tie.of & right != 0;
        self.ties.iter().any(ties) || self.needs(right) & left != 0
    }

    /// What relations of a set read of relations that are not in it.
    fn needs(&self, set: u64) -> u64 {
        let of = self.leaves.iter().enumerate().filter(|(at, _)| set & (1 << at) != 0);
        of.fold(0, |all, (_, leaf)| all | leaf.needs) & !set
    }

    /// Rows of a set joined.
    fn rows(&self, set: u64) -> f64 {
        let of = self.leaves.iter().enumerate().filter(|(at, _)| set & (1 << at) != 0);
        let all: f64 = of.map(|(_, leaf)| leaf.estimate.rows.max(1.0)).product();
        let ties = self.ties.iter().filter(|tie| tie.of & !set == 0);
        (all * ties.map(|tie| tie.share).product::<f64>()).max(1.0)
    }

    /// Equalities between two sets, the left one's side first.
    fn equalities(&self, left: u64, right: u64) -> impl Iterator<Item = Equality> {
        self.ties.iter().filter_map(move |tie| turned(tie.equality.as_ref()?, left, right))
    }
}

/// An equality with the side that is of `left` first; `None` if it is not between the two.
fn turned(equality: &Equality, left: u64, right: u64) -> Option<Equality> {
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

/// The two values that a condition says are equal, if equal ones can be found by a hash.
fn equality(expr: &Expr, of: &dyn Fn(&BTreeSet<ColumnId>) -> u64) -> Option<Equality> {
    let Expr::Call(function, args) = expr else { return None };
    let ([a, b], [x, y]) = (args.as_slice(), function.args.as_slice()) else { return None };
    let float = |ty: SqlType| matches!(ty, SqlType::Float4 | SqlType::Float8);
    let alike = x == y || (is_integer(*x) && is_integer(*y)) || (float(*x) && float(*y));
    if function.name != "=" || !alike || has_query(a) || has_query(b) {
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

fn has_query(expr: &Expr) -> bool {
    let mut found = false;
    expr.walk(&mut |inner| found |= matches!(inner, Expr::Subquery(_)));
    found
}

/// The relations of a tree.
fn set_of(tree: &Tree) -> u64 {
    match tree {
        Tree::Leaf(at) => 1 << at,
        Tree::Join(left, right, _) => set_of(left) | set_of(right),
    }
}

/// The relations that inner joins bring together, and all conditions of these.
fn gather(rel: Rel, rels: &mut Vec<Rel>, conditions: &mut Vec<Expr>) {
    match rel {
        Rel::Join(join) if join.kind == JoinKind::Inner => {
            gather(join.left, rels, conditions);
            gather(join.right, rels, conditions);
            conditions.extend(flatten(join.on));
        }
        other => rels.push(other),
    }
}

/// The scan of a relation that keys can be looked up in.
fn keyed_side(rel: &Rel) -> Option<KeyedSide> {
    match rel {
        Rel::Scan(scan) => Some(KeyedSide { scan: (**scan).clone(), conditions: Vec::new() }),
        Rel::Filter { input, conditions } => match &**input {
            Rel::Scan(scan) => {
                Some(KeyedSide { scan: (**scan).clone(), conditions: conditions.clone() })
            }
            _ => None,
        },
        _ => None,
    }
}

/// A scan of a table for what is known about it.
fn bare_scan(
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
