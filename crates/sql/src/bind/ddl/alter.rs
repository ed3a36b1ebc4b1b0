//! ALTER TABLE.
//!
//! Does not do: binding expressions, which needs the table.

use sqlparser::ast::{
    self, AlterColumnOperation, AlterTableOperation, ConstraintUsingIndex, DropBehavior,
    RenameTableNameKind, TableConstraint,
};

use super::table::{self, foreign_key, is_null, new_check};
use super::{
    Alteration, Definition, IndexPart, KeyIndex, NewIndex, NewTable, UsedIndex, columns_in_name,
    plain_columns, primary, storage, unique,
};
use crate::error::{Result, SqlError};
use crate::names::beside;
use crate::notes::Deferral;
use crate::parse::identifiers;
use crate::parse::view::altered_kind;
use crate::schemas::Resolver;

pub(super) fn table(alter: &ast::AlterTable, resolver: &mut Resolver<'_>) -> Result<Definition> {
    let table = match alter.if_exists {
        true => resolver.any(&alter.name)?,
        false => resolver.existing(&alter.name)?,
    };
    let mut changes = Vec::new();
    for operation in &alter.operations {
        one(&table, operation, &mut changes, resolver)?;
    }
    let (said, if_exists) = (altered_kind(alter), alter.if_exists);
    Ok(Definition::Alter { table, said, if_exists, changes })
}

fn is_cascade(behavior: &Option<DropBehavior>) -> bool {
    matches!(behavior, Some(DropBehavior::Cascade))
}

fn one(
    table: &str,
    operation: &AlterTableOperation,
    changes: &mut Vec<Alteration>,
    resolver: &mut Resolver<'_>,
) -> Result<()> {
    use AlterTableOperation as Op;
    changes.push(match operation {
        Op::AddColumn { if_not_exists, column_def, column_position: None, .. } => {
            let mut column = NewTable::new(table);
            column.column(column_def, resolver)?;
            Alteration::AddColumn { column: Box::new(column), if_not_exists: *if_not_exists }
        }
        Op::DropColumn { column_names, if_exists, drop_behavior, .. } => {
            let (if_exists, cascade) = (*if_exists, is_cascade(drop_behavior));
            changes.extend(column_names.iter().map(|name| Alteration::DropColumn {
                name: identifiers::ident(name),
                if_exists,
                cascade,
            }));
            return Ok(());
        }
        Op::AddConstraint { constraint, not_valid: false } => add(table, constraint, resolver)?,
        Op::AddConstraint { .. } => return Err(SqlError::unsupported("NOT VALID")),
        Op::DropConstraint { if_exists, name, drop_behavior } => Alteration::DropConstraint {
            name: identifiers::ident(name),
            if_exists: *if_exists,
            cascade: is_cascade(drop_behavior),
        },
        Op::RenameTable {
            table_name: RenameTableNameKind::To(name) | RenameTableNameKind::As(name),
        } => {
            let to = resolver.beside(table, name)?;
            resolver.stays(table)?;
            Alteration::RenameTable(to)
        }
        Op::RenameColumn { old_column_name, new_column_name } => {
            let (old, new) =
                (identifiers::ident(old_column_name), identifiers::ident(new_column_name));
            Alteration::RenameColumn(old, new)
        }
        Op::RenameConstraint { old_name, new_name } => {
            Alteration::RenameConstraint(identifiers::ident(old_name), identifiers::ident(new_name))
        }
        Op::AlterColumn { column_name, op } => column(identifiers::ident(column_name), op)?,
        // By itself it is read from its tokens.
        Op::OwnerTo { .. } => {
            return Err(SqlError::unsupported("OWNER TO beside other changes of a table"));
        }
        Op::SetOptionsParens { options } => {
            let storage = storage::parameters(options)?;
            if storage.fillfactor.is_some() {
                return Err(SqlError::unsupported("another fillfactor for a table with rows"));
            }
            Alteration::Storage(storage)
        }
        other => return Err(SqlError::unsupported(format!("ALTER TABLE {other}"))),
    });
    Ok(())
}

fn add(
    table: &str,
    constraint: &TableConstraint,
    resolver: &mut Resolver<'_>,
) -> Result<Alteration> {
    Ok(match constraint {
        TableConstraint::Unique(key) => {
            let named = key.name.is_some();
            let KeyIndex { mut schema, late } = unique(key, &plain_columns(&key.columns)?)?;
            schema.name = match &key.name {
                Some(name) => beside(table, &identifiers::ident(name)),
                None => format!("{table}_{}_key", columns_in_name(&schema)),
            };
            let parts = vec![IndexPart::default(); schema.columns.len()];
            Alteration::AddUnique(NewIndex { schema, named, condition: None, parts, late })
        }
        TableConstraint::PrimaryKey(key) => {
            let mut key = primary(key, plain_columns(&key.columns)?)?;
            key.name = key.name.map(|name| beside(table, &name));
            Alteration::AddPrimary(key)
        }
        TableConstraint::Check(check) => {
            Alteration::AddCheck(new_check(check.name.as_ref().map(identifiers::ident), check)?)
        }
        TableConstraint::ForeignKey(key) => Alteration::AddKey(foreign_key(key, resolver)?),
        TableConstraint::UniqueUsingIndex(using) => used_index(table, using, false)?,
        TableConstraint::PrimaryKeyUsingIndex(using) => used_index(table, using, true)?,
        other => return Err(SqlError::unsupported(format!("adding {other}"))),
    })
}

fn used_index(table: &str, using: &ConstraintUsingIndex, primary: bool) -> Result<Alteration> {
    if table::deferral(using.characteristics.as_ref())? != Deferral::Never {
        return Err(SqlError::unsupported("a deferrable constraint USING INDEX"));
    }
    let name = using.name.as_ref().map(|name| beside(table, &identifiers::ident(name)));
    let index = beside(table, &identifiers::ident(&using.index_name));
    Ok(Alteration::UseIndex(UsedIndex { index, name, primary }))
}

fn column(name: String, operation: &AlterColumnOperation) -> Result<Alteration> {
    Ok(match operation {
        AlterColumnOperation::SetNotNull => Alteration::Nullable(name, false),
        AlterColumnOperation::DropNotNull => Alteration::Nullable(name, true),
        AlterColumnOperation::SetDefault { value } => {
            Alteration::Default(name, Some(value.clone()).filter(|value| !is_null(value)))
        }
        AlterColumnOperation::SetDataType { data_type, using, .. } => {
            Alteration::Type(name, data_type.clone(), using.clone())
        }
        AlterColumnOperation::DropDefault => Alteration::Default(name, None),
        other => return Err(SqlError::unsupported(format!("ALTER COLUMN {other}"))),
    })
}
