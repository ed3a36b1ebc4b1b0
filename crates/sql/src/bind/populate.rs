//! `json_populate_record` and its kind: documents as rows of a composite type.
//!
//! Does not do: columns that FROM declares (`document_rows`).

use sqlparser::ast::{FunctionArg, TableAlias};

use super::Binder;
use super::from::{Sourced, function_relation, renamed};
use super::records::field_at;
use super::scope::ScopeColumn;
use crate::error::{Result, SqlError, code};
use crate::expr::function::{JsonPart, JsonRows, SetFunction};
use crate::expr::{Expr, Typed, json, registry};
use crate::plan::rel::{Function, Rel};
use crate::types::cast::CastContext;
use crate::types::{CompositeType, Datum, SqlType};

/// Such a function: its name, the type of its document, and whether it takes an array of objects.
#[derive(Clone, Copy)]
struct Populate {
    name: &'static str,
    ty: SqlType,
    is_set: bool,
}

const FUNCTIONS: [Populate; 4] = [
    Populate { name: "json_populate_record", ty: SqlType::Json, is_set: false },
    Populate { name: "jsonb_populate_record", ty: SqlType::Jsonb, is_set: false },
    Populate { name: "json_populate_recordset", ty: SqlType::Json, is_set: true },
    Populate { name: "jsonb_populate_recordset", ty: SqlType::Jsonb, is_set: true },
];

impl Populate {
    fn of(name: &str) -> Option<Populate> {
        FUNCTIONS.into_iter().find(|one| one.name == name)
    }

    /// What gives the documents, one for each row.
    fn documents(self) -> SetFunction {
        let Populate { name, .. } = self;
        match self.is_set {
            true => SetFunction::Json(JsonRows { name, part: JsonPart::Items, as_text: false }),
            false => SetFunction::Value,
        }
    }
}

/// Arguments of such a function.
struct Populated {
    ty: CompositeType,
    base: Expr,
    document: Expr,
}

/// Is it the name of such a function?
pub(super) fn is_populate(name: &str) -> bool {
    Populate::of(name).is_some()
}

impl Binder<'_> {
    fn populate_arguments(&mut self, function: Populate, args: Vec<Typed>) -> Result<Populated> {
        let types: Vec<SqlType> = args.iter().map(|arg| arg.ty).collect();
        let [base, document] = <[Typed; 2]>::try_from(args)
            .map_err(|_| registry::no_function(function.name, &types, &registry::Miss::None))?;
        let ty = match base.ty {
            SqlType::Composite(ty) => ty,
            SqlType::Record => {
                let what = format!("{} of a row whose type has no name", function.name);
                return Err(SqlError::unsupported(what));
            }
            SqlType::Unknown => {
                let message = "could not determine polymorphic type because input has type unknown";
                return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
            }
            _ => {
                let message = format!("first argument of {} must be a row type", function.name);
                return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
            }
        };
        let document = self.coerce_checked(document, function.ty, CastContext::Implicit)?;
        Ok(Populated { ty, base: base.expr, document })
    }

    /// The row of a document.
    fn populated_row(&mut self, function: Populate, args: Populated) -> Result<Typed> {
        let Populated { ty, base, document } = args;
        let document = match function.is_set {
            true => {
                let text = Expr::Const(Datum::Text(function.name.to_owned()));
                let is_set = Typed::new(Expr::Const(Datum::Bool(true)), SqlType::Bool);
                let document = Typed::new(document, function.ty);
                let name = Typed::new(text, SqlType::Text);
                self.named(json::OBJECT, vec![document, name, is_set])?.expr
            }
            false => document,
        };
        let nulls = Expr::Const(ty.nulls().into());
        let call = Expr::Call(json::populate(), vec![base, document, nulls]);
        Ok(Typed::new(call, SqlType::Composite(ty)))
    }

    /// A call in an expression.
    pub(super) fn populated(&mut self, name: &str, args: Vec<Typed>) -> Result<Typed> {
        let function = Populate::of(name).expect("the caller has looked");
        let mut args = self.populate_arguments(function, args)?;
        if function.is_set {
            let document = self.set_call(function.documents(), vec![args.document], function.ty)?;
            args.document = document.expr;
        }
        self.populated_row(function, args)
    }

    /// A call in FROM.
    pub(super) fn populated_rows(
        &mut self,
        name: &str,
        args: &[FunctionArg],
        alias: Option<&TableAlias>,
    ) -> Result<Option<Sourced>> {
        let Some(function) = Populate::of(name) else { return Ok(None) };
        let values = args.iter().map(|arg| self.argument_in_from(arg, name));
        let values = values.collect::<Result<Vec<_>>>()?;
        let Populated { ty, base, document } = self.populate_arguments(function, values)?;
        let (item, whole) = (self.new_columns(1), self.new_columns(1));
        let rows = Function {
            call: function.documents(),
            args: vec![document],
            columns: vec![item],
            ordinality: None,
            alias: name.to_owned(),
        };
        let args = Populated { ty, base, document: Expr::Column(item) };
        let output = vec![(whole, self.populated_row(function, args)?.expr)];
        let rel = Rel::Project { input: Box::new(Rel::Function(Box::new(rows))), output };
        let column = ScopeColumn::new(whole, name, SqlType::Composite(ty));
        let (rel, columns) = self.expanded(rel, vec![column])?;
        let relation = renamed(function_relation(name.to_owned(), columns, None), alias)?;
        Ok(Some(Sourced::of(rel, relation)))
    }

    /// What a function in FROM gives, with the fields of rows of a type that has a name as columns
    /// of their own.
    pub(super) fn expanded(
        &mut self,
        rel: Rel,
        columns: Vec<ScopeColumn>,
    ) -> Result<(Rel, Vec<ScopeColumn>)> {
        if !columns.iter().any(|column| matches!(column.ty, SqlType::Composite(_))) {
            return Ok((rel, columns));
        }
        let (mut output, mut shown) = (Vec::new(), Vec::new());
        for column in columns {
            let SqlType::Composite(ty) = column.ty else {
                let id = self.new_columns(1);
                output.push((id, Expr::Column(column.id)));
                shown.push(ScopeColumn { id, ..column });
                continue;
            };
            for (at, field) in ty.fields().iter().enumerate() {
                let id = self.new_columns(1);
                let value = field_at(column.value(), ty, at);
                output.push((id, value.expr));
                let own = ScopeColumn::new(id, field.name.clone(), field.ty);
                shown.push(ScopeColumn { modifier: value.modifier, ..own });
            }
        }
        if output.is_empty() {
            return Err(SqlError::unsupported("a function in FROM that gives rows without fields"));
        }
        Ok((Rel::Project { input: Box::new(rel), output }, shown))
    }
}
