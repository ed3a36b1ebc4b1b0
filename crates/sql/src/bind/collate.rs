//! COLLATE, and comparisons under a collation. One that bytes do not decide compares sort keys
//! instead ([`Expr::Weights`]), so that whatever handles bytes handles
//! it.
//!
//! Invariants: texts under a deterministic collation are equal exactly if their bytes are, so `=`,
//! `<>`, IN and grouping leave them as they are, and any index finds them.
//! Does not do: grouping and removing duplicates under nondeterministic collations, GREATEST and
//! LEAST under any: refused. The store knows a column's `"C"` as no collation; its note has it.

use rightlink::Collation;
use sqlparser::ast;

use super::generated::GENERATION;
use super::{Binder, Place};
use crate::error::{Result, SqlError, code};
use crate::expr::registry::{self, Function};
use crate::expr::{Expr, Typed, collation_of};
use crate::parse::identifiers::collation as name_of;
use crate::types::collate::{Collated, Rule, built_in};
use crate::types::declared::ByteOrder;
use crate::types::{Datum, SqlType};

/// Does an operator compare?
fn compares(name: &str) -> bool {
    matches!(name, "=" | "<>" | "<" | "<=" | ">" | ">=")
}

impl Binder<'_> {
    /// `expr COLLATE name`
    pub(super) fn collate(
        &mut self,
        value: Typed,
        collation: &ast::ObjectName,
        position: Option<usize>,
    ) -> Result<Typed> {
        let name = name_of(collation)?;
        let made = built_in(&name).is_err();
        self.once |= made;
        let rule = match ByteOrder::parse(&name) {
            Some(order) => Some(Rule::Bytes(order)),
            None => {
                let collation = self.catalog.collation(&name);
                collation.map_err(|error| error.at(position))?.map(Rule::Locale)
            }
        };
        // Kept as text and bound again at each change: who drops it would not find it there.
        if let (
            true,
            Place::None(place @ ("check constraints" | "DEFAULT expressions" | GENERATION)),
        ) = (made, self.place)
        {
            let what = format!("the collation \"{name}\" in {place}");
            return Err(SqlError::unsupported(what).at(position));
        }
        // What has no type yet gets it from what it stands with, as without COLLATE.
        if !matches!(value.ty, SqlType::Text | SqlType::Bpchar | SqlType::Name | SqlType::Unknown) {
            let message = format!("collations are not supported by type {}", value.ty.name());
            return Err(SqlError::new(code::DATATYPE_MISMATCH, message).at(position));
        }
        Ok(Typed { collated: Collated::Explicit(rule), origin: None, ..value })
    }

    /// A comparison of texts that bytes do not decide; `None` for everything else.
    pub(super) fn collated(
        &mut self,
        function: &'static Function,
        operands: &[Typed],
    ) -> Result<Option<Typed>> {
        if !operands.iter().any(|operand| operand.collated != Collated::Default) {
            return Ok(None);
        }
        let joined = collation_of(operands)?;
        let vague = |known: &Collation| !known.is_deterministic();
        if matches!(function.name, "~~" | "!~~" | "~~*" | "!~~*")
            && joined.of_result().as_ref().and_then(Rule::locale).is_some_and(vague)
        {
            let message = "nondeterministic collations are not supported for LIKE";
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
        }
        let ignores_case = matches!(function.name, "~~*" | "!~~*");
        if ignores_case && let Some(locale) = joined.letters("ILIKE")? {
            let name = if function.name == "~~*" { "~~* under" } else { "!~~* under" };
            let found = registry::resolve(name, &[SqlType::Text; 3]);
            let Ok(found) = found else { unreachable!("{name} is registered") };
            let mut args = Vec::with_capacity(3);
            for operand in operands {
                args.push(self.coerce(operand.clone(), SqlType::Text)?);
            }
            args.push(Expr::Const(Datum::Text(locale)));
            return Ok(Some(Typed::new(Expr::Call(found, args), SqlType::Bool)));
        }
        if !compares(function.name) || function.args != [SqlType::Text; 2] {
            return Ok(None);
        }
        let Some(collation) = joined.used()? else { return Ok(None) };
        if collation.is_deterministic() && matches!(function.name, "=" | "<>") {
            return Ok(None);
        }
        let of_bytes = registry::resolve(function.name, &[SqlType::Bytea; 2]);
        let Ok(of_bytes) = of_bytes else { unreachable!("bytes are compared") };
        let mut keys = Vec::with_capacity(2);
        for operand in operands {
            let value = self.coerce(operand.clone(), SqlType::Text)?;
            keys.push(Expr::Weights(Box::new(value), collation.clone()));
        }
        Ok(Some(Typed::new(Expr::Call(of_bytes, keys), SqlType::Bool)))
    }
}
