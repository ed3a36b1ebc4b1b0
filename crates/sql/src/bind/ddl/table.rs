//! CREATE TABLE: columns and constraints.
//!
//! Invariants: a name that a constraint does not have is given where it is made (`exec::ddl`).
//! Does not do: reading the expressions of defaults and checks.

use rightlink::{ColumnSchema, IdentitySchema, IndexSchema, TableSchema, Type};
use sqlparser::ast::{
    self, ColumnOption, ConstraintReferenceMatchKind, DataType, Expr as Ast, GeneratedAs,
    GeneratedExpressionMode, ReferentialAction, TableConstraint,
};

use super::super::from::check_column_name;
use super::{
    Definition, KeyIndex, LateIndex, NamedSequence, NewCheck, NewPrimary, NewTable,
    columns_in_name, plain_columns, primary, sequence, storage, unique,
};
use crate::error::{Result, SqlError, code};
use crate::names::{self, bare, beside};
use crate::notes::{Action, AnalyzeAfter, ColumnNotes, Deferral, ForeignKey, MadeTypes};
use crate::parse::utility::sequence::SequenceOptions;
use crate::parse::{identifiers, identity_names};
use crate::plan::Column;
use crate::schemas::{self, Resolver};
use crate::types::SqlType;
use crate::types::declared::Declared;

pub(super) fn create(create: &ast::CreateTable, resolver: &mut Resolver<'_>) -> Result<Definition> {
    refuse_table(create)?;
    let mut table = empty(create, resolver)?;
    for column in &create.columns {
        table.column(column, resolver)?;
    }
    for constraint in &create.constraints {
        table.constraint(constraint, resolver)?;
    }
    let late = table.late.iter().filter(|(_, kind)| kind.primary);
    let late = late.flat_map(|(at, _)| &table.schema.indexes[*at].columns).map(|key| &key.name);
    let keys: Vec<String> = table.schema.primary_key.iter().chain(late).cloned().collect();
    for key in keys {
        let column = table.schema.columns.iter_mut().find(|column| column.name == key);
        let Some(column) = column else {
            let message = format!("column \"{key}\" named in key does not exist");
            return Err(SqlError::new(code::UNDEFINED_COLUMN, message));
        };
        column.nullable = false;
    }
    check_keys(&table)?;
    Ok(Definition::CreateTable { table: Box::new(table), if_not_exists: create.if_not_exists })
}

/// The table that CREATE TABLE AS makes of a query with these columns; `given` are names for the
/// first of them.
pub(crate) fn create_as(
    create: &ast::CreateTable,
    given: &[ast::Ident],
    columns: &[Column],
    resolver: &mut Resolver<'_>,
) -> Result<NewTable> {
    refuse_table(create)?;
    if given.len() > columns.len() {
        return Err(SqlError::syntax("too many column names were specified"));
    }
    let mut table = empty(create, resolver)?;
    for (at, column) in columns.iter().enumerate() {
        let name = given.get(at).map_or_else(|| column.name.clone(), identifiers::ident);
        if table.schema.columns.iter().any(|known| known.name == name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(code::DUPLICATE_COLUMN, message));
        }
        table.schema.columns.push(column_of_query(name, column)?);
        let mut notes = ColumnNotes::default();
        table.declare(&mut notes, Declared::modified(column.ty, column.modifier));
        table.notes.push(notes);
        table.defaults.push(None);
        table.generated.push(None);
        table.collations.push(column.collation.as_ref().map(|rule| rule.name().to_owned()));
    }
    Ok(table)
}

/// The column called `name` that keeps the values of a column of a query.
pub(crate) fn column_of_query(name: String, column: &Column) -> Result<ColumnSchema> {
    check_column_name(&name)?;
    if matches!(column.ty, SqlType::Record | SqlType::Void) {
        let message = format!("column \"{name}\" has pseudo-type {}", column.ty.name());
        return Err(SqlError::new(code::INVALID_TABLE_DEFINITION, message));
    }
    if identifiers::is_of_rows(column.ty) {
        let what = format!("a column of type {}, the row type of a table", column.ty.name());
        return Err(SqlError::unsupported(what));
    }
    let is_blank = column.ty == SqlType::Bpchar && column.modifier.is_none();
    let kind = column.ty.to_column().filter(|_| column.ty != SqlType::Unknown && !is_blank);
    let kind = kind.ok_or_else(|| {
        SqlError::unsupported(format!("a column of type {}", column.ty.name()))
            .detail("The store has no such type.")
    })?;
    Ok(ColumnSchema::new(name, kind).nullable())
}

/// The table without columns, under its name and with its options.
fn empty(create: &ast::CreateTable, resolver: &mut Resolver<'_>) -> Result<NewTable> {
    let is_temporary = create.temporary || schemas::is_of_temporary(&create.name);
    let name = match is_temporary {
        true => resolver.new_temporary(&create.name)?,
        false => resolver.new_table(&create.name)?,
    };
    let mut table = NewTable::new(&name);
    // A crash ends all sessions.
    table.schema.logged = !create.unlogged && !is_temporary;
    let storage = storage::of_table(&create.table_options)?;
    table.schema.fillfactor = storage.fillfactor.unwrap_or(100);
    table.schema.auto_vacuum = storage.apply(table.schema.auto_vacuum);
    table.analyze = storage.analyze;
    Ok(table)
}

/// Fails if a key leads from a temporary table to another one or back.
fn check_keys(table: &NewTable) -> Result<()> {
    let own = names::is_temporary(&table.schema.name);
    if table.keys.iter().all(|key| names::is_temporary(&key.parent) == own) {
        return Ok(());
    }
    let kind = if own { "temporary" } else { "permanent" };
    let message = format!("constraints on {kind} tables may reference only {kind} tables");
    Err(SqlError::new(code::INVALID_TABLE_DEFINITION, message))
}

fn refuse_table(create: &ast::CreateTable) -> Result<()> {
    let refused = [
        (create.or_replace, "CREATE OR REPLACE TABLE"),
        (create.temporary && create.unlogged, "an unlogged temporary table"),
        (create.external || create.dynamic || create.transient || create.volatile, "such a table"),
        (create.query.is_some(), "CREATE TABLE AS"),
        (create.like.is_some() || create.clone.is_some(), "CREATE TABLE LIKE"),
        (create.inherits.is_some(), "INHERITS"),
        (create.partition_of.is_some() || create.partition_by.is_some(), "partitioning"),
        (create.comment.is_some(), "COMMENT"),
        (create.without_rowid || create.strict, "WITHOUT ROWID or STRICT"),
        (create.location.is_some() || create.file_format.is_some(), "such a table"),
    ];
    if let Some((_, what)) = refused.iter().find(|(found, _)| *found) {
        return Err(SqlError::unsupported(what));
    }
    let is_temporary = create.temporary || schemas::is_of_temporary(&create.name);
    if create.on_commit.is_some() && !is_temporary {
        let message = "ON COMMIT can only be used on temporary tables";
        return Err(SqlError::new(code::INVALID_TABLE_DEFINITION, message));
    }
    Ok(())
}

/// The integer type of a column that is declared `serial`.
fn serial(kind: &DataType) -> Option<Type> {
    let DataType::Custom(name, modifiers) = kind else { return None };
    let name = identifiers::parts(name).ok()?.pop()?;
    match name.as_str() {
        "smallserial" | "serial2" => Some(Type::Int2),
        "serial" | "serial4" => Some(Type::Int4),
        "bigserial" | "serial8" => Some(Type::Int8),
        _ => None,
    }
    .filter(|_| modifiers.is_empty())
}

/// What the options of a column have said so far.
#[derive(Default)]
struct Said {
    nullable: Option<bool>,
    default: bool,
    identity: bool,
    generation: bool,
    collation: bool,
}

impl NewTable {
    /// A table called `name` without columns.
    pub(super) fn new(name: &str) -> NewTable {
        NewTable {
            schema: TableSchema::new(name),
            notes: Vec::new(),
            made: MadeTypes::new(),
            defaults: Vec::new(),
            generated: Vec::new(),
            collations: Vec::new(),
            sequences: Vec::new(),
            checks: Vec::new(),
            keys: Vec::new(),
            unnamed: Vec::new(),
            late: Vec::new(),
            primary_name: None,
            analyze: AnalyzeAfter::default(),
        }
    }

    /// Notes the type of a column.
    fn declare(&mut self, notes: &mut ColumnNotes, declared: Declared) {
        notes.declare(declared);
        if let Some(made) = &notes.made {
            let ty = declared.ty.element().unwrap_or(declared.ty);
            self.made.insert(made.name.clone(), ty);
        }
    }

    /// Adds a column that nobody has looked at, without constraints.
    pub(super) fn unchecked_column(&mut self, name: String, kind: Type, declared: Declared) {
        let mut notes = ColumnNotes::default();
        self.declare(&mut notes, declared);
        self.schema.columns.push(ColumnSchema::new(name, kind).nullable());
        self.notes.push(notes);
        self.defaults.push(None);
        self.collations.push(None);
    }

    /// Adds a column with its constraints.
    pub(super) fn column(
        &mut self,
        column: &ast::ColumnDef,
        resolver: &mut Resolver<'_>,
    ) -> Result<()> {
        let name = identifiers::ident(&column.name);
        if self.schema.columns.iter().any(|known| known.name == name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(code::DUPLICATE_COLUMN, message));
        }
        check_column_name(&name)?;
        let mut notes = ColumnNotes::default();
        let schema = match serial(&column.data_type) {
            Some(kind) => {
                notes.serial = true;
                ColumnSchema::new(name.clone(), kind).generated()
            }
            None => {
                let declared = identifiers::column_type(&column.data_type, resolver)?;
                self.declare(&mut notes, declared);
                let unsupported = || {
                    SqlError::unsupported(format!("a column of type {}", declared.ty.name()))
                        .detail("The store has no such type.")
                };
                let kind = declared.ty.to_column().filter(|_| declared.ty != SqlType::Unknown);
                ColumnSchema::new(name.clone(), kind.ok_or_else(unsupported)?).nullable()
            }
        };
        self.schema.columns.push(schema);
        self.notes.push(notes);
        self.defaults.push(None);
        self.generated.push(None);
        self.collations.push(None);
        let mut said = Said::default();
        for option in &column.options {
            self.check_option(&name, &option.option, &mut said)?;
            self.option(&name, option, resolver)?;
        }
        // What `serial` stands for comes behind the options.
        match serial(&column.data_type) {
            Some(_) if said.identity => Err(self.both_specified("default and identity", &name)),
            Some(_) if said.generation => {
                Err(self.both_specified("default and generation expression", &name))
            }
            Some(_) if said.nullable == Some(true) => Err(self.conflicting_null(&name)),
            _ => Ok(()),
        }
    }

    /// Fails if an option of a column does not go with those in front of it.
    fn check_option(&self, name: &str, option: &ColumnOption, said: &mut Said) -> Result<()> {
        let nullable = match option {
            ColumnOption::Null => Some(true),
            ColumnOption::NotNull => Some(false),
            ColumnOption::Generated { generation_expr: None, .. } => Some(false),
            _ => None,
        };
        if nullable.is_some() && said.nullable.is_some_and(|before| Some(before) != nullable) {
            return Err(self.conflicting_null(name));
        }
        said.nullable = nullable.or(said.nullable);
        let twice = match option {
            ColumnOption::Default(_) => {
                let serial = self.notes.last().is_some_and(|notes| notes.serial);
                (std::mem::replace(&mut said.default, true) || serial).then_some("default values")
            }
            ColumnOption::Generated { generation_expr: None, .. } => {
                std::mem::replace(&mut said.identity, true).then_some("identity specifications")
            }
            ColumnOption::Generated { .. } => {
                std::mem::replace(&mut said.generation, true).then_some("generation clauses")
            }
            ColumnOption::Collation(_) => {
                if std::mem::replace(&mut said.collation, true) {
                    return Err(SqlError::syntax("multiple COLLATE clauses not allowed"));
                }
                None
            }
            _ => None,
        };
        let both = match (said.default, said.identity, said.generation) {
            (true, true, _) => Some("default and identity"),
            (true, _, true) => Some("default and generation expression"),
            (_, true, true) => Some("identity and generation expression"),
            _ => None,
        };
        if let Some(both) = both {
            return Err(self.both_specified(both, name));
        }
        let Some(what) = twice else { return Ok(()) };
        let values = if what == "identity specifications" { "" } else { "specified " };
        let table = bare(&self.schema.name);
        let message = format!("multiple {what} {values}for column \"{name}\" of table \"{table}\"");
        Err(SqlError::syntax(message))
    }

    fn both_specified(&self, both: &str, name: &str) -> SqlError {
        let table = bare(&self.schema.name);
        SqlError::syntax(format!(
            "both {both} specified for column \"{name}\" of table \"{table}\""
        ))
    }

    fn conflicting_null(&self, name: &str) -> SqlError {
        let table = bare(&self.schema.name);
        SqlError::syntax(format!(
            "conflicting NULL/NOT NULL declarations for column \"{name}\" of table \"{table}\""
        ))
    }

    fn option(
        &mut self,
        name: &str,
        option: &ast::ColumnOptionDef,
        resolver: &mut Resolver<'_>,
    ) -> Result<()> {
        let own = option.name.as_ref().map(identifiers::ident);
        let last = self.schema.columns.last_mut().expect("a column was added");
        match &option.option {
            ColumnOption::Null => {}
            ColumnOption::NotNull => last.nullable = false,
            ColumnOption::PrimaryKey(key) => {
                last.nullable = false;
                let key = primary(key, vec![name.to_owned()])?;
                self.set_primary(NewPrimary { name: own, ..key })?;
            }
            ColumnOption::Unique(key) => {
                self.add_unique(own, unique(key, &[name.to_owned()])?);
            }
            ColumnOption::Collation(collation) => {
                if last.kind != Type::Text {
                    let notes = self.notes.last().expect("a column was added");
                    let ty = notes.type_of(last.kind, &self.made).name();
                    let message = format!("collations are not supported by type {ty}");
                    return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
                }
                let named = self.collations.last_mut().expect("a column was added");
                *named = Some(identifiers::collation(collation)?);
            }
            ColumnOption::Default(value) => {
                refuse_default(value)?;
                let default = self.defaults.last_mut().expect("a column was added");
                *default = Some(value.clone()).filter(|value| !is_null(value));
            }
            ColumnOption::Check(check) => self.add_check(own, check)?,
            ColumnOption::ForeignKey(key) => {
                let mut key = foreign_key(key, resolver)?;
                key.name = own.unwrap_or(key.name);
                key.columns = vec![name.to_owned()];
                self.keys.push(key);
            }
            ColumnOption::Generated {
                generated_as,
                sequence_options,
                generation_expr: None,
                ..
            } => {
                last.identity = Some(identity(name, last.kind, *generated_as, sequence_options)?);
                last.nullable = false;
            }
            ColumnOption::Generated {
                generation_expr: Some(expression),
                generation_expr_mode: Some(GeneratedExpressionMode::Stored),
                generated_keyword: true,
                ..
            } => {
                let generated = self.generated.last_mut().expect("a column was added");
                *generated = Some(expression.clone());
            }
            ColumnOption::Generated { .. } => {
                return Err(SqlError::unsupported("a generated column that is not stored"));
            }
            other => match sequence_named(other) {
                Some(parts) => {
                    self.sequences.push(NamedSequence { column: name.to_owned(), parts });
                }
                None => return Err(SqlError::unsupported(format!("the column option {other}"))),
            },
        }
        Ok(())
    }

    /// Adds a constraint of the table.
    fn constraint(
        &mut self,
        constraint: &TableConstraint,
        resolver: &mut Resolver<'_>,
    ) -> Result<()> {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                self.set_primary(primary(key, plain_columns(&key.columns)?)?)
            }
            TableConstraint::Unique(key) => {
                let index = unique(key, &plain_columns(&key.columns)?)?;
                self.add_unique(key.name.as_ref().map(identifiers::ident), index);
                Ok(())
            }
            TableConstraint::Check(check) => {
                self.add_check(check.name.as_ref().map(identifiers::ident), check)
            }
            TableConstraint::ForeignKey(key) => {
                self.keys.push(foreign_key(key, resolver)?);
                Ok(())
            }
            other => Err(SqlError::unsupported(format!("the constraint {other}"))),
        }
    }

    fn add_check(&mut self, name: Option<String>, check: &ast::CheckConstraint) -> Result<()> {
        self.checks.push(new_check(name, check)?);
        Ok(())
    }

    fn set_primary(&mut self, key: NewPrimary) -> Result<()> {
        let has_late = self.late.iter().any(|(_, kind)| kind.primary);
        if has_late || !self.schema.primary_key.is_empty() {
            let table = bare(&self.schema.name);
            let message = format!("multiple primary keys for table \"{table}\" are not allowed");
            return Err(SqlError::new(code::INVALID_TABLE_DEFINITION, message));
        }
        let name = key.name.as_ref().map(|name| beside(&self.schema.name, name));
        if let Some(LateIndex { schema, kind }) = key.late_index() {
            let wanted = format!("{}_pkey", self.schema.name);
            self.add_index(name.ok_or(wanted), KeyIndex { schema, late: Some(kind) });
            return Ok(());
        }
        (self.schema.primary_key, self.primary_name) = (key.columns, name);
        Ok(())
    }

    /// A unique constraint is a unique index called after its columns.
    fn add_unique(&mut self, name: Option<String>, index: KeyIndex) {
        let table = &self.schema.name;
        let wanted = format!("{table}_{}_key", columns_in_name(&index.schema));
        let name = name.map(|name| beside(table, &name));
        self.add_index(name.ok_or(wanted), index);
    }

    /// Adds the index of a key: by the name that is given, or one like that which is wanted.
    fn add_index(&mut self, name: std::result::Result<String, String>, index: KeyIndex) {
        let KeyIndex { schema: index, late } = index;
        let schema = &mut self.schema;
        let place = schema.indexes.len();
        if name.is_err() {
            self.unnamed.push(place);
        }
        self.late.extend(late.map(|kind| (place, kind)));
        let (Ok(wanted) | Err(wanted)) = name;
        let taken = |name: &str| schema.indexes.iter().any(|index| index.name == name);
        let mut free = wanted.clone();
        let mut number = 0;
        while taken(&free) {
            number += 1;
            free = format!("{wanted}{number}");
        }
        schema.indexes.push(IndexSchema { name: free, ..index });
    }
}

/// The name that the sequence of an identity column is given.
fn sequence_named(option: &ColumnOption) -> Option<Vec<String>> {
    match option {
        ColumnOption::Comment(text) => identity_names::parts_of(text),
        _ => None,
    }
}

fn identity(
    name: &str,
    kind: Type,
    generated: GeneratedAs,
    options: &Option<Vec<ast::SequenceOptions>>,
) -> Result<IdentitySchema> {
    let options = sequence::of_identity(options.as_deref().unwrap_or_default())?;
    identity_from(name, kind, matches!(generated, GeneratedAs::Always), &options)
}

/// The identity of a column of type `kind` by the options of its sequence.
pub(crate) fn identity_from(
    name: &str,
    kind: Type,
    always: bool,
    options: &SequenceOptions,
) -> Result<IdentitySchema> {
    if !matches!(kind, Type::Int2 | Type::Int4 | Type::Int8) {
        let message = "identity column type must be smallint, integer, or bigint";
        return Err(SqlError::new(code::INVALID_PARAMETER, message));
    }
    let schema = sequence::made(name, SqlType::of_column(kind), options)?;
    Ok(IdentitySchema {
        always,
        start: schema.start,
        increment: schema.increment,
        min: Some(schema.min),
        max: Some(schema.max),
        cycle: schema.cycle,
        ..IdentitySchema::default()
    })
}

/// Fails if a default is an expression that needs parentheses here: what follows could be another
/// option of the column.
fn refuse_default(value: &Ast) -> Result<()> {
    let mut rest = vec![value];
    while let Some(expr) = rest.pop() {
        let word = match expr {
            Ast::BinaryOp { left, op, right } => {
                rest.extend([&**left, &**right]);
                match op {
                    ast::BinaryOperator::And => "AND",
                    ast::BinaryOperator::Or => "OR",
                    _ => continue,
                }
            }
            Ast::UnaryOp { op: ast::UnaryOperator::Not, .. } => "NOT",
            Ast::UnaryOp { expr, .. } | Ast::Cast { expr, .. } => {
                rest.push(expr);
                continue;
            }
            Ast::InList { negated: false, .. } => "IN",
            Ast::Between { negated: false, .. } => "BETWEEN",
            Ast::Like { negated: false, .. } => "LIKE",
            Ast::ILike { negated: false, .. } => "ILIKE",
            Ast::InList { .. } | Ast::Between { .. } | Ast::Like { .. } | Ast::ILike { .. } => {
                "NOT"
            }
            Ast::IsNull(_)
            | Ast::IsNotNull(_)
            | Ast::IsTrue(_)
            | Ast::IsNotTrue(_)
            | Ast::IsFalse(_)
            | Ast::IsNotFalse(_)
            | Ast::IsUnknown(_)
            | Ast::IsNotUnknown(_) => "IS",
            Ast::AtTimeZone { .. } => "AT",
            Ast::AnyOp { .. } => "ANY",
            Ast::AllOp { .. } => "ALL",
            _ => continue,
        };
        return Err(SqlError::syntax(format!("syntax error at or near \"{word}\"")));
    }
    Ok(())
}

pub(super) fn is_null(value: &Ast) -> bool {
    matches!(value, Ast::Value(value) if matches!(value.value, ast::Value::Null))
}

pub(super) fn new_check(name: Option<String>, check: &ast::CheckConstraint) -> Result<NewCheck> {
    if check.enforced.is_some() {
        return Err(SqlError::unsupported("ENFORCED"));
    }
    Ok(NewCheck { name, condition: (*check.expr).clone() })
}

/// A foreign key; its name is empty where none is given, the parent's columns where they are those
/// of its primary key.
pub(super) fn foreign_key(
    key: &ast::ForeignKeyConstraint,
    resolver: &mut Resolver<'_>,
) -> Result<ForeignKey> {
    let action = |action: &Option<ReferentialAction>| match action {
        None | Some(ReferentialAction::NoAction) => Action::Nothing,
        Some(ReferentialAction::Restrict) => Action::Restrict,
        Some(ReferentialAction::Cascade) => Action::Cascade,
        Some(ReferentialAction::SetNull) => Action::SetNull,
        Some(ReferentialAction::SetDefault) => Action::SetDefault,
    };
    let simple = matches!(key.match_kind, None | Some(ConstraintReferenceMatchKind::Simple));
    if !simple && key.columns.len() > 1 {
        return Err(SqlError::unsupported("MATCH FULL and PARTIAL"));
    }
    Ok(ForeignKey {
        name: key.name.as_ref().map(identifiers::ident).unwrap_or_default(),
        columns: key.columns.iter().map(identifiers::ident).collect(),
        parent: resolver.existing(&key.foreign_table)?,
        parent_columns: key.referred_columns.iter().map(identifiers::ident).collect(),
        on_delete: action(&key.on_delete),
        on_update: action(&key.on_update),
        deferral: deferral(key.characteristics.as_ref())?,
    })
}

/// When a constraint is looked at.
pub(super) fn deferral(
    characteristics: Option<&ast::ConstraintCharacteristics>,
) -> Result<Deferral> {
    let Some(given) = characteristics else { return Ok(Deferral::Never) };
    if given.enforced == Some(false) {
        return Err(SqlError::unsupported("a constraint that is not enforced"));
    }
    let is_deferred = matches!(given.initially, Some(ast::DeferrableInitial::Deferred));
    match (given.deferrable, is_deferred) {
        (Some(false), true) => {
            let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
            Err(SqlError::syntax(message))
        }
        (_, true) => Ok(Deferral::Deferred),
        (Some(true), false) => Ok(Deferral::Immediate),
        _ => Ok(Deferral::Never),
    }
}
