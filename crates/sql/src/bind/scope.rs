//! What names of columns mean: the sources of a query, and those of the queries around it.
//!
//! A name with a source in front is looked for in that source, one without in all columns that are
//! shown. If the query itself has none, the query around it is asked.
//!
//! Invariants: a name that two sources have is ambiguous, and never the first one's.
//! Does not do: binding what the names stand in.

use std::sync::Arc;

use crate::bind::padded;
use crate::error::{Result, SqlError, code};
use crate::expr::{ColumnId, ColumnOrigin, Expr, Typed};
use crate::plan::Table;
use crate::types::SqlType;
use crate::types::collate::{Collated, Rule};
use crate::types::declared::Modifier;

/// A column that expressions may name.
#[derive(Clone, Debug)]
pub(crate) struct ScopeColumn {
    /// What [`Expr::Column`] has: its number in the algebra, or its place in a row of a table.
    pub(crate) id: ColumnId,
    pub(crate) name: String,
    pub(crate) ty: SqlType,
    /// Declared length or precision.
    pub(crate) modifier: Option<Modifier>,
    /// Is it left out of `*`?
    pub(crate) hidden: bool,
    /// How its text compares; `None`: as the default says, by bytes.
    pub(crate) collation: Option<Rule>,
    /// What it is made of, if it is no column by itself.
    pub(crate) computed: Option<Box<Expr>>,
    /// What clients are told of where it comes from.
    pub(crate) origin: Option<ColumnOrigin>,
}

impl ScopeColumn {
    /// A column of a type without a declared length.
    pub(crate) fn new(id: ColumnId, name: impl Into<String>, ty: SqlType) -> ScopeColumn {
        let name = name.into();
        ScopeColumn {
            id,
            name,
            ty,
            modifier: None,
            hidden: false,
            collation: None,
            computed: None,
            origin: None,
        }
    }

    /// Its value.
    pub(crate) fn value(&self) -> Typed {
        let expr = match &self.computed {
            Some(expr) => Expr::clone(expr),
            None => Expr::Column(self.id),
        };
        let expr = padded(expr, self.modifier);
        let collated = Collated::of_column(self.collation.as_ref());
        let origin = self.origin;
        Typed { modifier: self.modifier, collated, origin, ..Typed::new(expr, self.ty) }
    }
}

/// A source that names may have in front.
#[derive(Clone, Debug, Default)]
pub(crate) struct Relation {
    pub(crate) alias: String,
    /// Schema of a source that has no alias.
    pub(crate) schema: Option<String>,
    pub(crate) columns: Vec<ScopeColumn>,
    /// Does its alias mean the value of its first column, which has a name of its own? So it is of
    /// functions that give one plain value a row.
    pub(crate) is_value: bool,
    /// May expressions of this clause name it? What stands beside a join that is not LATERAL may
    /// not.
    pub(crate) is_hidden: bool,
    /// May an outer join have no row of it?
    pub(crate) may_miss: bool,
    /// The table or view whose columns it has.
    pub(crate) of_table: Option<Arc<Table>>,
}

/// The sources of one query.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    pub(crate) relations: Vec<Relation>,
    /// Columns that names without a source mean, in the order of `*`.
    pub(crate) shown: Vec<ScopeColumn>,
    /// Where a LATERAL source meets the table that the statement changes, which it may not name:
    /// the columns of that have numbers below this one.
    pub(crate) changed: Option<ColumnId>,
}

/// The column that a name means.
pub(crate) enum Lookup<'s> {
    Found(&'s ScopeColumn),
    /// The source is there and has no such column.
    NoColumn,
    /// There is no such source, or no source has the column.
    NoSource,
}

impl Scope {
    /// Of one source.
    pub(crate) fn of(relation: Relation) -> Scope {
        let shown = relation.columns.clone();
        Scope { relations: vec![relation], shown, changed: None }
    }

    /// Columns without a source that names could have in front.
    pub(crate) fn unnamed(columns: Vec<ScopeColumn>) -> Scope {
        Scope { relations: Vec::new(), shown: columns, changed: None }
    }

    /// Adds the sources of another scope behind its own.
    ///
    /// # Errors
    /// `42712` for an alias that both have.
    pub(crate) fn join(mut self, other: Scope) -> Result<Scope> {
        for relation in &other.relations {
            let same =
                |own: &&Relation| own.alias == relation.alias && own.schema == relation.schema;
            if self.relations.iter().any(|own| same(&own)) {
                let message = format!("table name \"{}\" specified more than once", relation.alias);
                return Err(SqlError::new(code::DUPLICATE_ALIAS, message));
            }
        }
        self.relations.extend(other.relations);
        self.shown.extend(other.shown);
        Ok(self)
    }

    /// Calls `look` for every column, of its sources and of those without one.
    pub(crate) fn each(&self, look: &mut dyn FnMut(&ScopeColumn)) {
        let named = self.relations.iter().flat_map(|relation| &relation.columns);
        named.chain(&self.shown).for_each(look);
    }

    /// The source of this name.
    ///
    /// # Errors
    /// `42P09` if there are two, `42P01` or `42P10` if it may not be named here.
    pub(crate) fn relation(&self, schema: Option<&str>, alias: &str) -> Result<Option<&Relation>> {
        let is_it = |relation: &&Relation| {
            relation.alias == alias
                && schema.is_none_or(|schema| relation.schema.as_deref() == Some(schema))
        };
        let mut found = self.relations.iter().filter(is_it);
        let first = found.next();
        if found.next().is_some() {
            let message = format!("table reference \"{alias}\" is ambiguous");
            return Err(SqlError::new(code::AMBIGUOUS_ALIAS, message));
        }
        match first {
            Some(relation) if relation.is_hidden => Err(not_lateral(alias)),
            Some(relation) if relation.columns.iter().any(|one| self.is_changed(one)) => {
                Err(self.refused())
            }
            _ => Ok(first),
        }
    }

    /// The column that a name means here.
    ///
    /// # Errors
    /// `42702` if several have it, and those of [`Scope::relation`].
    pub(crate) fn find(
        &self,
        schema: Option<&str>,
        source: Option<&str>,
        name: &str,
    ) -> Result<Lookup<'_>> {
        let (columns, missing) = match source {
            None => (&self.shown, Lookup::NoSource),
            Some(alias) => match self.relation(schema, alias)? {
                None => return Ok(Lookup::NoSource),
                Some(relation) => (&relation.columns, Lookup::NoColumn),
            },
        };
        let mut found = columns.iter().filter(|column| column.name == name);
        let Some(first) = found.next() else {
            let is_it = |relation: &&Relation| relation.is_value && relation.alias == name;
            let whole = self.relations.iter().find(is_it).filter(|_| source.is_none());
            return Ok(whole.map_or(missing, |relation| Lookup::Found(&relation.columns[0])));
        };
        if self.is_changed(first) {
            return Err(self.refused());
        }
        if found.next().is_some() {
            let message = format!("column reference {} is ambiguous", shown(source, name));
            return Err(SqlError::new(code::AMBIGUOUS_COLUMN, message));
        }
        Ok(Lookup::Found(first))
    }

    /// Is it a column of the table that the statement changes?
    fn is_changed(&self, column: &ScopeColumn) -> bool {
        self.changed.is_some_and(|end| column.id < end)
    }

    /// The error for a source that names the table that the statement changes.
    fn refused(&self) -> SqlError {
        let alias = self.relations.first().map_or("", |relation| &relation.alias);
        SqlError { sqlstate: code::INVALID_COLUMN_REFERENCE, ..not_lateral(alias) }
    }

    /// The name and source of the column of this number, for messages.
    pub(crate) fn described(&self, id: ColumnId) -> Option<String> {
        let of = |relation: &Relation| {
            let column = relation.columns.iter().find(|column| column.id == id)?;
            Some(format!("{}.{}", relation.alias, column.name))
        };
        let plain = || self.shown.iter().find(|column| column.id == id).map(|c| c.name.clone());
        self.relations.iter().find_map(of).or_else(plain)
    }
}

/// A column as messages show it.
pub(crate) fn shown(source: Option<&str>, name: &str) -> String {
    match source {
        Some(source) => format!("{source}.{name}"),
        None => format!("\"{name}\""),
    }
}

pub(super) fn not_lateral(alias: &str) -> SqlError {
    let message = format!("invalid reference to FROM-clause entry for table \"{alias}\"");
    let detail = format!(
        "There is an entry for table \"{alias}\", but it cannot be referenced from this part of \
         the query."
    );
    SqlError::new(code::UNDEFINED_TABLE, message).detail(detail)
}
