//! SET, SHOW, RESET, `pg_settings`: the settings that clients ask for.
//!
//! Invariants: a value is checked when it is set; a setting whose other values are not built
//! refuses them. What a transaction set is undone with it, SET LOCAL at its end in any case.
//! Does not do: settings of the server's files.

mod about;
mod custom;
mod list;
pub(crate) mod planner;
mod shown;
mod zone;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use rightlink_env::sync::{Arc, Mutex};

use crate::encoding::Encoding;
use crate::error::{Result, SqlError, code};
use crate::names::SearchPath;
use crate::parse::modes::{Level, TransactionModes};
use crate::types::time::{DateSetting, IntervalStyle, Styles, Zone};
pub(crate) use shown::Shown;

use list::{Kind, REPORTED, SETTINGS, Setting};
use planner::{MOST_TOGETHER, PlanCacheMode, Switches};

/// What clients take for the server's version.
pub(crate) const VERSION: &str = "15.18";
/// The user of a session that is no client of a server, and the owner of everything.
pub(crate) const USER: &str = "rightlink";

/// The settings of a session. Clones are the same settings.
#[derive(Clone, Default)]
pub(crate) struct Settings(Arc<Mutex<State>>);

/// What every statement asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Often {
    pub(crate) modes: TransactionModes,
    /// Is a commit not waited for?
    pub(crate) relaxed: bool,
    /// In milliseconds, none for never.
    pub(crate) lock_timeout: Option<u64>,
    pub(crate) statement_timeout: Option<u64>,
    /// Are index pages that a statement writes to read ahead?
    pub(crate) insert_prefetch: bool,
    /// Are pages of the table ahead of an index scan?
    pub(crate) scan_prefetch: bool,
    /// Most reads at once that somebody asked for.
    pub(crate) concurrency: Option<u32>,
    /// Most rows that operators hand on at a time, where somebody asked for fewer than they do.
    pub(crate) batch_rows: Option<usize>,
    /// What the planner may choose.
    pub(crate) switches: Switches,
    pub(crate) plan_cache_mode: PlanCacheMode,
    /// Do statements run as the user who has logged in?
    pub(crate) as_login: bool,
}

/// As whom statements run, where that is not the user who has logged in.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Identity {
    /// SET SESSION AUTHORIZATION
    pub(crate) session: Option<Arc<str>>,
    /// SET ROLE
    pub(crate) role: Option<Arc<str>>,
}

/// What a statement's plan depends on beside its text and its tables.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Planning {
    /// Where names without a schema are looked for.
    pub(crate) path: Arc<SearchPath>,
    pub(crate) switches: Switches,
    /// What constants that are dates and times were read by.
    pub(crate) styles: Styles,
}

const OFTEN: Often = Often {
    modes: TransactionModes::DEFAULT,
    relaxed: false,
    lock_timeout: None,
    statement_timeout: None,
    insert_prefetch: true,
    scan_prefetch: true,
    concurrency: None,
    batch_rows: None,
    switches: Switches::ALL,
    plan_cache_mode: PlanCacheMode::Auto,
    as_login: true,
};

/// Values by the names of their settings. Copies share them until one of them changes.
type Values = Arc<BTreeMap<Cow<'static, str>, String>>;

/// The values at a savepoint.
pub(crate) struct Mark {
    values: Values,
    local: Values,
}

/// Values that differ from their defaults.
struct State {
    /// Grows with every change.
    changes: u64,
    /// How the database was opened.
    opened: BTreeMap<&'static str, String>,
    /// What the client asked for when it connected: what RESET returns to.
    startup: Values,
    values: Values,
    /// Until the end of the transaction.
    local: Values,
    /// As they were before the transaction's first change.
    before: Option<Values>,
    /// Settings of applications that had a value once.
    custom: BTreeSet<String>,
    often: Often,
    /// The schema of temporary tables, and how often something was made in it.
    temporary: Option<(String, u64)>,
    /// As it is now: the same one until something of it changes.
    planning: Arc<Planning>,
    identity: Arc<Identity>,
}

impl Default for State {
    fn default() -> State {
        let (opened, startup) = (BTreeMap::new(), Values::default());
        let (values, local, custom) = (Values::default(), Values::default(), BTreeSet::new());
        let (before, often) = (None, OFTEN);
        let (path, switches, styles) = (Arc::default(), often.switches, Styles::default());
        let planning = Arc::new(Planning { path, switches, styles });
        let (temporary, identity) = (None, Arc::default());
        State {
            changes: 0,
            opened,
            startup,
            values,
            local,
            before,
            custom,
            often,
            temporary,
            planning,
            identity,
        }
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Settings")
    }
}

/// What the running transaction says of a setting that is its own.
fn of_transaction(modes: TransactionModes, name: &str) -> Option<&'static str> {
    let switch = |on: bool| Some(if on { "on" } else { "off" });
    match name {
        "transaction_isolation" => Some(modes.level.name()),
        "transaction_read_only" => switch(modes.read_only),
        "transaction_deferrable" => switch(modes.deferrable),
        _ => None,
    }
}

fn find(name: &str) -> Result<&'static Setting> {
    let lower = name.to_ascii_lowercase();
    SETTINGS.iter().find(|setting| setting.name == lower).ok_or_else(|| {
        let message = format!("unrecognized configuration parameter \"{name}\"");
        SqlError::new(code::UNDEFINED_OBJECT, message)
    })
}

impl State {
    fn get(&self, name: &str) -> String {
        let own = self.local.get(name).or_else(|| self.values.get(name)).cloned();
        own.unwrap_or_else(|| self.reset(name))
    }

    /// What RESET sets.
    fn reset(&self, name: &str) -> String {
        let given = self.startup.get(name).or_else(|| self.opened.get(name)).cloned();
        let default = || find(name).map_or(String::new(), |setting| setting.default.to_owned());
        given.unwrap_or_else(default)
    }

    /// Where the value in force comes from, in PostgreSQL's words.
    fn source(&self, name: &str) -> &'static str {
        if self.local.contains_key(name) || self.values.contains_key(name) {
            "session"
        } else if self.startup.contains_key(name) {
            "client"
        } else if self.opened.contains_key(name) {
            "override"
        } else {
            "default"
        }
    }

    /// A number that somebody has set.
    fn asked(&self, name: &str) -> Option<u64> {
        let values = [&self.local, &self.values, &self.startup];
        values.into_iter().find_map(|values| values.get(name))?.parse().ok()
    }

    fn millis(&self, name: &str) -> Option<u64> {
        self.get(name).parse().ok().filter(|millis| *millis > 0)
    }

    /// The values have changed.
    fn changed(&mut self) {
        self.changes += 1;
        let is_on = |name: &str| self.get(name) != "off";
        let together = |name: &str| {
            let asked = self.asked(name).and_then(|most| usize::try_from(most).ok());
            asked.map_or(MOST_TOGETHER, |most| most.min(MOST_TOGETHER))
        };
        let switches = Switches {
            seqscan: is_on("enable_seqscan"),
            indexscan: is_on("enable_indexscan"),
            indexonlyscan: is_on("enable_indexonlyscan"),
            nestloop: is_on("enable_nestloop"),
            hashjoin: is_on("enable_hashjoin"),
            sort: is_on("enable_sort"),
            incremental_sort: is_on("enable_incremental_sort"),
            join_collapse: together("join_collapse_limit"),
            from_collapse: together("from_collapse_limit"),
        };
        let level = self.get("default_transaction_isolation");
        self.often = Often {
            modes: TransactionModes {
                level: Level::named(&level).unwrap_or(OFTEN.modes.level),
                read_only: self.get("default_transaction_read_only") == "on",
                deferrable: self.get("default_transaction_deferrable") == "on",
            },
            relaxed: self.get("synchronous_commit") == "off",
            lock_timeout: self.millis("lock_timeout"),
            statement_timeout: self.millis("statement_timeout"),
            insert_prefetch: self.get("enable_insert_prefetch") == "on",
            scan_prefetch: self.get("enable_indexscan_prefetch") != "off",
            concurrency: self
                .asked("effective_io_concurrency")
                .map(|most| u32::try_from(most).unwrap_or(1).max(1)),
            batch_rows: self.asked("batch_rows").and_then(|rows| usize::try_from(rows).ok()),
            switches,
            plan_cache_mode: PlanCacheMode::named(&self.get("plan_cache_mode")),
            as_login: true,
        };
        let path = SearchPath::parse(&self.get("search_path")).unwrap_or_default();
        let path = match &self.temporary {
            Some((schema, made)) => path.with_temporary(schema, *made),
            None => path,
        };
        let mut planning = Planning::clone(&self.planning);
        if path != *planning.path {
            planning.path = Arc::new(path);
        }
        planning.switches = switches;
        let (dates, styles) = (DateSetting::of(&self.get("datestyle")), &mut planning.styles);
        (styles.dates, styles.order) = (dates.style, dates.order);
        styles.intervals = IntervalStyle::named(&self.get("intervalstyle"));
        let zone = self.get("timezone");
        if zone != styles.zone.name() {
            styles.zone = Arc::new(Zone::named(&zone).unwrap_or_default());
        }
        if planning != *self.planning {
            self.planning = Arc::new(planning);
        }
        let role = self.get("role");
        let identity = Identity {
            session: self.set_value("session_authorization").map(Arc::from),
            role: (role != "none").then(|| role.into()),
        };
        self.often.as_login = identity.session.is_none() && identity.role.is_none();
        if identity != *self.identity {
            self.identity = Arc::new(identity);
        }
    }

    /// What somebody has set, and not only as the default.
    fn set_value(&self, name: &str) -> Option<&str> {
        let own = [&self.local, &self.values].into_iter().find_map(|values| values.get(name));
        own.map(String::as_str)
    }

    /// The name and the value of a setting as they are kept.
    fn checked(
        &self,
        name: &str,
        value: Option<&[String]>,
    ) -> Result<(Cow<'static, str>, Option<String>)> {
        if let Some(name) = custom::name(name)? {
            let value = value.map(|parts| custom::value(&name, parts)).transpose()?;
            return Ok((Cow::Owned(name), value));
        }
        let setting = find(name)?;
        let value = value.map(|parts| self.check(setting, &parts.join(", "))).transpose()?;
        Ok((Cow::Borrowed(setting.name), value))
    }

    /// A value of a setting as it is kept, if it is one.
    fn check(&self, setting: &Setting, value: &str) -> Result<String> {
        match setting.kind {
            Kind::Dates => {
                let before = DateSetting::of(&self.get(setting.name));
                let reset = DateSetting::of(&self.reset(setting.name));
                DateSetting::parse(value, before, reset).map(DateSetting::shown)
            }
            _ => check(setting, value),
        }
    }

    /// Keeps the values as they were before the transaction's first change.
    fn remember(&mut self) {
        if self.before.is_none() {
            self.before = Some(Arc::clone(&self.values));
        }
    }

    fn forget_local(&mut self) {
        if !self.local.is_empty() {
            self.local = Values::default();
            self.changed();
        }
    }
}

impl Settings {
    /// The value in force of a setting that exists.
    pub(crate) fn get(&self, name: &str) -> String {
        self.0.lock().get(name)
    }

    /// Is a message of this severity told to the client?
    pub(crate) fn is_told(&self, severity: &str) -> bool {
        list::is_told(severity, &self.get("client_min_messages"))
    }

    /// What every statement asks for.
    pub(crate) fn often(&self) -> Often {
        self.0.lock().often
    }

    /// Where names without a schema are looked for.
    pub(crate) fn path(&self) -> Arc<SearchPath> {
        Arc::clone(&self.0.lock().planning.path)
    }

    /// As whom statements run.
    pub(crate) fn identity(&self) -> Arc<Identity> {
        Arc::clone(&self.0.lock().identity)
    }

    /// Whether the role as which statements run may do everything.
    pub(crate) fn runs_as_superuser(&self, is_superuser: bool) {
        let mut state = self.0.lock();
        let value = if is_superuser { "on" } else { "off" };
        if state.get("is_superuser") != value {
            state.opened.insert("is_superuser", value.to_owned());
            state.changed();
        }
    }

    /// What the plans of statements depend on.
    pub(crate) fn planning(&self) -> Arc<Planning> {
        Arc::clone(&self.0.lock().planning)
    }

    /// The session has a schema of temporary tables, and may have made something in it just now.
    pub(crate) fn put_temporary(&self, schema: &str) {
        let mut state = self.0.lock();
        let made = state.temporary.as_ref().map_or(0, |(_, made)| made + 1);
        state.temporary = Some((schema.to_owned(), made));
        state.changed();
    }

    /// The zone and the styles of dates and times.
    pub(crate) fn styles(&self) -> Styles {
        self.0.lock().planning.styles.clone()
    }

    pub(crate) fn client_encoding(&self) -> Encoding {
        Encoding::named(&self.get("client_encoding")).expect("it was checked when it was set")
    }

    /// A time in milliseconds, none for zero.
    pub(crate) fn millis(&self, name: &str) -> Option<u64> {
        self.0.lock().millis(name)
    }

    /// Most reads at once of the pages of a table, for a scan by an index or of all of it; `None`
    /// where the device decides.
    pub(crate) fn read_ahead(&self, by_index: bool) -> Option<u32> {
        let often = self.often();
        if by_index && !often.scan_prefetch { Some(1) } else { often.concurrency }
    }

    /// Bytes that a sort or the groups of a statement may take of the `share` that they would.
    pub(crate) fn work_memory(&self, share: usize) -> usize {
        let asked = self.0.lock().asked("work_mem");
        let bytes = asked.map(|kilobytes| usize::try_from(kilobytes << 10).unwrap_or(usize::MAX));
        bytes.map_or(share, |bytes| bytes.min(share))
    }

    /// What the session is told of how the database was opened.
    pub(crate) fn opened(&self, method: &str, depth: u32) {
        let mut state = self.0.lock();
        state.opened.insert("io_method", method.to_owned());
        state.opened.insert("effective_io_concurrency", depth.min(1_000).to_string());
    }

    /// As whom the client has logged in.
    pub(crate) fn logged_in(&self, user: &str) {
        let mut state = self.0.lock();
        state.opened.insert("session_authorization", user.to_owned());
        state.changed();
    }

    pub(crate) fn show(&self, name: &str) -> Result<String> {
        if let Some(value) = self.0.lock().custom_value(name) {
            return Ok(value);
        }
        let setting = find(name)?;
        let value = self.get(setting.name);
        Ok(match setting.kind {
            Kind::Millis(_) => with_unit(&value, &TIMES),
            Kind::Memory(_) => with_unit(&value, &SIZES),
            _ => value,
        })
    }

    /// As [`Settings::show`] in a transaction of this level that only reads or does not.
    pub(crate) fn show_in(&self, modes: TransactionModes, name: &str) -> Result<String> {
        let of_transaction = of_transaction(modes, &name.to_ascii_lowercase());
        of_transaction.map_or_else(|| self.show(name), |value| Ok(value.to_owned()))
    }

    /// Sets a value, `None` for the default.
    pub(crate) fn set(&self, name: &str, value: Option<&[String]>, local: bool) -> Result<()> {
        let mut state = self.0.lock();
        let (name, value) = state.checked(name, value)?;
        if let Cow::Owned(custom) = &name {
            state.admit(custom, value.as_deref())?;
        }
        if local {
            let value = value.unwrap_or_else(|| state.reset(&name));
            Arc::make_mut(&mut state.local).insert(name, value);
        } else {
            state.remember();
            Arc::make_mut(&mut state.local).remove(&name);
            let values = Arc::make_mut(&mut state.values);
            match value {
                Some(value) => values.insert(name, value),
                None => values.remove(&name),
            };
        }
        state.changed();
        Ok(())
    }

    /// A value of a setting as it would be kept.
    ///
    /// # Errors
    /// As of [`Settings::set`].
    pub(crate) fn checked(&self, name: &str, value: &[String]) -> Result<String> {
        let (name, checked) = self.0.lock().checked(name, Some(value))?;
        // A unit is told back as it was written.
        let has_unit =
            find(&name).is_ok_and(|one| matches!(one.kind, Kind::Millis(_) | Kind::Memory(_)));
        Ok(checked.filter(|_| !has_unit).unwrap_or_else(|| value.join(", ")))
    }

    /// Nothing is set any more of as whom statements run.
    pub(crate) fn reset_identity(&self) {
        let mut state = self.0.lock();
        state.remember();
        for name in ["role", "session_authorization"] {
            Arc::make_mut(&mut state.values).remove(name);
            Arc::make_mut(&mut state.local).remove(name);
        }
        state.changed();
    }

    /// Sets what RESET returns to.
    pub(crate) fn set_at_start(&self, name: &str, value: &str) -> Result<()> {
        let mut state = self.0.lock();
        let (name, value) = state.checked(name, Some(&[value.to_owned()]))?;
        if let Cow::Owned(custom) = &name {
            state.admit(custom, value.as_deref())?;
        }
        Arc::make_mut(&mut state.startup).extend(value.map(|value| (name, value)));
        state.changed();
        Ok(())
    }

    /// RESET ALL, which does not change as whom statements run.
    pub(crate) fn reset_all(&self) {
        let mut state = self.0.lock();
        state.remember();
        let is_kept = |name: &str| matches!(name, "role" | "session_authorization");
        Arc::make_mut(&mut state.values).retain(|name, _| is_kept(name));
        Arc::make_mut(&mut state.local).retain(|name, _| is_kept(name));
        state.changed();
    }

    /// A number that differs after every change.
    pub(crate) fn changes(&self) -> u64 {
        self.0.lock().changes
    }

    /// What clients are told.
    pub(crate) fn reported(&self) -> Vec<(&'static str, String)> {
        REPORTED.iter().map(|(shown, name)| (*shown, self.get(name))).collect()
    }

    /// The values as they are now, to return to.
    pub(crate) fn mark(&self) -> Mark {
        let state = self.0.lock();
        Mark { values: Arc::clone(&state.values), local: Arc::clone(&state.local) }
    }

    pub(crate) fn return_to(&self, mark: &Mark) {
        let mut state = self.0.lock();
        if state.values != mark.values || state.local != mark.local {
            (state.values, state.local) = (Arc::clone(&mark.values), Arc::clone(&mark.local));
            state.changed();
        }
    }

    pub(crate) fn begin(&self) {
        let mut state = self.0.lock();
        state.forget_local();
        state.before = None;
    }

    pub(crate) fn commit(&self) {
        self.begin();
    }

    pub(crate) fn rollback(&self) {
        let mut state = self.0.lock();
        state.forget_local();
        if let Some(before) = state.before.take()
            && before != state.values
        {
            state.values = before;
            state.changed();
        }
    }
}

/// Refuses settings that are of the transaction.
pub(crate) fn check_settable(name: &str) -> Result<()> {
    match name.to_ascii_lowercase().as_str() {
        name @ ("transaction_isolation" | "transaction_read_only" | "transaction_deferrable") => {
            Err(SqlError::unsupported(format!("SET {name}")).hint("Use SET TRANSACTION."))
        }
        _ => Ok(()),
    }
}

fn invalid(setting: &Setting, value: &str) -> SqlError {
    let message = format!("invalid value for parameter \"{}\": \"{value}\"", setting.name);
    SqlError::new(code::INVALID_PARAMETER, message)
}

fn check(setting: &Setting, value: &str) -> Result<String> {
    let lower = value.to_ascii_lowercase();
    match setting.kind {
        Kind::Fixed => {
            let message = format!("parameter \"{}\" cannot be changed", setting.name);
            Err(SqlError::new("55P02", message))
        }
        Kind::Opened => {
            let what = "cannot be changed without restarting the server";
            Err(SqlError::new("55P02", format!("parameter \"{}\" {what}", setting.name)))
        }
        Kind::Text | Kind::Dates => Ok(value.to_owned()),
        Kind::Zone => zone::named(value),
        Kind::Schemas => match SearchPath::parse(value) {
            Some(_) => Ok(value.to_owned()),
            None => Err(invalid(setting, value).detail("List syntax is invalid.")),
        },
        Kind::Bool => match lower.as_str() {
            "on" | "true" | "yes" | "1" | "t" => Ok("on".to_owned()),
            "off" | "false" | "no" | "0" | "f" => Ok("off".to_owned()),
            _ => {
                let message = format!("parameter \"{}\" requires a Boolean value", setting.name);
                Err(SqlError::new(code::INVALID_PARAMETER, message))
            }
        },
        Kind::Encoding => match Encoding::named(value) {
            Some(encoding) => Ok(encoding.name().to_owned()),
            None => Err(invalid(setting, value)),
        },
        Kind::Only(known) if known.contains(&lower.as_str()) => Ok(setting.default.to_owned()),
        Kind::Only(_) => {
            Err(SqlError::unsupported(format!("the value \"{value}\" of \"{}\"", setting.name)))
        }
        Kind::OneOf(known) if known.contains(&lower.as_str()) => Ok(lower),
        Kind::OneOf(_) if lower == "serializable" => {
            Err(SqlError::unsupported("the isolation level SERIALIZABLE"))
        }
        Kind::OneOf(_) if setting.name == "synchronous_commit" && synonyms(&lower).is_some() => {
            Ok(synonyms(&lower).unwrap_or("on").to_owned())
        }
        Kind::OneOf(_) => Err(invalid(setting, value)),
        Kind::Int(low, high) => match value.parse::<i64>() {
            Ok(number) if (low..=high).contains(&number) => Ok(number.to_string()),
            Ok(number) => {
                Err(SqlError::unsupported(format!("the value {number} of \"{}\"", setting.name)))
            }
            Err(_) => Err(invalid(setting, value)),
        },
        Kind::Count(low, high) => match value.parse::<i64>() {
            Ok(number) if (low..=high).contains(&number) => Ok(number.to_string()),
            Ok(number) => {
                let name = setting.name;
                let message = format!(
                    "{number} is outside the valid range for parameter \"{name}\" ({low} .. {high})"
                );
                Err(SqlError::new(code::INVALID_PARAMETER, message))
            }
            Err(_) => Err(invalid(setting, value)),
        },
        Kind::Millis(least) => in_range(setting, value, (least, "ms", &TIMES)),
        Kind::Memory(least) => in_range(setting, value, (least, "kB", &SIZES)),
    }
}

/// A number with or without a unit, no less than `least` of the smallest one.
fn in_range(
    setting: &Setting,
    value: &str,
    (least, unit, units): (u64, &str, &Units),
) -> Result<String> {
    match in_units(&value.to_ascii_lowercase(), units) {
        Some(number) if (least..=MOST).contains(&number) => Ok(number.to_string()),
        Some(number) => {
            let name = setting.name;
            let message = format!(
                "{number} {unit} is outside the valid range for parameter \"{name}\" ({least} .. \
                 {MOST})"
            );
            Err(SqlError::new(code::INVALID_PARAMETER, message))
        }
        None => Err(invalid(setting, value)),
    }
}

/// What other values of `synchronous_commit` mean where there is no standby.
fn synonyms(value: &str) -> Option<&'static str> {
    match value {
        "local" | "remote_write" | "remote_apply" | "true" | "yes" | "1" => Some("on"),
        "false" | "no" | "0" => Some("off"),
        _ => None,
    }
}

/// Units of a setting, the largest first, in its smallest.
type Units = [(&'static str, u64)];

const TIMES: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)];
const SIZES: [(&str, u64); 4] = [("TB", 1 << 30), ("GB", 1 << 20), ("MB", 1 << 10), ("kB", 1)];
/// Most of the smallest unit, as in PostgreSQL.
const MOST: u64 = 2_147_483_647;

/// A number in the largest unit without a rest, as SHOW prints it.
fn with_unit(value: &str, units: &Units) -> String {
    let number: u64 = value.parse().unwrap_or(0);
    match units.iter().find(|(_, size)| number > 0 && number.is_multiple_of(*size)) {
        Some((unit, size)) => format!("{}{unit}", number / size),
        None => value.to_owned(),
    }
}

/// A number with or without a unit, in lower case.
fn in_units(text: &str, units: &Units) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let factor = match unit.trim() {
        "" => 1,
        unit => units.iter().find(|(known, _)| known.eq_ignore_ascii_case(unit))?.1,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_and_undone() {
        let settings = Settings::default();
        let set = |settings: &Settings, name: &str, value: &str, local| {
            settings.set(name, Some(&[value.to_owned()]), local).map_err(|error| error.sqlstate)
        };
        assert_eq!(set(&settings, "statement_timeout", "2s", false), Ok(()));
        assert_eq!(settings.millis("statement_timeout"), Some(2_000));
        assert_eq!(set(&settings, "statement_timeout", "25d", false), Err("22023"));
        assert_eq!(set(&settings, "deadlock_timeout", "0", false), Err("22023"));
        assert_eq!(settings.show("deadlock_timeout").as_deref(), Ok("1s"));
        assert_eq!(set(&settings, "timezone", "Europe/Nowhere", false), Err("22023"));
        // asyncpg sends the quotes.
        for encoding in ["'utf-8'", "UTF_8", "utf8", "\"UTF-8\"", "SQL_ASCII", "Unicode"] {
            assert_eq!(set(&settings, "client_encoding", encoding, false), Ok(()), "{encoding}");
        }
        assert_eq!(settings.get("client_encoding"), "UTF8");
        assert_eq!(set(&settings, "client_encoding", "latin1", false), Ok(()));
        assert_eq!(settings.get("client_encoding"), "LATIN1");
        assert_eq!(set(&settings, "client_encoding", "''", false), Err("22023"));
        assert_eq!(set(&settings, "nonsense", "1", false), Err("42704"));
        assert_eq!(set(&settings, "server_version", "1", false), Err("55P02"));
        settings.begin();
        assert_eq!(set(&settings, "application_name", "a", false), Ok(()));
        assert_eq!(set(&settings, "lock_timeout", "5", true), Ok(()));
        settings.rollback();
        assert_eq!(settings.get("application_name"), "");
        settings.begin();
        assert_eq!(set(&settings, "application_name", "b", false), Ok(()));
        assert_eq!(set(&settings, "lock_timeout", "5", true), Ok(()));
        settings.commit();
        let now = || (settings.get("application_name"), settings.millis("lock_timeout"));
        assert_eq!(now(), ("b".into(), None));
        settings.begin();
        settings.reset_all();
        assert_eq!(now(), ("".into(), None));
        settings.rollback();
        assert_eq!(now(), ("b".into(), None));
    }
}
