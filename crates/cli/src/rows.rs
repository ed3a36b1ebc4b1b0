//! Typed values from text and rows to text: CSV fields, keys on the command line, rows on the way
//! out.
//!
//! Invariants: an empty CSV field is null unless something else is; `\N` in a key is null. Rows are
//! printed as they come.
//! Does not do: reading or choosing rows.

use rightlink::{ColumnSchema, Error, Type, Value};

use crate::args::Format;
use crate::csv::{CsvError, CsvReader, Limits, to_line};
use crate::csv_file::Place;
use crate::failure::Failure;
use crate::grid::Grid;
use crate::json::Json;
use crate::output::Output;

/// How CSV fields become a row of a table.
pub(crate) struct Mapping {
    /// For each field, the table's column.
    fields: Vec<usize>,
    columns: Vec<ColumnSchema>,
    /// The field that is null.
    null: String,
}

impl Mapping {
    /// Fields with these header names go to `columns`; `place` is that of the header.
    pub(crate) fn new(
        header: &[String],
        columns: &[ColumnSchema],
        place: &Place,
    ) -> Result<Self, Failure> {
        let known = |name: &String| columns.iter().position(|column| column.name == *name);
        let fields = header.iter().map(|name| {
            known(name).ok_or_else(|| {
                let names = columns.iter().map(|column| column.name.as_str());
                let unknown = crate::names::unknown("column", name, " for the header", names);
                Failure { exit: unknown.exit, ..place.bad(Some(name), &unknown.message) }
            })
        });
        let fields: Result<Vec<_>, Failure> = fields.collect();
        let mapping = Self { fields: fields?, columns: columns.to_vec(), null: String::new() };
        match mapping.refused() {
            Some((column, why)) => Err(place.bad(Some(&column.name), why)),
            None => Ok(mapping),
        }
    }

    /// The column that the header may not leave out, or must, and why.
    fn refused(&self) -> Option<(&ColumnSchema, &'static str)> {
        let is_generated =
            |column: &&ColumnSchema| rightlink_sql::generation_expression(column).is_some();
        if let Some(column) = self.columns.iter().find(is_generated) {
            return Some((column, "generated from other columns, by SQL only: use COPY"));
        }
        for column in self.missing().filter(|column| !is_filled(column)) {
            if rightlink_sql::has_sql_default(column) {
                let why = "not in the header, and only SQL can work out its default: use COPY";
                return Some((column, why));
            }
            if !column.nullable {
                return Some((column, "not in the header, but may not be null and has no default"));
            }
        }
        // Whole rows keep such numbers; the store fills none that have them.
        let always =
            |column: &&ColumnSchema| column.identity.as_ref().is_some_and(|own| own.always);
        let named = self.fields.iter().map(|at| &self.columns[*at]);
        let why = "always generated, so the header may name it only with all that have defaults";
        let generated = named.filter(|_| self.named().is_some()).find(always);
        generated.map(|column| (column, why))
    }

    /// Columns without a field.
    fn missing(&self) -> impl Iterator<Item = &ColumnSchema> {
        let all = self.columns.iter().enumerate();
        all.filter(|(at, _)| !self.fields.contains(at)).map(|(_, column)| column)
    }

    /// The same, with another field for null than an empty one.
    pub(crate) fn null(self, null: &str) -> Self {
        Self { null: null.to_owned(), ..self }
    }

    /// The columns of a row's values; `None`: all, because nothing fills those that have no field.
    pub(crate) fn named(&self) -> Option<Vec<String>> {
        let given = (0..self.columns.len()).filter(|at| self.is_given(*at));
        let name = |at: usize| self.columns[at].name.clone();
        self.missing().any(is_filled).then(|| given.map(name).collect())
    }

    /// Does a row have a value of the column at this place, be it the null of a missing field?
    fn is_given(&self, at: usize) -> bool {
        self.fields.contains(&at) || !is_filled(&self.columns[at])
    }

    /// The values of a row, in the table's order; without those of columns that the store fills.
    pub(crate) fn values(&self, record: &[String], place: &Place) -> Result<Vec<Value>, Failure> {
        assert_eq!(record.len(), self.fields.len(), "the reader checked the number of fields");
        let mut values = vec![Value::Null; self.columns.len()];
        for (field, position) in record.iter().zip(&self.fields) {
            let column = &self.columns[*position];
            let value = self::field(field, column, &self.null);
            values[*position] = value.map_err(|what| place.bad(Some(&column.name), &what))?;
        }
        let mut at = 0..values.len();
        values.retain(|_| at.next().is_some_and(|at| self.is_given(at)));
        Ok(values)
    }
}

/// Does the store give it a value where a row has none?
fn is_filled(column: &ColumnSchema) -> bool {
    column.default.is_some() || column.identity.is_some()
}

fn field(text: &str, column: &ColumnSchema, null: &str) -> Result<Value, String> {
    match text == null {
        false => Value::parse(column.kind, text).map_err(plain),
        true if column.nullable => Ok(Value::Null),
        true if text.is_empty() => Err("empty, but may not be null".to_owned()),
        true => Err(format!("{text}, but may not be null")),
    }
}

/// What an error of reading a value says, without its kind.
fn plain(error: Error) -> String {
    match error {
        Error::Invalid(what) => what,
        other => other.to_string(),
    }
}

/// Reads `v[,v]...` as the first columns of a key with these types.
pub(crate) fn key(text: &str, types: &[(&str, Type)]) -> Result<Vec<Value>, Failure> {
    let fields = split(text)?;
    if fields.len() > types.len() {
        let (has, names) = (types.len(), types.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        return Err(Failure::usage(format!(
            "key {text:?} has {} values, but the index has {has}: {}",
            fields.len(),
            names.join(", ")
        )));
    }
    let parse = |(field, (name, ty)): (&String, &(&str, Type))| match field.as_str() {
        "\\N" => Ok(Value::Null),
        _ => Value::parse(*ty, field).map_err(|error| {
            Failure::usage(format!("key {text:?}, column {name}: {}", plain(error)))
        }),
    };
    fields.iter().zip(types).map(parse).collect()
}

/// Splits at commas as CSV does.
fn split(text: &str) -> Result<Vec<String>, Failure> {
    match CsvReader::new(text.as_bytes(), Limits::LEAST).next() {
        Ok(Some(record)) => Ok(record.fields),
        // Nothing typed is one empty value.
        Ok(None) => Ok(vec![String::new()]),
        Err(CsvError::Bad { what, .. }) => Err(Failure::usage(format!("key {text:?}: {what}"))),
        Err(CsvError::Io(error)) => Err(error.into()),
    }
}

/// Prints rows in one of the formats, as they come.
pub(crate) enum Printer {
    /// For people.
    Table(Grid),
    /// CSV.
    Csv,
    /// One object a row.
    Json(Vec<String>),
}

impl Printer {
    /// A printer of rows with these columns.
    pub(crate) fn start(
        format: Format,
        columns: &[&ColumnSchema],
        output: &mut Output,
    ) -> Result<Self, Failure> {
        let names = || columns.iter().map(|column| column.name.clone());
        if output.json() || format == Format::Json {
            return Ok(Printer::Json(names().collect()));
        }
        if format == Format::Csv {
            output.line(to_line(names()))?;
            return Ok(Printer::Csv);
        }
        let right = columns.iter().map(|column| is_number(column.kind)).collect();
        Ok(Printer::Table(Grid::with(names(), right)))
    }

    /// Prints one row.
    pub(crate) fn row(&mut self, values: &[Value], output: &mut Output) -> Result<(), Failure> {
        match self {
            Printer::Table(grid) => {
                grid.row(values.iter().map(ToString::to_string).collect(), output)
            }
            Printer::Csv => {
                let text = |value: &Value| match value {
                    Value::Null => String::new(),
                    other => other.to_string(),
                };
                output.line(to_line(values.iter().map(text)))
            }
            Printer::Json(names) => {
                let fields = names.iter().cloned().zip(values.iter().map(Json::from));
                output.line(Json::Object(fields.collect()))
            }
        }
    }

    /// Prints what is still waiting, and for people how many rows there were.
    pub(crate) fn finish(self, rows: u64, output: &mut Output) -> Result<(), Failure> {
        if let Printer::Table(grid) = self {
            grid.finish(output)?;
            output.line(format_args!("({})", crate::figures::plural(rows, "row")))?;
        }
        Ok(())
    }
}

fn is_number(ty: Type) -> bool {
    use Type::{Float4, Float8, Int2, Int4, Int8};
    matches!(ty, Int2 | Int4 | Int8 | Float4 | Float8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<ColumnSchema> {
        vec![ColumnSchema::new("id", Type::Int4), ColumnSchema::new("name", Type::Text).nullable()]
    }

    fn place() -> Place {
        Place { file: "f.csv".into(), line: 9 }
    }

    fn texts(fields: &[&str]) -> Vec<String> {
        fields.iter().map(|field| (*field).to_owned()).collect()
    }

    fn names(text: &str) -> Vec<String> {
        text.split(',').map(Into::into).collect()
    }

    #[test]
    fn fields_go_by_header_names() {
        let mapping = Mapping::new(&names("name,id"), &columns(), &place());
        let mapping = mapping.expect("both are known");
        let row = mapping.values(&texts(&["", "7"]), &place()).expect("good");
        assert_eq!(row, [Value::Int4(7), Value::Null]);
    }

    #[test]
    fn bad_fields_are_named() {
        let mapping = Mapping::new(&names("id"), &columns(), &place()).expect("name may be null");
        let failure = mapping.values(&texts(&["x"]), &place());
        let message = failure.expect_err("x is no number").message;
        assert!(message.starts_with("f.csv: line 9, column id: int4 value \"x\""), "{message}");
        let failure = mapping.values(&texts(&[""]), &place());
        let message = failure.expect_err("id is needed").message;
        assert_eq!(message, "f.csv: line 9, column id: empty, but may not be null");
    }

    #[test]
    fn headers_must_fit_the_table() {
        let refused = |header| {
            let refused = Mapping::new(&names(header), &columns(), &place());
            refused.err().expect("the header does not fit").message
        };
        let said = "f.csv: line 9, column age: there is no column \"age\" for the header; \
                    there are: id, name";
        assert_eq!(refused("id,age"), said);
        let said = "f.csv: line 9, column id: not in the header, but may not be null and has no \
                    default";
        assert_eq!(refused("name"), said);
    }

    #[test]
    fn keys_are_typed_and_may_be_short() {
        let types = [("dest", Type::Text), ("delay", Type::Int4)];
        assert_eq!(key("ORD", &types).expect("good"), [Value::Text("ORD".into())]);
        let both = key("\"a,b\",\\N", &types).expect("good");
        assert_eq!(both, [Value::Text("a,b".into()), Value::Null]);
        assert_eq!(key("", &types).expect("good"), [Value::Text(String::new())]);
        assert!(key("a,x", &types).expect_err("x is no number").message.contains("column delay"));
        assert!(key("a,1,2", &types).expect_err("too many").message.contains("has 3 values"));
    }
}
