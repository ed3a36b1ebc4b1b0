//! CREATE and REFRESH MATERIALIZED VIEW.
//!
//! The relation is made as a view is; then the rows of its query go into it as those of an INSERT
//! do, by the rights of its owner.
//!
//! Invariants: what is noted of the rows and the rows come and go together.
//! Does not do: reading a materialized view, which is a table to queries (`bind::from`).

use rightlink::{Error, Transaction};

use super::create_as::Source;
use super::{Session, Sink};
use crate::bind::ddl::{Definition, NewView};
use crate::bind::reading::Reading;
use crate::bind::{Binder, Catalog};
use crate::error::{Result, SqlError, code};
use crate::exec::tables::{Along, Tables};
use crate::names::bare;
use crate::notes::{TableNotes, is_materialized_view, is_view};
use crate::parse::Lines;
use crate::schemas::no_table;

impl Session {
    /// Makes a materialized view that nobody has to be allowed any more; gives the tag.
    pub(super) fn create_materialized(
        &mut self,
        definition: &Definition,
        view: &NewView,
        sink: &mut dyn Sink,
    ) -> Result<String> {
        let Some(made) = view.materialized else { unreachable!("the caller has looked") };
        if made.if_not_exists && self.ensure()?.txn.catalog().has_relation(&view.name)? {
            let message = format!("relation \"{}\" already exists, skipping", bare(&view.name));
            self.tell(sink, "NOTICE", &message);
            return Ok("CREATE MATERIALIZED VIEW".to_owned());
        }
        let tag = self.define_unchecked(definition, sink)?;
        if made.with_data { self.fill_view(&view.name, sink) } else { Ok(tag) }
    }

    /// REFRESH MATERIALIZED VIEW; gives the tag.
    pub(super) fn refresh(
        &mut self,
        view: &[String],
        concurrently: bool,
        with_data: bool,
        sink: &mut dyn Sink,
    ) -> Result<String> {
        self.ensure()?;
        self.check_writable("REFRESH MATERIALIZED VIEW")?;
        if concurrently && !with_data {
            let message = "CONCURRENTLY and WITH NO DATA options cannot be used together";
            return Err(SqlError::new(code::SYNTAX_ERROR, message));
        }
        let name = self.relation(view)?;
        let active = self.ensure()?;
        active.used = true;
        check_refreshed(&mut active.txn, &name)?;
        if concurrently {
            return Err(SqlError::unsupported("REFRESH MATERIALIZED VIEW CONCURRENTLY"));
        }
        let tag = self.define(&Definition::Refresh { view: name.clone(), with_data }, sink)?;
        if with_data {
            self.fill_view(&name, sink)?;
        }
        Ok(tag)
    }

    /// Puts the rows of its query into a materialized view that has none; gives the tag.
    fn fill_view(&mut self, name: &str, sink: &mut dyn Sink) -> Result<String> {
        let path = self.settings.path();
        let times = self.times();
        let mut tables = Along(Tables(&mut self.ensure()?.txn), &path);
        let table = tables.table(name)?;
        let Some(notes) = &table.notes.view else { unreachable!("the caller has looked") };
        let lines = Lines::of(&notes.query);
        let mut binder = Binder::new(&mut tables, &lines, &[]);
        binder.reading = Reading::of(times);
        let bound = binder.rows_of_view(&table, notes)?;
        let mut query = binder.planned(bound)?;
        query.asks = binder.take_asks();
        self.fill(name, Source { query, params: Vec::new() }, sink)
    }

    /// Fails for a materialized view, which LOCK does not take.
    pub(super) fn refuse_lock(&mut self, name: &str) -> Result<()> {
        let notes = match self.ensure()?.txn.catalog().definition(name) {
            Ok(info) => TableNotes::decode(&info.note),
            Err(_) => return Ok(()),
        };
        match notes.stored_rows() {
            None => Ok(()),
            Some(_) => {
                let message = format!("cannot lock relation \"{}\"", bare(name));
                Err(SqlError::new(code::WRONG_OBJECT_TYPE, message)
                    .detail("This operation is not supported for materialized views."))
            }
        }
    }
}

/// Fails for what is no materialized view.
fn check_refreshed(txn: &mut Transaction, name: &str) -> Result<()> {
    let info = match txn.catalog().definition(name) {
        Ok(info) if is_materialized_view(&info.note) => return Ok(()),
        Err(Error::NotFound(_)) if !txn.catalog().has_relation(name)? => {
            return Err(no_table(name));
        }
        found => found.ok(),
    };
    let name = bare(name);
    Err(match info {
        Some(info) if !is_view(&info.note) => {
            let message = format!("\"{name}\" is not a materialized view");
            SqlError::new(code::FEATURE_NOT_SUPPORTED, message)
        }
        _ => {
            let message = format!("\"{name}\" is not a table or materialized view");
            SqlError::new(code::WRONG_OBJECT_TYPE, message)
        }
    })
}
