//! The function of a user that a call means, and the values of its parameters.
//!
//! A call gives values by place, then by name, and perhaps an array of all that are left. As in
//! PostgreSQL's chapter 10 a function may stand for a call if it takes all values and has defaults
//! for the parameters without one; of several the best is chosen by the types of the values.
//!
//! Invariants: a function is preferred to one that would gather values into an array, where both
//! take the same types.
//! Does not do: functions of the system (`expr::registry`), bodies (`functions`).

use sqlparser::ast::FunctionArg;

use super::{Binder, Slot};
use crate::catalog::{is_of_system, kept_call};
use crate::error::{Result, SqlError, code};
use crate::expr::registry::{Candidate, Miss, choose};
use crate::expr::{Expr, Typed};
use crate::names::{function_entry, schema_of};
use crate::parse;
use crate::parse::named_arguments::{self, VARIADIC};
use crate::types::cast::is_implicit;
use crate::types::parameter_mode::ParameterMode;
use crate::types::{ElementType, SqlType};
use crate::user_types::functions::{Part, UserFunction};

/// Values that a call gives.
#[derive(Default)]
pub(super) struct Given {
    /// Those by place, then those by name.
    values: Vec<Typed>,
    /// The names of the last of them.
    names: Vec<String>,
    /// Is the last value by place an array of values?
    is_list: bool,
}

impl Given {
    /// Values by place.
    pub(super) fn plain(values: Vec<Typed>) -> Given {
        Given { values, ..Given::default() }
    }

    fn types(&self) -> Vec<SqlType> {
        self.values.iter().map(|value| value.ty).collect()
    }

    /// The number of values given by place.
    fn placed(&self) -> usize {
        self.values.len() - self.names.len()
    }

    /// The error for a call that means no function, or several.
    fn no_function(&self, name: &str, miss: &Miss) -> SqlError {
        let ty = |(at, value): (usize, &Typed)| match at.checked_sub(self.placed()) {
            Some(at) => format!("{} => {}", self.names[at], value.ty.name()),
            None => value.ty.name().to_owned(),
        };
        let types: Vec<String> = self.values.iter().enumerate().map(ty).collect();
        let call = format!("{name}({})", types.join(", "));
        match miss {
            Miss::Ambiguous => {
                let message = format!("function {call} is not unique");
                SqlError::new(code::AMBIGUOUS_FUNCTION, message).hint(
                    "Could not choose a best candidate function. You might need to add explicit \
                     type casts.",
                )
            }
            Miss::None => {
                let message = format!("function {call} does not exist");
                SqlError::new(code::UNDEFINED_FUNCTION, message).hint(
                    "No function matches the given name and argument types. You might need to add \
                     explicit type casts.",
                )
            }
        }
    }
}

/// A function that takes the values of a call.
struct Fit<'f> {
    function: &'f UserFunction,
    /// Of each value the parameter that it goes to.
    places: Vec<usize>,
    /// Of each value the type that is wanted of it.
    types: Vec<SqlType>,
    /// Does the last parameter gather values into an array?
    gathers: bool,
    /// Is there another one that nothing makes better or worse?
    is_ambiguous: bool,
}

impl Candidate for Fit<'_> {
    fn arg(&self, at: usize) -> Option<SqlType> {
        self.types.get(at).copied()
    }

    fn takes_at(&self, at: usize, ty: SqlType) -> bool {
        self.arg(at).is_some_and(|wanted| is_implicit(ty, wanted))
    }
}

impl<'f> Fit<'f> {
    /// The function as one for these values, if their number and names fit it.
    fn of(function: &'f UserFunction, given: &Given) -> Option<Fit<'f>> {
        let (parameters, placed) = (&function.arguments, given.placed());
        let last = parameters.last().filter(|one| one.mode == Some(ParameterMode::Variadic));
        let element = last.and_then(|one| one.ty.element());
        if given.is_list && (element.is_none() || placed != parameters.len()) {
            return None;
        }
        if let Some(element) = element
            && given.names.is_empty()
            && !given.is_list
            && placed >= parameters.len()
        {
            let gathered = parameters.len() - 1;
            let places: Vec<usize> = (0..placed).map(|at| at.min(gathered)).collect();
            let ty = |at: &usize| if *at == gathered { element } else { parameters[*at].ty };
            let types = places.iter().map(ty).collect();
            return Some(Fit { function, places, types, gathers: true, is_ambiguous: false });
        }
        if placed > parameters.len() {
            return None;
        }
        let mut places: Vec<usize> = (0..placed).collect();
        for name in &given.names {
            let is_it = |part: &Part| part.name.as_deref() == Some(name);
            let at = parameters.iter().position(is_it)?;
            if places.contains(&at) {
                return None;
            }
            places.push(at);
        }
        let is_given = |(at, part): (usize, &Part)| places.contains(&at) || part.default.is_some();
        if !parameters.iter().enumerate().all(is_given) {
            return None;
        }
        let types = places.iter().map(|at| parameters[*at].ty).collect();
        Some(Fit { function, places, types, gathers: false, is_ambiguous: false })
    }

    fn takes(&self, types: &[SqlType]) -> bool {
        types.iter().enumerate().all(|(at, ty)| self.takes_at(at, *ty))
    }
}

/// Functions without those in whose place another one of the same types is preferred: one of a
/// schema that comes first in the path, or one that does not gather.
fn preferred(fits: Vec<Fit<'_>>) -> Vec<Fit<'_>> {
    let mut kept: Vec<Fit<'_>> = Vec::new();
    for fit in fits {
        let Some(known) = kept.iter_mut().find(|known| known.types == fit.types) else {
            kept.push(fit);
            continue;
        };
        let schema = |fit: &Fit<'_>| schema_of(&fit.function.name).to_owned();
        match (known.gathers, fit.gathers) {
            _ if schema(known) != schema(&fit) => {}
            (true, false) => *known = fit,
            (false, true) => {}
            _ => known.is_ambiguous = true,
        }
    }
    kept
}

/// The one of functions that a call with these values means.
fn best<'f>(functions: &'f [UserFunction], given: &Given) -> std::result::Result<Fit<'f>, Miss> {
    let types = given.types();
    let fits = functions.iter().filter_map(|one| Fit::of(one, given)).collect();
    let mut fits = preferred(fits);
    let at = match fits.iter().position(|fit| fit.types == types) {
        Some(at) => at,
        None => {
            fits.retain(|fit| fit.takes(&types));
            let chosen = choose(fits.iter().collect(), &types)?;
            let at = fits.iter().position(|fit| std::ptr::eq(fit, chosen));
            at.expect("it is one of them")
        }
    };
    match fits.swap_remove(at) {
        fit if fit.is_ambiguous => Err(Miss::Ambiguous),
        fit => Ok(fit),
    }
}

/// A call of a function, with a value for each of its parameters.
pub(super) struct Chosen {
    pub(super) function: UserFunction,
    pub(super) values: Vec<Expr>,
}

impl Binder<'_> {
    /// The functions that users made and that these parts may name.
    pub(super) fn users_functions(&mut self, parts: &[String]) -> Result<Vec<UserFunction>> {
        if let Some(entries) = self.functions_in_view(parts).filter(|_| !self.kept) {
            let mut found = Vec::with_capacity(entries.len());
            for entry in entries {
                found.extend(self.catalog.function(&entry)?);
            }
            return Ok(found);
        }
        match self.kept {
            true => self.kept_function(parts),
            false => self.catalog.functions_named(parts),
        }
    }

    /// The function that these parts name in a text that is kept, which has no others beside it.
    fn kept_function(&mut self, parts: &[String]) -> Result<Vec<UserFunction>> {
        let Some(name) = kept_call(parts) else { return Ok(Vec::new()) };
        let found = self.catalog.function(&function_entry(&name, 1))?;
        Ok(found.into_iter().collect())
    }

    /// The arguments of a call as they are given.
    pub(super) fn given(&mut self, args: &[FunctionArg]) -> Result<Given> {
        let mut given = Given::default();
        for arg in args {
            let Some((name, node)) = named_arguments::named(arg) else {
                if !given.names.is_empty() {
                    return Err(named_arguments::misplaced());
                }
                given.values.extend(self.arguments(std::slice::from_ref(arg))?);
                continue;
            };
            if name == VARIADIC {
                given.values.push(self.expr(node)?);
                given.is_list = true;
                continue;
            }
            if given.names.contains(&name) {
                let message = format!("argument name \"{name}\" used more than once");
                return Err(SqlError::syntax(message));
            }
            given.names.push(name);
            given.values.push(self.expr(node)?);
        }
        Ok(given)
    }

    /// The function that a call means, and the values of its parameters. The call has this name.
    pub(super) fn chosen(
        &mut self,
        functions: &[UserFunction],
        parts: &[String],
        given: Given,
    ) -> Result<Chosen> {
        let miss = |miss| given.no_function(&parts.join("."), &miss);
        let fit = best(functions, &given).map_err(miss)?;
        let function = fit.function.clone();
        if let Some(place) = self.place_without_queries().filter(|_| is_of_system(parts)) {
            let what = format!("\"{}\", as the system has one, without its schema", parts[0]);
            return Err(SqlError::unsupported(format!("{what} in {place}"))
                .hint("Write the schema of the function in front of its name."));
        }
        self.note_function(parts, &function.entry);
        let is_exact = fit.types == given.types();
        // Another schema may get a better one, unless nothing is better.
        self.once |= !(function.is_only_schema || function.settled && is_exact);
        for used in functions.iter().flat_map(|one| &one.used) {
            self.use_type(used.clone());
        }
        let Fit { places, types, gathers, .. } = fit;
        let mut values: Vec<Option<Expr>> = vec![None; function.arguments.len()];
        let mut gathered = Vec::new();
        for ((value, at), ty) in given.values.into_iter().zip(places).zip(types) {
            match gathers && at + 1 == function.arguments.len() {
                true => gathered.push(value),
                false => values[at] = Some(self.coerce(value, ty)?),
            }
        }
        if let Some(last) = function.arguments.last().filter(|_| gathers)
            && let Some(element) = last.ty.element().and_then(ElementType::of)
        {
            let at = function.arguments.len() - 1;
            values[at] = Some(self.array_of(gathered, false, Some(element))?.expr);
        }
        let mut all = Vec::with_capacity(values.len());
        for (value, part) in values.into_iter().zip(&function.arguments) {
            all.push(match value {
                Some(value) => value,
                None => self.parameter_default(part)?,
            });
        }
        Ok(Chosen { function, values: all })
    }

    /// The value of a parameter that a call gives none.
    fn parameter_default(&mut self, part: &Part) -> Result<Expr> {
        let text = part.default.as_deref().unwrap_or("NULL");
        let (node, slot) = (parse::expression(text)?, Slot::of_column("", part.ty, None));
        self.of_kept(|binder| binder.default_from(&node, &slot))
    }
}
