//! What the options of a sequence mean together, by PostgreSQL's rules.
//!
//! Invariants: a definition that comes from here has numbers, and its type holds them all.
//! Does not do: where the sequence is (`exec::ddl::sequence`).

use rightlink::SequenceSchema;
use sqlparser::ast::{self, Expr as Ast};

use crate::error::{Result, SqlError, code};
use crate::notes::SequenceNotes;
use crate::parse::utility::sequence::SequenceOptions;
use crate::types::SqlType;

/// The error for an option that does not go with others.
pub(crate) fn invalid(message: String) -> SqlError {
    SqlError::new(code::INVALID_PARAMETER, message)
}

/// Smallest and largest number of a type of sequences.
pub(crate) fn bounds(ty: SqlType) -> (i64, i64) {
    match ty {
        SqlType::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        SqlType::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    }
}

/// A new sequence, of numbers of type `ty` where the options name none.
pub(crate) fn made(name: &str, ty: SqlType, options: &SequenceOptions) -> Result<SequenceSchema> {
    settled(SequenceSchema::new(name), ty, options, true)
}

/// The sequence `before`, whose numbers are of type `ty`, after a change.
pub(crate) fn altered(
    before: SequenceSchema,
    ty: SqlType,
    options: &SequenceOptions,
) -> Result<SequenceSchema> {
    settled(before, ty, options, false)
}

fn settled(
    mut schema: SequenceSchema,
    old: SqlType,
    options: &SequenceOptions,
    is_new: bool,
) -> Result<SequenceSchema> {
    let ty = options.ty.unwrap_or(old);
    let ((was_least, was_most), (least, most)) = (bounds(old), bounds(ty));
    // Bounds that were the old type's become the new one's.
    let retyped = options.ty.is_some() && !is_new;
    let (reset_min, reset_max) =
        (retyped && schema.min == was_least, retyped && schema.max == was_most);
    schema.increment = options.increment.unwrap_or(schema.increment);
    if schema.increment == 0 {
        return Err(invalid("INCREMENT must not be zero".to_owned()));
    }
    schema.cycle = options.cycle.unwrap_or(schema.cycle);
    let up = schema.increment > 0;
    match options.max {
        Some(Some(max)) => schema.max = max,
        None if !is_new && !reset_max => {}
        _ => schema.max = if up || reset_max { most } else { -1 },
    }
    match options.min {
        Some(Some(min)) => schema.min = min,
        None if !is_new && !reset_min => {}
        _ => schema.min = if up && !reset_min { 1 } else { least },
    }
    for (what, bound) in [("MAXVALUE", schema.max), ("MINVALUE", schema.min)] {
        if !(least..=most).contains(&bound) {
            let ty = ty.name();
            let message = format!("{what} ({bound}) is out of range for sequence data type {ty}");
            return Err(invalid(message));
        }
    }
    let SequenceSchema { min, max, .. } = schema;
    if min >= max {
        return Err(invalid(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")));
    }
    match options.start {
        Some(start) => schema.start = start,
        None if is_new => schema.start = if up { min } else { max },
        None => {}
    }
    check("START", schema.start, &schema)?;
    let mut notes = SequenceNotes::decode(&schema.note);
    notes.ty = options.ty.or(notes.ty);
    if let Some(cache) = options.cache {
        if cache <= 0 {
            return Err(invalid(format!("CACHE ({cache}) must be greater than zero")));
        }
        notes.cache = Some(cache).filter(|cache| *cache > 1);
    }
    schema.note = notes.encode();
    Ok(schema)
}

/// Fails if a sequence does not have `value`, which `what` says.
pub(crate) fn check(what: &str, value: i64, schema: &SequenceSchema) -> Result<()> {
    let SequenceSchema { min, max, .. } = schema;
    if value < *min {
        let message = format!("{what} value ({value}) cannot be less than MINVALUE ({min})");
        return Err(invalid(message));
    }
    if value > *max {
        let message = format!("{what} value ({value}) cannot be greater than MAXVALUE ({max})");
        return Err(invalid(message));
    }
    Ok(())
}

/// The options of an identity column.
pub(super) fn of_identity(options: &[ast::SequenceOptions]) -> Result<SequenceOptions> {
    let number = |node: &Ast| {
        let refused = || SqlError::syntax(format!("{node} is no number of a sequence"));
        node.to_string().replace(' ', "").parse::<i64>().map_err(|_| refused())
    };
    let bound = |value: &Option<Ast>| value.as_ref().map(number).transpose();
    let mut all = SequenceOptions::default();
    for option in options {
        let again = match option {
            ast::SequenceOptions::IncrementBy(by, _) => {
                all.increment.replace(number(by)?).is_some()
            }
            ast::SequenceOptions::MinValue(value) => all.min.replace(bound(value)?).is_some(),
            ast::SequenceOptions::MaxValue(value) => all.max.replace(bound(value)?).is_some(),
            ast::SequenceOptions::StartWith(value, _) => {
                all.start.replace(number(value)?).is_some()
            }
            ast::SequenceOptions::Cache(count) => all.cache.replace(number(count)?).is_some(),
            // sqlparser has it the wrong way round: true is NO CYCLE.
            ast::SequenceOptions::Cycle(no) => all.cycle.replace(!*no).is_some(),
        };
        if again {
            return Err(SqlError::syntax("conflicting or redundant options"));
        }
    }
    Ok(all)
}
