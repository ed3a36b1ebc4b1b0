//! Functions that users made in texts that are kept: defaults, checks, generated columns, indexes.
//!
//! Nothing but the text notes that a definition calls a function: it names the function with its
//! schema, unless that is `public`, and the function has no others of its name beside it.
//!
//! Invariants: who looks for the users of a function has the exclusive lock of its name, and who
//! makes one an access lock of it, so that none comes after the look.
//! Does not do: views, which note what they call (`readers`).

use rightlink::TableInfo;

use super::Definer;
use crate::catalog::{is_of_system, kept_call};
use crate::error::{Result, SqlError, code};
use crate::names::{
    PUBLIC, bare, full_reference, function_entry, function_of_entry, marked, reference, schema_of,
    type_of_entry,
};
use crate::notes::types::TypeNotes;
use crate::notes::{ColumnNotes, TableNotes};
use crate::parse::{self, offset};
use crate::user_types::functions::{find, load, not_built};

/// What calls a function.
enum Caller {
    /// A table and its column.
    Default(String, String),
    Generated(String, String),
    /// A table and its check.
    Check(String, String),
    Index(String),
    Domain(String),
    /// The entry of a function that has a default which calls it.
    Function(String),
}

/// Does a text that is kept call a function called `name`?
fn calls(text: &str, name: &str) -> Result<bool> {
    let mut all = parse::types::called_names(text)?.into_iter();
    Ok(all.any(|(_, parts)| kept_call(&parts).as_deref() == Some(name)))
}

fn may_call(text: Option<&String>, name: &str) -> Result<bool> {
    text.map_or(Ok(false), |text| calls(text, name))
}

/// The name of a function as a text that is kept has it: with its schema unless that is `public`
/// and the system has no function of the name.
fn as_called(name: &str) -> String {
    match is_of_system(&[bare(name).to_owned()]) {
        true => full_reference(name),
        false => reference(name),
    }
}

/// A text that is kept, with another name for the function called `name`.
fn renamed(text: &str, name: &str, to: &str) -> Result<String> {
    let is_it = |parts: &[String]| kept_call(parts).as_deref() == Some(name);
    parse::types::with_functions(text, |parts| is_it(parts).then(|| as_called(to)))
}

/// What of a table, a domain or a function calls the function called `name`.
fn callers_in(info: &TableInfo, name: &str) -> Result<Vec<Caller>> {
    let mut found = Vec::new();
    for column in &info.columns {
        let notes = ColumnNotes::decode(&column.note);
        let (table, column) = (info.name.clone(), column.name.clone());
        if may_call(notes.default.as_ref(), name)? {
            found.push(match (type_of_entry(&table), function_of_entry(&table)) {
                (Some(domain), _) => Caller::Domain(domain),
                (_, Some(_)) => Caller::Function(table),
                _ => Caller::Default(table, column),
            });
        } else if may_call(notes.generated.as_ref(), name)? {
            found.push(Caller::Generated(table, column));
        } else if may_call(notes.computed.as_ref().map(|one| &one.text), name)? {
            let indexes = info.indexes.iter().filter(|index| index.uses(&column));
            found.extend(indexes.map(|index| Caller::Index(index.name.clone())));
        }
    }
    if let Some(domain) = type_of_entry(&info.name) {
        let checks = TypeNotes::decode(&info.note).domain.unwrap_or_default().checks;
        for check in checks {
            if calls(&check.text, name)? {
                found.push(Caller::Domain(domain.clone()));
            }
        }
        return Ok(found);
    }
    for (check, text) in TableNotes::decode(&info.note).checks {
        if calls(&text, name)? {
            found.push(Caller::Check(info.name.clone(), check));
        }
    }
    Ok(found)
}

impl Definer<'_> {
    /// Tables, domains and functions that call the function called `name`.
    fn calling(&mut self, name: &str) -> Result<Vec<TableInfo>> {
        let mut found = Vec::new();
        for info in self.txn.catalog().tables()? {
            self.context.check_interrupt()?;
            if marked(&info.name).is_none() && !callers_in(&info, name)?.is_empty() {
                found.push(info);
            }
        }
        Ok(found)
    }

    fn callers(&mut self, name: &str) -> Result<Vec<Caller>> {
        let mut callers = Vec::new();
        for info in self.calling(name)? {
            callers.extend(callers_in(&info, name)?);
        }
        Ok(callers)
    }

    /// As messages call a caller.
    fn shown_caller(&mut self, caller: &Caller) -> Result<String> {
        let path = self.context.settings.path();
        let shown = |name: &str| path.shown(name);
        Ok(match caller {
            Caller::Default(table, column) => {
                format!("default value for column {column} of table {}", shown(table))
            }
            Caller::Generated(table, column) => {
                format!("column {column} of table {}", shown(table))
            }
            Caller::Check(table, check) => format!("constraint {check} on table {}", shown(table)),
            Caller::Index(name) => format!("index {}", shown(name)),
            Caller::Domain(name) => format!("type {}", shown(name)),
            Caller::Function(entry) => {
                let found = load(self.txn, entry)?.expect("it is there");
                format!("function {}", found.signature())
            }
        })
    }

    /// What calls the function called `name` goes with it, or keeps it from going; messages call
    /// it `what`.
    pub(super) fn drop_callers(&mut self, name: &str, what: &str, cascade: bool) -> Result<()> {
        let callers = self.callers(name)?;
        if callers.is_empty() {
            return Ok(());
        }
        let shown = callers.iter().map(|one| self.shown_caller(one));
        let shown = shown.collect::<Result<Vec<String>>>()?;
        if !cascade {
            let line = |one: &String| format!("{one} depends on {what}");
            let lines: Vec<String> = shown.iter().map(line).collect();
            let message = format!("cannot drop {what} because other objects depend on it");
            return Err(SqlError::new(code::DEPENDENT_OBJECTS, message)
                .detail(lines.join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        match shown.as_slice() {
            [only] => self.notices.push(format!("drop cascades to {only}")),
            more => self.notices.push(format!("drop cascades to {} other objects", more.len())),
        }
        for caller in callers {
            match caller {
                Caller::Default(table, column) => self.set_default(&table, &column, None)?,
                Caller::Generated(table, column) => {
                    self.drop_column(&table, &column, true, true)?
                }
                Caller::Check(table, check) => {
                    let table = self.table(&table)?;
                    self.drop_check(&table, &check)?;
                }
                Caller::Index(name) => self.drop_index(&name, true)?,
                Caller::Domain(name) => self.drop_type(&name, &[], true)?,
                Caller::Function(entry) => self.drop_function(&entry, true)?,
            }
        }
        Ok(())
    }

    /// Fails if a text that is kept calls the function called `name`, which is to get another one
    /// of its name beside it: the text does not tell which is meant.
    pub(super) fn refuse_beside_called(&mut self, name: &str) -> Result<()> {
        match self.callers(name)?.first() {
            None => Ok(()),
            Some(one) => {
                let what = format!("of the name of \"{}\", which a definition calls", bare(name));
                let shown = self.shown_caller(one)?;
                Err(not_built(&what).detail(format!("It is called by {shown}.")))
            }
        }
    }

    /// A function has another body: what indexes keep of it is made anew.
    pub(super) fn refill_indexes(&mut self, name: &str) -> Result<()> {
        for info in self.calling(name)? {
            if info.columns.iter().all(|column| !column.computed) {
                continue;
            }
            let table = self.table(&info.name)?;
            let computed = table.info.columns[table.shown().len()..].iter().zip(&table.computed);
            for (column, expr) in computed {
                let text = ColumnNotes::decode(&column.note).computed.map(|one| one.text);
                if may_call(text.as_ref(), name)? {
                    self.fill_computed(&table, column, expr)?;
                }
            }
        }
        Ok(())
    }

    /// A function has another name, also where it is called.
    pub(super) fn rename_called(&mut self, name: &str, to: &str) -> Result<()> {
        for info in self.calling(name)? {
            self.change_texts(&info, &|text| renamed(text, name, to))?;
        }
        Ok(())
    }

    /// An expression as it is kept names functions that users made with their schemas, unless these
    /// are `public`.
    pub(super) fn settle_functions(&mut self, text: &mut String) -> Result<()> {
        let path = self.context.settings.path();
        for (place, parts) in parse::types::called_names(text)?.into_iter().rev() {
            if is_of_system(&parts) {
                continue;
            }
            let found = find(self.txn, &path, &parts)?;
            let Some(first) = found.first() else { continue };
            let is_alone = found.len() == 1
                && !self.txn.catalog().has_relation(&function_entry(&first.name, 2))?;
            if !is_alone {
                let what = format!("with others of its name in a definition: \"{}\"", first.bare());
                return Err(not_built(&what));
            }
            if schema_of(&first.name) != PUBLIC
                && let Some((start, end)) = offset(text, place.start).zip(offset(text, place.end))
            {
                text.replace_range(start..end, &as_called(&first.name));
            }
        }
        Ok(())
    }

    /// Does a text that is kept call functions that users made?
    pub(super) fn calls_functions(&mut self, text: &str) -> Result<bool> {
        for (_, parts) in parse::types::called_names(text)? {
            let Some(name) = kept_call(&parts) else { continue };
            if self.txn.catalog().has_relation(&function_entry(&name, 1))? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
