//! What is kept of a function that a user made: its body, what it promises, which of the columns of
//! its entry are results.
//!
//! A function is a table of the store without rows, its entry (`names::function_entry`), so that it
//! has a number and a version, and is locked and rolled back as tables are. Its first columns are
//! the arguments, the rest the results.
//!
//! Invariants: what is encoded decodes to equal notes.
//! Does not do: finding functions (`functions`), reading the body (`bind::functions`).

use super::{OWNER, line, lines, owner_line};
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
    /// Rows of all columns of its results, each with a name.
    Table,
}

impl Gives {
    const ALL: [Gives; 4] = [Gives::Void, Gives::Value, Gives::Set, Gives::Table];

    const fn word(self) -> &'static str {
        match self {
            Gives::Void => "void",
            Gives::Value => "value",
            Gives::Set => "set",
            Gives::Table => "table",
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
    /// How many columns of the entry are arguments.
    pub(crate) arguments: usize,
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
                    notes.arguments = arguments.parse().unwrap_or(0);
                    let known = Gives::ALL.into_iter().find(|one| one.word() == *gives);
                    notes.gives = known.unwrap_or_default();
                    notes.volatility = Volatility::parse(volatility).unwrap_or_default();
                    notes.is_strict = *strict == "strict";
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
        let arguments = self.arguments.to_string();
        let fields = ["function", &arguments, self.gives.word(), self.volatility.name(), strict];
        line(&mut out, &fields);
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
                arguments: 2,
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
