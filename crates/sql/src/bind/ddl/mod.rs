//! Definitions of tables, indexes, sequences and schemas.
//!
//! Names of relations are those of the store, found along the search path.
//!
//! | file | hides |
//! |---|---|
//! | `table` | CREATE TABLE: columns and constraints |
//! | `alter` | ALTER TABLE |
//! | `schema` | schemas |
//! | `view` | views |
//! | `types` | types |
//! | `sequence` | what options of sequences mean together |
//! | `storage` | storage parameters |
//! | `collation` | CREATE COLLATION |
//!
//! Invariants: every clause that the store cannot keep is refused by name.
//! Does not do: changing anything (`exec::ddl`).

mod alter;
mod collation;
mod functions;
mod schema;
pub(crate) mod sequence;
pub(crate) mod storage;
mod table;
mod types;
mod view;

pub(crate) use functions::{Called, FunctionDefinition, called, of_function};
pub(crate) use table::column_of_query;
pub(crate) use table::{create_as, identity_from};
pub(crate) use types::{NewField, TypeDefinition, of_type};
pub(crate) use view::NewView;

use rightlink::{IndexMethod, IndexSchema, KeyColumn, TableSchema};
use sqlparser::ast::{
    self, CommentObject, DataType, Expr as Ast, IndexType, NullsDistinctOption, ObjectType,
};

use crate::error::{Result, SqlError, code};
use crate::names::distinct;
use crate::notes::{AnalyzeAfter, ColumnNotes, Deferral, ForeignKey, KeyKind, MadeTypes};
use crate::parse::column_names::name_of;
use crate::parse::roles::RoleName;
use crate::parse::utility::column::ColumnChange;
use crate::parse::utility::constraint::Waits;
use crate::parse::utility::sequence::{IdentityChange, SequenceOptions};
use crate::parse::view::Said;
use crate::parse::{Lines, identifiers, is_call};
use crate::schemas::Resolver;

/// A definition to make, change or drop.
#[derive(Clone, Debug)]
pub(crate) enum Definition {
    CreateTable {
        table: Box<NewTable>,
        if_not_exists: bool,
    },
    CreateIndex {
        table: String,
        index: Box<NewIndex>,
        concurrently: bool,
        if_not_exists: bool,
    },
    /// The owner among the options is a table of the store and its column.
    CreateSequence {
        name: String,
        options: SequenceOptions,
        if_not_exists: bool,
    },
    AlterSequence {
        name: String,
        options: SequenceOptions,
        if_exists: bool,
    },
    RenameSequence {
        name: String,
        to: String,
        if_exists: bool,
    },
    MoveSequence {
        name: String,
        schema: String,
        if_exists: bool,
    },
    CreateView(Box<NewView>),
    CreateCollation {
        name: String,
        from: NewCollation,
        if_not_exists: bool,
    },
    Type(TypeDefinition),
    Function(FunctionDefinition),
    Drop {
        kind: Kind,
        names: Vec<String>,
        if_exists: bool,
        cascade: bool,
    },
    /// Changes of a table or a view; `said` is the word of the statement for it.
    Alter {
        table: String,
        said: Said,
        if_exists: bool,
        changes: Vec<Alteration>,
    },
    MoveTable {
        table: String,
        said: Said,
        if_exists: bool,
        schema: String,
    },
    RenameIndex {
        name: String,
        to: String,
    },
    CreateSchema {
        name: String,
        if_not_exists: bool,
        /// The role that AUTHORIZATION names.
        owner: Option<RoleName>,
    },
    DropSchema {
        names: Vec<String>,
        if_exists: bool,
        cascade: bool,
    },
    RenameSchema {
        name: String,
        to: String,
    },
    /// REFRESH MATERIALIZED VIEW: its rows go, and others come if there is data.
    Refresh {
        view: String,
        with_data: bool,
    },
    Truncate {
        tables: Vec<String>,
        restart: bool,
        cascade: bool,
    },
    Comment {
        on: Commented,
        text: Option<String>,
    },
}

/// What a comment is on, by its name.
#[derive(Clone, Debug)]
pub(crate) enum Commented {
    Table(String),
    View(String),
    MaterializedView(String),
    /// Of a table.
    Column(String, String),
    Index(String),
    Sequence(String),
    Type(String),
    /// Of a table.
    Constraint(String, String),
    Database(String),
    Schema(String),
}

/// What is dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Table,
    View,
    MaterializedView,
    Index,
    Sequence,
    Collation,
    Type,
    Domain,
}

/// A table to make, or columns to add to one.
#[derive(Clone, Debug)]
pub(crate) struct NewTable {
    /// Columns, primary key, unique indexes; no defaults and no notes.
    pub(crate) schema: TableSchema,
    /// What is noted with each column.
    pub(crate) notes: Vec<ColumnNotes>,
    /// Types of columns that were made.
    pub(crate) made: MadeTypes,
    /// The default of each column.
    pub(crate) defaults: Vec<Option<Ast>>,
    /// The expression that each column is generated from.
    pub(crate) generated: Vec<Option<Ast>>,
    /// The name of the collation of each column.
    pub(crate) collations: Vec<Option<String>>,
    /// Names that sequences of identity columns are given.
    pub(crate) sequences: Vec<NamedSequence>,
    pub(crate) checks: Vec<NewCheck>,
    pub(crate) keys: Vec<ForeignKey>,
    /// Places among the indexes of those that nobody has named.
    pub(crate) unnamed: Vec<usize>,
    /// Keys that need more than an index, by the places of their indexes: those that may be checked
    /// late, whose indexes are not unique, and primary keys that include columns.
    pub(crate) late: Vec<(usize, KeyKind)>,
    /// Name of the primary key, if one is given.
    pub(crate) primary_name: Option<String>,
    pub(crate) analyze: AnalyzeAfter,
}

/// The name that the sequence of an identity column is given.
#[derive(Clone, Debug)]
pub(crate) struct NamedSequence {
    pub(crate) column: String,
    pub(crate) parts: Vec<String>,
}

/// A check to make.
#[derive(Clone, Debug)]
pub(crate) struct NewCheck {
    pub(crate) name: Option<String>,
    pub(crate) condition: Ast,
}

/// What a collation is made from.
#[derive(Clone, Debug)]
pub(crate) enum NewCollation {
    /// A locale, and whether the collation is deterministic.
    Locale(String, bool),
    /// Another collation.
    From(String),
}

/// An index to make; one without a name gets the first free one like its own.
#[derive(Clone, Debug)]
pub(crate) struct NewIndex {
    pub(crate) schema: IndexSchema,
    pub(crate) named: bool,
    /// Which rows it holds; not in the schema yet.
    pub(crate) condition: Option<Ast>,
    /// Properties of its key columns that the schema does not have yet.
    pub(crate) parts: Vec<IndexPart>,
    /// The demand of its key, if the key may be checked late.
    pub(crate) late: Option<KeyKind>,
}

/// Properties of a key column of an index beside its name and its order.
#[derive(Clone, Debug, Default)]
pub(crate) struct IndexPart {
    /// The name of its collation.
    pub(crate) collation: Option<String>,
    /// The name of its operator class.
    pub(crate) class: Option<String>,
    /// Its expression if it is no column of the table; it has no name in the schema yet.
    pub(crate) expression: Option<Ast>,
}

/// An index that is to be that of a constraint.
#[derive(Clone, Debug)]
pub(crate) struct UsedIndex {
    pub(crate) index: String,
    /// The name of the constraint, if it is not that of the index.
    pub(crate) name: Option<String>,
    pub(crate) primary: bool,
}

/// A part of the key of an index.
struct KeyPart {
    key: KeyColumn,
    more: IndexPart,
}

/// A change of a table.
#[derive(Clone, Debug)]
pub(crate) enum Alteration {
    /// A column with its constraints, in a table of its own.
    AddColumn {
        column: Box<NewTable>,
        if_not_exists: bool,
    },
    DropColumn {
        name: String,
        if_exists: bool,
        cascade: bool,
    },
    AddUnique(NewIndex),
    UseIndex(UsedIndex),
    AddPrimary(NewPrimary),
    AddCheck(NewCheck),
    AddKey(ForeignKey),
    DropConstraint {
        name: String,
        if_exists: bool,
        cascade: bool,
    },
    RenameTable(String),
    RenameColumn(String, String),
    RenameConstraint(String, String),
    /// `None` is none.
    Default(String, Option<Ast>),
    Nullable(String, bool),
    Identity(String, IdentityChange),
    DropExpression {
        column: String,
        if_exists: bool,
    },
    /// When a foreign key is looked at.
    Deferral(String, Deferral),
    Storage(storage::Storage),
    /// With what USING says.
    Type(String, DataType, Option<Ast>),
}

impl Alteration {
    /// As messages of PostgreSQL call it.
    pub(crate) fn action(&self) -> &'static str {
        match self {
            Alteration::AddColumn { .. } => "ADD COLUMN",
            Alteration::DropColumn { .. } => "DROP COLUMN",
            Alteration::AddUnique(_)
            | Alteration::UseIndex(_)
            | Alteration::AddPrimary { .. }
            | Alteration::AddCheck(_)
            | Alteration::AddKey(_) => "ADD CONSTRAINT",
            Alteration::DropConstraint { .. } => "DROP CONSTRAINT",
            Alteration::RenameTable(_)
            | Alteration::RenameColumn(..)
            | Alteration::RenameConstraint(..) => "RENAME",
            Alteration::Default(..) => "ALTER COLUMN ... SET DEFAULT",
            Alteration::Nullable(_, true) => "ALTER COLUMN ... DROP NOT NULL",
            Alteration::Nullable(_, false) => "ALTER COLUMN ... SET NOT NULL",
            Alteration::Identity(..) => "ALTER COLUMN ... ADD IDENTITY",
            Alteration::DropExpression { .. } => "ALTER COLUMN ... DROP EXPRESSION",
            Alteration::Deferral(..) => "ALTER CONSTRAINT",
            Alteration::Storage(_) => "SET",
            Alteration::Type(..) => "ALTER COLUMN ... SET DATA TYPE",
        }
    }
}

/// Is the statement a definition?
pub(crate) fn is_definition(statement: &ast::Statement) -> bool {
    use ast::Statement as S;
    matches!(
        statement,
        S::CreateTable(_)
            | S::CreateIndex(_)
            | S::CreateView(_)
            | S::CreateSequence { .. }
            | S::CreateCollation(_)
            | S::CreateSchema { .. }
            | S::Drop { .. }
            | S::AlterTable(_)
            | S::AlterIndex { .. }
            | S::AlterSchema(_)
            | S::Truncate(_)
            | S::Comment { .. }
    )
}

/// Reads a statement that is a definition.
pub(crate) fn definition(
    statement: &ast::Statement,
    lines: &Lines,
    resolver: &mut Resolver<'_>,
) -> Result<Definition> {
    Ok(match statement {
        ast::Statement::CreateView(create) => view::create(create, lines, resolver)?,
        ast::Statement::CreateTable(create) => table::create(create, resolver)?,
        ast::Statement::CreateIndex(create) => create_index(create, resolver)?,
        // Others are read from their tokens.
        ast::Statement::CreateSequence { .. } => {
            return Err(SqlError::unsupported("a temporary sequence"));
        }
        ast::Statement::CreateCollation(create) => collation::create(create)?,
        ast::Statement::CreateSchema { .. } => schema::create(statement)?,
        ast::Statement::AlterSchema(alter) => schema::alter(alter)?,
        ast::Statement::Drop {
            object_type,
            if_exists,
            names,
            cascade,
            purge,
            temporary,
            table,
            ..
        } => {
            let kind = match object_type {
                ObjectType::Table => Kind::Table,
                ObjectType::View => Kind::View,
                ObjectType::MaterializedView => Kind::MaterializedView,
                ObjectType::Index => Kind::Index,
                ObjectType::Sequence => Kind::Sequence,
                ObjectType::Collation => Kind::Collation,
                ObjectType::Schema => return schema::drop(names, *if_exists, *cascade),
                other => return Err(SqlError::unsupported(format!("DROP {other}"))),
            };
            if *purge || *temporary || table.is_some() {
                return Err(SqlError::unsupported("DROP with such a clause"));
            }
            let name = |name: &ast::ObjectName| match kind {
                Kind::Collation => identifiers::of_public(&identifiers::parts(name)?),
                _ if *if_exists => resolver.any(name),
                _ => resolver.existing(name),
            };
            let names = names.iter().map(name).collect::<Result<_>>()?;
            Definition::Drop { kind, names, if_exists: *if_exists, cascade: *cascade }
        }
        ast::Statement::AlterTable(alter) => alter::table(alter, resolver)?,
        ast::Statement::AlterIndex { name, operation } => {
            let ast::AlterIndexOperation::RenameIndex { index_name } = operation;
            let name = resolver.existing(name)?;
            let to = resolver.beside(&name, index_name)?;
            Definition::RenameIndex { name, to }
        }
        ast::Statement::Truncate(truncate) => self::truncate(truncate, resolver)?,
        ast::Statement::Comment { object_type, object_name, comment, .. } => {
            self::comment(*object_type, object_name, comment.clone(), resolver)?
        }
        other => unreachable!("no definition: {other}"),
    })
}

fn comment(
    kind: CommentObject,
    name: &ast::ObjectName,
    text: Option<String>,
    resolver: &mut Resolver<'_>,
) -> Result<Definition> {
    let mut parts = identifiers::parts(name)?;
    let on = match kind {
        CommentObject::Table => Commented::Table(resolver.existing_parts(&parts)?),
        CommentObject::View => Commented::View(resolver.existing_parts(&parts)?),
        CommentObject::MaterializedView => {
            Commented::MaterializedView(resolver.existing_parts(&parts)?)
        }
        CommentObject::Index => Commented::Index(resolver.existing_parts(&parts)?),
        CommentObject::Sequence => Commented::Sequence(resolver.existing_parts(&parts)?),
        CommentObject::Column if parts.len() > 1 => {
            let column = parts.pop().expect("there are two");
            let entry = resolver.composite_entry(&parts)?;
            Commented::Column(entry.map_or_else(|| resolver.existing_parts(&parts), Ok)?, column)
        }
        CommentObject::Database if parts.len() == 1 => Commented::Database(parts.remove(0)),
        CommentObject::Schema if parts.len() == 1 => Commented::Schema(parts.remove(0)),
        other => return Err(SqlError::unsupported(format!("COMMENT ON {other}"))),
    };
    Ok(Definition::Comment { on, text: text.filter(|text| !text.is_empty()) })
}

/// COMMENT ON CONSTRAINT.
pub(crate) fn comment_constraint(
    name: &str,
    table: &[String],
    text: Option<&str>,
    resolver: &mut Resolver<'_>,
) -> Result<Definition> {
    let on = Commented::Constraint(resolver.existing_parts(table)?, name.to_owned());
    let text = text.filter(|text| !text.is_empty()).map(str::to_owned);
    Ok(Definition::Comment { on, text })
}

/// CREATE SEQUENCE.
pub(crate) fn create_sequence(
    name: &[String],
    options: &SequenceOptions,
    if_not_exists: bool,
    resolver: &mut Resolver<'_>,
) -> Result<Definition> {
    let (name, options) = (resolver.new_name_parts(name)?, with_owner(options, resolver)?);
    Ok(Definition::CreateSequence { name, options, if_not_exists })
}

/// ALTER SEQUENCE.
pub(crate) fn alter_sequence(
    name: &[String],
    options: &SequenceOptions,
    if_exists: bool,
    resolver: &mut Resolver<'_>,
) -> Result<Definition> {
    let name = sequence_name(name, if_exists, resolver)?;
    Ok(Definition::AlterSequence { name, options: with_owner(options, resolver)?, if_exists })
}

/// ALTER SEQUENCE RENAME
pub(crate) fn rename_sequence(
    name: &[String],
    to: &str,
    if_exists: bool,
    resolver: &mut Resolver<'_>,
) -> Result<Definition> {
    let name = sequence_name(name, if_exists, resolver)?;
    let to = resolver.beside_part(&name, to)?;
    resolver.stays(&name)?;
    Ok(Definition::RenameSequence { name, to, if_exists })
}

/// ALTER TABLE with a change of a column's identity or of its generation expression.
pub(crate) fn alter_column(
    table: &[String],
    if_exists: bool,
    column: &str,
    change: &ColumnChange,
    resolver: &mut Resolver<'_>,
) -> Result<Definition> {
    let table = sequence_name(table, if_exists, resolver)?;
    let column = column.to_owned();
    let change = match change.clone() {
        ColumnChange::Identity(change) => Alteration::Identity(column, change),
        ColumnChange::DropExpression { if_exists } => {
            Alteration::DropExpression { column, if_exists }
        }
    };
    Ok(Definition::Alter { table, said: Said::Table, if_exists, changes: vec![change] })
}

/// ALTER TABLE ALTER CONSTRAINT
pub(crate) fn alter_constraint(
    table: &[String],
    if_exists: bool,
    name: &str,
    waits: Waits,
    resolver: &mut Resolver<'_>,
) -> Result<Definition> {
    let deferral = match waits {
        Waits::Never => Deferral::Never,
        Waits::Maybe => Deferral::Immediate,
        Waits::First => Deferral::Deferred,
    };
    let table = sequence_name(table, if_exists, resolver)?;
    let changes = vec![Alteration::Deferral(name.to_owned(), deferral)];
    Ok(Definition::Alter { table, said: Said::Table, if_exists, changes })
}

/// The sequence that ALTER SEQUENCE means, or the table that ALTER TABLE does.
pub(crate) fn sequence_name(
    name: &[String],
    if_exists: bool,
    resolver: &mut Resolver<'_>,
) -> Result<String> {
    if if_exists { resolver.any_parts(name) } else { resolver.existing_parts(name) }
}

/// The options with the owner's table as the store calls it.
fn with_owner(options: &SequenceOptions, resolver: &mut Resolver<'_>) -> Result<SequenceOptions> {
    let mut options = options.clone();
    if let Some(Some(owner)) = &mut options.owner {
        let column = owner.pop().expect("an owner has a table and a column");
        *owner = vec![resolver.existing_parts(owner)?, column];
    }
    Ok(options)
}

/// The index of a key, without a name.
#[derive(Clone, Debug)]
struct KeyIndex {
    schema: IndexSchema,
    /// The demand of the key, if it may be checked late. Then the index is not unique.
    late: Option<KeyKind>,
}

impl KeyIndex {
    fn new(columns: &[String], kind: KeyKind) -> KeyIndex {
        let schema = columns.iter().fold(IndexSchema::new(""), |index, name| index.on(name));
        let late = Some(kind).filter(|kind| kind.deferral != Deferral::Never);
        let unique = late.is_none();
        let nulls_not_distinct = unique && kind.nulls_not_distinct;
        KeyIndex { schema: IndexSchema { unique, nulls_not_distinct, ..schema }, late }
    }
}

/// The index of a unique constraint.
fn unique(key: &ast::UniqueConstraint, columns: &[String]) -> Result<KeyIndex> {
    if !key.index_options.is_empty() {
        return Err(SqlError::unsupported("such a unique constraint"));
    }
    let kind = KeyKind {
        primary: false,
        nulls_not_distinct: matches!(key.nulls_distinct, NullsDistinctOption::NotDistinct),
        deferral: table::deferral(key.characteristics.as_ref())?,
    };
    refuse_twice(columns, "unique")?;
    let mut index = KeyIndex::new(columns, kind);
    index.schema.included = key.include.iter().map(identifiers::ident).collect();
    Ok(index)
}

/// What an index that nobody named is called, between its table and the end of its name: its
/// columns, included ones, too.
fn columns_in_name(index: &IndexSchema) -> String {
    let keys = index.columns.iter().map(|column| column.name.as_str());
    let all: Vec<&str> = keys.chain(index.included.iter().map(String::as_str)).collect();
    all.join("_")
}

/// A primary key to make.
#[derive(Clone, Debug)]
pub(crate) struct NewPrimary {
    pub(crate) name: Option<String>,
    pub(crate) columns: Vec<String>,
    /// Columns beside the key.
    pub(crate) included: Vec<String>,
    pub(crate) deferral: Deferral,
}

/// The index of a key that may be checked late, without a name.
pub(crate) struct LateIndex {
    pub(crate) schema: IndexSchema,
    pub(crate) kind: KeyKind,
}

impl NewPrimary {
    /// The index of one that may be checked late or includes columns.
    pub(crate) fn late_index(&self) -> Option<LateIndex> {
        let kind = KeyKind { primary: true, nulls_not_distinct: false, deferral: self.deferral };
        let KeyIndex { schema, late } = KeyIndex::new(&self.columns, kind);
        let schema = IndexSchema { included: self.included.clone(), ..schema };
        (late.is_some() || !self.included.is_empty()).then_some(LateIndex { schema, kind })
    }
}

fn primary(key: &ast::PrimaryKeyConstraint, columns: Vec<String>) -> Result<NewPrimary> {
    if !key.index_options.is_empty() {
        return Err(SqlError::unsupported("such a primary key"));
    }
    refuse_twice(&columns, "primary key")?;
    let name = key.name.as_ref().map(identifiers::ident);
    let included = key.include.iter().map(identifiers::ident).collect();
    let deferral = table::deferral(key.characteristics.as_ref())?;
    Ok(NewPrimary { name, columns, included, deferral })
}

/// Fails if a constraint names a column twice.
fn refuse_twice(columns: &[String], what: &str) -> Result<()> {
    for (at, name) in columns.iter().enumerate() {
        if columns[..at].contains(name) {
            let message = format!("column \"{name}\" appears twice in {what} constraint");
            return Err(SqlError::new(code::DUPLICATE_COLUMN, message));
        }
    }
    Ok(())
}

fn plain_columns(columns: &[ast::IndexColumn]) -> Result<Vec<String>> {
    let name = |column| {
        let KeyPart { key, more } = key_part(column)?;
        let word = match more {
            IndexPart { expression: Some(_), .. } => "(",
            IndexPart { collation: Some(_), .. } => "COLLATE",
            IndexPart { class: Some(class), .. } => &class.clone(),
            _ => return Ok(key.name),
        };
        Err(SqlError::syntax(format!("syntax error at or near \"{word}\"")))
    };
    columns.iter().map(name).collect()
}

/// Takes the parentheses around an expression away.
fn unnested(mut expr: &Ast) -> &Ast {
    while let Ast::Nested(inner) = expr {
        expr = inner;
    }
    expr
}

/// Fails for an expression of an index that needs parentheses.
fn refuse_bare(expr: &Ast) -> Result<()> {
    let word = match expr {
        Ast::Nested(_) | Ast::Identifier(_) | Ast::Cast { kind: ast::CastKind::Cast, .. } => {
            return Ok(());
        }
        call if is_call(call) => return Ok(()),
        Ast::Cast { .. } => "::".to_owned(),
        Ast::BinaryOp { op, .. } => op.to_string(),
        other => other.to_string(),
    };
    Err(SqlError::syntax(format!("syntax error at or near \"{word}\"")))
}

/// A part of a key as it is written.
fn key_part(column: &ast::IndexColumn) -> Result<KeyPart> {
    let (expr, mut collation) = match &column.column.expr {
        Ast::Collate { expr, collation } => (&**expr, Some(identifiers::collation(collation)?)),
        expr => (expr, None),
    };
    refuse_bare(expr)?;
    let mut inner = unnested(expr);
    if let Ast::Collate { expr, collation: own } = inner {
        collation = Some(collation.map_or_else(|| identifiers::collation(own), Ok)?);
        inner = unnested(expr);
    }
    let (name, expression) = match inner {
        Ast::Identifier(name) => (identifiers::ident(name), None),
        _ => (String::new(), Some(inner.clone())),
    };
    let class = column.operator_class.as_ref().map(identifiers::operator_class).transpose()?;
    let options = &column.column.options;
    let descending = match &options.sort {
        None | Some(ast::OrderBySort::Asc) => false,
        Some(ast::OrderBySort::Desc) => true,
        Some(_) => return Err(SqlError::unsupported("ORDER BY USING")),
    };
    let nulls_first = options.nulls_first.unwrap_or(descending);
    let key = KeyColumn { descending, nulls_first, ..KeyColumn::ascending(name) };
    Ok(KeyPart { key, more: IndexPart { collation, class, expression } })
}

/// The text of an option that is a word or a string.
fn option_text(value: &Ast) -> String {
    match value {
        Ast::Identifier(name) => name.value.clone(),
        Ast::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        other => other.to_string(),
    }
}

fn create_index(create: &ast::CreateIndex, resolver: &mut Resolver<'_>) -> Result<Definition> {
    let method = match &create.using {
        None | Some(IndexType::BTree) => Some(IndexMethod::BTree),
        Some(IndexType::Hash) => Some(IndexMethod::Hash),
        Some(_) => None,
    };
    let refused = [
        (method.is_none(), "an index method other than btree and hash"),
        (method == Some(IndexMethod::Hash) && create.unique, "a unique hash index"),
        (!create.index_options.is_empty() || !create.alter_options.is_empty(), "such an index"),
    ];
    if let Some((_, what)) = refused.iter().find(|(found, _)| *found) {
        return Err(SqlError::unsupported(what));
    }
    storage::of_index(&create.with, method == Some(IndexMethod::Hash))?;
    let table = resolver.existing(&create.table_name)?;
    let keys = create.columns.iter().map(key_part).collect::<Result<Vec<_>>>()?;
    let (columns, parts): (Vec<_>, Vec<_>) =
        keys.into_iter().map(|part| (part.key, part.more)).unzip();
    let named = create.name.is_some();
    let method = method.unwrap_or(IndexMethod::BTree);
    let mut schema = IndexSchema {
        columns,
        unique: create.unique,
        method,
        nulls_not_distinct: create.unique && create.nulls_distinct == Some(false),
        included: create.include.iter().map(identifiers::ident).collect(),
        ..IndexSchema::new("")
    };
    schema.name = match &create.name {
        // An index is where its table is.
        Some(name) => resolver.beside(&table, name)?,
        None => {
            let mut named = schema.clone();
            let keys = schema.columns.iter().zip(&parts);
            let wanted = keys.map(|(key, part)| match &part.expression {
                None => key.name.clone(),
                Some(expression) => name_of_expression(expression),
            });
            let names = distinct(wanted);
            named.columns.iter_mut().zip(names).for_each(|(key, name)| key.name = name);
            format!("{table}_{}_idx", columns_in_name(&named))
        }
    };
    let (concurrently, if_not_exists) = (create.concurrently, create.if_not_exists);
    let condition = create.predicate.clone();
    let late = None;
    let index = Box::new(NewIndex { schema, named, condition, parts, late });
    Ok(Definition::CreateIndex { table, index, concurrently, if_not_exists })
}

/// What a column of an index with the values of an expression is called.
pub(crate) fn name_of_expression(expression: &Ast) -> String {
    match name_of(expression) {
        name if name == "?column?" => "expr".to_owned(),
        name => name,
    }
}

fn truncate(truncate: &ast::Truncate, resolver: &mut Resolver<'_>) -> Result<Definition> {
    if truncate.partitions.is_some() || truncate.on_cluster.is_some() || truncate.if_exists {
        return Err(SqlError::unsupported("TRUNCATE with such a clause"));
    }
    let cascade = matches!(truncate.cascade, Some(ast::CascadeOption::Cascade));
    let restart = matches!(truncate.identity, Some(ast::TruncateIdentityOption::Restart));
    let tables = truncate.table_names.iter().map(|target| resolver.existing(&target.name));
    Ok(Definition::Truncate { tables: tables.collect::<Result<_>>()?, restart, cascade })
}
