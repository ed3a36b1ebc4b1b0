//! What functions that users made give, and what they have promised to.
//!
//! Does not do: bodies (`functions`, `routine`).

use super::records::{row_of, row_of_type};
use super::scope::ScopeColumn;
use crate::error::{Result, SqlError, code};
use crate::expr::{Expr, Typed};
use crate::notes::functions::Gives;
use crate::plan::Column;
use crate::plan::rel::Rel;
use crate::types::cast::{self, CastContext};
use crate::types::composite::Field;
use crate::types::declared::Modifier;
use crate::types::record::Record;
use crate::types::{Array, CompositeType, Datum, ElementType, SqlType, Times};
use crate::user_types::functions::{Part, UserFunction};

/// The values of a body, and the way it gives them.
pub(super) enum Shape {
    Void,
    /// A value in the one column.
    Value,
    /// A row of a type that has a name: in the one column, or in a column for each field.
    Composite {
        ty: CompositeType,
        is_whole: bool,
    },
    /// A row of the columns.
    Record,
}

/// The rows of a body.
pub(super) struct Results {
    pub(super) rel: Rel,
    pub(super) columns: Vec<ScopeColumn>,
    pub(super) shape: Shape,
}

impl Results {
    /// Each row as a value.
    pub(super) fn value(&self) -> Typed {
        let values: Vec<Typed> = self.columns.iter().map(ScopeColumn::value).collect();
        match self.shape {
            Shape::Void => Typed::new(Expr::null(), SqlType::Void),
            Shape::Composite { ty, is_whole: false } => row_of_type(ty, values),
            Shape::Value | Shape::Composite { .. } => {
                values.into_iter().next().expect("it has one column")
            }
            Shape::Record => {
                let names = self.columns.iter().map(|column| column.name.clone()).collect();
                row_of(names, values)
            }
        }
    }
}

impl Shape {
    pub(super) fn is_record(&self) -> bool {
        matches!(self, Shape::Record)
    }
}

/// The columns that the last statement of a body has to give.
pub(crate) struct Promise {
    pub(super) columns: Vec<Part>,
    pub(super) shape: Shape,
}

impl Promise {
    /// What `function` promises, as columns of these types can give it.
    pub(super) fn of(function: &UserFunction, given: &[SqlType]) -> Result<Promise> {
        let (columns, shape) = match function.results.as_slice() {
            _ if function.notes.gives == Gives::Void => return Ok(Promise::nothing()),
            [one] => match one.ty {
                SqlType::Composite(ty) => {
                    let is_whole = *given == [one.ty];
                    let columns = if is_whole { vec![one.clone()] } else { fields_of(ty) };
                    (columns, Shape::Composite { ty, is_whole })
                }
                _ => (vec![one.clone()], Shape::Value),
            },
            several => (several.to_vec(), Shape::Record),
        };
        if given.len() == columns.len() {
            return Ok(Promise { columns, shape });
        }
        let detail = match given.len() < columns.len() {
            _ if matches!(shape, Shape::Value) => "Final statement must return exactly one column.",
            true => "Final statement returns too few columns.",
            false => "Final statement returns too many columns.",
        };
        Err(mismatch(function).detail(detail))
    }

    fn nothing() -> Promise {
        Promise { columns: Vec::new(), shape: Shape::Void }
    }

    /// The error for a column of another type.
    pub(super) fn refuse(&self, function: &UserFunction, at: usize, actual: SqlType) -> SqlError {
        let actual = actual.name();
        let detail = match self.shape {
            Shape::Value => format!("Actual return type is {actual}."),
            _ => {
                let wanted = self.columns[at].ty.name();
                format!(
                    "Final statement returns {actual} instead of {wanted} at column {}.",
                    at + 1
                )
            }
        };
        mismatch(function).detail(detail)
    }

    /// What a statement with these columns gives, which is promised.
    pub(super) fn of_statement(
        function: &UserFunction,
        columns: Option<&[Column]>,
    ) -> Result<Promise> {
        if function.notes.gives == Gives::Void {
            return Ok(Promise::nothing());
        }
        let columns = columns.ok_or_else(|| no_result(function))?;
        let types: Vec<SqlType> = columns.iter().map(|column| column.ty).collect();
        let promise = Promise::of(function, &types)?;
        for (at, (actual, part)) in types.iter().zip(&promise.columns).enumerate() {
            let fits = cast::context(*actual, part.ty);
            if fits.is_none_or(|context| context > CastContext::Assignment) {
                return Err(promise.refuse(function, at, *actual));
            }
        }
        Ok(promise)
    }

    /// A row of the last statement as the value that it is.
    pub(crate) fn value(&self, row: Vec<Datum>, times: &Times) -> Result<Datum> {
        let columns = row.into_iter().zip(&self.columns);
        let values = columns.map(|(value, part)| cast::cast(value, part.ty, times));
        let values = values.collect::<Result<Vec<_>>>()?;
        Ok(match self.shape {
            Shape::Void => Datum::Null,
            Shape::Value | Shape::Composite { is_whole: true, .. } => {
                values.into_iter().next().expect("it has one column")
            }
            Shape::Composite { ty, .. } => Record::of_type(ty, values).into(),
            Shape::Record => nulls_of(&self.columns).with_values(values).into(),
        })
    }
}

/// Values that a function gives, or the elements of the array of them where it gives rows.
pub(crate) struct Elements {
    pub(super) ty: SqlType,
    pub(super) modifier: Option<Modifier>,
    /// The fields of each, if it is a row without a named type.
    pub(super) shape: Option<Record>,
    /// Is each in a row by itself, since it is no element of arrays?
    pub(super) is_boxed: bool,
}

impl Elements {
    /// Elements that are values of this type.
    pub(super) fn of(value: Elements) -> Elements {
        if ElementType::of(value.ty).is_some() {
            return value;
        }
        let Elements { ty, modifier, .. } = value;
        let field = Field { name: "f1".to_owned(), ty, modifier };
        let shape = Some(Record::new([field].into(), vec![Datum::Null]));
        Elements { ty, modifier, shape, is_boxed: true }
    }

    /// Values that a function promises.
    pub(crate) fn of_results(function: &UserFunction) -> Elements {
        let ty = function.result();
        let modifier = match function.results.as_slice() {
            [one] => one.modifier,
            _ => None,
        };
        let shape = (ty == SqlType::Record).then(|| nulls_of(&function.results));
        let value = Elements { ty, modifier, shape, is_boxed: false };
        if function.notes.gives.is_set() { Elements::of(value) } else { value }
    }

    /// The type of the elements.
    pub(super) fn element(&self) -> ElementType {
        let ty = if self.is_boxed { SqlType::Record } else { self.ty };
        ElementType::of(ty).expect("values that are no elements are in rows, which are")
    }

    /// The array of values.
    pub(crate) fn array(&self) -> Array {
        Array::empty(self.element())
    }

    /// A value as an element.
    pub(crate) fn boxed(&self, value: Datum) -> Datum {
        match &self.shape {
            Some(nulls) if self.is_boxed => nulls.with_values(vec![value]).into(),
            _ => value,
        }
    }
}

/// A row of nulls with fields for these columns.
fn nulls_of(columns: &[Part]) -> Record {
    let field = |(at, part): (usize, &Part)| Field {
        name: name_of(part, at),
        ty: part.ty,
        modifier: part.modifier,
    };
    let fields: Vec<_> = columns.iter().enumerate().map(field).collect();
    let nulls = vec![Datum::Null; fields.len()];
    Record::new(fields.into(), nulls)
}

/// The name of a column of several.
pub(super) fn name_of(part: &Part, at: usize) -> String {
    part.name.clone().unwrap_or_else(|| format!("column{}", at + 1))
}

fn fields_of(ty: CompositeType) -> Vec<Part> {
    let part = |field: &Field| {
        let (name, ty, modifier) = (Some(field.name.clone()), field.ty, field.modifier);
        Part { name, ty, modifier, mode: None, default: None }
    };
    ty.fields().iter().map(part).collect()
}

/// The error for a body that gives nothing, where the function promises something.
pub(super) fn no_result(function: &UserFunction) -> SqlError {
    mismatch(function)
        .detail("Function's final statement must be SELECT or INSERT/UPDATE/DELETE RETURNING.")
}

/// The error for a body that gives other things than the function promises.
pub(super) fn mismatch(function: &UserFunction) -> SqlError {
    let message =
        format!("return type mismatch in function declared to return {}", function.result().name());
    SqlError::new(code::INVALID_FUNCTION, message)
}
