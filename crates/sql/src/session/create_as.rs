//! CREATE TABLE AS and SELECT INTO.
//!
//! The table is made as any other is; then the rows of the query go into it as those of an INSERT
//! do.
//!
//! Invariants: table and rows come and go together.
//! Does not do: reading syntax (`parse::create_as`).

use std::sync::Arc;

use super::prepared::convert;
use super::{Session, Sink, temporary};
use crate::bind::ddl::{self, Definition};
use crate::bind::reading::Reading;
use crate::bind::{Binder, Catalog};
use crate::error::{Result, SqlError, code};
use crate::exec::tables::{Along, Tables};
use crate::expr::Expr;
use crate::names::bare;
use crate::parse::create_as::CreateAs;
use crate::parse::utility::Utility;
use crate::parse::{Parsed, Stmt};
use crate::plan::{Given, Insert, Plan, Query, Reads, Rules};
use crate::schemas::Resolver;
use crate::types::{Datum, SqlType};

/// A query that is bound, with values for its parameters.
pub(super) struct Source {
    pub(super) query: Query,
    pub(super) params: Vec<Datum>,
}

impl Session {
    /// Makes a table of the rows of a query; gives the tag.
    pub(super) fn create_table_as(
        &mut self,
        create: &CreateAs,
        sink: &mut dyn Sink,
    ) -> Result<String> {
        self.ensure()?;
        self.check_writable("CREATE TABLE AS")?;
        let source = self.source_of(&create.source)?;
        let temporary = temporary::of_table(&create.table);
        if temporary.is_some() {
            self.make_temporary_schema()?;
        }
        let path = self.settings.path();
        let mut resolver = Resolver::new(&mut self.ensure()?.txn, &path);
        let columns = &source.query.columns;
        let table = ddl::create_as(&create.table, &create.columns, columns, &mut resolver)?;
        let name = table.schema.name.clone();
        let if_not_exists = create.table.if_not_exists;
        if if_not_exists && self.ensure()?.txn.catalog().has_relation(&name)? {
            let message = format!("relation \"{}\" already exists, skipping", bare(&name));
            self.tell(sink, "NOTICE", &message);
            return Ok("CREATE TABLE AS".to_owned());
        }
        let table = Box::new(table);
        self.define(&Definition::CreateTable { table, if_not_exists: false }, sink)?;
        self.on_commit(name.clone(), temporary.flatten());
        if !create.with_data {
            return Ok("CREATE TABLE AS".to_owned());
        }
        self.fill(&name, source, sink)
    }

    /// Puts the rows of a query into a new table, or an empty one; gives the tag.
    pub(super) fn fill(
        &mut self,
        name: &str,
        source: Source,
        sink: &mut dyn Sink,
    ) -> Result<String> {
        let table = Tables(&mut self.ensure()?.txn).table(name)?;
        let mut places = 0..;
        let given = table.info.columns.iter().map(|column| match column.computed {
            true => Given::Default(Expr::null()),
            false => Given::Place(places.next().expect("there is no end")),
        });
        let given = given.collect();
        let asks = source.query.asks.clone();
        let plan = Plan::Insert(Box::new(Insert {
            given,
            table,
            source: Arc::new(source.query),
            conflict: None,
            rules: Rules::default(),
            returning: None,
            asks,
            reads: Reads::default(),
        }));
        let tag = self.run_plan(&Arc::new(plan), source.params, sink)?;
        Ok(tag.replace("INSERT 0", "SELECT"))
    }

    /// Binds the query, whose rows are as tables keep them.
    fn source_of(&mut self, source: &Parsed) -> Result<Source> {
        match &source.stmt {
            Stmt::Utility(Utility::Execute { name, args }) => {
                let args = self.constants(args)?;
                let (parsed, types) = self.prepared_for(name, args.len())?;
                let query = self.rows_of(&parsed, &types, true)?;
                Ok(Source { query, params: convert(args, &types, || self.times())? })
            }
            Stmt::Sql(_) => {
                let query = self.rows_of(source, &[], false)?;
                Ok(Source { query, params: Vec::new() })
            }
            Stmt::Utility(_) => Err(SqlError::syntax("CREATE TABLE AS needs a query")),
        }
    }

    /// `is_prepared`: it is not the text of the statement itself.
    fn rows_of(&mut self, parsed: &Parsed, types: &[SqlType], is_prepared: bool) -> Result<Query> {
        let Stmt::Sql(statement) = &parsed.stmt else { return Err(no_select()) };
        let sqlparser::ast::Statement::Query(query) = statement.as_ref() else {
            return Err(match is_prepared {
                true => no_select(),
                false => SqlError::syntax("CREATE TABLE AS needs a query"),
            });
        };
        let path = self.settings.path();
        self.ensure()?.used = true;
        let times = self.times();
        let mut tables = Along(Tables(&mut self.ensure()?.txn), &path);
        let mut binder = Binder::new(&mut tables, &parsed.lines, types);
        binder.reading = Reading::of(times);
        let bound = binder.kept_rows(query)?;
        if binder.params.len() > types.len() {
            let message = "there is no parameter $1";
            return Err(SqlError::new(code::UNDEFINED_PARAMETER, message));
        }
        let mut query = binder.planned(bound)?;
        query.asks = binder.take_asks();
        Ok(query)
    }
}

fn no_select() -> SqlError {
    SqlError::new(code::WRONG_OBJECT_TYPE, "prepared statement is not a SELECT")
}
