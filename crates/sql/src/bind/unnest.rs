//! `unnest` and `generate_subscripts`, in FROM and in the list of a SELECT.
//!
//! Invariants: each array of `unnest` in FROM has a column of its own, which is null behind its
//! last element. Does not do: other functions that give rows (`sets`).

use sqlparser::ast::{self, TableAlias};

use super::from::{Called, Sourced, function_relation, renamed};
use super::scope::{Relation, ScopeColumn};
use super::{Binder, Place};
use crate::error::Result;
use crate::expr::registry::{self, Miss, SetFunction};
use crate::expr::{Expr, Typed};
use crate::parse::identifiers;
use crate::plan::rel::{Function, Rel};
use crate::types::cast::CastContext;
use crate::types::declared::Modifier;
use crate::types::{Datum, SqlType};

impl Binder<'_> {
    /// `unnest(a, b)`
    pub(super) fn unnest(
        &mut self,
        arrays: Vec<Typed>,
        alias: Option<&TableAlias>,
        ordinality: bool,
    ) -> Result<Sourced> {
        let arrays =
            arrays.into_iter().map(|one| self.as_array(one)).collect::<Result<Vec<_>>>()?;
        let types: Vec<SqlType> = arrays.iter().map(|array| array.ty).collect();
        let (mut args, mut shown) = (Vec::with_capacity(arrays.len()), Vec::new());
        let first = self.new_columns(arrays.len());
        for (at, array) in arrays.into_iter().enumerate() {
            let (ty, modifier) = (element_of(&array, &types)?, modifier_of(&array));
            shown.push(ScopeColumn { modifier, ..ScopeColumn::new(first + at, "unnest", ty) });
            args.push(array.expr);
        }
        if args.is_empty() {
            return Err(registry::no_function("unnest", &types, &Miss::None));
        }
        let columns = (first..first + args.len()).collect();
        let ordinality = ordinality.then(|| self.new_columns(1));
        let is_plain = args.len() == 1 && !matches!(shown[0].ty, SqlType::Composite(_));
        let relation = function_relation("unnest".to_owned(), shown, ordinality);
        let called = alias.map_or("unnest".to_owned(), |alias| identifiers::ident(&alias.name));
        let function =
            Function { call: SetFunction::Unnest, args, columns, ordinality, alias: called };
        let rel = Rel::Function(Box::new(function));
        let (rel, columns) = self.expanded(rel, relation.columns)?;
        let mut relation =
            renamed(Relation { columns, alias: relation.alias, ..Relation::default() }, alias)?;
        if is_plain && alias.is_some_and(|alias| alias.columns.is_empty()) {
            // An alias of the function is one of its column, too.
            relation.columns[0].name.clone_from(&relation.alias);
        }
        Ok(Sourced::of(rel, relation))
    }

    /// `unnest(a)` in the list of a SELECT.
    pub(super) fn unnested(&mut self, args: Vec<Typed>) -> Result<Typed> {
        let args = args.into_iter().map(|one| self.as_array(one)).collect::<Result<Vec<_>>>()?;
        let types: Vec<SqlType> = args.iter().map(|array| array.ty).collect();
        let Ok([array]) = <[Typed; 1]>::try_from(args) else {
            return Err(registry::no_function("unnest", &types, &Miss::None));
        };
        let (ty, modifier) = (element_of(&array, &types)?, modifier_of(&array));
        let value = self.set_call(SetFunction::Unnest, vec![array.expr], ty)?;
        Ok(Typed { modifier, ..value })
    }

    /// `_pg_expandarray` there.
    pub(super) fn numbered_elements(&mut self, name: &str, args: Vec<Typed>) -> Result<Typed> {
        let Called { call, args, ty } = self.numbered_of(name, args)?;
        self.set_call(call, args, ty)
    }

    /// `_pg_expandarray(array)`
    pub(super) fn numbered_of(&mut self, name: &str, args: Vec<Typed>) -> Result<Called> {
        let args = args.into_iter().map(|one| self.as_array(one)).collect::<Result<Vec<_>>>()?;
        let types: Vec<SqlType> = args.iter().map(|array| array.ty).collect();
        match (args.into_iter().next(), types.as_slice()) {
            (Some(array), [ty]) if ty.is_array() => {
                let ty = element_of(&array, &types)?;
                Ok(Called { call: SetFunction::Numbered, args: vec![array.expr], ty })
            }
            _ => Err(registry::no_function(name, &types, &Miss::None)),
        }
    }

    /// `generate_subscripts` there.
    pub(super) fn subscript_numbers(&mut self, name: &str, args: Vec<Typed>) -> Result<Typed> {
        let Called { call, args, ty } = self.subscripts_of(name, args)?;
        self.set_call(call, args, ty)
    }

    /// The arrays of UNNEST as sqlparser has it.
    pub(super) fn arrays_of(&mut self, nodes: &[ast::Expr]) -> Result<Vec<Typed>> {
        let place = Place::None("functions in FROM");
        nodes.iter().map(|node| self.at_place(place, |binder| binder.expr(node))).collect()
    }

    /// `generate_subscripts(array, dimension, reverse)`
    pub(super) fn subscripts_of(&mut self, name: &str, args: Vec<Typed>) -> Result<Called> {
        let args = args.into_iter().map(|one| self.as_array(one)).collect::<Result<Vec<_>>>()?;
        let types: Vec<SqlType> = args.iter().map(|value| value.ty).collect();
        let is_array = types.first().is_some_and(|ty| ty.is_array());
        if !is_array || !(2..=3).contains(&types.len()) {
            return Err(registry::no_function(name, &types, &Miss::None));
        }
        let wanted = [types[0], SqlType::Int4, SqlType::Bool];
        let mut bound = Vec::with_capacity(3);
        for (value, ty) in args.into_iter().zip(wanted) {
            bound.push(self.coerce_checked(value, ty, CastContext::Implicit)?);
        }
        if bound.len() == 2 {
            bound.push(Expr::Const(Datum::Bool(false)));
        }
        Ok(Called { call: SetFunction::Subscripts, args: bound, ty: SqlType::Int4 })
    }
}

/// The type of the elements of an argument of `unnest`; `types` are those of all arguments.
fn element_of(array: &Typed, types: &[SqlType]) -> Result<SqlType> {
    array.ty.element().ok_or_else(|| {
        let is_open = array.ty == SqlType::Unknown;
        let miss = if is_open { Miss::Ambiguous } else { Miss::None };
        registry::no_function("unnest", types, &miss)
    })
}

/// The modifier of its elements. Those of `char(n)` have their blanks already.
fn modifier_of(array: &Typed) -> Option<Modifier> {
    array.modifier.filter(|one| !matches!(one, Modifier::Char(_)))
}
