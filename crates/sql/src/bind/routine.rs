//! Functions that users made and whose statements run: functions of several statements, functions
//! that write or lock rows, and functions that call themselves.
//!
//! A call is an expression that is evaluated wherever it stands (`expr::routine`). What the
//! statements of a body name as arguments are parameters of theirs.
//!
//! Does not do: running them (`session::routine`), functions whose body is one query that the
//! planner sees through (`functions`).

use super::functions::Arguments;
use super::overloads::Chosen;
use super::promise::{Elements, Promise, Results, Shape, name_of};
use super::records::{field_by, with_shape};
use super::scope::{Relation, Scope, ScopeColumn};
use super::writing_with::runs_in_parts;
use super::{Binder, Catalog};
use crate::error::{Result, SqlError};
use crate::expr::function::SetFunction;
use crate::expr::{Expr, Typed, routine};
use crate::parse::view::{FunctionBody, function_body};
use crate::parse::{self, Lines, Parsed, Stmt};
use crate::plan::Plan;
use crate::plan::rel::{Function, Rel};
use crate::types::SqlType;
use crate::user_types::functions::{UserFunction, not_built};

/// A statement of a body, ready to run.
pub(crate) struct BodyStatement {
    pub(crate) plan: Plan,
    /// The columns that the function has promised, for the last statement.
    pub(crate) promise: Option<Promise>,
}

/// Checks that the body of a new function can be read, and gives what the function promises.
/// Reading may take so much memory.
pub(crate) fn check(
    catalog: &mut dyn Catalog,
    function: &UserFunction,
    memory: usize,
) -> Result<()> {
    let (body, lines) = (function_body(&function.notes.body)?, Lines::default());
    let mut binder = Binder::new(catalog, &lines, &[]);
    if !binder.is_run(function, &body) {
        return binder.check_query(function, body);
    }
    let types = function.argument_types();
    let statements = parse::parse(&function.notes.body, memory)?;
    for (at, parsed) in statements.iter().enumerate() {
        let mut binder = Binder::new(catalog, &parsed.lines, &types);
        binder.statement_of_body(function, parsed, at + 1 == statements.len())?;
    }
    Ok(())
}

impl Binder<'_> {
    /// Do the statements of the function run when it is called? Else its body is bound where the
    /// call stands. A new view binds no bodies: what they name may come later, as in a dump.
    pub(super) fn is_run(&self, function: &UserFunction, body: &FunctionBody) -> bool {
        if self.views.is_made() {
            return true;
        }
        match body {
            FunctionBody::Empty => false,
            FunctionBody::Statements => true,
            FunctionBody::Query(kept) => {
                let locks = !kept.query.locks.is_empty();
                locks || runs_in_parts(&kept.query) || self.bodies.contains(&function.entry)
            }
        }
    }

    /// A call of a function whose statements run, in place of a value.
    pub(super) fn run_call(&mut self, chosen: Chosen) -> Result<Typed> {
        let function = chosen.function.clone();
        let call = self.call_of(chosen);
        let result = Elements::of_results(&function);
        if function.notes.gives.is_set() {
            return self.elements_of(call, &result);
        }
        let expr = match result.shape {
            Some(nulls) if result.ty == SqlType::Record => with_shape(call, nulls),
            _ => call,
        };
        Ok(Typed { modifier: result.modifier, ..Typed::new(expr, result.ty) })
    }

    /// A call of one in FROM.
    pub(super) fn run_rows(&mut self, chosen: Chosen) -> Result<Results> {
        let function = chosen.function.clone();
        let args = vec![self.call_of(chosen)];
        let id = self.new_columns(1);
        let call = match function.notes.gives.is_set() {
            true => SetFunction::Unnest,
            false => SetFunction::Value,
        };
        let (columns, ordinality) = (vec![id], None);
        let alias = function.bare().to_owned();
        let rel = Rel::Function(Box::new(Function { call, args, columns, ordinality, alias }));
        let Elements { ty, modifier, shape, is_boxed } = Elements::of_results(&function);
        let whole = ScopeColumn { modifier, ..ScopeColumn::new(id, function.bare(), ty) };
        match (ty, shape) {
            (SqlType::Composite(ty), _) => {
                let shape = Shape::Composite { ty, is_whole: true };
                Ok(Results { rel, columns: vec![whole], shape })
            }
            (_, Some(nulls)) => {
                let first = self.new_columns(nulls.fields().len());
                let (mut output, mut columns) = (Vec::new(), Vec::new());
                for (at, part) in function.results.iter().enumerate() {
                    let field = field_by(Expr::Column(id), &nulls, at);
                    output.push((first + at, field.expr));
                    let name = match is_boxed {
                        true => function.bare().to_owned(),
                        false => name_of(part, at),
                    };
                    let column = ScopeColumn::new(first + at, name, part.ty);
                    columns.push(ScopeColumn { modifier: part.modifier, ..column });
                }
                let rel = Rel::Project { input: Box::new(rel), output };
                let shape = if is_boxed { Shape::Value } else { Shape::Record };
                Ok(Results { rel, columns, shape })
            }
            _ => Ok(Results { rel, columns: vec![whole], shape: Shape::Value }),
        }
    }

    fn call_of(&mut self, chosen: Chosen) -> Expr {
        self.calls = true;
        routine::call(&chosen.function.entry, chosen.values)
    }

    /// Binds a statement of a body, of which it is the last one or not.
    pub(crate) fn statement_of_body(
        &mut self,
        function: &UserFunction,
        parsed: &Parsed,
        is_last: bool,
    ) -> Result<BodyStatement> {
        let Stmt::Sql(statement) = &parsed.stmt else {
            let message = "with a statement that is no query and no INSERT, UPDATE or DELETE";
            return Err(not_built(message));
        };
        let arguments = Arguments::parameters(function.arguments.clone());
        let columns = arguments.named_columns();
        let alias = function.bare().to_owned();
        self.outer = vec![Scope::of(Relation { alias, columns, ..Relation::default() })];
        self.arguments = Some(arguments);
        self.bodies = vec![function.entry.clone()];
        let plan = self.plan(statement).map_err(|error| SqlError { position: None, ..error })?;
        let Some(plan) = plan else {
            let text = statement.to_string();
            let words: Vec<&str> = text.split_whitespace().take(2).collect();
            return Err(not_built(&format!("with {}", words.join(" ").to_uppercase())));
        };
        let promise = match is_last {
            true => Some(Promise::of_statement(function, plan.columns())?),
            false => None,
        };
        Ok(BodyStatement { plan, promise })
    }
}
