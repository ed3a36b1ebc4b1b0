//! CREATE SCHEMA with tables, indexes and sequences that are to be in it.
//!
//! Invariants: all of it happens or nothing; names without a schema mean the new one first, and
//! afterwards what they meant before. Does not do: a schema alone, which is a definition.

use sqlparser::ast::{self, Ident, ObjectName, ObjectNamePart};

use super::{Session, Sink};
use crate::bind::ddl::{self, Definition};
use crate::error::{Result, SqlError, code};
use crate::names::identifier;
use crate::parse::utility::Utility;
use crate::parse::{Parsed, Stmt, identifiers};
use crate::schemas::Resolver;

impl Session {
    /// Makes a schema and what is to be in it, and gives the tag.
    pub(super) fn create_schema(
        &mut self,
        schema: &Parsed,
        elements: &[Parsed],
        sink: &mut dyn Sink,
    ) -> Result<String> {
        let Stmt::Sql(statement) = &schema.stmt else { unreachable!("it is read by sqlparser") };
        let mut made = String::new();
        let read = |resolver: &mut Resolver<'_>| {
            let definition = ddl::definition(statement, &schema.lines, resolver)?;
            if let Definition::CreateSchema { name, .. } = &definition {
                made.clone_from(name);
            }
            Ok(definition)
        };
        let tag = self.define_as(read, sink)?;
        let path = self.settings.path();
        let names = std::iter::once(&made).chain(path.all()).map(|name| identifier(name));
        let names: Vec<String> = names.collect();
        let (before, several) = (self.settings.mark(), self.several);
        self.settings.set("search_path", Some(&names), true)?;
        // What cannot be undone is refused.
        self.several = true;
        let result = elements.iter().try_for_each(|element| self.element(&made, element, sink));
        self.several = several;
        self.settings.return_to(&before);
        result.map(|()| tag)
    }

    fn element(&mut self, schema: &str, element: &Parsed, sink: &mut dyn Sink) -> Result<()> {
        match &element.stmt {
            Stmt::Utility(Utility::CreateSequence { name, options, if_not_exists }) => {
                let name = beside(schema, name)?;
                let read = |resolver: &mut Resolver<'_>| {
                    ddl::create_sequence(&name, options, *if_not_exists, resolver)
                };
                self.define_as(read, sink).map(drop)
            }
            Stmt::Sql(statement) => {
                let mut statement = statement.clone();
                match statement.as_mut() {
                    ast::Statement::CreateTable(table) => put_into(schema, &mut table.name)?,
                    ast::Statement::CreateView(view) => put_into(schema, &mut view.name)?,
                    ast::Statement::CreateIndex(index) => put_into(schema, &mut index.table_name)?,
                    other => unreachable!("refused when it was read: {other}"),
                }
                self.definition(&statement, &element.lines, sink).map(drop)
            }
            Stmt::Utility(other) => unreachable!("refused when it was read: {other:?}"),
        }
    }
}

/// The parts of a name in `schema`.
fn beside(schema: &str, parts: &[String]) -> Result<Vec<String>> {
    match parts {
        [name] => Ok(vec![schema.to_owned(), name.clone()]),
        [given, _] if given != schema => {
            let message = format!(
                "CREATE specifies a schema ({given}) different from the one being created \
                 ({schema})"
            );
            Err(SqlError::new(code::INVALID_SCHEMA_DEFINITION, message))
        }
        _ => Ok(parts.to_vec()),
    }
}

fn put_into(schema: &str, name: &mut ObjectName) -> Result<()> {
    let parts = beside(schema, &identifiers::parts(name)?)?;
    let part = |part: &String| ObjectNamePart::Identifier(Ident::with_quote('"', part));
    *name = ObjectName(parts.iter().map(part).collect());
    Ok(())
}
