//! Which collation an expression has, and comparisons under it.
//!
//! As in PostgreSQL: COLLATE says it for good, a column suggests its own, and two suggestions that
//! differ leave it open, which fails where texts are compared. A comparison that bytes do not
//! decide compares sort keys instead ([`Expr::Weights`]), so that whatever handles bytes handles
//! it.
//!
//! Invariants: texts under a deterministic collation are equal exactly if their bytes are, so `=`,
//! `<>`, IN and grouping leave them as they are, and any index finds them.
//! Does not do: grouping and removing duplicates under nondeterministic collations, GREATEST and
//! LEAST under any: refused. The store knows a column's `"C"` as no collation; its note has it.

use rightlink::Collation;
use sqlparser::ast;

use super::{Binder, Place};
use crate::error::{Result, SqlError, code};
use crate::expr::registry::{self, Function};
use crate::expr::{Expr, Typed, casing};
use crate::parse::identifiers;
use crate::types::declared::ByteOrder;
use crate::types::{Datum, SqlType};

/// What ends the names of collations by ICU locale.
const ICU: &str = "-x-icu";

/// Languages of which PostgreSQL 15 has collations.
const LANGUAGES: &str = "af agq ak am ar as asa ast az bas be bem bez bg bgc bho bm bn bo br \
    brx bs ca ccp ce ceb cgg chr ckb cs cv cy da dav de dje doi dsb dua dyo dz ebu ee el en eo \
    es et eu ewo fa ff fi fil fo fr fur fy ga gd gl gsw gu guz gv ha haw he hi hr hsb hu hy ia \
    id ig ii is it ja jgo jmc jv ka kab kam kde kea kgp khq ki kk kkj kl kln km kn ko kok ks \
    ksb ksf ksh ku kw ky lag lb lg lkt ln lo lrc lt lu luo luy lv mai mas mer mfe mg mgh mgo mi \
    mk ml mn mni mr ms mt mua my mzn naq nb nd ne nl nmg nn nnh no nus nyn om or os pa pcm pl \
    ps pt qu raj rm rn ro rof ru rw rwk sa sah saq sat sbp sc sd se seh ses sg shi si sk sl smn \
    sn so sq sr su sv sw ta te teo tg th ti tk to tr tt twq tzm ug uk und ur uz vai vi vun wae \
    wo xh xog yav yi yo yrl yue zgh zh zu";

/// What COLLATE can name besides the default.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Rule {
    Bytes(ByteOrder),
    Locale(Collation),
}

impl Rule {
    /// The collation of a column.
    pub(crate) fn of(locale: Option<&Collation>, bytes: Option<ByteOrder>) -> Option<Rule> {
        locale.cloned().map(Rule::Locale).or(bytes.map(Rule::Bytes))
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Rule::Bytes(order) => order.name(),
            Rule::Locale(collation) => collation.name(),
        }
    }

    /// As a column keeps it: what the store knows, and what is noted.
    pub(crate) fn kept(&self) -> (Option<Collation>, Option<ByteOrder>) {
        match self {
            Rule::Bytes(order) => (None, Some(*order)),
            Rule::Locale(collation) => (Some(collation.clone()), None),
        }
    }

    /// What texts compare by if not by bytes.
    fn locale(&self) -> Option<&Collation> {
        match self {
            Rule::Bytes(_) => None,
            Rule::Locale(collation) => Some(collation),
        }
    }
}

/// The collation of an expression.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Collated {
    /// Bytes, for want of anything else.
    #[default]
    Default,
    /// As a column has it.
    Implicit(Rule),
    /// As it is written; `None`: the default.
    Explicit(Option<Rule>),
    /// Columns have these two.
    Conflict(String, String),
}

impl Collated {
    /// Of a column.
    pub(crate) fn of_column(collation: Option<&Rule>) -> Collated {
        collation.map_or(Collated::Default, |rule| Collated::Implicit(rule.clone()))
    }

    /// Of an expression made of two.
    fn join(self, other: Collated) -> Result<Collated> {
        use Collated::{Conflict, Default, Explicit, Implicit};
        Ok(match (self, other) {
            (Explicit(a), Explicit(b)) if a != b => {
                let name = |rule: &Option<Rule>| {
                    rule.as_ref().map_or("default".to_owned(), |known| known.name().to_owned())
                };
                let message = format!(
                    "collation mismatch between explicit collations \"{}\" and \"{}\"",
                    name(&a),
                    name(&b)
                );
                return Err(SqlError::new(code::COLLATION_MISMATCH, message));
            }
            (Explicit(a), _) | (_, Explicit(a)) => Explicit(a),
            (Implicit(a), Implicit(b)) if a != b => {
                Conflict(a.name().to_owned(), b.name().to_owned())
            }
            (Conflict(a, b), _) | (_, Conflict(a, b)) => Conflict(a, b),
            (Implicit(a), _) | (_, Implicit(a)) => Implicit(a),
            (Default, Default) => Default,
        })
    }

    /// Of an expression made of several.
    pub(crate) fn of_all(parts: &[Typed]) -> Result<Collated> {
        let mut all = parts.iter().map(|part| part.collated.clone());
        all.try_fold(Collated::Default, Collated::join)
    }

    /// What a comparison goes by; `None`: bytes.
    pub(crate) fn used(&self) -> Result<Option<&Collation>> {
        match self {
            Collated::Default => Ok(None),
            Collated::Implicit(rule) => Ok(rule.locale()),
            Collated::Explicit(rule) => Ok(rule.as_ref().and_then(Rule::locale)),
            Collated::Conflict(..) => Err(indeterminate("string comparison")),
        }
    }

    /// As a column of a query keeps it.
    pub(crate) fn of_result(&self) -> Option<Rule> {
        match self {
            Collated::Implicit(rule) | Collated::Explicit(Some(rule)) => Some(rule.clone()),
            _ => None,
        }
    }

    /// The locale whose letters `what` maps; `None`: those of the default.
    pub(super) fn letters(&self, what: &str) -> Result<Option<String>> {
        match self {
            Collated::Conflict(..) => Err(indeterminate(what)),
            other => Ok(other.of_result().map(|rule| match rule {
                Rule::Bytes(_) => casing::ASCII.to_owned(),
                Rule::Locale(collation) => collation.locale().to_owned(),
            })),
        }
    }

    /// Fails for `what`, which takes texts for equal that are not, if the collation does.
    pub(crate) fn refuse_unequal(&self, what: &str) -> Result<()> {
        match self.of_result().as_ref().and_then(Rule::locale) {
            Some(collation) if !collation.is_deterministic() => Err(SqlError::unsupported(
                format!("{what} under the nondeterministic collation \"{}\"", collation.name()),
            )),
            _ => Ok(()),
        }
    }
}

fn indeterminate(what: &str) -> SqlError {
    let message = format!("could not determine which collation to use for {what}");
    let hint = "Use the COLLATE clause to set the collation explicitly.";
    SqlError::new(code::INDETERMINATE_COLLATION, message).hint(hint)
}

/// The collation that a built-in name means; `Ok(None)`: bytes; `Err`: it is no such name.
pub(crate) fn built_in(name: &str) -> std::result::Result<Option<Collation>, ()> {
    if matches!(name, "C" | "POSIX" | "default" | "ucs_basic") {
        return Ok(None);
    }
    let tag = name.strip_suffix(ICU).ok_or(())?;
    let language = tag.split('-').next().unwrap_or_default();
    if !LANGUAGES.split_whitespace().any(|known| known == language) {
        return Err(());
    }
    let collation = Collation::new(tag, true).map_err(|_| ())?;
    let plain = tag.split('-').all(|part| part.len() > 1);
    if plain && collation.locale() == tag { Ok(Some(collation.named(name))) } else { Err(()) }
}

/// Names of the collations that are there without being made.
pub(crate) fn all_built_in() -> impl Iterator<Item = String> {
    let icu = LANGUAGES.split_whitespace().map(|language| format!("{language}{ICU}"));
    ["default", "C", "POSIX", "ucs_basic"].into_iter().map(str::to_owned).chain(icu)
}

/// The error for a collation that is not there.
pub(crate) fn no_collation(name: &str) -> SqlError {
    let message = format!("collation \"{name}\" for encoding \"UTF8\" does not exist");
    SqlError::new(code::UNDEFINED_OBJECT, message)
}

/// The name of a collation, in `public` or `pg_catalog`.
pub(crate) fn name_of(name: &ast::ObjectName) -> Result<String> {
    let parts = identifiers::parts(name)?;
    match parts.as_slice() {
        [name] => Ok(name.clone()),
        [schema, name] if schema == "public" || schema == "pg_catalog" => Ok(name.clone()),
        _ => Err(no_collation(&parts.join("."))),
    }
}

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
        if let (true, Place::None(place @ ("check constraints" | "DEFAULT expressions"))) =
            (made, self.place)
        {
            let what = format!("the collation \"{name}\" in {place}");
            return Err(SqlError::unsupported(what).at(position));
        }
        // What has no type yet gets it from what it stands with, as without COLLATE.
        if !matches!(value.ty, SqlType::Text | SqlType::Bpchar | SqlType::Name | SqlType::Unknown) {
            let message = format!("collations are not supported by type {}", value.ty.name());
            return Err(SqlError::new(code::DATATYPE_MISMATCH, message).at(position));
        }
        Ok(Typed { collated: Collated::Explicit(rule), ..value })
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
        let joined = Collated::of_all(operands)?;
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
