//! A graph of moments, each before others, and the cycles that there must not be.
//!
//! Does not do: what the moments are (`check`).

use std::collections::VecDeque;

/// A moment.
pub(crate) type Node = u32;

/// Why one moment is before another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Because {
    /// A version was replaced by the next one.
    Replaced,
    /// A version was read.
    Read,
    /// A version was not there yet when others were read.
    Missed,
    /// The clients' clock, or the order of one client's statements.
    Clock,
}

/// One moment before another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) from: Node,
    pub(crate) to: Node,
    pub(crate) because: Because,
    /// What was replaced, read or missed; 0 for the clock.
    pub(crate) object: u32,
}

/// Moments and their order.
#[derive(Default)]
pub(crate) struct Graph {
    nodes: u32,
    edges: Vec<Edge>,
}

impl Graph {
    pub(crate) fn node(&mut self) -> Node {
        self.nodes += 1;
        self.nodes - 1
    }

    pub(crate) fn before(&mut self, edge: Edge) {
        if edge.from != edge.to {
            self.edges.push(edge);
        }
    }

    /// A shortest cycle of each part of the graph whose moments are all before each other.
    pub(crate) fn cycles(mut self) -> Vec<Vec<Edge>> {
        self.edges.sort_unstable_by_key(|edge| edge.from);
        let mut starts = vec![0; self.nodes as usize + 1];
        for edge in &self.edges {
            starts[edge.from as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let sorted = Sorted { starts, edges: self.edges };
        let component = sorted.components();
        let mut members: std::collections::BTreeMap<u32, Vec<Node>> =
            std::collections::BTreeMap::new();
        let inside = |edge: &&Edge| component[edge.from as usize] == component[edge.to as usize];
        for edge in sorted.edges.iter().filter(inside) {
            members.entry(component[edge.from as usize]).or_default().push(edge.from);
        }
        members.values().map(|nodes| sorted.shortest_cycle(nodes, &component)).collect()
    }
}

struct Sorted {
    /// Per node where its edges begin.
    starts: Vec<usize>,
    edges: Vec<Edge>,
}

/// Not visited yet.
const NONE: u32 = u32::MAX;

impl Sorted {
    fn leaving(&self, node: Node) -> &[Edge] {
        &self.edges[self.starts[node as usize]..self.starts[node as usize + 1]]
    }

    /// Per node the number of its strongly connected component (Tarjan, without recursion).
    fn components(&self) -> Vec<u32> {
        let count = self.starts.len() - 1;
        let (mut index, mut low) = (vec![NONE; count], vec![0; count]);
        let (mut component, mut open) = (vec![NONE; count], Vec::new());
        let (mut next, mut components) = (0, 0);
        let mut calls: Vec<(Node, usize)> = Vec::new();
        for root in 0..count as u32 {
            if index[root as usize] != NONE {
                continue;
            }
            calls.push((root, 0));
            while let Some((node, at)) = calls.pop() {
                let this = node as usize;
                if at == 0 {
                    (index[this], low[this]) = (next, next);
                    next += 1;
                    open.push(node);
                }
                let edges = self.leaving(node);
                if let Some(before) = at.checked_sub(1) {
                    let child = edges[before].to as usize;
                    if component[child] == NONE {
                        low[this] = low[this].min(low[child]);
                    }
                }
                if let Some(edge) = edges.get(at) {
                    calls.push((node, at + 1));
                    if index[edge.to as usize] == NONE {
                        calls.push((edge.to, 0));
                    }
                    continue;
                }
                if low[this] == index[this] {
                    while let Some(member) = open.pop() {
                        component[member as usize] = components;
                        if member == node {
                            break;
                        }
                    }
                    components += 1;
                }
            }
        }
        component
    }

    /// A shortest cycle through one of some `nodes` of a component.
    fn shortest_cycle(&self, nodes: &[Node], component: &[u32]) -> Vec<Edge> {
        // A few starts do: each is on a cycle.
        let all = nodes.iter().take(50).map(|node| self.cycle_through(*node, component));
        all.min_by_key(Vec::len).expect("a component has nodes")
    }

    fn cycle_through(&self, start: Node, component: &[u32]) -> Vec<Edge> {
        let mut came: std::collections::HashMap<Node, Edge> = std::collections::HashMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for edge in self.leaving(node) {
                if component[edge.to as usize] != component[start as usize] {
                    continue;
                }
                if edge.to == start {
                    let mut cycle = vec![*edge];
                    let mut at = node;
                    while at != start {
                        let edge = came[&at];
                        cycle.push(edge);
                        at = edge.from;
                    }
                    cycle.reverse();
                    return cycle;
                }
                if let std::collections::hash_map::Entry::Vacant(vacant) = came.entry(edge.to) {
                    vacant.insert(*edge);
                    queue.push_back(edge.to);
                }
            }
        }
        unreachable!("each node of a component is on a cycle")
    }
}
