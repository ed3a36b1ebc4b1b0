//! What `pg_settings` and SHOW ALL tell of settings.
//!
//! Does not do: settings of applications, which PostgreSQL does not list either.

use super::list::{ENUMS, Kind, REPORTED, SETTINGS, Setting};
use super::{MOST, Settings, about, of_transaction};
use crate::parse::modes::TransactionModes;

/// A setting as `pg_settings` shows it.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) name: &'static str,
    /// In its unit, without it.
    pub(crate) value: String,
    pub(crate) unit: Option<&'static str>,
    pub(crate) category: &'static str,
    pub(crate) text: Option<&'static str>,
    /// Who can change it.
    pub(crate) context: &'static str,
    /// The type's name.
    pub(crate) kind: &'static str,
    pub(crate) source: &'static str,
    pub(crate) least: Option<i64>,
    pub(crate) most: Option<i64>,
    /// All values, if they can be told.
    pub(crate) choices: Vec<&'static str>,
    /// What it is unless somebody says otherwise.
    pub(crate) boot: Option<&'static str>,
    /// What RESET would make it.
    pub(crate) reset: String,
}

impl Setting {
    /// PostgreSQL's name for the kind of values that it takes.
    fn type_name(&self) -> &'static str {
        let is_switch = matches!(self.default, "on" | "off");
        match self.kind {
            Kind::Int(..) | Kind::Count(..) | Kind::Millis(_) | Kind::Memory(_) => "integer",
            Kind::Bool => "bool",
            Kind::OneOf(_) => "enum",
            Kind::Only(_) | Kind::Fixed if is_switch => "bool",
            Kind::Only(_) if ENUMS.contains(&self.name) => "enum",
            Kind::Fixed if self.default.parse::<i64>().is_ok() => "integer",
            Kind::Only(_)
            | Kind::Fixed
            | Kind::Text
            | Kind::Schemas
            | Kind::Encoding
            | Kind::Dates
            | Kind::Zone
            | Kind::Opened => "string",
        }
    }

    fn choices(&self) -> Vec<&'static str> {
        match self.kind {
            Kind::OneOf(known) => known.to_vec(),
            Kind::Only(_) if ENUMS.contains(&self.name) => vec![self.default],
            _ => Vec::new(),
        }
    }
}

impl Settings {
    /// All settings with names as PostgreSQL spells them, in its order, in such a transaction.
    pub(crate) fn all(&self, modes: TransactionModes) -> Vec<Shown> {
        let mut all: Vec<Shown> = SETTINGS.iter().map(|one| self.shown(one, modes)).collect();
        all.sort_by_key(|one| one.name.to_ascii_lowercase());
        all
    }

    fn shown(&self, setting: &'static Setting, modes: TransactionModes) -> Shown {
        let state = self.0.lock();
        let name = setting.name;
        let value = of_transaction(modes, name);
        let (category, text) = about::about(name);
        let (least, most) = match setting.kind {
            Kind::Int(least, most) | Kind::Count(least, most) => (Some(least), Some(most)),
            Kind::Millis(least) | Kind::Memory(least) => {
                (i64::try_from(least).ok(), i64::try_from(MOST).ok())
            }
            _ => (None, None),
        };
        Shown {
            name: spelled(name),
            value: value.map_or_else(|| state.get(name), str::to_owned),
            unit: match setting.kind {
                Kind::Millis(_) => Some("ms"),
                Kind::Memory(_) => Some("kB"),
                _ => None,
            },
            category,
            text,
            context: match setting.kind {
                Kind::Fixed => "internal",
                Kind::Opened => "postmaster",
                _ => "user",
            },
            kind: setting.type_name(),
            source: state.source(name),
            least,
            most,
            choices: setting.choices(),
            boot: (!matches!(setting.kind, Kind::Opened)).then_some(setting.default),
            reset: state.reset(name),
        }
    }
}

/// A name as it is shown.
fn spelled(name: &'static str) -> &'static str {
    let found = REPORTED.iter().find(|(_, known)| *known == name);
    found.map_or(name, |(shown, _)| shown)
}
