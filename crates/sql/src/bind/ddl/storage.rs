//! Storage parameters of tables: how full pages are made, and when a table is vacuumed or analyzed
//! unasked.
//!
//! The store's threshold is a number of dead versions and so many more for each block of the heap;
//! a block counts as 100 rows, so a scale factor of 0.1 is 10 a block.
//!
//! Invariants: a parameter that the store does not have is refused by name.
//! Does not do: keeping parameters of indexes.

use rightlink::AutoVacuum;
use sqlparser::ast::{BinaryOperator, CreateTableOptions, Expr, SqlOption};

use crate::error::{Result, SqlError, code};
use crate::notes::AnalyzeAfter;
use crate::notes::storage::ROWS_OF_BLOCK;
use crate::parse::identifiers;

/// Storage parameters that were given.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Storage {
    pub(crate) fillfactor: Option<u8>,
    enabled: Option<bool>,
    least: Option<u32>,
    per_block: Option<u32>,
    pub(crate) analyze: AnalyzeAfter,
}

impl Storage {
    /// What is set of `before`, the rest as it was.
    pub(crate) fn apply(self, before: AutoVacuum) -> AutoVacuum {
        AutoVacuum {
            enabled: self.enabled.unwrap_or(before.enabled),
            least: self.least.unwrap_or(before.least),
            per_block: self.per_block.unwrap_or(before.per_block),
        }
    }
}

/// Those of CREATE TABLE.
pub(super) fn of_table(options: &CreateTableOptions) -> Result<Storage> {
    match options {
        CreateTableOptions::None => Ok(Storage::default()),
        CreateTableOptions::With(list) => parameters(list),
        _ => Err(SqlError::unsupported("such an option of a table")),
    }
}

/// Reads `name = value, ...`.
pub(super) fn parameters(list: &[SqlOption]) -> Result<Storage> {
    let mut storage = Storage::default();
    let mut seen: Vec<String> = Vec::new();
    for option in list {
        let SqlOption::KeyValue { key, value } = option else {
            return Err(SqlError::unsupported(format!("the option {option}")));
        };
        let (name, text) = (identifiers::ident(key), value.to_string());
        if seen.contains(&name) {
            let message = format!("parameter \"{name}\" specified more than once");
            return Err(SqlError::new(code::INVALID_PARAMETER, message));
        }
        seen.push(name.clone());
        let text = text.trim_matches('\'');
        match name.as_str() {
            "fillfactor" => {
                let (least, most) = (10.0, 100.0);
                storage.fillfactor = Some(whole(&name, text, (least, most))? as u8);
            }
            "autovacuum_enabled" => storage.enabled = Some(flag(&name, text)?),
            "autovacuum_vacuum_threshold" => {
                let most = f64::from(i32::MAX);
                storage.least = Some(whole(&name, text, (0.0, most))? as u32);
            }
            "autovacuum_vacuum_scale_factor" => {
                let factor = number(&name, text, (0.0, 100.0))?;
                // A factor, however small, does not become none.
                storage.per_block = Some((factor * ROWS_OF_BLOCK - 1e-9).ceil().max(0.0) as u32);
            }
            "autovacuum_analyze_threshold" => {
                let most = f64::from(i32::MAX);
                storage.analyze.least = Some(whole(&name, text, (0.0, most))? as u32);
            }
            "autovacuum_analyze_scale_factor" => {
                storage.analyze.factor = Some(number(&name, text, (0.0, 100.0))?);
            }
            other => {
                return Err(SqlError::unsupported(format!("the storage parameter \"{other}\"")));
            }
        }
    }
    Ok(storage)
}

/// Reads those of CREATE INDEX, which are checked and have no effect: leaves fill up and split as
/// their keys come, and equal keys are stored once where that saves space.
pub(super) fn of_index(list: &[Expr], is_hash: bool) -> Result<()> {
    let mut seen: Vec<String> = Vec::new();
    for option in list {
        let (key, text) = match option {
            Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => (&**left, right.to_string()),
            alone => (alone, "true".to_owned()),
        };
        let Expr::Identifier(key) = key else {
            return Err(SqlError::unsupported(format!("the option {option}")));
        };
        let (name, text) = (identifiers::ident(key), text.trim_matches('\''));
        if seen.contains(&name) {
            let message = format!("parameter \"{name}\" specified more than once");
            return Err(SqlError::new(code::INVALID_PARAMETER, message));
        }
        match name.as_str() {
            "fillfactor" => {
                refuse_words(&name, text)?;
                whole(&name, text, (10.0, 100.0))?;
            }
            "deduplicate_items" if !is_hash => {
                flag(&name, text)?;
            }
            _ => {
                let message = format!("unrecognized parameter \"{name}\"");
                return Err(SqlError::new(code::INVALID_PARAMETER, message));
            }
        }
        seen.push(name);
    }
    Ok(())
}

/// Fails for text that is no number, of an option that is a whole number.
fn refuse_words(name: &str, text: &str) -> Result<()> {
    match text.parse::<f64>() {
        Ok(_) => Ok(()),
        Err(_) => {
            let message = format!("invalid value for integer option \"{name}\": {text}");
            Err(SqlError::new(code::INVALID_PARAMETER, message))
        }
    }
}

fn number(name: &str, text: &str, (least, most): (f64, f64)) -> Result<f64> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    let number = number.ok_or_else(|| {
        let message = format!("invalid value for numeric option \"{name}\": {text}");
        SqlError::new(code::INVALID_PARAMETER, message)
    })?;
    if !(least..=most).contains(&number) {
        let message = format!("value {text} out of bounds for option \"{name}\"");
        let detail = format!("Valid values are between \"{least}\" and \"{most}\".");
        return Err(SqlError::new(code::INVALID_PARAMETER, message).detail(detail));
    }
    Ok(number)
}

fn whole(name: &str, text: &str, bounds: (f64, f64)) -> Result<f64> {
    let whole = number(name, text, bounds)?;
    if whole.fract() != 0.0 {
        let message = format!("invalid value for integer option \"{name}\": {text}");
        return Err(SqlError::new(code::INVALID_PARAMETER, message));
    }
    Ok(whole)
}

fn flag(name: &str, text: &str) -> Result<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        _ => {
            let message = format!("invalid value for boolean option \"{name}\": {text}");
            Err(SqlError::new(code::INVALID_PARAMETER, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notes::storage::shown;
    use sqlparser::ast::{Ident, Value};

    fn read(name: &str, value: &str) -> Result<Storage> {
        let value = Expr::value(Value::SingleQuotedString(value.to_owned()));
        parameters(&[SqlOption::KeyValue { key: Ident::new(name), value }])
    }

    #[test]
    fn what_is_shown_is_what_was_given() {
        for (name, given) in [
            ("autovacuum_enabled", "false"),
            ("autovacuum_vacuum_threshold", "0"),
            ("autovacuum_vacuum_threshold", "2147483647"),
            ("autovacuum_vacuum_scale_factor", "0"),
            ("autovacuum_vacuum_scale_factor", "0.01"),
            ("autovacuum_vacuum_scale_factor", "0.07"),
            ("autovacuum_vacuum_scale_factor", "0.29"),
            ("autovacuum_vacuum_scale_factor", "100"),
            ("autovacuum_analyze_threshold", "0"),
            ("autovacuum_analyze_threshold", "2147483647"),
            ("autovacuum_analyze_scale_factor", "0"),
            ("autovacuum_analyze_scale_factor", "0.125"),
        ] {
            let storage = read(name, given).expect("it is in bounds");
            let vacuum = storage.apply(AutoVacuum::default());
            assert_eq!(shown(100, vacuum, storage.analyze), [format!("{name}={given}")]);
        }
        let small = read("autovacuum_vacuum_scale_factor", "0.0001").expect("it is in bounds");
        assert_eq!(small.per_block, Some(1));
        let usual = read("autovacuum_vacuum_scale_factor", "0.1").expect("it is in bounds");
        assert_eq!(usual.apply(AutoVacuum::default()), AutoVacuum::default());
    }

    #[test]
    fn bad_values_are_refused() {
        for (name, value) in [
            ("fillfactor", "9"),
            ("fillfactor", "50.5"),
            ("autovacuum_enabled", "perhaps"),
            ("autovacuum_vacuum_threshold", "-1"),
            ("autovacuum_vacuum_threshold", "many"),
            ("autovacuum_vacuum_scale_factor", "101"),
            ("autovacuum_vacuum_scale_factor", "nan"),
            ("autovacuum_analyze_threshold", "0.5"),
            ("autovacuum_analyze_scale_factor", "-1"),
        ] {
            let error = read(name, value).expect_err("it is bad");
            assert!(error.message.contains(name), "{}", error.message);
        }
        assert!(read("parallel_workers", "4").is_err());
    }
}
