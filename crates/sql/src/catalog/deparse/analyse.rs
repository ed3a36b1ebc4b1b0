//! The meaning of an expression's text, with every cast that PostgreSQL's analysis adds.
//!
//! It follows PostgreSQL's `parse_expr.c`. The text was bound when the definition was made, so that
//! nothing is refused here: what is not known gives `None`, and the text is shown as it is kept.
//!
//! Invariants: a tree that is given means what the text means.
//! Does not do: calls and what has a syntax of its own (`calls`), choosing operators (`choose`).

use std::cell::Cell;

use sqlparser::ast::{self, BinaryOperator, UnaryOperator, Value};
use sqlparser::tokenizer::Span;

use super::choose::{BOOL, Chosen, RECORD, TEXT, Types, UNKNOWN};
use super::tree::{AnyOf, Case, Cast, Kind, Node, Query, Subquery, Subscript, Test, TypeRef};
use crate::catalog::objects::Objects;
use crate::error::Result;
use crate::names::identifier;
use crate::notes::ColumnNotes;
use crate::parse::chain;
use crate::parse::identifiers::{self, TypeNames, ident};
use crate::types::declared::{Declared, Domain, Modifier};
use crate::types::{Datum, SqlType, literal};
use crate::user_types::kept_name;

/// Where the names of columns are looked up.
pub(super) trait Columns {
    /// The column that these parts name, and how it is written.
    fn column(&self, parts: &[String]) -> Option<Node>;

    /// A query in an expression, where there may be one.
    fn query(&self, query: &ast::Query) -> Option<Query> {
        let _ = query;
        None
    }
}

pub(super) struct Analyzer<'o> {
    pub(super) types: Types<'o>,
    pub(super) columns: &'o dyn Columns,
    /// How deep the expression stands that is looked at.
    depth: Cell<usize>,
}

/// How deep expressions stand in each other at most: a row of casts nests without parentheses.
const MAX_NESTING: usize = 64;

/// Types that were made, by the names that definitions keep.
struct KeptTypes<'o>(&'o Objects);

impl TypeNames for KeptTypes<'_> {
    fn type_named(&mut self, parts: &[String], _: Span) -> Result<Option<Declared>> {
        let Some(stored) = kept_name(parts) else { return Ok(None) };
        Ok(match self.0.domain(&stored) {
            Some(domain) => {
                let notes = ColumnNotes::decode(&domain.column.note);
                let ty = notes.type_of(domain.column.kind, &self.0.made);
                Some(Declared { domain: Some(Domain::named(&stored)), ..Declared::plain(ty) })
            }
            None => self.0.made.get(&stored).map(|ty| Declared::plain(*ty)),
        })
    }
}

/// An operand of a chain.
struct Operand {
    value: Node,
    /// Is it written with AND or OR, so that another one behind it joins the same list?
    is_joined: bool,
}

impl Operand {
    fn of(value: Node) -> Operand {
        Operand { value, is_joined: false }
    }
}

fn is_joined(node: &ast::Expr) -> bool {
    match node {
        ast::Expr::Nested(inner) => is_joined(inner),
        ast::Expr::BinaryOp { op, .. } => matches!(op, BinaryOperator::And | BinaryOperator::Or),
        _ => false,
    }
}

/// A value that was read, as a constant.
pub(super) fn constant(value: &Datum, ty: u32) -> Option<Node> {
    Node::new(Kind::Const(value.to_text()), TypeRef::plain(ty))
}

fn boxed(node: Node) -> Box<Node> {
    Box::new(node)
}

fn truth(kind: Kind) -> Option<Node> {
    Node::new(kind, TypeRef::plain(BOOL))
}

impl<'o> Analyzer<'o> {
    /// `depth`: how deep the expressions stand already.
    pub(super) fn new(types: Types<'o>, columns: &'o dyn Columns, depth: usize) -> Analyzer<'o> {
        Analyzer { types, columns, depth: Cell::new(depth) }
    }

    pub(super) fn expr(&self, node: &ast::Expr) -> Option<Node> {
        let depth = self.depth.get();
        if depth >= MAX_NESTING {
            return None;
        }
        self.depth.set(depth + 1);
        let value = self.value_of(node);
        self.depth.set(depth);
        value
    }

    fn value_of(&self, node: &ast::Expr) -> Option<Node> {
        use ast::Expr as E;
        let of = |inner: &ast::Expr| self.expr(inner);
        match node {
            E::Nested(inner) => of(inner),
            E::Identifier(name) => match name.quote_style {
                None => self.word(name).or_else(|| self.columns.column(&[ident(name)])),
                Some(_) => self.columns.column(&[ident(name)]),
            },
            E::CompoundIdentifier(path) => {
                self.columns.column(&path.iter().map(ident).collect::<Vec<_>>())
            }
            E::Value(value) => self.value(&value.value),
            E::TypedString(typed) => {
                let literal = self.value(&typed.value.value)?;
                match &typed.data_type {
                    // Of a literal it declares no length.
                    ast::DataType::Bit(None) => self.coerce(literal, SqlType::Bit.oid(), false),
                    other => self.cast(literal, self.type_ref(other)?),
                }
            }
            E::Interval(interval) => self.interval(interval),
            E::BinaryOp { .. } => self.chain(node),
            E::UnaryOp { op: UnaryOperator::Not, expr } => {
                truth(Kind::Not(boxed(self.condition(expr)?)))
            }
            E::UnaryOp { .. } => self.chain(node),
            E::Cast { expr, data_type, format: None, .. } => {
                let to = self.type_ref(data_type)?;
                match (array_of(expr), self.types.element(to.oid)) {
                    (Some(array), Some(element)) => {
                        self.array(array, Some(TypeRef { oid: element, ..to }))
                    }
                    _ => self.cast(of(expr)?, to),
                }
            }
            E::Between { expr, negated, low, high } => self.between(expr, [low, high], *negated),
            E::InList { expr, list, negated } => self.in_list(of(expr)?, list, *negated),
            E::Collate { expr, collation } => {
                let name = identifier(&identifiers::collation(collation).ok()?);
                let value = self.decided(of(expr)?)?;
                if is_cast(&value) {
                    return None;
                }
                let ty = value.ty;
                Node::new(Kind::Collate(boxed(value), name), ty)
            }
            E::AnyOp { left, compare_op, right, .. } => {
                self.quantified(&compare_op.to_string(), false, of(left)?, right)
            }
            E::AllOp { left, compare_op, right } => {
                self.quantified(&compare_op.to_string(), true, of(left)?, right)
            }
            E::InSubquery { expr, subquery, negated } => {
                let test = self.among("=", false, of(expr)?, subquery)?;
                if *negated { truth(Kind::Not(boxed(test))) } else { Some(test) }
            }
            E::Exists { subquery, negated } => {
                let query = self.columns.query(subquery)?;
                let test = truth(Kind::Subquery(Box::new(Subquery { query, test: Test::Exists })))?;
                if *negated { truth(Kind::Not(boxed(test))) } else { Some(test) }
            }
            E::Subquery(query) => {
                let query = self.columns.query(query)?;
                let [column] = query.columns.as_slice() else { return None };
                let ty = column.ty;
                Node::new(Kind::Subquery(Box::new(Subquery { query, test: Test::Value })), ty)
            }
            E::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref())
            }
            E::Array(array) if array.named => self.array(array, None),
            E::CompoundFieldAccess { root, access_chain } => self.subscripts(root, access_chain),
            other => self.test(other),
        }
    }

    /// A test that ends in words, or a pattern.
    fn test(&self, node: &ast::Expr) -> Option<Node> {
        use ast::Expr as E;
        let of = |inner: &ast::Expr| self.expr(inner);
        let null_test = |inner: &ast::Expr, test| {
            let value = of(inner)?;
            let is_unclear = value.is_null() || self.types.is_row(value.ty.oid);
            if is_unclear { None } else { truth(Kind::NullTest(test, boxed(value))) }
        };
        let boolean_test =
            |inner: &ast::Expr, test| truth(Kind::BooleanTest(test, boxed(self.condition(inner)?)));
        match node {
            E::IsNull(inner) => null_test(inner, "IS NULL"),
            E::IsNotNull(inner) => null_test(inner, "IS NOT NULL"),
            E::IsTrue(inner) => boolean_test(inner, "IS TRUE"),
            E::IsNotTrue(inner) => boolean_test(inner, "IS NOT TRUE"),
            E::IsFalse(inner) => boolean_test(inner, "IS FALSE"),
            E::IsNotFalse(inner) => boolean_test(inner, "IS NOT FALSE"),
            E::IsUnknown(inner) => boolean_test(inner, "IS UNKNOWN"),
            E::IsNotUnknown(inner) => boolean_test(inner, "IS NOT UNKNOWN"),
            E::IsDistinctFrom(left, right) => self.distinct(of(left)?, of(right)?),
            E::IsNotDistinctFrom(left, right) => {
                truth(Kind::Not(boxed(self.distinct(of(left)?, of(right)?)?)))
            }
            E::Like { any: false, negated, expr, pattern, escape_char } => {
                let name = if *negated { "!~~" } else { "~~" };
                self.like(name, expr, pattern, escape_char.as_deref())
            }
            E::ILike { any: false, negated, expr, pattern, escape_char } => {
                let name = if *negated { "!~~*" } else { "~~*" };
                self.like(name, expr, pattern, escape_char.as_deref())
            }
            E::SimilarTo { negated, expr, pattern, escape_char } => {
                let mut args = vec![of(pattern)?];
                args.extend(match escape_char {
                    Some(escape) => Some(of(escape)?),
                    None => None,
                });
                let pattern = self.call("similar_to_escape", args)?;
                self.operator(if *negated { "!~" } else { "~" }, vec![of(expr)?, pattern])
            }
            other => self.call_like(other),
        }
    }

    /// The type that a text names.
    pub(super) fn type_ref(&self, kind: &ast::DataType) -> Option<TypeRef> {
        let declared = identifiers::data_type(kind, &mut KeptTypes(self.types.0)).ok()?;
        Some(match declared.domain {
            Some(domain) => TypeRef::plain(self.types.0.domain(domain.stored())?.oid),
            None => TypeRef {
                oid: declared.oid(),
                modifier: declared.modifier.map_or(-1, Modifier::number),
            },
        })
    }

    fn value(&self, value: &Value) -> Option<Node> {
        match value {
            Value::Number(digits, _) => literal_number(digits),
            Value::SingleQuotedString(text)
            | Value::EscapedStringLiteral(text)
            | Value::UnicodeStringLiteral(text)
            | Value::NationalStringLiteral(text) => Node::unknown(Some(text.clone())),
            Value::DollarQuotedString(text) => Node::unknown(Some(text.value.clone())),
            Value::Boolean(value) => constant(&Datum::Bool(*value), BOOL),
            Value::Null => Node::unknown(None),
            _ => None,
        }
    }

    fn interval(&self, interval: &ast::Interval) -> Option<Node> {
        let ast::Expr::Value(value) = &*interval.value else { return None };
        let all =
            interval.leading_field.is_none() && interval.fractional_seconds_precision.is_none();
        if !all || interval.last_field.is_some() || interval.leading_precision.is_some() {
            return None;
        }
        self.coerce(self.value(&value.value)?, SqlType::Interval.oid(), false)
    }

    fn chain(&self, node: &ast::Expr) -> Option<Node> {
        let mut operands: Vec<Operand> = Vec::new();
        for step in chain::steps(node).ok()? {
            let operand = match step {
                chain::Step::Operand(node) => {
                    Operand { value: self.operand(node)?, is_joined: is_joined(node) }
                }
                chain::Step::Negative(node) => {
                    Operand::of(literal_number(&format!("-{}", chain::digits(node)?))?)
                }
                chain::Step::Apply(chain::Operator::Prefix(op)) => {
                    let value = operands.pop()?.value;
                    Operand::of(self.operator(chain::prefix_name(op)?, vec![value])?)
                }
                chain::Step::Apply(chain::Operator::Infix(op)) => {
                    let (right, left) = (operands.pop()?, operands.pop()?);
                    self.binary(op, left, right.value)?
                }
            };
            operands.push(operand);
        }
        operands.pop().filter(|_| operands.is_empty()).map(|whole| whole.value)
    }

    /// An operand of a chain, which is no chain itself unless parentheses are around it.
    fn operand(&self, node: &ast::Expr) -> Option<Node> {
        match node {
            ast::Expr::UnaryOp { op, .. } if *op != UnaryOperator::Not => None,
            node => self.expr(node),
        }
    }

    fn binary(&self, op: &BinaryOperator, left: Operand, right: Node) -> Option<Operand> {
        let name = match op {
            BinaryOperator::And | BinaryOperator::Or => {
                let is_joined = left.is_joined;
                let (left, right) = (self.as_condition(left.value)?, self.as_condition(right)?);
                let is_and = *op == BinaryOperator::And;
                let parts = match left.kind {
                    Kind::And(mut parts) if is_and && is_joined => {
                        parts.push(right);
                        parts
                    }
                    Kind::Or(mut parts) if !is_and && is_joined => {
                        parts.push(right);
                        parts
                    }
                    _ => vec![left, right],
                };
                let value = truth(if is_and { Kind::And(parts) } else { Kind::Or(parts) })?;
                return Some(Operand { value, is_joined: true });
            }
            BinaryOperator::PGCustomBinaryOperator(path) => path.last().cloned()?,
            other => other.to_string(),
        };
        self.operator(&name, vec![left.value, right]).map(Operand::of)
    }

    /// A value of a literal's own type is a text.
    pub(super) fn decided(&self, node: Node) -> Option<Node> {
        if node.is_unknown() { self.coerce(node, TEXT, true) } else { Some(node) }
    }

    pub(super) fn condition(&self, node: &ast::Expr) -> Option<Node> {
        self.as_condition(self.expr(node)?)
    }

    fn as_condition(&self, node: Node) -> Option<Node> {
        self.coerce(node, BOOL, true)
    }

    pub(super) fn operator(&self, name: &str, operands: Vec<Node>) -> Option<Node> {
        let name = if name == "!=" { "<>" } else { name };
        let types: Vec<u32> = operands.iter().map(|one| one.ty.oid).collect();
        let Chosen { operands: wanted, result } = self.types.operator(name, &types)?;
        let operands = self.coerce_all(operands, &wanted)?;
        Node::new(Kind::Operator(name.to_owned(), operands), TypeRef::plain(result))
    }

    /// Each value as the type of its place.
    pub(super) fn coerce_all(&self, nodes: Vec<Node>, types: &[u32]) -> Option<Vec<Node>> {
        nodes.into_iter().zip(types).map(|(node, ty)| self.coerce(node, *ty, true)).collect()
    }

    /// Values as their common type.
    pub(super) fn unified(&self, nodes: Vec<Node>) -> Option<(Vec<Node>, TypeRef)> {
        let types: Vec<u32> = nodes.iter().map(|one| one.ty.oid).collect();
        let ty = self.types.common(&types)?;
        let nodes = self.coerce_all(nodes, &vec![ty; types.len()])?;
        let modifier = nodes.first()?.ty.modifier;
        let is_same = nodes.iter().all(|one| one.ty.modifier == modifier);
        Some((nodes, TypeRef { oid: ty, modifier: if is_same { modifier } else { -1 } }))
    }

    /// A value as another type, without a modifier.
    pub(super) fn coerce(&self, node: Node, to: u32, is_implicit: bool) -> Option<Node> {
        let from = node.ty.oid;
        if from == to {
            return Some(node);
        }
        let base = self.types.base(to);
        if base != to {
            let inner = self.coerce(node, base, true)?;
            let cast = Cast { is_implicit, by_function: false };
            return Node::new(Kind::Cast(cast, boxed(inner)), TypeRef::plain(to));
        }
        match node.kind {
            Kind::Const(value) if from == UNKNOWN => {
                let value = match value {
                    Some(text) => Some(self.text_of(&text, to)?),
                    None => None,
                };
                Node::new(Kind::Const(value), TypeRef::plain(to))
            }
            _ if from == UNKNOWN || self.types.is_row(to) || to == RECORD => None,
            // The cast goes below, where it leaves the collation alone.
            Kind::Collate(inner, collation) => {
                let inner = self.coerce(*inner, to, is_implicit)?;
                if is_cast(&inner) {
                    return None;
                }
                match self.types.is_text(to) {
                    true => Node::new(Kind::Collate(boxed(inner), collation), TypeRef::plain(to)),
                    false => Some(inner),
                }
            }
            _ => {
                if is_implicit && !self.types.is_implicit(from, to) {
                    return None;
                }
                let cast = Cast { is_implicit, by_function: self.types.by_function(from, to) };
                Node::new(Kind::Cast(cast, boxed(node)), TypeRef::plain(to))
            }
        }
    }

    /// The text of a literal as its type prints it.
    fn text_of(&self, text: &str, ty: u32) -> Option<String> {
        match SqlType::from_oid(ty) {
            Some(SqlType::Text | SqlType::Bpchar | SqlType::Reg(_)) => Some(text.to_owned()),
            Some(ty) => Datum::from_text(ty, text).ok()?.to_text(),
            None if self.types.is_enum(ty) => Some(text.to_owned()),
            None => None,
        }
    }

    /// A value as an assignment makes another type of it, which is not written.
    pub(super) fn assigned(&self, node: Node, to: TypeRef) -> Option<Node> {
        let from = node.ty.oid;
        let mut node = self.coerce(node, to.oid, false)?;
        if let Kind::Cast(cast, _) = &mut node.kind
            && from != to.oid
        {
            cast.is_implicit = true;
        }
        if to.modifier < 0 || node.ty.modifier == to.modifier {
            return Some(node);
        }
        let cast = Cast { is_implicit: true, by_function: true };
        Node::new(Kind::Cast(cast, boxed(node)), to)
    }

    /// A cast that is written.
    pub(super) fn cast(&self, node: Node, to: TypeRef) -> Option<Node> {
        // The parts decide what a number in the text counts.
        if node.is_unknown() && to.oid == SqlType::Interval.oid() && to.modifier >= 0 {
            return None;
        }
        let node = self.coerce(node, to.oid, false)?;
        if node.ty.modifier == to.modifier {
            return Some(node);
        }
        // A function of its own fits the value to the modifier; the cast before it is not shown.
        let inner = match node.kind {
            Kind::Cast(cast, inner) if node.ty.modifier < 0 => {
                Node::new(Kind::Cast(Cast { is_implicit: true, ..cast }, inner), node.ty)?
            }
            kind => Node::new(kind, node.ty)?,
        };
        let cast = Cast { is_implicit: false, by_function: to.modifier >= 0 };
        Node::new(Kind::Cast(cast, boxed(inner)), to)
    }

    fn between(&self, value: &ast::Expr, ends: [&ast::Expr; 2], negated: bool) -> Option<Node> {
        let names = if negated { ["<", ">"] } else { [">=", "<="] };
        let mut parts = Vec::with_capacity(2);
        for (name, end) in names.into_iter().zip(ends) {
            parts.push(self.operator(name, vec![self.expr(value)?, self.expr(end)?])?);
        }
        truth(if negated { Kind::Or(parts) } else { Kind::And(parts) })
    }

    /// IN: several items that name no column are one array, all others are compared each by itself.
    fn in_list(&self, value: Node, list: &[ast::Expr], negated: bool) -> Option<Node> {
        let items = list.iter().map(|item| self.expr(item)).collect::<Option<Vec<_>>>()?;
        let fixed = items.iter().filter(|item| !item.names_column());
        let types = [value.ty.oid].into_iter().chain(fixed.map(|item| item.ty.oid));
        let types: Vec<u32> = types.collect();
        let scalar = self.types.common(&types).filter(|ty| self.types.all_become(&types, *ty));
        let array = scalar.and_then(|ty| Some([ty, self.types.array(ty)?]));
        let name = if negated { "<>" } else { "=" };
        let mut tests = Vec::new();
        let single = match array.filter(|_| types.len() > 2) {
            Some([ty, array]) => {
                let (single, fixed): (Vec<Node>, Vec<Node>) =
                    items.into_iter().partition(Node::names_column);
                let items = fixed.into_iter().map(|item| self.coerce(item, ty, true));
                let items = items.collect::<Option<Vec<_>>>()?;
                let array = Node::new(Kind::Array(items), TypeRef::plain(array))?;
                tests.push(self.any_of(name, negated, value.clone(), array)?);
                single
            }
            None => items,
        };
        for item in single {
            tests.push(self.operator(name, vec![value.clone(), item])?);
        }
        let mut tests = tests.into_iter();
        let first = tests.next()?;
        tests.try_fold(first, |before, test| {
            let parts = vec![before, test];
            truth(if negated { Kind::And(parts) } else { Kind::Or(parts) })
        })
    }

    pub(super) fn any_of(&self, name: &str, all: bool, left: Node, right: Node) -> Option<Node> {
        let name = if name == "!=" { "<>" } else { name };
        let element = match right.is_unknown() {
            true => UNKNOWN,
            false => self.types.element(self.types.base(right.ty.oid))?,
        };
        let chosen = self.types.operator(name, &[left.ty.oid, element])?;
        let [of_left, of_right] = chosen.operands[..] else { return None };
        let left = self.coerce(left, of_left, true)?;
        let right = self.coerce(right, self.types.array(of_right)?, true)?;
        let any = AnyOf { operator: name.to_owned(), all };
        truth(Kind::AnyOf(any, boxed(left), boxed(right))).filter(|_| chosen.result == BOOL)
    }

    fn quantified(&self, name: &str, all: bool, left: Node, right: &ast::Expr) -> Option<Node> {
        match right {
            ast::Expr::Subquery(query) => self.among(name, all, left, query),
            right => self.any_of(name, all, left, self.expr(right)?),
        }
    }

    /// A value compared with the rows of a query, which has columns of the operator's type.
    fn among(&self, name: &str, all: bool, left: Node, query: &ast::Query) -> Option<Node> {
        let query = self.columns.query(query)?;
        let [column] = query.columns.as_slice() else { return None };
        let name = if name == "!=" { "<>" } else { name };
        let chosen = self.types.operator(name, &[left.ty.oid, column.ty.oid])?;
        let left = self.coerce(left, *chosen.operands.first()?, true)?;
        let test = Test::Rows { left, operator: name.to_owned(), all };
        truth(Kind::Subquery(Box::new(Subquery { query, test })))
    }

    fn distinct(&self, left: Node, right: Node) -> Option<Node> {
        match self.operator("=", vec![left, right])?.kind {
            Kind::Operator(_, mut operands) => {
                let (right, left) = (operands.pop()?, operands.pop()?);
                truth(Kind::Distinct(boxed(left), boxed(right)))
            }
            _ => None,
        }
    }

    fn like(
        &self,
        name: &str,
        value: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::Expr>,
    ) -> Option<Node> {
        let mut pattern = self.expr(pattern)?;
        if let Some(escape) = escape {
            pattern = self.call("like_escape", vec![pattern, self.expr(escape)?])?;
        }
        self.operator(name, vec![self.expr(value)?, pattern])
    }

    fn case(
        &self,
        operand: Option<&ast::Expr>,
        arms: &[ast::CaseWhen],
        rest: Option<&ast::Expr>,
    ) -> Option<Node> {
        let operand = match operand {
            Some(operand) => Some(self.decided(self.expr(operand)?)?),
            None => None,
        };
        let mut conditions = Vec::with_capacity(arms.len());
        // The last value decides first of which type the result is.
        let mut results = vec![rest.map_or_else(|| Node::unknown(None), |rest| self.expr(rest))?];
        for arm in arms {
            let condition = self.expr(&arm.condition)?;
            conditions.push(match &operand {
                None => self.as_condition(condition)?,
                Some(operand) => {
                    let test = self.operator("=", vec![operand.clone(), condition])?;
                    let Kind::Operator(_, mut pair) = test.kind else { return None };
                    pair.pop()?
                }
            });
            results.push(self.expr(&arm.result)?);
        }
        let (mut results, ty) = self.unified(results)?;
        let rest = results.remove(0);
        let arms = conditions.into_iter().zip(results).collect();
        Node::new(Kind::Case(Box::new(Case { operand, arms, rest })), ty)
    }

    /// ARRAY[...], of elements of a type that a cast says.
    fn array(&self, array: &ast::Array, element: Option<TypeRef>) -> Option<Node> {
        let mut nodes = Vec::with_capacity(array.elem.len());
        for one in &array.elem {
            // Arrays of arrays are not known here.
            if array_of(one).is_some() {
                return None;
            }
            nodes.push(self.expr(one)?);
        }
        let (nodes, element) = match element {
            Some(ty) => {
                let nodes = nodes.into_iter().map(|node| self.cast(node, ty));
                (nodes.collect::<Option<Vec<_>>>()?, ty.oid)
            }
            None if nodes.is_empty() => return None,
            None => {
                let (nodes, ty) = self.unified(nodes)?;
                (nodes, ty.oid)
            }
        };
        if self.types.element(element).is_some() {
            return None;
        }
        Node::new(Kind::Array(nodes), TypeRef::plain(self.types.array(element)?))
    }

    fn subscripts(&self, root: &ast::Expr, chain: &[ast::AccessExpr]) -> Option<Node> {
        let value = self.expr(root)?;
        let element = self.types.element(self.types.base(value.ty.oid))?;
        let at = |node: &ast::Expr| self.coerce(self.expr(node)?, SqlType::Int4.oid(), true);
        let bound = |node: &Option<ast::Expr>| match node {
            Some(node) => Some(Some(at(node)?)),
            None => Some(None),
        };
        let (mut subscripts, mut slices) = (Vec::with_capacity(chain.len()), 0);
        for access in chain {
            let ast::AccessExpr::Subscript(subscript) = access else { return None };
            subscripts.push(match subscript {
                ast::Subscript::Index { index } => Subscript::Element(at(index)?),
                ast::Subscript::Slice { lower_bound, upper_bound, stride: None } => {
                    slices += 1;
                    Subscript::Slice(bound(lower_bound)?, bound(upper_bound)?)
                }
                ast::Subscript::Slice { .. } => return None,
            });
        }
        let ty = match slices {
            0 => TypeRef::plain(element),
            all if all == chain.len() => value.ty,
            _ => return None,
        };
        Node::new(Kind::Subscript(boxed(value), subscripts), ty)
    }
}

/// The ARRAY that stands there, with parentheses around it or not.
fn array_of(node: &ast::Expr) -> Option<&ast::Array> {
    match node {
        ast::Expr::Nested(inner) => array_of(inner),
        ast::Expr::Array(array) => Some(array),
        _ => None,
    }
}

/// Is its text a cast? sqlparser reads no COLLATE behind one.
fn is_cast(node: &Node) -> bool {
    matches!(node.kind, Kind::Cast(..) | Kind::Const(_))
}

fn literal_number(digits: &str) -> Option<Node> {
    let value = literal::number(digits).ok()?;
    constant(&value, value.type_of()?.oid())
}
