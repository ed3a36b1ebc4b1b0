//! Indexes on expressions: the columns that have the values of these.
//!
//! A column that clients cannot name is added to the table, and every row gets the value of the
//! expression there. Indexes with the same expression share it. It goes with the last of them.
//!
//! Invariants: the expression is immutable and calls nothing that can be dropped by itself; every
//! row has its value from the statement on that makes the index.
//! Does not do: the values of rows that are written later (`exec::rows`).

use rightlink::{AlterTable, ColumnSchema, IndexInfo, IndexSchema, KeyCollation, KeyColumn, Value};
use sqlparser::ast::Expr as Ast;

use super::schema::without_parentheses;
use super::{Definer, check_keys, named};
use crate::bind::Binder;
use crate::bind::ddl::{Commented, IndexPart, NewIndex, name_of_expression};
use crate::bind::reading::Reading;
use crate::error::{Result, SqlError, code};
use crate::exec::failure::{carry, unless};
use crate::exec::rows::to_value;
use crate::exec::tables::Tables;
use crate::expr::immutable::is_immutable;
use crate::expr::{Expr, Typed};
use crate::names::{computed, identifier, is_computed};
use crate::notes::{ColumnNotes, ComputedNotes, TableNotes};
use crate::parse::{self, Lines};
use crate::plan::Table;
use crate::types::collate::Rule;
use crate::types::declared::Declared;
use crate::types::{Datum, Row, SqlType};

/// An index that goes while a column of its expressions changes, and comes back.
pub(super) struct Rebuilt {
    index: NewIndex,
    comment: Option<String>,
}

impl Definer<'_> {
    /// The name of the column that has the values of an expression, which is added if there is
    /// none. One that is a column itself is that column.
    pub(super) fn computed_column(&mut self, name: &str, node: &Ast) -> Result<String> {
        let table = self.table(name)?;
        let (value, text) = self.bind_expression(node, &table)?;
        let kept = ComputedNotes { text, name: name_of_expression(node) };
        if let Expr::Column(at) = unpadded(&value.expr) {
            return match table.shown().get(*at) {
                Some(column) => Ok(column.name.clone()),
                None => Err(SqlError::unsupported("index creation on system columns")),
            };
        }
        if let Some(at) = table.computed.iter().position(|known| known.same(&value.expr)) {
            return Ok(table.info.columns[table.shown().len() + at].name.clone());
        }
        refuse_expression(&value, &table)?;
        let column = new_column(&value, kept, &table)?;
        check_keys(std::slice::from_ref(&column), [&column.name])?;
        self.txn.alter_table(name, AlterTable::AddColumn(&column))?;
        self.fill_computed(&table, &column, &value.expr)?;
        Ok(column.name)
    }

    /// Binds an expression, and gives the text that is kept of it.
    fn bind_expression(&mut self, node: &Ast, table: &Table) -> Result<(Typed, String)> {
        self.bind_kept(node, |binder, node| binder.index_expression(node, table))
    }

    /// Binds an expression that a table keeps, and gives the text that is kept of it.
    pub(super) fn bind_kept<T>(
        &mut self,
        node: &Ast,
        bind: impl FnOnce(&mut Binder<'_>, &Ast) -> Result<T>,
    ) -> Result<(T, String)> {
        let node = self.settled(without_parentheses(node))?;
        let text = node.to_string();
        let lines = Lines::of(&text);
        let mut tables = Tables(self.txn);
        let mut binder = Binder::new(&mut tables, &lines, &[]);
        binder.reading = Reading::to_keep(self.context.times.clone());
        let value = bind(&mut binder, &node)?;
        if !binder.params.is_empty() {
            let message = "there is no parameter $1";
            return Err(SqlError::new(code::UNDEFINED_PARAMETER, message));
        }
        let text = binder.reading.pinned(&text)?;
        // sqlparser writes names of types in capitals.
        let text = parse::types::with_types(&text, |parts| match parts {
            [name] => SqlType::of_short_name(name).map(|_| name.clone()),
            _ => None,
        })?;
        Ok((value, text))
    }

    /// Gives each row the value of an expression over the other columns.
    pub(super) fn fill_computed(
        &mut self,
        table: &Table,
        column: &ColumnSchema,
        expr: &Expr,
    ) -> Result<()> {
        let context = self.context;
        let value_of = |row: &[Value]| {
            context.check_interrupt()?;
            let row = Datum::stored_row(&row[..table.types.len()], &table.types);
            to_value(expr.eval(&row.collect::<Result<Row>>()?, context)?)
        };
        self.fill(&table.info.name, column, &value_of)
    }

    /// Gives each row a value in a column, also those that the snapshot does not show.
    pub(super) fn fill(
        &mut self,
        table: &str,
        column: &ColumnSchema,
        value_of: &dyn Fn(&[Value]) -> Result<Value>,
    ) -> Result<()> {
        let mut failed = None;
        let mut of_row = |row: &[Value]| carry(&mut failed, value_of(row));
        let mut same = Ok;
        let filled = self.txn.alter_table(
            table,
            AlterTable::ColumnType {
                column: &column.name,
                to: column.kind,
                convert: &mut same,
                of_row: Some(&mut of_row),
            },
        );
        unless(failed, filled)
    }

    /// Drops the columns of expressions that no index has any more.
    pub(super) fn drop_unused_expressions(&mut self, name: &str) -> Result<()> {
        let info = named(name, self.txn.catalog().describe(name))?;
        for column in info.columns.iter().filter(|column| column.computed) {
            if !info.indexes.iter().any(|index| index.uses(&column.name)) {
                self.txn.alter_table(name, AlterTable::DropColumn(&column.name))?;
                crate::statistics::store::change(self.txn, info.id, |known| {
                    known.columns.retain(|known| known.name != column.name);
                })?;
            }
        }
        Ok(())
    }

    /// Drops the indexes whose expressions name a column whose type changes: what they are made of
    /// again.
    pub(super) fn take_expressions(&mut self, table: &Table, at: usize) -> Result<Vec<Rebuilt>> {
        let mut taken = Vec::new();
        let comments = TableNotes::decode(&table.info.note).of_indexes;
        for index in table.info.indexes.iter().filter(|index| depends(index, table, at)) {
            let comment = comments.iter().find(|(id, _)| *id == index.id);
            let comment = comment.map(|(_, text)| text.clone());
            taken.push(Rebuilt { index: as_new(index, table)?, comment });
        }
        for one in &taken {
            self.txn.drop_index(&one.index.schema.name)?;
        }
        self.drop_unused_expressions(&table.info.name)?;
        Ok(taken)
    }

    /// Makes these indexes again.
    pub(super) fn put_expressions(&mut self, table: &str, taken: Vec<Rebuilt>) -> Result<()> {
        for Rebuilt { index, comment } in taken {
            self.create_index(table, &index, false)?;
            if comment.is_some() {
                self.comment(&Commented::Index(index.schema.name.clone()), comment)?;
            }
        }
        Ok(())
    }
}

/// Does the key of an index have an expression that names the column at `at`?
pub(super) fn depends(index: &IndexInfo, table: &Table, at: usize) -> bool {
    let first = table.shown().len();
    let mut computed = table.info.columns[first..].iter().zip(&table.computed);
    computed.any(|(column, expr)| index.uses(&column.name) && names(expr, at))
}

/// Does an expression over a row name the column at `at`?
pub(super) fn names(expr: &Expr, at: usize) -> bool {
    let mut found = false;
    expr.walk(&mut |inner| found |= matches!(inner, Expr::Column(place) if *place == at));
    found
}

/// An index as a statement would make it.
fn as_new(index: &IndexInfo, table: &Table) -> Result<NewIndex> {
    let mut parts = Vec::with_capacity(index.columns.len());
    let mut columns = index.columns.clone();
    for (at, key) in columns.iter_mut().enumerate() {
        let place = table.info.columns.iter().position(|column| column.name == key.name);
        let class = table.notes.class(index.id, at).map(str::to_owned);
        let computed = place.and_then(|at| table.column_notes[at].computed.as_ref());
        let own = place.and_then(|at| table.info.columns[at].collation.as_ref());
        if key.collation.given() == own {
            key.collation = KeyCollation::OfColumn;
        }
        if computed.is_some() {
            key.name = String::new();
        }
        let expression = computed.map(|one| parse::expression(&one.text)).transpose()?;
        parts.push(IndexPart { collation: None, class, expression });
    }
    let condition = index.predicate.as_ref().map(|predicate| {
        let quoted = predicate.try_map(|column| Ok::<_, SqlError>(identifier(column)))?;
        parse::expression(&quoted.to_string())
    });
    let schema = IndexSchema { columns, predicate: None, ..IndexSchema::clone(index) };
    let condition = condition.transpose()?;
    Ok(NewIndex { schema, named: true, condition, parts, late: None })
}

/// The column of a new expression.
fn new_column(value: &Typed, kept: ComputedNotes, table: &Table) -> Result<ColumnSchema> {
    let unsupported =
        || SqlError::unsupported(format!("an index on an expression of type {}", value.ty.name()));
    let is_bare = !matches!(value.ty, SqlType::Bpchar | SqlType::Unknown | SqlType::Enum(_));
    let kind = value.ty.to_column().filter(|_| is_bare).ok_or_else(unsupported)?;
    let taken = |name: &str| table.info.columns.iter().any(|column| column.name == name);
    let name = (1..).map(computed).find(|name| !taken(name)).expect("numbers have no end");
    let mut notes = ColumnNotes { computed: Some(kept), ..ColumnNotes::default() };
    notes.declare(Declared::plain(value.ty));
    let rule = value.collated.of_result();
    let (collation, by_bytes) = rule.as_ref().map_or((None, None), Rule::kept);
    notes.collation = by_bytes;
    let note = notes.encode();
    let base = ColumnSchema::new(name, kind).nullable();
    Ok(ColumnSchema { note, collation, computed: true, ..base })
}

/// Fails for an expression that is another at other times, or that names what can be dropped.
fn refuse_expression(value: &Typed, table: &Table) -> Result<()> {
    if !is_immutable(&value.expr, &table.types) {
        let message = "functions in index expression must be marked IMMUTABLE";
        return Err(SqlError::new(code::INVALID_OBJECT_DEFINITION, message));
    }
    match names_made_type(&value.expr) {
        false => Ok(()),
        true => {
            let what = "an index on an expression that names a type made by CREATE";
            Err(SqlError::unsupported(what))
        }
    }
}

/// Does an expression name a type made by CREATE?
pub(super) fn names_made_type(expr: &Expr) -> bool {
    let mut is_made = false;
    expr.walk(&mut |inner| {
        let ty = match inner {
            Expr::Const(value) => value.type_of(),
            Expr::Cast(_, to) => Some(*to),
            Expr::Checked(_) => {
                is_made = true;
                None
            }
            _ => None,
        };
        let element = ty.map(|ty| ty.element().unwrap_or(ty));
        is_made |= matches!(element, Some(SqlType::Enum(_)));
    });
    is_made
}

/// A column without what fills it up.
fn unpadded(expr: &Expr) -> &Expr {
    match expr {
        Expr::Pad(inner, _) => inner,
        other => other,
    }
}

/// Does a key have a part that is an expression?
pub(super) fn has_expression(columns: &[KeyColumn]) -> bool {
    columns.iter().any(|key| is_computed(&key.name))
}
