//! What a table asks of its rows: defaults, checks, foreign keys, from the text that is kept of
//! them.
//!
//! Invariants: a rule that cannot be bound any more fails the statement, it is never skipped.
//! Does not do: enforcing (`exec`).

use std::sync::Arc;

use rightlink::{ColumnDefault, IndexInfo};
use sqlparser::tokenizer::Span;

use super::from::table_relation;
use super::scope::{Relation, Scope};
use super::view_text::FoundForm;
use super::{Binder, Catalog, Place, Slot};
use crate::error::{Result, SqlError, code};
use crate::expr::sequences::{Ask, BY_NUMBER, POSITIONS};
use crate::expr::{Expr, Typed};
use crate::names::bare;
use crate::notes::{Deferral, ForeignKey};
use crate::parse::{self, Lines};
use crate::plan::{ParentKey, Rules, Table, UniqueKey};
use crate::roles::role::OWNER;
use crate::schemas;
use crate::types::{Datum, RegKind, SqlType};
use crate::user_types::UsedType;

impl Binder<'_> {
    /// Where values of column `at` go.
    pub(crate) fn slot(&mut self, table: &Table, at: usize) -> Result<Slot> {
        // The default needs something only where it is asked for.
        let before = std::mem::take(&mut self.needs);
        let default = self.default_of(table, at);
        let needs = std::mem::replace(&mut self.needs, before);
        Ok(Slot {
            name: table.info.columns[at].name.clone(),
            ty: table.types[at],
            modifier: table.column_notes[at].modifier,
            default: Some(default?),
            field: None,
            needs,
        })
    }

    /// What column `at` gets that is not given a value.
    pub(crate) fn default_of(&mut self, table: &Table, at: usize) -> Result<Expr> {
        let (column, ty) = (&table.info.columns[at], table.types[at]);
        if let Some(identity) = &column.identity {
            self.name_sequence(&identity.sequence);
            if table.column_notes[at].serial {
                let owner = Some(table.notes.owner.unwrap_or(OWNER));
                let before = std::mem::replace(&mut self.owner_of_default, owner);
                self.need_sequence(&identity.sequence, Ask::Next);
                self.owner_of_default = before;
            }
            let next = Expr::Sequence(Ask::Next, identity.sequence.clone(), Vec::new());
            return Ok(match ty {
                SqlType::Int8 => next,
                _ => Expr::Cast(Box::new(next), ty),
            });
        }
        // Its value is computed when the row is whole.
        if table.column_notes[at].generated.is_some() {
            return Ok(Expr::null());
        }
        let slot = Slot::of_table(table, at);
        if let Some(text) = &table.column_notes[at].default {
            let node = parse::expression(text)?;
            let owner = Some(table.notes.owner.unwrap_or(OWNER));
            let before = std::mem::replace(&mut self.owner_of_default, owner);
            let bound = self.of_kept(|binder| binder.default_from(&node, &slot));
            self.owner_of_default = before;
            return bound;
        }
        if let Some(domain) = &table.column_notes[at].domain
            && column.default.is_none()
        {
            return Ok(self.domain_default(domain, &slot)?.unwrap_or_else(Expr::null));
        }
        match &column.default {
            None => Ok(Expr::null()),
            Some(ColumnDefault::Value(value)) => Datum::stored(value.clone(), ty).map(Expr::Const),
            Some(ColumnDefault::Now) => {
                let now = self.named("now", Vec::new())?;
                self.assign(now, &slot)
            }
            Some(ColumnDefault::RandomUuid) => Ok(self.named("gen_random_uuid", Vec::new())?.expr),
        }
    }

    /// A default as it is written.
    pub(crate) fn default_from(
        &mut self,
        node: &sqlparser::ast::Expr,
        slot: &Slot,
    ) -> Result<Expr> {
        let outer = std::mem::take(&mut self.scope);
        let value = self.at_place(Place::None("DEFAULT expressions"), |binder| binder.expr(node));
        self.scope = outer;
        let value = value.map_err(|error| match error.sqlstate {
            code::UNDEFINED_COLUMN => {
                let message = "cannot use column reference in DEFAULT expression";
                SqlError::new(code::FEATURE_NOT_SUPPORTED, message)
            }
            _ => error,
        })?;
        self.assign_default(value, slot)
    }

    /// A check over the columns of a table.
    pub(crate) fn check_from(
        &mut self,
        node: &sqlparser::ast::Expr,
        table: &Table,
    ) -> Result<Expr> {
        self.condition_of(node, table, ("check constraints", "CHECK"))
    }

    /// An expression over the columns of a table, whose values an index has.
    pub(crate) fn index_expression(
        &mut self,
        node: &sqlparser::ast::Expr,
        table: &Table,
    ) -> Result<Typed> {
        self.over(table, "index expressions", |binder| {
            let value = binder.expr(node)?;
            binder.settle(value)
        })
    }

    /// Which rows of a table an index holds.
    pub(crate) fn index_condition(
        &mut self,
        node: &sqlparser::ast::Expr,
        table: &Table,
    ) -> Result<Expr> {
        self.condition_of(node, table, ("index predicates", "WHERE"))
    }

    /// Which rows COPY FROM takes.
    pub(crate) fn copy_condition(
        &mut self,
        node: &sqlparser::ast::Expr,
        table: &Table,
    ) -> Result<Expr> {
        self.condition_of(node, table, ("COPY FROM WHERE conditions", "WHERE"))
    }

    fn condition_of(
        &mut self,
        node: &sqlparser::ast::Expr,
        table: &Table,
        (place, clause): (&'static str, &str),
    ) -> Result<Expr> {
        self.over(table, place, |binder| {
            let value = binder.expr(node)?;
            binder.condition(value, clause)
        })
    }

    /// What a row has in column `slot`, which gets the type that this says: what USING says of the
    /// row as it is.
    pub(crate) fn transform(
        &mut self,
        node: &sqlparser::ast::Expr,
        table: &Table,
        slot: &Slot,
    ) -> Result<Expr> {
        let value = self.over(table, "transform expressions", |binder| binder.expr(node))?;
        self.assign(value, slot).map_err(|error| match error.sqlstate {
            code::DATATYPE_MISMATCH => {
                let (column, ty) = (&slot.name, slot.ty.name());
                let message = format!(
                    "result of USING clause for column \"{column}\" cannot be cast automatically \
                     to type {ty}"
                );
                let hint = "You might need to add an explicit cast.";
                SqlError::new(code::DATATYPE_MISMATCH, message).hint(hint)
            }
            _ => error,
        })
    }

    /// Binds where names are the columns of `table`.
    fn over<T>(
        &mut self,
        table: &Table,
        place: &'static str,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let mut relation = table_relation(table, 0);
        relation.columns.pop();
        self.over_relation(relation, place, work)
    }

    /// Binds where names are the columns of a source.
    pub(super) fn over_relation<T>(
        &mut self,
        relation: Relation,
        place: &'static str,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let scope = Scope::of(relation);
        let outer = std::mem::replace(&mut self.scope, scope);
        let bound = self.at_place(Place::None(place), work);
        self.scope = outer;
        bound
    }

    /// The rules of a table.
    pub(crate) fn rules(&mut self, table: &Table) -> Result<Rules> {
        let mut rules = Rules {
            is_parent: !table.notes.children.is_empty(),
            types: table.types.clone(),
            shown: table.shown().len(),
            ..Rules::default()
        };
        for (at, notes) in table.column_notes.iter().enumerate() {
            if let Some(domain) = &notes.domain {
                rules.domains.push((at, self.domain_tests(domain)?.into()));
            }
        }
        for (name, text) in &table.notes.checks {
            let node = parse::expression(text)?;
            let condition = self.of_kept(|binder| binder.check_from(&node, table))?;
            rules.checks.push((name.clone(), condition));
        }
        for key in &table.notes.keys {
            rules.keys.push(self.parent_key(key, table)?);
        }
        for index in &table.info.indexes {
            let Some(kind) = table.notes.key_kind(index) else { continue };
            if kind.deferral == Deferral::Never {
                continue;
            }
            let columns = index.columns.iter().map(|part| place_in(table, &part.name));
            let (index, columns) = (index.name.clone(), columns.collect::<Result<_>>()?);
            rules.unique.push(UniqueKey { index, columns, kind });
        }
        if rules.is_parent {
            let unique = table.info.indexes.iter().filter(|index| index.unique);
            let names = unique.flat_map(|index| &index.columns).map(|part| &part.name);
            let columns = table.info.columns.iter().enumerate();
            let keyed =
                columns.filter(|(_, column)| names.clone().any(|name| *name == column.name));
            rules.keyed = keyed.map(|(at, _)| at).collect();
        }
        Ok(rules)
    }

    /// Resolves a foreign key of `table`.
    pub(crate) fn parent_key(&mut self, key: &ForeignKey, table: &Table) -> Result<ParentKey> {
        let parent = self.catalog.table(&key.parent)?;
        let mut pairs = Vec::with_capacity(key.columns.len());
        for (own, theirs) in key.columns.iter().zip(&key.parent_columns) {
            let own = place_in(table, own)?;
            pairs.push((own, place_in(&parent, theirs)?));
        }
        let fits = |index: &&IndexInfo| {
            let named = |at: usize| {
                let name = &parent.info.columns[at].name;
                index.columns.iter().any(|key| key.name == *name)
            };
            let by_bytes = |part: &rightlink::KeyColumn| {
                part.collation.given().is_none_or(rightlink::Collation::is_deterministic)
            };
            parent.notes.key_kind(index).is_some()
                && index.is_whole()
                && index.columns.iter().all(by_bytes)
                && index.columns.len() == pairs.len()
                && pairs.iter().all(|(_, theirs)| named(*theirs))
        };
        let mut fit: Vec<&IndexInfo> = parent.info.indexes.iter().filter(fits).collect();
        fit.sort_by_key(|index| !index.unique);
        if fit.first().is_some_and(|index| !index.unique) {
            let message = format!(
                "cannot use a deferrable unique constraint for referenced table \"{}\"",
                bare(&key.parent)
            );
            return Err(SqlError::new(code::NOT_IN_STATE, message));
        }
        let index = fit.first().ok_or_else(|| {
            let message = format!(
                "there is no unique constraint matching given keys for referenced table \"{}\"",
                bare(&key.parent)
            );
            SqlError::new(code::INVALID_FOREIGN_KEY, message)
        })?;
        let of_index = |part: &rightlink::KeyColumn| {
            let is_it = |pair: &&(usize, usize)| parent.info.columns[pair.1].name == part.name;
            let (own, theirs) = pairs.iter().find(is_it).expect("all key columns are named");
            (*own, *theirs, parent.types[*theirs])
        };
        let columns = index.columns.iter().map(of_index).collect();
        let index = index.name.clone();
        Ok(ParentKey { key: key.clone(), parent: Arc::clone(&parent), index, columns })
    }

    /// Remembers that the statement names a sequence.
    pub(crate) fn name_sequence(&mut self, name: &str) {
        if !self.sequences.iter().any(|known| known == name) {
            self.sequences.push(name.to_owned());
        }
    }

    /// `nextval('s')` and its like.
    pub(super) fn sequence_call(
        &mut self,
        name: &str,
        args: &[sqlparser::ast::Expr],
    ) -> Result<Typed> {
        let no_such = |count: usize| {
            let message = format!("function {name} with {count} arguments does not exist");
            SqlError::new(code::UNDEFINED_FUNCTION, message)
        };
        let (ask, count) = match name {
            "nextval" => (Ask::Next, 1..=1),
            "currval" => (Ask::Current, 1..=1),
            "lastval" => (Ask::Last, 0..=0),
            "pg_sequence_last_value" => (Ask::Position, 1..=1),
            _ => (Ask::Set, 2..=3),
        };
        if !count.contains(&args.len()) {
            return Err(no_such(args.len()));
        }
        let named = |node| if ask == Ask::Position { None } else { sequence_literal(node) };
        let literal = args.first().map(|node| (node, named(node)));
        let sequence = match literal {
            Some((node, None)) => return self.call_by_number(ask, node, &args[1..]),
            Some((_, Some(literal))) => {
                let parts = schemas::parts_of(&literal.name)?;
                let found = self.find(&parts)?;
                self.find_in_text(literal.span, &parts, FoundForm::Sequence);
                found
            }
            None => String::new(),
        };
        // That of `lastval` has no name here: which it is, is known when the statement begins.
        if ask != Ask::Current {
            self.name_sequence(&sequence);
        }
        if ask != Ask::Last {
            self.need_sequence(&sequence, ask);
        }
        let mut bound = Vec::new();
        if ask == Ask::Current {
            // The name may be another sequence's the next time.
            self.once = true;
            bound.push(Expr::Const(Datum::Int8(i64::from(self.catalog.sequence(&sequence)?))));
        }
        bound.extend(self.set_arguments(ask, args.get(1..).unwrap_or_default())?);
        Ok(Typed::new(Expr::Sequence(ask, sequence, bound), SqlType::Int8))
    }

    /// The same where an expression says which sequence it is.
    fn call_by_number(
        &mut self,
        ask: Ask,
        node: &sqlparser::ast::Expr,
        rest: &[sqlparser::ast::Expr],
    ) -> Result<Typed> {
        let value = self.expr(node)?;
        let mut bound = vec![self.coerce(value, SqlType::Reg(RegKind::Class))?];
        match ask {
            // Numbers that the session has got need no sequence.
            Ask::Current => {}
            Ask::Position => self.name_sequence(POSITIONS),
            _ => self.name_sequence(BY_NUMBER),
        }
        bound.extend(self.set_arguments(ask, rest)?);
        Ok(Typed::new(Expr::Sequence(ask, BY_NUMBER.to_owned(), bound), SqlType::Int8))
    }

    /// The arguments of `setval` behind the sequence.
    fn set_arguments(&mut self, ask: Ask, nodes: &[sqlparser::ast::Expr]) -> Result<Vec<Expr>> {
        let mut bound = Vec::with_capacity(2);
        for (node, ty) in nodes.iter().zip([SqlType::Int8, SqlType::Bool]) {
            let value = self.expr(node)?;
            bound.push(self.coerce(value, ty)?);
        }
        if ask == Ask::Set && bound.len() == 1 {
            bound.push(Expr::Const(Datum::Bool(true)));
        }
        Ok(bound)
    }
}

/// The expressions of the columns of `table` that are computed, in order.
pub(crate) fn computed(
    catalog: &mut dyn Catalog,
    table: &Table,
) -> Result<(Vec<Expr>, Vec<UsedType>)> {
    let notes = table.column_notes[table.shown().len()..].iter();
    let computed = notes.filter_map(|notes| notes.computed.as_ref());
    let texts: Vec<&String> = computed.map(|one| &one.text).collect();
    if texts.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let lines = Lines::default();
    let mut binder = Binder::new(catalog, &lines, &[]);
    let mut bind = |text: &&String| {
        let node = parse::expression(text)?;
        binder.of_kept(|binder| binder.index_expression(&node, table)).map(|value| value.expr)
    };
    let all = texts.iter().map(&mut bind).collect::<Result<_>>()?;
    Ok((all, binder.take_used_types()))
}

/// Place of the column called `name`.
pub(crate) fn place_in(table: &Table, name: &str) -> Result<usize> {
    let found = table.info.columns.iter().position(|column| column.name == name);
    found.ok_or_else(|| {
        let message =
            format!("column \"{name}\" of relation \"{}\" does not exist", table.bare_name());
        SqlError::new(code::UNDEFINED_COLUMN, message)
    })
}

/// A string that names a sequence.
struct SequenceLiteral {
    name: String,
    span: Span,
}

/// The string that an argument is, maybe cast to `regclass` or text.
fn sequence_literal(node: &sqlparser::ast::Expr) -> Option<SequenceLiteral> {
    use sqlparser::ast::{Expr as Ast, Value};
    match node {
        Ast::Nested(inner) | Ast::Cast { expr: inner, .. } => sequence_literal(inner),
        Ast::Value(value) => match &value.value {
            Value::SingleQuotedString(name) => {
                Some(SequenceLiteral { name: name.clone(), span: value.span })
            }
            _ => None,
        },
        _ => None,
    }
}
