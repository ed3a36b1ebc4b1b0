//! Domains: what they ask of a value, and their defaults.
//!
//! The entry of a domain is a table of one column, which has the type, the default and the comment
//! of the domain; checks are conditions over that column, whose name is that of VALUE.
//!
//! Invariants: conditions of the domain below are tested first.
//! Does not do: asking (`expr::domain`).

use std::sync::Arc;

use super::{Binder, Slot};
use crate::error::Result;
use crate::expr::Expr;
use crate::expr::domain::{Checked, DomainTest};
use crate::names::type_entry;
use crate::notes::types::TypeNotes;
use crate::parse;
use crate::plan::Table;
use crate::types::declared::Domain;
use crate::user_types::UsedType;

impl Binder<'_> {
    /// `value` as a value of a domain: of its type, and tested by its conditions.
    pub(super) fn in_domain(&mut self, value: Expr, domain: Domain) -> Result<Expr> {
        let tests = self.domain_tests(domain.stored())?;
        Ok(Expr::Checked(Box::new(Checked { value, tests: tests.into() })))
    }

    fn domain(&mut self, name: &str) -> Result<Arc<Table>> {
        let table = self.catalog.table(&type_entry(name))?;
        let entry = table.info.name.clone();
        self.use_type(UsedType { entry, version: table.version.clone() });
        Ok(table)
    }

    /// Conditions of the domain called `name`, and of the domains below it.
    pub(crate) fn domain_tests(&mut self, name: &str) -> Result<Vec<DomainTest>> {
        let table = self.domain(name)?;
        let mut tests = match &table.column_notes[0].domain {
            Some(below) => self.domain_tests(below)?,
            None => Vec::new(),
        };
        let notes = TypeNotes::decode(&table.info.note).domain.unwrap_or_default();
        let mut checks = Vec::with_capacity(notes.checks.len());
        for check in &notes.checks {
            let node = parse::expression(&check.text)?;
            let condition = self.of_kept(|binder| binder.check_from(&node, &table))?;
            checks.push((check.name.clone(), condition));
        }
        checks.sort_by(|(a, _), (b, _)| a.cmp(b));
        tests.push(DomainTest { domain: name.to_owned(), not_null: notes.not_null, checks });
        Ok(tests)
    }

    /// What a column of the domain called `name` gets that is not given a value and has no default
    /// of its own; `None` if the domain has none either.
    pub(crate) fn domain_default(&mut self, name: &str, slot: &Slot) -> Result<Option<Expr>> {
        let table = self.domain(name)?;
        if let Some(text) = &table.column_notes[0].default {
            let node = parse::expression(text)?;
            return self.of_kept(|binder| binder.default_from(&node, slot)).map(Some);
        }
        match &table.column_notes[0].domain {
            Some(below) => self.domain_default(below, slot),
            None => Ok(None),
        }
    }
}
