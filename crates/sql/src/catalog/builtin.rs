//! Rows of catalogs that are the same in every database, as PostgreSQL 15 has them: types, operator
//! classes, operators, casts, functions.
//!
//! A file has a row a line in the form of COPY. A value of `regproc` is a number, `=` and a name.
//!
//! Invariants: the files hold what is here, and of PostgreSQL's rows nothing else.
//! Does not do: what users make.

use std::collections::HashMap;
use std::sync::OnceLock;

use rightlink::IndexMethod;

use crate::catalog::system_views::{self, View};
use crate::error::{Result, SqlError, code};
use crate::names::identifier;
use crate::types::{Datum, RegKind, Registered, Row, SqlType};

/// What catalogs tell of a type beside its number.
#[derive(Clone, Copy)]
pub(crate) struct TypeFacts {
    pub(crate) length: i16,
    pub(crate) by_value: bool,
    pub(crate) align: u8,
    pub(crate) storage: u8,
    /// The number of its collation, 0 if it has none.
    pub(crate) collation: u32,
}

/// The properties of a type that decide which casts an expression gets.
#[derive(Clone, Copy)]
pub(crate) struct TypeRules {
    pub(crate) category: u8,
    pub(crate) is_preferred: bool,
    /// The type of its elements, 0 if it has none.
    pub(crate) element: u32,
    /// The type of arrays of it, 0 if there is none.
    pub(crate) array: u32,
}

/// A cast between two types.
#[derive(Clone, Copy)]
pub(crate) struct CastRules {
    /// Does it happen by itself?
    pub(crate) is_implicit: bool,
    /// Does a function make the value?
    pub(crate) by_function: bool,
}

/// An operator.
pub(crate) struct Operator {
    pub(crate) oid: u32,
    name: String,
    /// The types of its operands, one or two.
    pub(crate) operands: Vec<u32>,
    pub(crate) result: u32,
}

impl Operator {
    /// Its name and the types of its operands.
    pub(crate) fn signature(&self) -> String {
        let name = |oid: &u32| SqlType::name_of(*oid).unwrap_or("???");
        match self.operands.as_slice() {
            [left, right] => format!("{}({},{})", self.name, name(left), name(right)),
            rest => format!("{}(NONE,{})", self.name, rest.first().map_or("???", name)),
        }
    }
}

/// Types by their numbers.
fn types() -> &'static HashMap<u32, TypeFacts> {
    static TYPES: OnceLock<HashMap<u32, TypeFacts>> = OnceLock::new();
    TYPES.get_or_init(|| {
        let view = named("pg_type");
        let at = |name: &str| view.columns.iter().position(|(known, _)| *known == name);
        let at = |name: &str| at(name).expect("pg_type has this column");
        let [length, by_value, align, storage, collation] =
            ["typlen", "typbyval", "typalign", "typstorage", "typcollation"].map(at);
        let facts = |row: Row| match (&row[0], &row[length], &row[by_value]) {
            (Datum::Oid(oid), Datum::Int2(length), Datum::Bool(by_value)) => {
                let byte = |at: usize| if let Datum::Char(byte) = row[at] { byte } else { 0 };
                let (align, storage) = (byte(align), byte(storage));
                let collation = if let Datum::Oid(oid) = row[collation] { oid } else { 0 };
                let (length, by_value) = (*length, *by_value);
                Some((*oid, TypeFacts { length, by_value, align, storage, collation }))
            }
            _ => None,
        };
        rows(view, system_views::TYPES).into_iter().flatten().filter_map(facts).collect()
    })
}

/// The fixed rows of a catalog, with the places of some of its columns.
fn fixed<const N: usize>(name: &str, columns: [&str; N]) -> (Vec<Row>, [usize; N]) {
    let view = named(name);
    let file = match view.kind {
        system_views::Kind::Fixed(file) => file,
        _ => system_views::TYPES,
    };
    let at = |name: &str| view.columns.iter().position(|(known, _)| *known == name);
    let places = columns.map(|name| at(name).expect("the catalog has this column"));
    (rows(view, file).unwrap_or_default(), places)
}

fn number_of(value: &Datum) -> u32 {
    if let Datum::Oid(oid) = value { *oid } else { 0 }
}

fn letter_of(value: &Datum) -> u8 {
    if let Datum::Char(letter) = value { *letter } else { 0 }
}

/// The properties that decide casts of the type of this number.
pub(crate) fn type_rules(oid: u32) -> Option<&'static TypeRules> {
    static RULES: OnceLock<HashMap<u32, TypeRules>> = OnceLock::new();
    let rules = RULES.get_or_init(|| {
        let columns = ["oid", "typcategory", "typispreferred", "typelem", "typarray"];
        let (rows, [own, category, preferred, element, array]) = fixed("pg_type", columns);
        let one = |row: Row| {
            let rules = TypeRules {
                category: letter_of(&row[category]),
                is_preferred: row[preferred] == Datum::Bool(true),
                element: number_of(&row[element]),
                array: number_of(&row[array]),
            };
            (number_of(&row[own]), rules)
        };
        rows.into_iter().map(one).collect()
    });
    rules.get(&oid)
}

/// The cast from one type to another.
pub(crate) fn cast(from: u32, to: u32) -> Option<CastRules> {
    static CASTS: OnceLock<HashMap<(u32, u32), CastRules>> = OnceLock::new();
    let casts = CASTS.get_or_init(|| {
        let columns = ["castsource", "casttarget", "castcontext", "castmethod"];
        let (rows, [source, target, context, method]) = fixed("pg_cast", columns);
        let one = |row: Row| {
            let rules = CastRules {
                is_implicit: letter_of(&row[context]) == b'i',
                by_function: letter_of(&row[method]) == b'f',
            };
            ((number_of(&row[source]), number_of(&row[target])), rules)
        };
        rows.into_iter().map(one).collect()
    });
    casts.get(&(from, to)).copied()
}

/// The operators of this name.
pub(crate) fn operators_named(name: &str) -> &'static [Operator] {
    operators().get(name).map_or(&[], Vec::as_slice)
}

/// The operator that has this number.
pub(crate) fn operator_of(oid: u32) -> Option<&'static Operator> {
    operators().values().flatten().find(|one| one.oid == oid)
}

/// Operators, by name.
fn operators() -> &'static HashMap<String, Vec<Operator>> {
    static OPERATORS: OnceLock<HashMap<String, Vec<Operator>>> = OnceLock::new();
    OPERATORS.get_or_init(|| {
        let columns = ["oid", "oprname", "oprleft", "oprright", "oprresult"];
        let (rows, [own, name, left, right, result]) = fixed("pg_operator", columns);
        let mut all: HashMap<String, Vec<Operator>> = HashMap::new();
        for row in rows {
            let operands = [left, right].map(|at| number_of(&row[at]));
            let operands = operands.into_iter().filter(|oid| *oid != 0).collect();
            if let Datum::Text(name) = &row[name] {
                let (oid, result) = (number_of(&row[own]), number_of(&row[result]));
                let one = Operator { oid, name: name.clone(), operands, result };
                all.entry(name.clone()).or_default().push(one);
            }
        }
        all
    })
}

/// A catalog whose rows have a name.
struct Named {
    catalog: &'static str,
    /// The place of the name in a row.
    place: usize,
    /// The word for what a row is about.
    word: &'static str,
}

/// Operator classes come behind the access methods that they are of.
const NAMED: [Named; 4] = [
    Named { catalog: "pg_am", place: 1, word: "access method" },
    Named { catalog: "pg_language", place: 1, word: "language" },
    Named { catalog: "pg_tablespace", place: 1, word: "tablespace" },
    Named { catalog: "pg_opclass", place: 2, word: "operator class" },
];

/// An access method, a language, an operator class or a tablespace in words.
pub(super) fn described(catalog: &str, number: u32) -> Option<String> {
    static WORDS: OnceLock<HashMap<(&str, u32), String>> = OnceLock::new();
    let words = WORDS.get_or_init(|| {
        let mut words: HashMap<(&str, u32), String> = HashMap::new();
        for Named { catalog, place, word } in NAMED {
            let (rows, []) = fixed(catalog, []);
            for row in rows {
                let Datum::Text(name) = &row[place] else { continue };
                let mut text = format!("{word} {}", identifier(name));
                if let Some(method) = words.get(&("pg_am", number_of(&row[1]))) {
                    text = format!("{text} for {method}");
                }
                words.insert((catalog, number_of(&row[0])), text);
            }
        }
        words
    });
    let known = NAMED.iter().find(|known| known.catalog == catalog)?;
    words.get(&(known.catalog, number)).cloned()
}

/// An operator class of an access method.
#[derive(Clone, Copy)]
pub(crate) struct OperatorClass {
    pub(crate) oid: u32,
    /// The type that it is for; for a kind of types, the pseudo-type.
    input: u32,
    /// Is it the one that is taken unless another is said?
    pub(crate) is_default: bool,
}

/// Operator classes by access method: of types, and by their names.
#[derive(Default)]
struct Classes {
    of_types: HashMap<(u32, u32), u32>,
    by_name: HashMap<(u32, String), OperatorClass>,
}

fn classes() -> &'static Classes {
    static CLASSES: OnceLock<Classes> = OnceLock::new();
    CLASSES.get_or_init(|| {
        let columns = ["oid", "opcmethod", "opcname", "opcintype", "opcdefault"];
        let (rows, [own, method, name, input, default]) = fixed("pg_opclass", columns);
        let mut all = Classes::default();
        for row in rows {
            let Datum::Text(name) = &row[name] else { continue };
            let is_default = row[default] == Datum::Bool(true);
            let [oid, method, input] = [own, method, input].map(|at| number_of(&row[at]));
            if is_default {
                all.of_types.insert((method, input), oid);
            }
            let class = OperatorClass { oid, input, is_default };
            all.by_name.insert((method, name.clone()), class);
        }
        all
    })
}

/// The number of an access method for indexes.
pub(crate) fn method_number(method: IndexMethod) -> u32 {
    match method {
        IndexMethod::Hash => 405,
        _ => 403,
    }
}

/// The operator class that is called so.
pub(crate) fn class_named(method: IndexMethod, name: &str) -> Option<OperatorClass> {
    classes().by_name.get(&(method_number(method), name.to_owned())).copied()
}

/// May a key of this type be of the class?
pub(crate) fn is_class_of(class: &OperatorClass, ty: SqlType) -> bool {
    class.input == class_input(ty)
}

/// The type that operator classes for keys of this type are for.
fn class_input(ty: SqlType) -> u32 {
    const ANY_ARRAY: u32 = 2277;
    const ANY_ENUM: u32 = 3500;
    const RECORD: u32 = 2249;
    match ty {
        SqlType::Array(_) => ANY_ARRAY,
        SqlType::Enum(_) => ANY_ENUM,
        SqlType::Composite(_) => RECORD,
        SqlType::Cidr => SqlType::Inet.oid(),
        SqlType::Reg(_) => SqlType::Oid.oid(),
        ty => ty.oid(),
    }
}

/// The number of the operator class of a key of this type.
pub(super) fn operator_class(method: IndexMethod, ty: SqlType) -> u32 {
    let wanted = (method_number(method), class_input(ty));
    classes().of_types.get(&wanted).copied().unwrap_or(0)
}

/// Is the class one by the bytes of text, whatever the collation?
pub(crate) fn is_class_by_bytes(name: &str) -> bool {
    ["text_pattern_ops", "varchar_pattern_ops", "bpchar_pattern_ops"].contains(&name)
}

pub(super) fn named(name: &str) -> &'static View {
    system_views::relation(&[name.to_owned()]).expect("it is listed")
}

/// The facts about the type that has this number.
pub(crate) fn type_facts(oid: u32) -> Option<&'static TypeFacts> {
    types().get(&oid)
}

/// A function of PostgreSQL.
pub(crate) struct BuiltIn {
    pub(crate) oid: u32,
    pub(crate) name: String,
    pub(crate) arguments: Vec<u32>,
    pub(crate) result: u32,
    pub(crate) is_set: bool,
    /// The type of the elements that its last argument collects, 0 if it does not.
    pub(crate) variadic: u32,
    /// The letter of a function, an aggregate or a window function.
    pub(crate) kind: u8,
    /// Is its result decided by its arguments alone?
    pub(crate) is_immutable: bool,
}

impl BuiltIn {
    /// The types of its arguments.
    pub(crate) fn types(&self) -> String {
        let name = |oid: &u32| SqlType::name_of(*oid).unwrap_or("???");
        self.arguments.iter().map(name).collect::<Vec<_>>().join(", ")
    }

    /// Its name and the types of its arguments.
    pub(crate) fn signature(&self) -> String {
        format!("{}({})", identifier(&self.name), self.types().replace(", ", ","))
    }
}

/// Functions, by number.
fn functions() -> &'static Vec<BuiltIn> {
    static FUNCTIONS: OnceLock<Vec<BuiltIn>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| {
        let view = named("pg_proc");
        let at = |name: &str| view.columns.iter().position(|(known, _)| *known == name);
        let at = |name: &str| at(name).expect("pg_proc has this column");
        let [arguments, result, set] = ["proargtypes", "prorettype", "proretset"].map(at);
        let [volatile, variadic, kind] = ["provolatile", "provariadic", "prokind"].map(at);
        let function = |row: Row| match (&row[0], &row[1], &row[arguments], &row[result], &row[set])
        {
            (
                Datum::Oid(oid),
                Datum::Text(name),
                Datum::Vector(arguments),
                Datum::Oid(result),
                Datum::Bool(is_set),
            ) => {
                let arguments = arguments.values().iter().map(number_of).collect();
                let (name, result, is_set) = (name.clone(), *result, *is_set);
                let is_immutable = row[volatile] == Datum::Char(b'i');
                let (variadic, kind) = (number_of(&row[variadic]), letter_of(&row[kind]));
                let oid = *oid;
                Some(BuiltIn { oid, name, arguments, result, is_set, variadic, kind, is_immutable })
            }
            _ => None,
        };
        let rows = rows(view, system_views::FUNCTIONS).into_iter().flatten();
        rows.filter_map(function).collect()
    })
}

/// The functions of this name.
pub(crate) fn functions_named(name: &str) -> impl Iterator<Item = &'static BuiltIn> {
    static BY_NAME: OnceLock<HashMap<&str, Vec<&BuiltIn>>> = OnceLock::new();
    let by_name = BY_NAME.get_or_init(|| {
        let mut all: HashMap<&str, Vec<&BuiltIn>> = HashMap::new();
        for one in functions() {
            all.entry(one.name.as_str()).or_default().push(one);
        }
        all
    });
    by_name.get(name).into_iter().flatten().copied()
}

/// The function that has a number.
pub(crate) fn function_of(oid: u32) -> Option<&'static BuiltIn> {
    let at = functions().binary_search_by_key(&oid, |function| function.oid).ok()?;
    Some(&functions()[at])
}

/// The number of the one function of this name.
///
/// # Errors
/// `42725` if there are several.
pub(super) fn function_named(name: &str) -> Result<Option<u32>> {
    let mut all = functions().iter().filter(|function| function.name == name);
    match (all.next(), all.next()) {
        (Some(_), Some(_)) => {
            let message = format!("more than one function named \"{name}\"");
            Err(SqlError::new(code::AMBIGUOUS_FUNCTION, message))
        }
        (found, _) => Ok(found.map(|function| function.oid)),
    }
}

/// The number of the function of this name and these types in parentheses.
pub(super) fn function_by_signature(text: &str) -> Option<u32> {
    let (name, rest) = text.split_once('(')?;
    let name = name.trim().strip_prefix("pg_catalog.").unwrap_or(name.trim());
    let inner = rest.strip_suffix(')')?;
    let types = inner.split(',').map(str::trim).filter(|one| !one.is_empty());
    let types: Vec<u32> =
        types.map(|one| SqlType::named(one).map(|(oid, _)| oid)).collect::<Option<_>>()?;
    let mut all = functions().iter();
    all.find(|one| one.name == name && one.arguments == types).map(|function| function.oid)
}

/// The rows of a file.
pub(super) fn rows(view: &View, file: &str) -> Result<Vec<Row>> {
    file.lines().map(|line| row(view, line)).collect()
}

fn row(view: &View, line: &str) -> Result<Row> {
    let fields = line.split('\t').zip(view.columns);
    fields.map(|(field, (_, ty))| value(field, *ty)).collect()
}

fn value(field: &str, ty: SqlType) -> Result<Datum> {
    match (field, ty) {
        ("\\N", _) => Ok(Datum::Null),
        (field, SqlType::Reg(RegKind::Proc)) => {
            let (oid, name) = field.split_once('=').unwrap_or((field, "-"));
            let oid = oid.parse().unwrap_or(0);
            Ok(Registered::datum(RegKind::Proc, oid, Some(name.to_owned())))
        }
        (field, ty) if field.contains('\\') => Datum::from_text(ty, &field.replace("\\\\", "\\")),
        (field, ty) => Datum::from_text(ty, field),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::system_views::Kind;

    #[test]
    fn files_have_the_columns_of_their_relations() {
        for name in ["pg_am", "pg_cast", "pg_language", "pg_opclass", "pg_operator", "pg_opfamily"]
        {
            let view = named(name);
            let Kind::Fixed(file) = view.kind else { panic!("{name}") };
            for row in rows(view, file).unwrap() {
                assert_eq!(row.len(), view.columns.len(), "{name}");
            }
        }
    }

    #[test]
    fn every_type_is_told() {
        for ty in SqlType::every() {
            let facts = type_facts(ty.oid()).unwrap_or_else(|| panic!("{ty:?}"));
            assert_eq!(facts.length, ty.fixed_len());
        }
        assert_eq!(operator_class(IndexMethod::BTree, SqlType::Int4), 1978);
        assert_eq!(operator_class(IndexMethod::BTree, SqlType::Text), 3126);
    }
}
