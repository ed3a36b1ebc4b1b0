//! Documents as rows of columns that FROM declares: `json_to_record` and `json_to_recordset`.
//!
//! A column is the member of its name as its type: the binder makes an expression of each.
//!
//! Does not do: columns of domains; columns of composite types (`populate`).

use sqlparser::ast::{FunctionArg, TableAlias};

use super::Binder;
use super::array::witness;
use super::from::Sourced;
use super::scope::{Relation, ScopeColumn};
use crate::error::{Result, SqlError, code};
use crate::expr::function::{JsonPart, JsonRows, SetFunction};
use crate::expr::{Expr, Typed, json, registry};
use crate::parse::identifiers;
use crate::plan::rel::{Function, Rel};
use crate::types::cast::CastContext;
use crate::types::declared::Declared;
use crate::types::{Datum, SqlType};

/// Such a function: its name, the type of its argument, and whether it takes an array of objects.
const FUNCTIONS: [(&str, SqlType, bool); 4] = [
    ("json_to_record", SqlType::Json, false),
    ("jsonb_to_record", SqlType::Jsonb, false),
    ("json_to_recordset", SqlType::Json, true),
    ("jsonb_to_recordset", SqlType::Jsonb, true),
];

impl Binder<'_> {
    /// The rows of a document, if `called` gives some.
    pub(super) fn document_rows(
        &mut self,
        called: &str,
        args: &[FunctionArg],
        alias: Option<&TableAlias>,
    ) -> Result<Option<Sourced>> {
        let Some((name, ty, is_set)) = FUNCTIONS.into_iter().find(|one| one.0 == called) else {
            return Ok(None);
        };
        let [arg] = args else {
            let types = vec![SqlType::Unknown; args.len()];
            return Err(registry::no_function(name, &types, &registry::Miss::None));
        };
        let value = self.argument_in_from(arg, name)?;
        let document = self.coerce_checked(value, ty, CastContext::Implicit)?;
        let declares = |alias: &&TableAlias| {
            !alias.columns.is_empty() && alias.columns.iter().all(|one| one.data_type.is_some())
        };
        let Some(alias) = alias.filter(declares) else {
            let message = "a column definition list is required for functions returning \"record\"";
            return Err(SqlError::syntax(message));
        };
        let item = self.new_columns(1);
        let call = match is_set {
            true => SetFunction::Json(JsonRows { name, part: JsonPart::Items, as_text: false }),
            false => SetFunction::Value,
        };
        let source = identifiers::ident(&alias.name);
        let columns = vec![item];
        let function = Function {
            call,
            args: vec![document],
            columns,
            ordinality: None,
            alias: source.clone(),
        };
        let text =
            |text: &str| Typed::new(Expr::Const(Datum::Text(text.to_owned())), SqlType::Text);
        let is_set = Typed::new(Expr::Const(Datum::Bool(is_set)), SqlType::Bool);
        let item = Typed::new(Expr::Column(item), ty);
        let object = self.named(json::OBJECT, vec![item, text(name), is_set])?;
        let (mut shown, mut output) = (Vec::new(), Vec::new());
        for column in &alias.columns {
            let kind = column.data_type.as_ref().expect("all of them have one");
            let declared = identifiers::data_type(kind, self)?;
            let name = identifiers::ident(&column.name);
            if shown.iter().any(|known: &ScopeColumn| known.name == name) {
                let message = format!("column name \"{name}\" specified more than once");
                return Err(SqlError::new(code::DUPLICATE_COLUMN, message));
            }
            let value = self.member_as(&object, &name, declared)?;
            let id = self.new_columns(1);
            output.push((id, value));
            let modifier = declared.modifier;
            shown.push(ScopeColumn { modifier, ..ScopeColumn::new(id, name, declared.ty) });
        }
        let input = Box::new(Rel::Function(Box::new(function)));
        let relation = Relation { alias: source, columns: shown, ..Relation::default() };
        Ok(Some(Sourced::of(Rel::Project { input, output }, relation)))
    }

    /// A member of an object as a declared type.
    fn member_as(&mut self, object: &Typed, name: &str, declared: Declared) -> Result<Expr> {
        if declared.domain.is_some() {
            return Err(SqlError::unsupported("a domain in the columns of a document's rows"));
        }
        let key = || Typed::new(Expr::Const(Datum::Text(name.to_owned())), SqlType::Text);
        let member =
            |binder: &mut Self, operator| binder.operator(operator, vec![object.clone(), key()]);
        let text = member(self, "->>")?;
        let value = match declared.ty {
            SqlType::Array(element) => {
                let member = member(self, "->")?.expr;
                Expr::Call(json::of_member(), vec![member, witness(element)])
            }
            SqlType::Composite(ty) => {
                let member = member(self, "->")?.expr;
                Expr::Call(json::of_member(), vec![member, Expr::Const(ty.nulls().into())])
            }
            // A null of a document is none of SQL.
            SqlType::Json | SqlType::Jsonb => {
                let missing = Expr::IsNull(Box::new(text.expr), false);
                let member = member(self, "->")?;
                let value = self.coerce_checked(member, declared.ty, CastContext::Explicit)?;
                Expr::Case(vec![(missing, Expr::null())], Box::new(value))
            }
            ty => self.coerce_checked(text, ty, CastContext::Explicit)?,
        };
        Ok(match declared.modifier {
            Some(modifier) => Expr::Fit(Box::new(value), modifier, false),
            None => value,
        })
    }
}
