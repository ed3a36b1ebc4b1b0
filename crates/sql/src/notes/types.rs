//! What is kept of a type: the labels of an enum, what a domain asks, that it is composite.
//!
//! A type is a table of the store without rows, its entry (`names::type_entry`), so that it has a
//! number and a version, and is locked and rolled back as tables are. Its note says what it is.
//!
//! Invariants: what is encoded decodes to equal notes.
//! Does not do: finding types (`user_types`).

use super::{OWNER, line, lines, owner_line};
use crate::types::enums::{Label, code_text, parse_code};

/// The name of the column of the entry of a composite type without fields, as a table has one. No
/// name of a client has this character.
pub(crate) const NO_FIELD: &str = "␟";
/// How a note says that a domain does not allow nulls.
const NOT_NULL: &str = "not null";

/// A check of a domain.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DomainCheck {
    pub(crate) name: String,
    pub(crate) text: String,
    /// Do all values that are stored meet it? One that is NOT VALID is asked of new values only.
    pub(crate) is_valid: bool,
}

/// What is kept of a domain besides its type and its default, which are those of the one column of
/// its entry.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DomainNotes {
    pub(crate) not_null: bool,
    pub(crate) checks: Vec<DomainCheck>,
}

/// What is kept of a type.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TypeNotes {
    /// What there is of a domain.
    pub(crate) domain: Option<DomainNotes>,
    /// Is it composite? Its fields are the columns of its entry. One that is neither a domain nor
    /// composite is an enum.
    pub(crate) is_composite: bool,
    /// Of an enum, in their order.
    pub(crate) labels: Vec<Label>,
    pub(crate) comment: Option<String>,
    /// The number of the role that owns it; `None`: that of the owner of the database.
    pub(crate) owner: Option<u32>,
}

impl TypeNotes {
    pub(crate) fn decode(note: &str) -> TypeNotes {
        let mut notes = TypeNotes::default();
        for fields in lines(note) {
            match fields.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                ["label", code, text] => {
                    let label = parse_code(code).map(|code| Label { text: (*text).into(), code });
                    notes.labels.extend(label);
                }
                ["domain", not_null] => {
                    notes.domain.get_or_insert_default().not_null = *not_null == NOT_NULL;
                }
                ["domain check", name, text, rest @ ..] => {
                    let (name, text) = ((*name).to_owned(), (*text).to_owned());
                    let check = DomainCheck { name, text, is_valid: rest.is_empty() };
                    notes.domain.get_or_insert_default().checks.push(check);
                }
                ["composite"] => notes.is_composite = true,
                ["comment", text] => notes.comment = Some((*text).to_owned()),
                [OWNER, oid] => notes.owner = oid.parse().ok(),
                _ => {}
            }
        }
        notes
    }

    pub(crate) fn encode(&self) -> String {
        let mut out = String::new();
        for label in &self.labels {
            line(&mut out, &["label", &code_text(&label.code), &label.text]);
        }
        if let Some(domain) = &self.domain {
            line(&mut out, &["domain", if domain.not_null { NOT_NULL } else { "" }]);
            for check in &domain.checks {
                let fields = ["domain check", &check.name, &check.text, "not valid"];
                line(&mut out, &fields[..if check.is_valid { 3 } else { 4 }]);
            }
        }
        if self.is_composite {
            line(&mut out, &["composite"]);
        }
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
    fn types_come_back() {
        let label = |text: &str, code: &[u8]| Label { text: text.into(), code: code.to_vec() };
        let notes = TypeNotes {
            labels: vec![label("so so", &[0, 7]), label("a\tb\n\\", &[255])],
            comment: Some("moods".into()),
            domain: None,
            is_composite: false,
            owner: Some(16_400),
        };
        assert_eq!(TypeNotes::decode(&notes.encode()), notes);
        let check = |name: &str, is_valid| DomainCheck {
            name: name.into(),
            text: "value >\t0".into(),
            is_valid,
        };
        let domain =
            DomainNotes { not_null: true, checks: vec![check("a", true), check("b", false)] };
        let notes = TypeNotes { domain: Some(domain), ..TypeNotes::default() };
        assert_eq!(TypeNotes::decode(&notes.encode()), notes);
        let notes = TypeNotes { is_composite: true, ..TypeNotes::default() };
        assert_eq!(TypeNotes::decode(&notes.encode()), notes);
    }
}
