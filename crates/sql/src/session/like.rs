//! CREATE TABLE LIKE: what other tables have, as columns and constraints of a new one.
//!
//! What is copied is written as SQL and read as if the client had written it, so it means what it
//! means there.
//!
//! Invariants: the table and what belongs to it come together.

use sqlparser::ast;

use super::{Session, Sink};
use crate::catalog::{Copied, Objects};
use crate::error::{Result, SqlError, code};
use crate::names;
use crate::parse::like::{CreateLike, Like};
use crate::parse::{self, Stmt};
use crate::schemas::Resolver;

impl Session {
    /// Makes such a table and gives the tag.
    pub(super) fn create_table_like(
        &mut self,
        create: &CreateLike,
        sink: &mut dyn Sink,
    ) -> Result<String> {
        self.ensure()?;
        self.check_writable("CREATE TABLE")?;
        let table = self.named_for(&create.table)?;
        let mut made = create.table.clone();
        let mut behind = Vec::new();
        // From the last one on, so that places stay what they are.
        for like in create.likes.iter().rev() {
            let copied = self.copied(like, &table)?;
            let (columns, constraints) = definitions(&copied)?;
            made.columns.splice(like.at..like.at, columns);
            made.constraints.splice(0..0, constraints);
            behind.splice(0..0, copied.behind);
        }
        let is_there = self.ensure()?.txn.catalog().has_relation(&table)?;
        let statement = ast::Statement::CreateTable(*made);
        let tag = self.definition(&statement, &create.lines, sink)?;
        if is_there {
            // IF NOT EXISTS has left it alone.
            return Ok(tag);
        }
        for text in behind {
            for parsed in parse::parse(&text, usize::MAX)? {
                let Stmt::Sql(statement) = &parsed.stmt else { unreachable!("it is a definition") };
                self.definition(statement, &parsed.lines, sink)?;
            }
        }
        Ok(tag)
    }

    /// What the store will call the table.
    fn named_for(&mut self, table: &ast::CreateTable) -> Result<String> {
        let is_temporary = super::temporary::of_table(table).is_some();
        if is_temporary {
            self.make_temporary_schema()?;
        }
        let path = self.settings.path();
        let mut resolver = Resolver::new(&mut self.ensure()?.txn, &path);
        match is_temporary {
            true => resolver.new_temporary(&table.name),
            false => resolver.new_table(&table.name),
        }
    }

    fn copied(&mut self, like: &Like, table: &str) -> Result<Copied> {
        let source = self.relation(&like.source)?;
        let objects = Objects::of(&mut self.ensure()?.txn)?;
        objects.copied(&source, like.including, table)?.ok_or_else(|| {
            let message = format!("relation \"{}\" does not exist", names::said(&source));
            SqlError::new(code::UNDEFINED_TABLE, message)
        })
    }
}

/// Columns and constraints as syntax.
fn definitions(copied: &Copied) -> Result<(Vec<ast::ColumnDef>, Vec<ast::TableConstraint>)> {
    let items: Vec<&str> =
        copied.columns.iter().chain(&copied.constraints).map(String::as_str).collect();
    let text = format!("CREATE TABLE copied ({})", items.join(", "));
    let parsed = parse::parse(&text, usize::MAX)?.pop();
    let Some(Stmt::Sql(statement)) = parsed.map(|parsed| parsed.stmt) else {
        return Err(SqlError::unsupported("LIKE a table with such columns"));
    };
    match *statement {
        ast::Statement::CreateTable(table) => Ok((table.columns, table.constraints)),
        other => Err(SqlError::unsupported(format!("LIKE a table that reads {other}"))),
    }
}
