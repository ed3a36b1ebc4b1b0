//! What a client has told the planner: operators, the order of joins, plans for values.
//!
//! Invariants: a statement can be planned whatever is switched off: what is switched off costs
//! [`DISABLED`] more, and is chosen where nothing else is left.
//! Does not do: reading settings (`super`).

/// What an operator costs beyond its own cost where it is switched off, as in PostgreSQL.
pub(crate) const DISABLED: f64 = 1e10;
/// Relations whose order of joins is chosen together, at most.
pub(crate) const MOST_TOGETHER: usize = 40;

/// Operators that may be chosen, and bounds on the order of joins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Switches {
    pub(crate) seqscan: bool,
    pub(crate) indexscan: bool,
    pub(crate) indexonlyscan: bool,
    pub(crate) nestloop: bool,
    pub(crate) hashjoin: bool,
    pub(crate) sort: bool,
    pub(crate) incremental_sort: bool,
    /// Relations that JOIN brings together, up to which their order is chosen.
    pub(crate) join_collapse: usize,
    /// The same for relations that stand beside each other in FROM.
    pub(crate) from_collapse: usize,
}

impl Switches {
    /// All operators, all orders.
    pub(crate) const ALL: Switches = Switches {
        seqscan: true,
        indexscan: true,
        indexonlyscan: true,
        nestloop: true,
        hashjoin: true,
        sort: true,
        incremental_sort: true,
        join_collapse: MOST_TOGETHER,
        from_collapse: MOST_TOGETHER,
    };

    /// May rows be looked up by an index for those of another relation? It is what a nested loop
    /// over an index scan is in PostgreSQL.
    pub(crate) fn keyed_join(&self) -> bool {
        self.nestloop && self.indexscan
    }
}

impl Default for Switches {
    fn default() -> Switches {
        Switches::ALL
    }
}

/// What is added to a cost.
pub(crate) fn penalty(is_allowed: bool) -> f64 {
    if is_allowed { 0.0 } else { DISABLED }
}

/// Which plans prepared statements run by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PlanCacheMode {
    /// Those that are thought to cost less.
    Auto,
    Generic,
    Custom,
}

impl PlanCacheMode {
    /// The values of the setting.
    pub(crate) const NAMES: &[&str] = &["auto", "force_generic_plan", "force_custom_plan"];

    pub(crate) fn named(name: &str) -> PlanCacheMode {
        match name {
            "force_generic_plan" => PlanCacheMode::Generic,
            "force_custom_plan" => PlanCacheMode::Custom,
            _ => PlanCacheMode::Auto,
        }
    }
}
