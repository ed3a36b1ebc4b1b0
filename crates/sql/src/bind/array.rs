//! Arrays in expressions: constructors, subscripts, operators and functions of arrays, ANY and ALL.
//!
//! A function that takes arrays of any type has a signature of places (an array, an element of it,
//! a fixed type). Elements get the common type of all that is given for them, or all have to be of
//! one type already, as PostgreSQL's `anycompatible` and `anyelement` say.
//!
//! Invariants: a constructor of constants is evaluated once, when it is bound; a function, whose
//! result may be long, when the statement runs.
//! Does not do: functions in FROM (`from`), aggregates.

use sqlparser::ast::{self, BinaryOperator};

use super::Binder;
use super::expr::varchar_of;
use super::subquery::operator_name;
use crate::error::{Result, SqlError, code};
use crate::expr::registry::{self, Function, Miss};
use crate::expr::{AnyOf, Context, Expr, Typed, arrays};
use crate::parse::identifiers;
use crate::types::array::{MAX_DIMENSIONS, no_array_of, too_many_dimensions};
use crate::types::cast::{self, CastContext};
use crate::types::declared::Modifier;
use crate::types::{Array, Datum, ElementType, SqlType};

/// What an argument of a signature may be.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Array,
    Element,
    Is(SqlType),
    /// An array of integers.
    Integers,
}

/// Rules for the types of the arguments of a function of arrays, and for its result.
struct Signature {
    name: &'static str,
    places: &'static [Place],
    /// Places at the end that need not be given.
    optional: usize,
    /// Do elements become their common type? Otherwise they are of one type.
    unifies: bool,
    result: Place,
}

const fn unifying(
    name: &'static str,
    places: &'static [Place],
    optional: usize,
    result: Place,
) -> Signature {
    Signature { name, places, optional, unifies: true, result }
}

const fn exact(
    name: &'static str,
    places: &'static [Place],
    optional: usize,
    result: Place,
) -> Signature {
    Signature { name, places, optional, unifies: false, result }
}

const INTEGER: Place = Place::Is(SqlType::Int4);
const TEXT: Place = Place::Is(SqlType::Text);

const FUNCTIONS: [Signature; 16] = {
    use Place::{Array, Element, Integers};
    [
        unifying("array_append", &[Array, Element], 0, Array),
        unifying("array_prepend", &[Element, Array], 0, Array),
        unifying("array_cat", &[Array, Array], 0, Array),
        unifying("array_position", &[Array, Element, INTEGER], 1, INTEGER),
        unifying("array_positions", &[Array, Element], 0, Integers),
        unifying("array_remove", &[Array, Element], 0, Array),
        unifying("array_replace", &[Array, Element, Element], 0, Array),
        exact("array_fill", &[Element, Integers, Integers], 1, Array),
        exact("array_length", &[Array, INTEGER], 0, INTEGER),
        exact("array_lower", &[Array, INTEGER], 0, INTEGER),
        exact("array_upper", &[Array, INTEGER], 0, INTEGER),
        exact("array_ndims", &[Array], 0, INTEGER),
        exact("array_dims", &[Array], 0, TEXT),
        exact("cardinality", &[Array], 0, INTEGER),
        exact("array_to_string", &[Array, TEXT, TEXT], 1, TEXT),
        exact("trim_array", &[Array, INTEGER], 0, Array),
    ]
};

impl Place {
    /// The type of the place where elements have this one.
    fn type_with(self, element: ElementType) -> SqlType {
        match self {
            Place::Array => SqlType::Array(element),
            Place::Element => element.ty(),
            Place::Is(ty) => ty,
            Place::Integers => SqlType::array_of(SqlType::Int4).expect("integers are elements"),
        }
    }
}

impl Signature {
    /// The element type that arguments of these types decide; none where they decide nothing.
    fn element(&self, types: &[SqlType]) -> std::result::Result<Option<ElementType>, Miss> {
        let least = self.places.len() - self.optional;
        if !(least..=self.places.len()).contains(&types.len()) {
            return Err(Miss::None);
        }
        let mut elements = Vec::new();
        for (place, ty) in self.places.iter().zip(types) {
            match (place, *ty) {
                (_, SqlType::Unknown) => {}
                (Place::Array, ty) => elements.push(ty.element().ok_or(Miss::None)?),
                (Place::Element, ty) => elements.push(ty),
                (fixed, ty) => {
                    if !cast::is_implicit(ty, fixed.type_with(text_element())) {
                        return Err(Miss::None);
                    }
                }
            }
        }
        let Some(first) = elements.first() else { return Ok(None) };
        let common = match self.unifies {
            true => cast::common(&elements),
            false => elements.iter().all(|other| other == first).then_some(*first),
        };
        common.and_then(ElementType::of).map(Some).ok_or(Miss::None)
    }
}

fn text_element() -> ElementType {
    ElementType::of(SqlType::Text).expect("texts are elements")
}

fn undecided() -> SqlError {
    let message = "could not determine polymorphic type because input has type unknown";
    SqlError::new(code::DATATYPE_MISMATCH, message)
}

pub(super) fn function_of(name: &str, count: usize) -> &'static Function {
    match registry::of_arrays(name, count) {
        Some(function) => function,
        None => unreachable!("{name} is registered"),
    }
}

/// An array without elements, as the argument that tells their type.
pub(super) fn witness(element: ElementType) -> Expr {
    Expr::Const(Array::empty(element).into())
}

/// A constructor or a subscript, or the value of it where all arguments are constants and it does
/// not fail: it is no larger than its arguments.
fn called(function: &'static Function, args: Vec<Expr>) -> Expr {
    let call = Expr::Call(function, args);
    let Expr::Call(_, args) = &call else { unreachable!("made above") };
    if !args.iter().all(|arg| matches!(arg, Expr::Const(_))) {
        return call;
    }
    match call.eval(&[], &Context::outside()) {
        Ok(value) => Expr::Const(value),
        Err(_) => call,
    }
}

/// What elements declare; those of `char(n)` have their blanks already.
fn of_elements(modifier: Option<Modifier>) -> Option<Modifier> {
    modifier.filter(|modifier| !matches!(modifier, Modifier::Char(_)))
}

impl Binder<'_> {
    /// `ARRAY[..]`, of elements of type `target` if a cast says so.
    pub(super) fn array(
        &mut self,
        array: &ast::Array,
        target: Option<ElementType>,
    ) -> Result<Typed> {
        let position = array.elem.first().and_then(|first| self.start(first));
        let is_list = |item: &ast::Expr| matches!(item, ast::Expr::Array(list) if !list.named);
        if array.elem.iter().any(is_list)
            && let Some(other) = array.elem.iter().find(|item| !is_list(item))
        {
            return Err(SqlError::syntax(format!("syntax error at or near \"{other}\"")));
        }
        let (mut values, mut is_nested) = (Vec::with_capacity(array.elem.len()), false);
        for item in &array.elem {
            let value = match item {
                ast::Expr::Array(inner) => self.array(inner, target)?,
                other => self.expr(other)?,
            };
            is_nested |= value.ty.is_array();
            values.push(value);
        }
        self.array_of(values, is_nested, target).map(|array| array.at(position))
    }

    /// An array of these values, or of the elements of these arrays.
    pub(super) fn array_of(
        &mut self,
        values: Vec<Typed>,
        is_nested: bool,
        target: Option<ElementType>,
    ) -> Result<Typed> {
        let modifier = varchar_of(&values);
        let (list, element) = match target {
            Some(element) => {
                let ty = if is_nested { SqlType::Array(element) } else { element.ty() };
                let list = values
                    .into_iter()
                    .map(|value| self.coerce_checked(value, ty, CastContext::Explicit))
                    .collect::<Result<Vec<_>>>()?;
                (list, element)
            }
            None if values.is_empty() => {
                let message = "cannot determine type of empty array";
                return Err(SqlError::new(code::INDETERMINATE_DATATYPE, message)
                    .hint("Explicitly cast to the desired type, for example ARRAY[]::integer[]."));
            }
            None => {
                let (list, ty) = self.unified(values, "ARRAY")?;
                let found = ElementType::of(ty.element().unwrap_or(ty));
                let found = found.ok_or_else(|| {
                    let message = format!("could not find array type for data type {}", ty.name());
                    SqlError::new(code::UNDEFINED_OBJECT, message)
                })?;
                (list, found)
            }
        };
        let name = if is_nested { arrays::OF_ARRAYS } else { arrays::OF_VALUES };
        let args = std::iter::once(witness(element)).chain(list).collect();
        let expr = called(function_of(name, 1), args);
        Ok(Typed { modifier, ..Typed::new(expr, SqlType::Array(element)) })
    }

    /// `ARRAY[..]` inside of a cast that says of which type its elements are.
    pub(super) fn cast_array(
        &mut self,
        node: &ast::Expr,
        link: Option<&&ast::Expr>,
    ) -> Result<Option<Typed>> {
        let mut inner = node;
        while let ast::Expr::Nested(nested) = inner {
            inner = nested;
        }
        let (ast::Expr::Array(array), Some(ast::Expr::Cast { data_type, .. })) = (inner, link)
        else {
            return Ok(None);
        };
        match identifiers::data_type(data_type, self).map(|declared| declared.ty) {
            Ok(SqlType::Array(element)) if array.named => {
                self.array(array, Some(element)).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// `value[i]`, `value[i:j]`, several of them.
    pub(super) fn subscripts(
        &mut self,
        root: &ast::Expr,
        chain: &[ast::AccessExpr],
    ) -> Result<Typed> {
        if let (
            ast::Expr::Nested(row),
            [ast::AccessExpr::Dot(ast::Expr::Identifier(name)), rest @ ..],
        ) = (root, chain)
        {
            let value = self.field(row, name)?;
            return self.parts_and_fields(value, rest);
        }
        // Names in front of the first subscript name a column.
        let is_dot = |access: &&ast::AccessExpr| matches!(access, ast::AccessExpr::Dot(_));
        let dots = chain.iter().take_while(is_dot).count();
        let mut path = Vec::new();
        for access in &chain[..dots] {
            let ast::AccessExpr::Dot(ast::Expr::Identifier(name)) = access else {
                return Err(SqlError::unsupported("a field of a value"));
            };
            path.push(name.clone());
        }
        let value = match root {
            _ if path.is_empty() => self.expr(root)?,
            ast::Expr::Identifier(first) => {
                path.insert(0, first.clone());
                self.expr(&ast::Expr::CompoundIdentifier(path))?
            }
            _ => {
                let value = self.expr(root)?;
                return self.parts_and_fields(value, chain);
            }
        };
        self.parts_and_fields(value, &chain[dots..])
    }

    /// Fields, elements and members of a value, as they follow each other.
    fn parts_and_fields(&mut self, value: Typed, chain: &[ast::AccessExpr]) -> Result<Typed> {
        let (mut value, mut rest) = (value, chain);
        loop {
            let is_dot = |access: &ast::AccessExpr| matches!(access, ast::AccessExpr::Dot(_));
            value = match rest {
                [] => return Ok(value),
                [ast::AccessExpr::Dot(ast::Expr::Identifier(name)), behind @ ..] => {
                    rest = behind;
                    self.field_of(value, name)?
                }
                [ast::AccessExpr::Dot(_), ..] => {
                    return Err(SqlError::unsupported("a field of a value"));
                }
                _ => {
                    let parts = rest.iter().position(is_dot).unwrap_or(rest.len());
                    let (own, behind) = rest.split_at(parts);
                    rest = behind;
                    self.parts_of_value(value, own)?
                }
            };
        }
    }

    /// Elements and members of a value.
    fn parts_of_value(&mut self, value: Typed, chain: &[ast::AccessExpr]) -> Result<Typed> {
        let position = value.position;
        if value.ty == SqlType::Jsonb {
            return self.member(value, chain).map_err(|error| error.at(position));
        }
        if let (SqlType::Name, [ast::AccessExpr::Subscript(ast::Subscript::Index { index })]) =
            (value.ty, chain)
        {
            return self.letter(value, index).map_err(|error| error.at(position));
        }
        let value = self.as_array(value)?;
        let SqlType::Array(element) = value.ty else {
            let ty = value.ty.name();
            let message =
                format!("cannot subscript type {ty} because it does not support subscripting");
            return Err(SqlError::new(code::DATATYPE_MISMATCH, message).at(position));
        };
        let (modifier, mut args) = (value.modifier, vec![value.expr]);
        let (name, ty, modifier) = match self.array_subscripts(chain, &mut args)? {
            true => (arrays::SLICE, SqlType::Array(element), modifier),
            false => (arrays::ELEMENT, element.ty(), of_elements(modifier)),
        };
        let expr = called(function_of(name, 1), args);
        Ok(Typed { modifier, ..Typed::new(expr, ty).at(position) })
    }

    /// Adds subscripts of an array to arguments; is one of them a slice?
    pub(super) fn array_subscripts(
        &mut self,
        chain: &[ast::AccessExpr],
        args: &mut Vec<Expr>,
    ) -> Result<bool> {
        let mut subscripts = Vec::with_capacity(chain.len());
        for access in chain {
            match access {
                ast::AccessExpr::Subscript(subscript) => subscripts.push(subscript),
                ast::AccessExpr::Dot(_) => {
                    return Err(SqlError::unsupported("a field of a value"));
                }
            }
        }
        let is_slice = |one: &&ast::Subscript| matches!(one, ast::Subscript::Slice { .. });
        let is_slice = subscripts.iter().any(is_slice);
        if subscripts.len() > MAX_DIMENSIONS {
            return Err(too_many_dimensions(subscripts.len()));
        }
        for subscript in subscripts {
            self.subscript(subscript, is_slice, args)?;
        }
        Ok(is_slice)
    }

    /// A letter of a name, counted from 0, as a `"char"`.
    fn letter(&mut self, name: Typed, index: &ast::Expr) -> Result<Typed> {
        let one = || Typed::new(Expr::Const(Datum::Int4(1)), SqlType::Int4);
        let place = Typed::new(self.place(index)?, SqlType::Int4);
        let from = self.operator("+", vec![place, one()])?;
        let text = Typed::new(self.coerce(name, SqlType::Text)?, SqlType::Text);
        let letter = self.named("substr", vec![text, from, one()])?;
        let letter = self.coerce_checked(letter, SqlType::Char, CastContext::Explicit)?;
        Ok(Typed::new(letter, SqlType::Char))
    }

    /// A member of a document, by keys and places.
    fn member(&mut self, document: Typed, path: &[ast::AccessExpr]) -> Result<Typed> {
        let mut args = vec![document];
        for step in self.document_steps(path)? {
            let key = self.coerce_checked(step, SqlType::Text, CastContext::Explicit)?;
            args.push(Typed::new(key, SqlType::Text));
        }
        self.named("jsonb_extract_path", args)
    }

    /// Subscripts of a document: texts and integers.
    pub(super) fn document_steps(&mut self, path: &[ast::AccessExpr]) -> Result<Vec<Typed>> {
        let mut steps = Vec::with_capacity(path.len());
        for access in path {
            let ast::AccessExpr::Subscript(ast::Subscript::Index { index }) = access else {
                let message = "jsonb subscript does not support slices";
                return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
            };
            let step = self.expr(index)?;
            let (ty, position) = (step.ty, step.position);
            let targets = match ty {
                SqlType::Unknown => vec![SqlType::Text],
                _ => [SqlType::Int4, SqlType::Text]
                    .into_iter()
                    .filter(|target| cast::is_implicit(ty, *target))
                    .collect(),
            };
            let [target] = targets.as_slice() else {
                let message = format!("subscript type {} is not supported", ty.name());
                let hint = match targets.is_empty() {
                    true => "jsonb subscript must be coercible to either integer or text.",
                    false => "jsonb subscript must be coercible to only one type, integer or text.",
                };
                let error = SqlError::new(code::DATATYPE_MISMATCH, message).hint(hint);
                return Err(error.at(position));
            };
            steps.push(Typed::new(self.coerce(step, *target)?, *target).at(position));
        }
        Ok(steps)
    }

    fn subscript(
        &mut self,
        subscript: &ast::Subscript,
        is_slice: bool,
        args: &mut Vec<Expr>,
    ) -> Result<()> {
        let missing = Expr::Const(arrays::NO_BOUND);
        match subscript {
            ast::Subscript::Index { index } if is_slice => {
                args.push(Expr::Const(Datum::Int4(1)));
                args.push(self.place(index)?);
            }
            ast::Subscript::Index { index } => args.push(self.place(index)?),
            ast::Subscript::Slice { lower_bound, upper_bound, stride: None } => {
                for bound in [lower_bound, upper_bound] {
                    args.push(match bound {
                        Some(bound) => self.place(bound)?,
                        None => missing.clone(),
                    });
                }
            }
            ast::Subscript::Slice { .. } => {
                return Err(SqlError::syntax("syntax error at or near \":\""));
            }
        }
        Ok(())
    }

    /// A subscript.
    fn place(&mut self, node: &ast::Expr) -> Result<Expr> {
        let value = self.expr(node)?;
        let position = value.position;
        self.coerce_checked(value, SqlType::Int4, CastContext::Assignment).map_err(|error| {
            match error.sqlstate {
                code::CANNOT_COERCE => {
                    let message = "array subscript must have type integer";
                    SqlError::new(code::DATATYPE_MISMATCH, message).at(position)
                }
                _ => error,
            }
        })
    }

    /// A function whose arguments are arrays; none if there is no such function.
    pub(super) fn array_function(
        &mut self,
        name: &str,
        args: Vec<Typed>,
    ) -> Result<std::result::Result<Typed, Vec<Typed>>> {
        let Some(signature) = FUNCTIONS.iter().find(|one| one.name == name) else {
            return Ok(Err(args));
        };
        let args = args.into_iter().map(|arg| self.as_array(arg)).collect::<Result<Vec<_>>>()?;
        let types: Vec<SqlType> = args.iter().map(|arg| arg.ty).collect();
        let no_function = |miss| registry::no_function(name, &types, &miss);
        let element = match signature.element(&types).map_err(no_function)? {
            Some(element) => element,
            // The common type of literals is that of text.
            None if signature.unifies => text_element(),
            None => return Err(undecided()),
        };
        self.with_elements(signature, element, args).map(Ok)
    }

    fn with_elements(
        &mut self,
        signature: &Signature,
        element: ElementType,
        args: Vec<Typed>,
    ) -> Result<Typed> {
        let given = args.len();
        let modifier = args.iter().find(|arg| arg.ty.is_array()).and_then(|arg| arg.modifier);
        let modifier = modifier.filter(|one| matches!(one, Modifier::Varchar(_)));
        let mut bound = Vec::with_capacity(given + 1);
        for (arg, place) in args.into_iter().zip(signature.places) {
            bound.push(self.coerce(arg, place.type_with(element))?);
        }
        match signature.name {
            "array_fill" if given == 2 => bound.push(Expr::Const(arrays::NO_BOUND)),
            _ => {}
        }
        if matches!(signature.name, "array_fill" | "array_append" | "array_prepend") {
            bound.push(witness(element));
        }
        let function = function_of(signature.name, bound.len());
        let ty = signature.result.type_with(element);
        let modifier = modifier.filter(|_| ty.is_array()).map(|_| Modifier::Varchar(0));
        Ok(Typed { modifier, ..Typed::new(Expr::Call(function, bound), ty) })
    }

    /// The labels of an array of all between two of them.
    pub(super) fn labels_between(&self, args: Vec<Expr>, element: ElementType) -> Result<Typed> {
        let function = function_of("enum_range", args.len());
        Ok(Typed::new(Expr::Call(function, args), SqlType::Array(element)))
    }

    /// An operator of which an operand is an array.
    pub(super) fn array_operator(&mut self, name: &str, operands: Vec<Typed>) -> Result<Typed> {
        let types: Vec<SqlType> = operands.iter().map(|operand| operand.ty).collect();
        let no_operator = || registry::no_operator(name, &types, &Miss::None);
        let [left, right] = types.as_slice() else { return Err(no_operator()) };
        let like_array = |ty: &SqlType| ty.is_array() || *ty == SqlType::Unknown;
        let both = like_array(left) && like_array(right);
        if name == "||" {
            let function = match (both, left.is_array()) {
                (true, _) => "array_cat",
                (false, true) => "array_append",
                (false, false) => "array_prepend",
            };
            let signature = FUNCTIONS.iter().find(|one| one.name == function);
            let signature = signature.expect("it is listed");
            let element = signature.element(&types).ok().flatten().ok_or_else(no_operator)?;
            return self.with_elements(signature, element, operands);
        }
        let array = if left.is_array() { *left } else { *right };
        let is_of_arrays =
            matches!(name, "=" | "<>" | "<" | "<=" | ">" | ">=" | "@>" | "<@" | "&&");
        if !is_of_arrays || types.iter().any(|ty| *ty != array && *ty != SqlType::Unknown) {
            return Err(no_operator());
        }
        let function = match name {
            "@>" | "<@" | "&&" => function_of(name, 2),
            _ => registry::resolve(name, &[array, array]).map_err(|_| no_operator())?,
        };
        let mut bound = Vec::with_capacity(2);
        for operand in operands {
            bound.push(self.coerce(operand, array)?);
        }
        Ok(Typed::new(Expr::Call(function, bound), SqlType::Bool))
    }

    /// `op ANY (..)`, `op ALL (..)` of a query or an array.
    pub(super) fn any(
        &mut self,
        node: &ast::Expr,
        left: Typed,
        start: Option<usize>,
    ) -> Result<Typed> {
        let (op, right, all) = match node {
            ast::Expr::AnyOp { compare_op, right, .. } => (compare_op, right, false),
            ast::Expr::AllOp { compare_op, right, .. } => (compare_op, right, true),
            _ => unreachable!("the caller has looked"),
        };
        let mut list = right.as_ref();
        while let ast::Expr::Nested(inner) = list {
            list = inner;
        }
        if let ast::Expr::Subquery(query) = list {
            return self.quantified(vec![left], op, query, all).map(|typed| typed.at(start));
        }
        let is_nested = |item: &ast::Expr| matches!(item, ast::Expr::Array(_));
        match (list, op, all) {
            // A list needs no array.
            (ast::Expr::Array(array), BinaryOperator::Eq, false)
            | (ast::Expr::Array(array), BinaryOperator::NotEq, true)
                if array.named && !array.elem.is_empty() && !array.elem.iter().any(is_nested) =>
            {
                self.equals_element(left, &array.elem, all)
            }
            _ => {
                let array = self.expr(list)?;
                let name = operator_name(op);
                self.any_element(left, &name, array, all).map_err(|error| error.at(start))
            }
        }
    }

    /// `LIKE ANY` of an array of patterns.
    pub(super) fn like_any(
        &mut self,
        name: &str,
        mut value: Typed,
        patterns: &ast::Expr,
    ) -> Result<Typed> {
        if value.ty == SqlType::Bpchar {
            // The blanks of char(n) count here.
            value.ty = SqlType::Text;
        }
        let patterns = self.expr(patterns)?;
        self.any_element(value, name, patterns, false)
    }

    /// Does `left` equal an element of a list, whose type its elements alone decide?
    fn equals_element(
        &mut self,
        left: Typed,
        elements: &[ast::Expr],
        negated: bool,
    ) -> Result<Typed> {
        let mut items = Vec::with_capacity(elements.len());
        for element in elements {
            items.push(self.expr(element)?);
        }
        if items.iter().any(|item| item.ty.is_array()) {
            let array = self.array_of(items, true, None)?;
            return self.any_element(left, if negated { "<>" } else { "=" }, array, negated);
        }
        let items = self.list_of(items, "ARRAY")?;
        Ok(Typed::new(self.equals_any(left, items, negated)?, SqlType::Bool))
    }

    /// `value op ANY (array)`, or ALL.
    pub(super) fn any_element(
        &mut self,
        left: Typed,
        op: &str,
        array: Typed,
        all: bool,
    ) -> Result<Typed> {
        let array = self.as_array(array)?;
        let element = match array.ty {
            SqlType::Array(element) => element,
            // The operator decides, as it does of a literal.
            SqlType::Unknown => {
                let untyped = Typed::null();
                let stand_in = Typed { expr: Expr::Column(0), ..left.clone() };
                let ty = match (left.ty, self.operator(op, vec![stand_in, untyped])?.expr) {
                    (SqlType::Bpchar, _) => Some(SqlType::Bpchar),
                    (_, Expr::Call(function, _)) => function.args.get(1).copied(),
                    _ => None,
                };
                let ty = ty.filter(|ty| *ty != SqlType::Unknown).unwrap_or(SqlType::Text);
                ElementType::of(ty).ok_or_else(|| no_array_of(&format!("{}[]", ty.name())))?
            }
            _ => {
                let message = "op ANY/ALL (array) requires array on right side";
                return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
            }
        };
        let modifier = of_elements(array.modifier);
        let array = self.coerce(array, SqlType::Array(element))?;
        let is_equality = matches!((op, all), ("=", false) | ("<>" | "!=", true));
        if let Expr::Const(Datum::Array(values)) = &array
            && is_equality
            && !values.values().is_empty()
        {
            // A list of constants needs no array.
            let item = |value: &Datum| Typed {
                modifier,
                ..Typed::new(Expr::Const(value.clone()), element.ty())
            };
            let items = values.values().iter().map(item).collect();
            let expr = self.equals_any(left, items, all)?;
            return Ok(Typed::new(expr, SqlType::Bool));
        }
        let item = Typed { modifier, ..Typed::new(Expr::Column(1), element.ty()) };
        // A literal takes its type from the elements, once.
        let stand_in = Typed { expr: Expr::Column(0), ..left.clone() };
        let (needle, stand_in) = match (left.ty, &left.expr) {
            (SqlType::Unknown, _) => {
                let expr = self.coerce(left, element.ty())?;
                (expr, Typed::new(Expr::Column(0), element.ty()))
            }
            (_, Expr::Pad(inner, length)) => {
                let expr = Expr::Pad(Box::new(Expr::Column(0)), *length);
                ((**inner).clone(), Typed { expr, ..stand_in })
            }
            _ => (left.expr, stand_in),
        };
        let test = self.operator(op, vec![stand_in, item])?;
        if test.ty != SqlType::Bool {
            let message = "op ANY/ALL (array) requires operator to yield boolean";
            return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
        }
        let any = AnyOf { needle, array, test: test.expr, all };
        Ok(Typed::new(Expr::AnyOf(Box::new(any)), SqlType::Bool))
    }
}
