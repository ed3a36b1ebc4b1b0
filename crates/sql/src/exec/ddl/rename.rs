//! Names inside of what is noted with tables: texts of checks, both ends of foreign keys.
//!
//! Invariants: after a rename every note says the new name.
//! Does not do: names in texts of clients.

use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Token, Tokenizer};

use super::{Definer, named, taken};
use crate::error::{Result, SqlError, code};
use crate::expr::deparse::identifier;

impl Definer<'_> {
    pub(super) fn rename_table(&mut self, name: &str, to: &str) -> Result<()> {
        let table = self.table(name)?;
        match self.txn.rename_table(name, to) {
            Err(rightlink::Error::AlreadyExists(_)) => named(to, Err(taken()))?,
            result => named(name, result)?,
        }
        for child in &table.notes.children {
            let child = if child == name { to } else { child };
            self.note(child, |notes| {
                for key in notes.keys.iter_mut().filter(|key| key.parent == name) {
                    to.clone_into(&mut key.parent);
                }
            })?;
        }
        for key in &table.notes.keys {
            let parent = if key.parent == name { to } else { &key.parent };
            self.note(parent, |notes| {
                for child in notes.children.iter_mut().filter(|child| *child == name) {
                    to.clone_into(child);
                }
            })?;
        }
        self.note(to, |notes| {
            for (_, text) in &mut notes.checks {
                *text = renamed(text, name, to, true);
            }
        })
    }

    pub(super) fn rename_column(&mut self, name: &str, column: &str, to: &str) -> Result<()> {
        let table = self.table(name)?;
        self.column_at(&table, column)?;
        match self.txn.rename_column(name, column, to) {
            Err(rightlink::Error::Invalid(_) | rightlink::Error::AlreadyExists(_)) => {
                let message = format!("column \"{to}\" of relation \"{name}\" already exists");
                return Err(SqlError::new(code::DUPLICATE_COLUMN, message));
            }
            result => result?,
        }
        let replace = |names: &mut Vec<String>| {
            for known in names.iter_mut().filter(|known| *known == column) {
                to.clone_into(known);
            }
        };
        self.note(name, |notes| {
            notes.keys.iter_mut().for_each(|key| replace(&mut key.columns));
            for (_, text) in &mut notes.checks {
                *text = renamed(text, column, to, false);
            }
        })?;
        for child in &table.notes.children {
            self.note(child, |notes| {
                for key in notes.keys.iter_mut().filter(|key| key.parent == name) {
                    replace(&mut key.parent_columns);
                }
            })?;
        }
        Ok(())
    }

    pub(super) fn rename_constraint(&mut self, name: &str, old: &str, to: &str) -> Result<()> {
        let table = self.table(name)?;
        if table.info.indexes.iter().any(|index| index.name == old && index.unique) {
            return match self.txn.rename_index(old, to) {
                Err(rightlink::Error::AlreadyExists(_)) => named(to, Err(taken())),
                result => Ok(result?),
            };
        }
        if let Some(check) = table.info.checks.iter().find(|check| check.name == old) {
            self.txn.drop_check(name, old)?;
            self.txn.add_check(name, to, check.predicate.clone())?;
        }
        let mut found = table.info.checks.iter().any(|check| check.name == old);
        self.note(name, |notes| {
            let checks = notes.checks.iter_mut().map(|(known, _)| known);
            for known in checks.chain(notes.keys.iter_mut().map(|key| &mut key.name)) {
                if known == old {
                    to.clone_into(known);
                    found = true;
                }
            }
        })?;
        if found {
            return Ok(());
        }
        let message = format!("constraint \"{old}\" for table \"{name}\" does not exist");
        Err(SqlError::new(code::UNDEFINED_OBJECT, message))
    }
}

/// `text` with one name for another: of a table where a period follows it, else of a column.
fn renamed(text: &str, old: &str, new: &str, table: bool) -> String {
    let Ok(tokens) = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize() else {
        return text.to_owned();
    };
    let mut out = String::with_capacity(text.len());
    for (at, token) in tokens.iter().enumerate() {
        let is_it = match token {
            Token::Word(word) => match word.quote_style {
                Some(_) => word.value == old,
                None => word.value.to_lowercase() == old,
            },
            _ => false,
        };
        let next = tokens.get(at + 1);
        let fits = if table {
            next == Some(&Token::Period)
        } else {
            !matches!(next, Some(Token::Period | Token::LParen))
        };
        match is_it && fits {
            true => out.push_str(&identifier(new)),
            false => out.push_str(&token.to_string()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_that_is_meant_changes() {
        assert_eq!(
            renamed("a > 0 AND a(b) AND 'a' <> t.a", "a", "Z", false),
            "\"Z\" > 0 AND a(b) AND 'a' <> t.\"Z\""
        );
        assert_eq!(renamed("t.a > 0 AND t > 1", "t", "u", true), "u.a > 0 AND t > 1");
    }
}
