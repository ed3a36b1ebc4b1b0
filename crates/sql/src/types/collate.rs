//! Which collation an expression has.
//!
//! As in PostgreSQL: COLLATE says it for good, a column suggests its own, and two suggestions that
//! differ leave it open, which fails where texts are compared.
//!
//! Does not do: COLLATE and comparisons (`bind::collate`), collations that were made (`catalog`).

use rightlink::Collation;

use crate::error::{Result, SqlError, code};
use crate::types::casing;
use crate::types::declared::ByteOrder;

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
    pub(crate) fn locale(&self) -> Option<&Collation> {
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
    pub(crate) fn join(self, other: Collated) -> Result<Collated> {
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
    pub(crate) fn letters(&self, what: &str) -> Result<Option<String>> {
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

/// The error for a collation that is not there.
pub(crate) fn no_collation(name: &str) -> SqlError {
    let message = format!("collation \"{name}\" for encoding \"UTF8\" does not exist");
    SqlError::new(code::UNDEFINED_OBJECT, message)
}
