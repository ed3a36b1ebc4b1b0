//! In which order relations are joined.
//!
//! Relations that inner joins bring together are joined in the cheapest order: of up to
//! [`MAX_EXHAUSTIVE`] by dynamic programming over their subsets, beyond that by always joining the
//! cheapest pair. A relation that reads columns of others is joined behind them. Outer, semi and
//! anti joins stay where they are written.
//!
//! Where an order is wanted that an index of one relation has, the rows of that relation come first
//! and all others are looked up by indexes, if that costs less than a sort.
//!
//! Invariants: each condition is asked once, at the first join that has all of its columns.
//! Does not do: an order that sides further to the right have.
//!
//! Selinger et al., Access Path Selection in a Relational Database Management System, 1979.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Result;
use crate::expr::{ColumnId, Expr, columns_of};
use crate::plan::join::{
    BUILD, EQUAL, Equality, KeyedSide, Method, PAIR, PROBE, Pair, ROW, Side, Tie, UNKNOWN,
    bare_scan, equality, is_keyed_table, keyed_side, turned,
};
use crate::plan::lower::{Lowered, Lowerer, Want};
use crate::plan::model::Model;
use crate::plan::node::Estimate;
use crate::plan::path;
use crate::plan::rel::{Join, JoinKind, Rel};
use crate::plan::term::flatten;
use crate::settings::planner::{MOST_TOGETHER, Switches, penalty};

/// Relations up to which all orders are looked at.
const MAX_EXHAUSTIVE: usize = 10;

/// A relation of a join of several.
struct Leaf {
    lowered: Option<Lowered>,
    estimate: Estimate,
    /// If it is rows of a table, for lookups by key: the scan and its conditions.
    scan: Option<KeyedSide>,
    /// The others whose columns it reads.
    needs: u64,
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
    /// The columns that are asked for beyond those that conditions name.
    wanted: BTreeSet<ColumnId>,
    /// The share of the result that is wanted.
    share: f64,
    /// Do the rows come in the order of the first relation?
    keeps_order: bool,
}

/// A relation whose rows come in the order that is wanted of all.
struct First {
    at: usize,
    lowered: Lowered,
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
        let switches = self.known.switches();
        gather_sides(join, &switches, &mut rels, &mut conditions);
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
        let mut wanted = want.needed.clone();
        rels.iter().for_each(|rel| wanted.extend(rel.free()));
        let mut needed = wanted.clone();
        conditions.iter().for_each(|one| columns_of(one, &mut needed));
        let first = self.first(&rels, &owners, &needed, want)?;
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
            let equality = equality(&expr, &of, false);
            let share = self.share(&expr, equality.as_ref(), &leaves);
            ties.push(Tie { of: of(&named), equality, share, expr });
        }
        let mut cluster = Cluster { leaves, ties, wanted, share: 1.0, keeps_order: false };
        let all = (1u64 << cluster.leaves.len()) - 1;
        let rows = cluster.rows(all);
        let share = want.limit.map_or(1.0, |limit| (limit / rows).clamp(0.0, 1.0));
        if want.order.is_empty() {
            cluster.share = share;
        }
        let mut best = match cluster.leaves.len() <= MAX_EXHAUSTIVE {
            true => self.exhaustive(&cluster),
            false => self.greedy(&cluster),
        };
        if let Some(First { at, lowered }) = first
            && let Some(chain) = self.chain(&cluster, at, &lowered.node.estimate)
            && chain.cost(share) < best.total + path::sort_cost(rows) + penalty(switches.sort)
        {
            cluster.leaves[at].lowered = Some(lowered);
            cluster.keeps_order = true;
            best = chain;
        }
        self.built(best.tree, &mut cluster, &needed)
    }

    /// The relation that all columns of the wanted order are of, if its rows can come in that
    /// order.
    fn first(
        &mut self,
        rels: &[Rel],
        owners: &[BTreeSet<ColumnId>],
        needed: &BTreeSet<ColumnId>,
        want: &Want<'_>,
    ) -> Result<Option<First>> {
        if want.order.is_empty() || want.asks_all || !self.known.switches().keyed_join() {
            return Ok(None);
        }
        let has_all = |own: &BTreeSet<ColumnId>| want.order.iter().all(|key| own.contains(&key.at));
        let Some(at) = owners.iter().position(has_all) else { return Ok(None) };
        if !is_keyed_table(&rels[at]) || !rels[at].free().is_empty() {
            return Ok(None);
        }
        let want = Want { order: want.order, limit: want.limit, is_cut: true, ..Want::of(needed) };
        let lowered = self.lower(rels[at].clone(), &want)?;
        Ok(lowered.ordered.then_some(First { at, lowered }))
    }

    /// The cheapest way to look up the rows of all other relations by indexes, one relation behind
    /// the other; it has the order of the first one.
    fn chain(&self, cluster: &Cluster, first: usize, estimate: &Estimate) -> Option<Best> {
        let Estimate { startup, total, rows, .. } = *estimate;
        let mut best = Best { tree: Tree::Leaf(first), startup, total, rows };
        let mut set = 1u64 << first;
        for _ in 1..cluster.leaves.len() {
            let mut next: Option<(u64, Best)> = None;
            for at in 0..cluster.leaves.len() {
                let one = 1u64 << at;
                if set & one != 0 || cluster.needs(one) != 0 {
                    continue;
                }
                let Some(found) = self.keyed_best(cluster, set, one, best.rows) else { continue };
                let rows = cluster.rows(set | one);
                let total = best.total + found.total + best.rows * PROBE + rows * ROW;
                if next.as_ref().is_none_or(|(_, known)| total < known.total) {
                    let (left, right) = (Box::new(best.tree.clone()), Box::new(Tree::Leaf(at)));
                    let tree = Tree::Join(left, right, Method::Keyed);
                    let startup = best.startup + found.startup;
                    next = Some((one, Best { tree, startup, total, rows }));
                }
            }
            let (one, made) = next?;
            (set, best) = (set | one, made);
        }
        Some(best)
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
        if let Some(values) = self.made_values.get(id) {
            return Some(*values);
        }
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

    /// Rows of the right side that a row of the left one meets by these equalities, if one of them
    /// is about a relation that is made up.
    pub(super) fn partners(&self, equalities: &[Equality], rows: f64) -> Option<f64> {
        let known = |one: &Equality| match &one.sides[1] {
            Expr::Column(id) => self.made_values.get(id).copied(),
            _ => None,
        };
        let values = equalities.iter().filter_map(known).reduce(f64::max)?;
        Some(rows / values)
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
        let switches = self.known.switches();
        let total = a.total + b.total + b.rows * ROW + pairs * PAIR + penalty(switches.nestloop);
        let mut best = Best { tree: tree(Method::Loop), startup: a.startup + b.total, total, rows };
        let mut offer = |made: Best| {
            if made.cost(cluster.share) < best.cost(cluster.share) {
                best = made;
            }
        };
        if cluster.equalities(left, right).next().is_some() {
            let total = a.total
                + b.total
                + b.rows * BUILD
                + a.rows * PROBE
                + rows * ROW
                + penalty(switches.hashjoin);
            let startup = a.startup + b.total + b.rows * BUILD;
            offer(Best { tree: tree(Method::Hash), startup, total, rows });
        }
        if let Some(found) = self.keyed_best(cluster, left, right, a.rows) {
            let total = a.total
                + found.total
                + a.rows * PROBE
                + rows * ROW
                + penalty(switches.keyed_join());
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
                let (kind, keeps_order) = (JoinKind::Inner, cluster.keeps_order);
                let mut above = cluster.wanted.clone();
                cluster.ties.iter().for_each(|tie| columns_of(&tie.expr, &mut above));
                let pair = Pair { kind, left, right, of_left, of_right, rows, keeps_order };
                self.paired(pair, ties, needed, &above)
            }
        }
    }
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

/// The relations of a tree.
fn set_of(tree: &Tree) -> u64 {
    match tree {
        Tree::Leaf(at) => 1 << at,
        Tree::Join(left, right, _) => set_of(left) | set_of(right),
    }
}

/// The relations that inner joins bring together, and all conditions of these. A side that would
/// make them too many to be ordered together stays one relation.
fn gather(rel: Rel, switches: &Switches, rels: &mut Vec<Rel>, conditions: &mut Vec<Expr>) {
    match rel {
        Rel::Join(join) if join.kind == JoinKind::Inner => {
            gather_sides(*join, switches, rels, conditions);
        }
        other => rels.push(other),
    }
}

fn gather_sides(join: Join, switches: &Switches, rels: &mut Vec<Rel>, conditions: &mut Vec<Expr>) {
    let sides = Sides::of(&join, switches);
    match sides.left_is_one {
        true => rels.push(join.left),
        false => gather(join.left, switches, rels, conditions),
    }
    match sides.right_is_one {
        true => rels.push(join.right),
        false => gather(join.right, switches, rels, conditions),
    }
    conditions.extend(flatten(join.on));
}

/// Which sides of an inner join are ordered by themselves.
struct Sides {
    left_is_one: bool,
    right_is_one: bool,
    /// Relations that are ordered together.
    count: usize,
}

impl Sides {
    fn of(join: &Join, switches: &Switches) -> Sides {
        let (left, right) = (count(&join.left, switches), count(&join.right, switches));
        let most = if join.is_list { switches.from_collapse } else { switches.join_collapse };
        let fits = left + right <= most.max(2);
        // A list in FROM is ordered together whatever its length, as in PostgreSQL.
        let is_list = join.is_list && left + right.min(1) <= MOST_TOGETHER;
        let left_is_one = !fits && !is_list;
        let right_is_one = !fits && (right > 1 || !join.is_list);
        let of_left = if left_is_one { 1 } else { left };
        let of_right = if right_is_one { 1 } else { right };
        Sides { left_is_one, right_is_one, count: of_left + of_right }
    }
}

/// Relations that a relation brings into the order of a join.
fn count(rel: &Rel, switches: &Switches) -> usize {
    match rel {
        Rel::Join(join) if join.kind == JoinKind::Inner => Sides::of(join, switches).count,
        _ => 1,
    }
}
