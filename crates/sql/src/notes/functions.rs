//! What is kept of a function that a user made: its body, what it promises, which of the columns of
//! its entry are results.
//!
//! A function is a table of the store without rows, its entry (`names::function_entry`), so that it
//! has a number and a version, and is locked and rolled back as tables are. Its columns are the
//! parameters and then the results that are none.
//!
//! Invariants: what is encoded decodes to equal notes.
//! Does not do: finding functions (`functions`), reading the body (`bind::functions`).

use super::{OWNER, line, lines, owner_line};
use crate::types::parameter_mode::ParameterMode;
use crate::types::volatility::Volatility;

/// What a function gives.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Gives {
    /// Nothing: its results are no columns.
    #[default]
    Void,
    /// The value of the one column of its results.
    Value,
    /// Rows of the one column of its results.
    Set,
    /// Rows of all columns of its results.
    Table,
    /// One row of all columns of its results.
    Row,
}

impl Gives {
    const ALL: [Gives; 5] = [Gives::Void, Gives::Value, Gives::Set, Gives::Table, Gives::Row];

    const fn word(self) -> &'static str {
        match self {
            Gives::Void => "void",
            Gives::Value => "value",
            Gives::Set => "set",
            Gives::Table => "table",
            Gives::Row => "row",
        }
    }

    /// Does it give rows?
    pub(crate) const fn is_set(self) -> bool {
        matches!(self, Gives::Set | Gives::Table)
    }
}

/// What is kept of a function.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FunctionNotes {
    pub(crate) body: String,
    /// Of each column of the entry which way it goes; those behind them are results.
    pub(crate) modes: Vec<ParameterMode>,
    pub(crate) gives: Gives,
    pub(crate) volatility: Volatility,
    /// Does it give null, or no rows, for a null?
    pub(crate) is_strict: bool,
    pub(crate) comment: Option<String>,
    /// The number of the role that owns it; `None`: that of the owner of the database.
    pub(crate) owner: Option<u32>,
}

impl FunctionNotes {
    pub(crate) fn decode(note: &str) -> FunctionNotes {
        let mut notes = FunctionNotes::default();
        for fields in lines(note) {
            match fields.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                ["function", arguments, gives, volatility, strict] => {
                    notes.modes = vec![ParameterMode::In; arguments.parse().unwrap_or(0)];
                    let known = Gives::ALL.into_iter().find(|one| one.word() == *gives);
                    notes.gives = known.unwrap_or_default();
                    notes.volatility = Volatility::parse(volatility).unwrap_or_default();
                    notes.is_strict = *strict == "strict";
                }
                ["modes", modes] => {
                    notes.modes = modes.chars().filter_map(ParameterMode::of_letter).collect();
                }
                ["body", body] => notes.body = (*body).to_owned(),
                ["comment", text] => notes.comment = Some((*text).to_owned()),
                [OWNER, oid] => notes.owner = oid.parse().ok(),
                _ => {}
            }
        }
        notes
    }

    pub(crate) fn encode(&self) -> String {
        let mut out = String::new();
        let strict = if self.is_strict { "strict" } else { "" };
        let arguments = self.modes.len().to_string();
        let fields = ["function", &arguments, self.gives.word(), self.volatility.name(), strict];
        line(&mut out, &fields);
        if self.modes.iter().any(|mode| *mode != ParameterMode::In) {
            let modes: String = self.modes.iter().map(|mode| mode.letter()).collect();
            line(&mut out, &["modes", &modes]);
        }
        line(&mut out, &["body", &self.body]);
        if let Some(comment) = &self.comment {
            line(&mut out, &["comment", comment]);
        }
        owner_line(&mut out, self.owner);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_come_back() {
        for gives in Gives::ALL {
            let notes = FunctionNotes {
                body: "select\t1;\n-- \\".into(),
                modes: match gives {
                    Gives::Row => vec![ParameterMode::InOut, ParameterMode::Out],
                    _ => vec![ParameterMode::In; 2],
                },
                gives,
                volatility: Volatility::Stable,
                is_strict: gives == Gives::Set,
                comment: Some("adds".into()),
                owner: Some(16_400),
            };
            assert_eq!(FunctionNotes::decode(&notes.encode()), notes);
        }
    }
}
