//! Which plan an execution of a prepared statement runs by: the generic one, which is right on the
//! whole, or a custom one, which is made for the values of its parameters.
//!
//! As in PostgreSQL, the first five executions have custom plans. Then the generic plan is taken if
//! it is thought to cost less than custom ones did on average, their planning included.
//! `plan_cache_mode` says otherwise.
//!
//! Invariants: a statement whose plan values cannot change has no custom plans.
//! Does not do: paths of one table that is changed, which are always chosen by the values.

use rightlink_env::sync::{Arc, Mutex};

use crate::plan::{Plan, custom};
use crate::settings::Settings;
use crate::settings::planner::PlanCacheMode;
use crate::types::Datum;

/// Executions that have custom plans before the generic one is considered.
const FIRST: u64 = 5;

/// What was seen of the custom plans of a prepared statement.
#[derive(Default)]
pub(super) struct Customs(Mutex<Costs>);

#[derive(Default)]
struct Costs {
    /// How many there were.
    count: u64,
    /// What they were thought to cost.
    total: f64,
}

impl Customs {
    /// The plan for an execution with these values.
    pub(super) fn choose(
        &self,
        generic: Arc<Plan>,
        params: &[Datum],
        settings: &Settings,
    ) -> Arc<Plan> {
        if !custom::depends_on_values(&generic) {
            return generic;
        }
        let mode = settings.often().plan_cache_mode;
        let takes_generic = match mode {
            PlanCacheMode::Auto => self.takes_generic(&generic),
            PlanCacheMode::Generic => true,
            PlanCacheMode::Custom => false,
        };
        if takes_generic {
            return generic;
        }
        let Some(custom) = custom::settle(&generic, params) else { return generic };
        if let Some(cost) = custom::cost(&custom) {
            let mut costs = self.0.lock();
            costs.count += 1;
            costs.total += cost + custom::planning_cost(&custom);
        }
        Arc::new(custom)
    }

    /// How many custom plans there were.
    pub(super) fn count(&self) -> u64 {
        self.0.lock().count
    }

    fn takes_generic(&self, generic: &Plan) -> bool {
        let costs = self.0.lock();
        let average = costs.total / costs.count.max(1) as f64;
        costs.count >= FIRST && custom::cost(generic).is_some_and(|cost| cost < average)
    }
}

#[cfg(test)]
mod tests {
    use crate::Session;

    /// A table in which one value of `a` is common and the others are rare.
    fn session(db: &rightlink::Database) -> Session {
        let mut session = Session::new(db);
        session
            .execute(
                "create table t (a int, b int, c text); \
                 insert into t select case when g % 10 < 9 then 0 else g end, g, repeat('x', 60) \
                     from generate_series(1, 20000) g; \
                 create index t_a on t (a); create index t_b on t (b); analyze t",
            )
            .unwrap();
        session
    }

    /// Runs a prepared statement: how many custom plans it has had.
    fn run(session: &mut Session, name: &str, value: i32) -> u64 {
        session.execute(&format!("execute {name} ({value})")).unwrap();
        session.prepared[name].customs.0.lock().count
    }

    #[test]
    fn five_custom_plans_come_before_a_generic_one_that_is_as_good() {
        let dir = tempfile::tempdir().unwrap();
        let db = rightlink::Database::open(dir.path()).unwrap();
        let mut session = session(&db);
        session.execute("prepare p as select c from t where b = $1").unwrap();
        let counts: Vec<u64> = (1..9).map(|value| run(&mut session, "p", value)).collect();
        assert_eq!(counts, [1, 2, 3, 4, 5, 5, 5, 5]);
        // A few rows cost far less than the generic plan thinks of a range.
        session.execute("prepare q as select c from t where b > $1").unwrap();
        let counts: Vec<u64> = (1..9).map(|at| run(&mut session, "q", 19_980 + at)).collect();
        assert_eq!(counts, [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn a_setting_decides_for_one_kind() {
        let dir = tempfile::tempdir().unwrap();
        let db = rightlink::Database::open(dir.path()).unwrap();
        let mut session = session(&db);
        session.execute("prepare p as select c from t where b = $1").unwrap();
        session.execute("set plan_cache_mode = force_generic_plan").unwrap();
        assert_eq!((run(&mut session, "p", 1), run(&mut session, "p", 2)), (0, 0));
        session.execute("set plan_cache_mode = force_custom_plan").unwrap();
        let counts: Vec<u64> = (1..9).map(|value| run(&mut session, "p", value)).collect();
        assert_eq!(counts, [1, 2, 3, 4, 5, 6, 7, 8]);
        session.execute("reset plan_cache_mode").unwrap();
        assert_eq!(run(&mut session, "p", 3), 8);
    }

    #[test]
    fn a_plan_by_a_whole_unique_key_is_never_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let db = rightlink::Database::open(dir.path()).unwrap();
        let mut session = session(&db);
        session.execute("create table k (id int primary key, v int)").unwrap();
        session
            .execute("insert into k select g, g from generate_series(1, 5000) g; analyze k")
            .unwrap();
        session.execute("prepare p as select v from k where id = $1").unwrap();
        session.execute("set plan_cache_mode = force_custom_plan").unwrap();
        assert_eq!(run(&mut session, "p", 1), 0);
    }
}
