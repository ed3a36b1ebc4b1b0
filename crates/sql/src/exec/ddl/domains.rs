//! CREATE, ALTER and DROP DOMAIN.
//!
//! The entry of a domain is a table of one column, which has the type and the default of the
//! domain (`bind::domains`).
//!
//! Invariants: values that are stored meet what a domain asks before that is noted, but for what is
//! NOT VALID.
//! Does not do: what is the same of every type (`types`).

use rightlink::{Busy, Error, LockMode, ScanOptions};

use super::schema::without_parentheses;
use super::types::taken;
use super::{Definer, named};
use crate::bind::Binder;
use crate::bind::ddl::{NewCheck, NewTable};
use crate::error::{Result, SqlError, code};
use crate::exec::source::convert;
use crate::exec::tables::Tables;
use crate::expr::Expr;
use crate::expr::domain::DomainTest;
use crate::names::{bare, type_entry, type_of_entry};
use crate::notes::ColumnNotes;
use crate::notes::types::{DomainCheck, DomainNotes, TypeNotes};
use crate::parse::Lines;
use crate::parse::types::DomainChange;
use crate::types::Datum;

/// Most domains that are made each of the one before.
const MAX_LEVELS: usize = 32;

/// What is asked of values that are stored.
enum Asked<'a> {
    NotNull,
    Check(&'a Expr),
}

impl Definer<'_> {
    pub(super) fn create_domain(&mut self, name: &str, domain: &NewTable) -> Result<()> {
        self.refuse_rows_of(name)?;
        let mut schema = domain.schema.clone();
        let column = &mut schema.columns[0];
        self.finish_column(domain, 0, column)?;
        let not_null = !column.nullable;
        column.nullable = true;
        let below = ColumnNotes::decode(&column.note).domain;
        self.check_levels(below)?;
        let own = DomainNotes { not_null, checks: Vec::new() };
        let owner = self.context.owner;
        schema.note = TypeNotes { domain: Some(own), owner, ..TypeNotes::default() }.encode();
        match self.txn.create_table(&schema) {
            Err(Error::AlreadyExists(_)) => return Err(taken(name)),
            made => made?,
        }
        domain.checks.iter().try_for_each(|check| self.add_domain_check(name, check, true))
    }

    fn check_levels(&mut self, below: Option<String>) -> Result<()> {
        let (mut next, mut levels) = (below, 0);
        while let Some(name) = next {
            levels += 1;
            if levels > MAX_LEVELS {
                let message = format!("domains have at most {MAX_LEVELS} levels");
                return Err(SqlError::new(code::PROGRAM_LIMIT, message));
            }
            let info = self.txn.catalog().definition(&type_entry(&name))?;
            next = info.columns.first().and_then(|one| ColumnNotes::decode(&one.note).domain);
        }
        Ok(())
    }

    /// Locks a domain that is changed or dropped, and gives what is kept of it.
    fn lock_domain(&mut self, name: &str) -> Result<(TypeNotes, DomainNotes)> {
        let notes = self.lock_type(name)?;
        let Some(domain) = notes.domain.clone() else {
            let message = format!("\"{}\" is not a domain", bare(name));
            return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
        };
        Ok((notes, domain))
    }

    fn note_domain(&mut self, name: &str, notes: TypeNotes, domain: DomainNotes) -> Result<()> {
        self.note_type(name, &TypeNotes { domain: Some(domain), ..notes })
    }

    pub(super) fn drop_domain(&mut self, name: &str, also: &[String], cascade: bool) -> Result<()> {
        self.lock_domain(name)?;
        self.drop_type(name, also, cascade)
    }

    pub(super) fn alter_domain(&mut self, name: &str, change: &DomainChange) -> Result<()> {
        let (notes, mut domain) = self.lock_domain(name)?;
        let missing = |check: &str| {
            let message =
                format!("constraint \"{check}\" of domain \"{}\" does not exist", bare(name));
            SqlError::new(code::UNDEFINED_OBJECT, message)
        };
        match change {
            DomainChange::Type(change) => return self.alter_type(name, change),
            DomainChange::Default(default) => {
                let column = self.txn.catalog().definition(&type_entry(name))?;
                let column = column.columns[0].name.clone();
                return self.set_default(&type_entry(name), &column, default.as_deref());
            }
            DomainChange::NotNull(not_null) => {
                if *not_null && !domain.not_null {
                    self.ask_stored(name, Asked::NotNull)?;
                }
                domain.not_null = *not_null;
            }
            DomainChange::AddCheck { name: own, condition, is_valid } => {
                let check = NewCheck { name: own.clone(), condition: (**condition).clone() };
                return self.add_domain_check(name, &check, *is_valid);
            }
            DomainChange::DropCheck { name: check, if_exists } => {
                if !domain.checks.iter().any(|known| known.name == *check) {
                    let error = missing(check);
                    if !if_exists {
                        return Err(error);
                    }
                    self.notices.push(format!("{}, skipping", error.message));
                }
                domain.checks.retain(|known| known.name != *check);
            }
            DomainChange::RenameCheck { from, to } => {
                if domain.checks.iter().any(|known| known.name == *to) {
                    return Err(already_there(to, name));
                }
                let found = domain.checks.iter_mut().find(|known| known.name == *from);
                to.clone_into(&mut found.ok_or_else(|| missing(from))?.name);
            }
            DomainChange::Validate(check) => {
                let found = domain.checks.iter_mut().find(|known| known.name == *check);
                let found = found.ok_or_else(|| missing(check))?;
                if !found.is_valid {
                    let tests = self.tests_of(name)?;
                    let own = tests.last().into_iter().flat_map(|test| &test.checks);
                    for (_, condition) in own.filter(|(known, _)| known == check) {
                        self.ask_stored(name, Asked::Check(condition))?;
                    }
                    found.is_valid = true;
                }
            }
        }
        self.note_domain(name, notes, domain)
    }

    /// Conditions of the domain called `name`, and of the domains below it.
    pub(super) fn tests_of(&mut self, name: &str) -> Result<Vec<DomainTest>> {
        let (mut tables, lines) = (Tables(self.txn), Lines::default());
        Binder::new(&mut tables, &lines, &[]).domain_tests(name)
    }

    /// Fails if rows that are there would get a value that is none of the domain of a new column.
    pub(super) fn ask_default(&mut self, table: &str, domain: &str, default: &Expr) -> Result<()> {
        if self.txn.scan(table, &ScanOptions::all().latest())?.next().is_none() {
            return Ok(());
        }
        if !default.is_stable() {
            let what = "a column of a domain whose default differs from row to row";
            return Err(SqlError::unsupported(what).hint("Set the default later."));
        }
        let value = default.eval(&[], self.context)?;
        self.tests_of(domain)?.iter().try_for_each(|test| test.ask(&value, self.context))
    }

    fn add_domain_check(&mut self, name: &str, check: &NewCheck, is_valid: bool) -> Result<()> {
        let (notes, mut domain) = self.lock_domain(name)?;
        let settled = self.settled(without_parentheses(&check.condition))?;
        let table = self.table(&type_entry(name))?;
        let condition = {
            let (mut tables, lines) = (Tables(self.txn), Lines::default());
            let mut binder = Binder::new(&mut tables, &lines, &[]);
            let bound = binder.check_from(&settled, &table)?;
            let sequences = std::mem::take(&mut binder.sequences);
            self.context.sequences.open(&sequences, self.txn)?;
            bound
        };
        let is_there = |wanted: &str| domain.checks.iter().any(|known| known.name == wanted);
        if let Some(given) = check.name.as_ref().filter(|given| is_there(given)) {
            return Err(already_there(given, name));
        }
        let wanted = check.name.clone().unwrap_or_else(|| format!("{}_check", bare(name)));
        let mut numbers = (1..).map(|number| format!("{wanted}{number}"));
        let own = match is_there(&wanted) {
            true => numbers.find(|free| !is_there(free)).expect("there are numbers"),
            false => wanted.clone(),
        };
        if is_valid {
            self.ask_stored(name, Asked::Check(&condition))?;
        }
        domain.checks.push(DomainCheck { name: own, text: settled.to_string(), is_valid });
        self.note_domain(name, notes, domain)
    }

    /// Fails if a value that is stored does not meet what the domain called `name`, which is
    /// locked, is to ask.
    fn ask_stored(&mut self, name: &str, asked: Asked<'_>) -> Result<()> {
        let infos = self.txn.catalog().tables()?;
        let mut domains = vec![name.to_owned()];
        // Those above come until nothing is added.
        let mut known = 0;
        while known < domains.len() {
            known = domains.len();
            for info in &infos {
                let Some(own) = type_of_entry(&info.name) else { continue };
                let below = info.columns.first().map(|one| ColumnNotes::decode(&one.note).domain);
                let is_above = below.flatten().is_some_and(|below| domains.contains(&below));
                if is_above && !domains.contains(&own) {
                    domains.push(own);
                }
            }
        }
        for info in infos.iter().filter(|info| type_of_entry(&info.name).is_none()) {
            let of_domain =
                |notes: ColumnNotes| notes.domain.is_some_and(|domain| domains.contains(&domain));
            let columns = info.columns.iter().enumerate();
            let places: Vec<usize> = columns
                .filter(|(_, column)| of_domain(ColumnNotes::decode(&column.note)))
                .map(|(at, _)| at)
                .collect();
            if !places.is_empty() && !self.is_view(&info.name)? {
                self.ask_rows(&info.name, &places, &asked)?;
            }
        }
        Ok(())
    }

    fn ask_rows(&mut self, name: &str, places: &[usize], asked: &Asked<'_>) -> Result<()> {
        named(name, self.txn.lock_table(name, LockMode::ShareWrite, Busy::Wait))?;
        let table = self.table(name)?;
        for row in self.txn.scan(name, &ScanOptions::all().latest())? {
            self.context.check_interrupt()?;
            let row = convert(row?, table.types.iter().copied(), false)?;
            for at in places {
                let what = match asked {
                    Asked::NotNull if row[*at].is_null() => "contains null values",
                    Asked::Check(condition)
                        if condition.eval(std::slice::from_ref(&row[*at]), self.context)?
                            == Datum::Bool(false) =>
                    {
                        "contains values that violate the new constraint"
                    }
                    _ => continue,
                };
                let column = &table.info.columns[*at].name;
                let message = format!("column \"{column}\" of table \"{}\" {what}", bare(name));
                let sqlstate = match asked {
                    Asked::NotNull => code::NOT_NULL_VIOLATION,
                    Asked::Check(_) => code::CHECK_VIOLATION,
                };
                return Err(SqlError::new(sqlstate, message).of_column(name, column));
            }
        }
        Ok(())
    }
}

fn already_there(check: &str, domain: &str) -> SqlError {
    let message = format!("constraint \"{check}\" for domain \"{}\" already exists", bare(domain));
    SqlError::new(code::DUPLICATE_OBJECT, message)
}
