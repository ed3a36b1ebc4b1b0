//! Rows of `pg_class`, `pg_attribute`, `pg_index` and their kind.
//!
//! Invariants: columns are those of PostgreSQL 15; what is not kept here has the value that
//! PostgreSQL gives where there is none. Does not do: constraints (`constraints`).

use std::collections::HashMap;

use rightlink::{Blocks, ColumnDefault, ColumnSchema, Database, IndexInfo, IndexMethod};

use super::builtin::{self, TypeFacts};
use super::generated;
use super::numbers::{char, count, made_oid, number, oid, short, text, texts, vector};
use super::objects::{How, Object, Objects};
use super::rules;
use super::sequences::Sequence;
use super::shared::{collation_of, collation_oid};
use super::type_objects::CompositeObject;
use crate::catalog::system_views::SizeColumn;
use crate::error::Result;
use crate::names::{SearchPath, bare, reference};
use crate::notes::types::TypeNotes;
use crate::notes::view::Rows;
use crate::notes::{ColumnNotes, Deferral, MadeTypes, TableNotes, storage};
use crate::oids::row_type_oid;
use crate::roles::role::OWNER;
use crate::types::declared::{Declared, Modifier};
use crate::types::literal::literal;
use crate::types::{Datum, Row, SqlType};
use crate::user_types::fields_of_entry;

/// The number of the access method of tables.
pub(super) const HEAP: u32 = 2;

/// Rows of `pg_class`.
///
/// Their sizes are those of now where the database is given.
pub(super) fn classes(objects: &Objects, db: Option<&Database>) -> Result<Vec<Row>> {
    let mut sized = HashMap::new();
    let mut rows = Vec::new();
    for object in objects.all() {
        let own = || objects.sized(object.table, db);
        let now = sized.entry(object.table.id).or_insert_with(own);
        rows.push(class(&object.of_description(now.as_ref()), objects));
    }
    rows.extend(objects.sequences().iter().map(|one| class_of_sequence(one, objects)));
    rows.extend(objects.composites().iter().map(|one| class_of_type(one, objects)));
    Ok(rows)
}

/// What a column of `pg_class` tells now of the size of a relation; `None`: what it told when its
/// row was made.
pub(crate) fn size_now(
    objects: &Objects,
    number: u32,
    what: SizeColumn,
    db: Option<&Database>,
) -> Option<Datum> {
    let object = objects.of_oid(number)?;
    if object.is_view() {
        return None;
    }
    let Blocks { blocks, visible_share } =
        db?.blocks_of(object.table, object.index.map(|index| index.id))?;
    Some(match what {
        SizeColumn::Blocks => count(blocks),
        SizeColumn::Visible => Datum::Int4(visible(visible_share, blocks)),
    })
}

fn visible(share: f32, blocks: u32) -> i32 {
    (f64::from(share) * f64::from(blocks)) as i32
}

fn class(object: &Object<'_>, objects: &Objects) -> Row {
    let is_table = object.index.is_none() && !object.is_view();
    let columns = match object.index {
        Some(index) => index.columns.len() + index.included.len(),
        None => rules::columns(object.table).count(),
    };
    let checks = if is_table { rules::checks(object.table).len() } else { 0 };
    let visible = visible(object.table.visible_share, object.blocks());
    vec![
        oid(object.oid),
        text(object.name()),
        oid(objects.schema_oid(object.stored())),
        oid(if object.index.is_none() { row_type_oid(object.table.id) } else { 0 }),
        oid(0),
        oid(object.owner()),
        oid(method_oid(object)),
        oid(if object.is_view() { 0 } else { object.oid }),
        oid(0),
        count(object.blocks()),
        tuples(object, objects),
        Datum::Int4(if is_table { visible } else { 0 }),
        oid(0),
        Datum::Bool(is_table && !object.table.indexes.is_empty()),
        Datum::Bool(false),
        char(object.persistence()),
        char(object.kind()),
        short(columns),
        short(checks),
        Datum::Bool(object.is_view() || object.is_materialized_view()),
        Datum::Bool(is_table && rules::has_keys(object.table)),
        Datum::Bool(false),
        Datum::Bool(false),
        Datum::Bool(false),
        Datum::Bool(is_populated(object)),
        char(if is_table { 'd' } else { 'n' }),
        Datum::Bool(false),
        oid(0),
        number(0),
        number(0),
        objects.shown_acl(object.oid),
        options(object),
        Datum::Null,
    ]
}

fn class_of_sequence(one: &Sequence, objects: &Objects) -> Row {
    let name = text(bare(&one.schema.name));
    let mut row = vec![oid(one.oid), name, oid(objects.schema_oid(&one.schema.name))];
    let owner = oid(objects.owner_of_sequence(one));
    row.extend([oid(0), oid(0), owner, oid(0), oid(one.oid), oid(0), count(1)]);
    row.extend([Datum::Float4(1.0), Datum::Int4(0), oid(0)]);
    row.extend([Datum::Bool(false), Datum::Bool(false), char('p'), char('S'), short(3), short(0)]);
    row.extend(std::iter::repeat_n(Datum::Bool(false), 5));
    row.extend([Datum::Bool(true), char('n'), Datum::Bool(false), oid(0), number(0), number(0)]);
    row.extend([objects.shown_acl(one.oid), Datum::Null, Datum::Null]);
    row
}

/// A composite type, which PostgreSQL has among relations.
fn class_of_type(one: &CompositeObject, objects: &Objects) -> Row {
    let CompositeObject { stored, entry } = one;
    let own = one.oid();
    let owner = TypeNotes::decode(&entry.note).owner.unwrap_or(OWNER);
    let mut row = vec![oid(own), text(bare(stored)), oid(objects.schema_oid(stored))];
    row.extend([oid(row_type_oid(entry.id)), oid(0), oid(owner), oid(0), oid(0), oid(0), count(0)]);
    row.extend([Datum::Float4(-1.0), Datum::Int4(0), oid(0)]);
    row.extend([Datum::Bool(false), Datum::Bool(false), char('p'), char('c')]);
    row.extend([short(fields_of_entry(entry).len()), short(0)]);
    row.extend(std::iter::repeat_n(Datum::Bool(false), 5));
    row.extend([Datum::Bool(true), char('n'), Datum::Bool(false), oid(0), number(0), number(0)]);
    row.extend([Datum::Null, Datum::Null, Datum::Null]);
    row
}

fn method_oid(object: &Object<'_>) -> u32 {
    match object.index {
        Some(index) => builtin::method_number(index.method),
        None if object.is_view() => 0,
        None => HEAP,
    }
}

/// Rows when it was analyzed; -1: never. How many an index of some rows has is not counted, unless
/// the table has none.
fn tuples(object: &Object<'_>, objects: &Objects) -> Datum {
    let whole = object.index.is_none_or(|index| index.is_whole());
    let known = objects.statistics(object.table).filter(|known| whole || known.rows == 0.0);
    Datum::Float4(known.map_or(-1.0, |known| known.rows as f32))
}

fn options(object: &Object<'_>) -> Datum {
    let table = object.table;
    let check = TableNotes::decode(&table.note).view.and_then(|view| view.check);
    let shown: Vec<String> = match object.index {
        Some(_) => Vec::new(),
        None if object.is_view() => {
            check.map(|check| format!("check_option={}", check.name())).into_iter().collect()
        }
        None => {
            let analyze = TableNotes::decode(&table.note).analyze;
            storage::shown(table.fillfactor, table.auto_vacuum, analyze)
        }
    };
    if shown.is_empty() { Datum::Null } else { texts(shown) }
}

/// The number of the type of a column as it is declared.
pub(super) fn type_oid(column: &ColumnSchema, notes: &ColumnNotes, objects: &Objects) -> u32 {
    let domain = notes.domain.as_ref().and_then(|name| objects.domain(name));
    domain.map_or_else(|| base_oid(column, notes, objects), |domain| domain.oid)
}

/// The same, of a domain that of the type below it.
pub(super) fn base_oid(column: &ColumnSchema, notes: &ColumnNotes, objects: &Objects) -> u32 {
    Declared::modified(notes.type_of(column.kind, &objects.made), notes.modifier).oid()
}

/// A column of `pg_attribute`.
pub(super) struct Attribute<'a> {
    pub(super) relation: u32,
    pub(super) place: usize,
    pub(super) name: &'a str,
    pub(super) ty: u32,
    /// Of a domain the number of the type below it.
    pub(super) base: u32,
    pub(super) modifier: i32,
    pub(super) collation: u32,
    pub(super) is_array: bool,
    /// Is it of an enum?
    pub(super) is_label: bool,
    /// Is it of a composite type, or of arrays of it?
    pub(super) is_row: bool,
    pub(super) not_null: bool,
    pub(super) has_default: bool,
    pub(super) identity: char,
    pub(super) is_generated: bool,
}

impl<'a> Attribute<'a> {
    /// A column without a length, a collation, a default or anything else to tell of it.
    pub(super) fn plain(relation: u32, place: usize, name: &'a str, ty: u32) -> Attribute<'a> {
        Attribute {
            relation,
            place,
            name,
            ty,
            base: ty,
            modifier: -1,
            collation: 0,
            is_array: false,
            is_label: false,
            is_row: false,
            not_null: false,
            has_default: false,
            identity: '\0',
            is_generated: false,
        }
    }
}

/// A column that a table has without being told.
#[derive(Clone, Copy)]
pub(super) struct SystemColumn {
    name: &'static str,
    place: i16,
    ty: SqlType,
}

const TID: SystemColumn = SystemColumn { name: "ctid", place: -1, ty: SqlType::Tid };
pub(super) const TABLE_OID: SystemColumn =
    SystemColumn { name: "tableoid", place: -6, ty: SqlType::Oid };

impl SystemColumn {
    /// Its row of `pg_attribute`.
    pub(super) fn row(self, relation: u32) -> Row {
        let plain = Attribute::plain(relation, 0, self.name, self.ty.oid());
        let mut row = attribute(&Attribute { not_null: true, ..plain });
        row[5] = Datum::Int2(self.place);
        row
    }
}

/// Rows of `pg_attribute`.
pub(super) fn attributes(objects: &Objects) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for object in objects.all() {
        match object.index {
            None => {
                let columns = rules::columns(object.table).enumerate();
                rows.extend(
                    columns.map(|(at, column)| of_column(&object, at + 1, column, objects)),
                );
                if !object.is_view() {
                    rows.extend([TID, TABLE_OID].map(|one| one.row(object.oid)));
                }
            }
            Some(index) => rows.extend(of_index(&object, index, objects)),
        }
    }
    for one in objects.composites() {
        let entry = &one.entry;
        let object = Object { oid: one.oid(), table: entry, index: None };
        for (at, column) in fields_of_entry(entry).iter().enumerate() {
            rows.push(of_column(&object, at + 1, column, objects));
        }
    }
    for sequence in objects.sequences() {
        let columns = [
            ("last_value", SqlType::Int8),
            ("log_cnt", SqlType::Int8),
            ("is_called", SqlType::Bool),
        ];
        for (at, (name, ty)) in columns.into_iter().enumerate() {
            let plain = Attribute::plain(sequence.oid, at + 1, name, ty.oid());
            rows.push(attribute(&Attribute { not_null: true, ..plain }));
        }
    }
    Ok(rows)
}

/// The columns of an index, under the names that they have there.
fn of_index(object: &Object<'_>, index: &IndexInfo, objects: &Objects) -> Vec<Row> {
    let keys = index.columns.iter().map(|key| &key.name).chain(&index.included);
    let names = rules::index_columns(object.table, index);
    let mut rows = Vec::with_capacity(names.len());
    for (at, (key, name)) in keys.zip(names).enumerate() {
        let found = object.table.columns.iter().find(|column| column.name == *key);
        let Some(column) = found else { continue };
        // A hash index keeps hashes of its keys.
        if index.method == IndexMethod::Hash {
            let plain = Attribute::plain(object.oid, at + 1, &name, SqlType::Int4.oid());
            rows.push(attribute(&plain));
            continue;
        }
        let column = ColumnSchema { name, ..column.clone() };
        rows.push(of_column(object, at + 1, &column, objects));
    }
    rows
}

fn of_column(object: &Object<'_>, place: usize, column: &ColumnSchema, objects: &Objects) -> Row {
    let notes = ColumnNotes::decode(&column.note);
    let is_table = object.index.is_none();
    let (base, ty) = (base_oid(column, &notes, objects), notes.type_of(column.kind, &objects.made));
    let own = is_collatable(base).then(|| collation_of(column, &notes, objects));
    let identity = match &column.identity {
        Some(identity) if !notes.serial && is_table => {
            if identity.always {
                'a'
            } else {
                'd'
            }
        }
        _ => '\0',
    };
    attribute(&Attribute {
        relation: object.oid,
        place,
        name: &column.name,
        ty: type_oid(column, &notes, objects),
        base,
        modifier: match notes.domain {
            Some(_) => -1,
            None => notes.modifier.map_or(-1, Modifier::number),
        },
        collation: own.unwrap_or(0),
        is_array: notes.is_array() && is_table,
        is_label: matches!(ty, SqlType::Enum(_)),
        is_row: matches!(ty.element().unwrap_or(ty), SqlType::Composite(_)),
        not_null: !column.nullable && is_table,
        has_default: is_table && expression_text(column, &notes).is_some(),
        identity,
        is_generated: is_table && notes.generated.is_some(),
    })
}

pub(super) fn is_collatable(ty: u32) -> bool {
    builtin::type_facts(ty).is_some_and(|facts| facts.collation != 0)
}

pub(super) fn attribute(column: &Attribute<'_>) -> Row {
    let unknown =
        TypeFacts { length: -1, by_value: false, align: b'i', storage: b'x', collation: 0 };
    let label = TypeFacts { length: 4, by_value: true, align: b'i', storage: b'p', collation: 0 };
    let row = TypeFacts { align: b'd', ..unknown };
    let own = match (column.is_label, column.is_row) {
        (true, _) => &label,
        (false, true) => &row,
        (false, false) => &unknown,
    };
    let facts = builtin::type_facts(column.base).unwrap_or(own);
    let (off, none) = (Datum::Bool(false), Datum::Char(0));
    let generated = if column.is_generated { char('s') } else { none.clone() };
    let mut row = vec![
        oid(column.relation),
        text(column.name),
        oid(column.ty),
        Datum::Int4(-1),
        Datum::Int2(facts.length),
        short(column.place),
        Datum::Int4(i32::from(column.is_array)),
        Datum::Int4(-1),
        Datum::Int4(column.modifier),
        Datum::Bool(facts.by_value),
        Datum::Char(facts.align),
        Datum::Char(facts.storage),
        none,
        Datum::Bool(column.not_null),
        Datum::Bool(column.has_default),
        off.clone(),
        char(column.identity),
        generated,
        off,
        Datum::Bool(true),
        Datum::Int4(0),
        oid(column.collation),
    ];
    row.extend(std::iter::repeat_n(Datum::Null, 4));
    row
}

/// The default of a column or the expression that it is generated from, as SQL.
pub(super) fn expression_text(column: &ColumnSchema, notes: &ColumnNotes) -> Option<String> {
    notes.generated.clone().or_else(|| default_text(column, notes))
}

/// The default of a column as SQL; the numbers of an identity column are none.
pub(super) fn default_text(column: &ColumnSchema, notes: &ColumnNotes) -> Option<String> {
    if let Some(identity) = column.identity.as_ref().filter(|_| notes.serial) {
        return Some(format!("nextval({}::regclass)", literal(&reference(&identity.sequence))));
    }
    if let Some(text) = &notes.default {
        return Some(typed(text, column, notes));
    }
    match column.default.as_ref()? {
        ColumnDefault::Value(value) => {
            let ty = notes.type_of(column.kind, &MadeTypes::new()).name();
            Some(format!("{}::{ty}", literal(&value.to_string())))
        }
        ColumnDefault::Now => Some("now()".to_owned()),
        ColumnDefault::RandomUuid => Some("gen_random_uuid()".to_owned()),
    }
}

/// A default as PostgreSQL shows it: a string by itself has the type of its column behind. The name
/// of a type that was made depends on the path, and is left out.
fn typed(text: &str, column: &ColumnSchema, notes: &ColumnNotes) -> String {
    let is_made = notes.made.is_some() || notes.domain.is_some();
    if is_made || !is_string(text) {
        return text.to_owned();
    }
    let ty = notes.type_of(column.kind, &MadeTypes::new());
    let name = match (notes.modifier, ty) {
        (Some(Modifier::Varchar(_)), SqlType::Array(_)) => "character varying[]".to_owned(),
        (Some(Modifier::Varchar(_)), _) => "character varying".to_owned(),
        (_, SqlType::Bpchar) => "bpchar".to_owned(),
        _ => ty.name().to_string(),
    };
    format!("{text}::{name}")
}

impl Objects {
    /// The default of a column with the type that it is of, also where that was made.
    pub(super) fn default_text(
        &self,
        column: &ColumnSchema,
        notes: &ColumnNotes,
    ) -> Option<String> {
        let text = default_text(column, notes)?;
        let made = notes.made.as_ref().filter(|_| is_string(&text));
        Some(match made {
            Some(made) if made.is_array => format!("{text}::{}[]", reference(&made.name)),
            Some(made) => format!("{text}::{}", reference(&made.name)),
            None => text,
        })
    }
}

/// Is a text a string by itself?
pub(super) fn is_string(text: &str) -> bool {
    let inner = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    inner.is_some_and(|inner| !inner.replace("''", "").contains('\''))
}

/// The number of the default of a column.
pub(super) fn default_oid(table: u32, place: usize) -> u32 {
    made_oid(table, &format!("default {place}"))
}

/// Rows of `pg_attrdef`.
pub(super) fn defaults(objects: &Objects) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for object in objects.tables() {
        for (at, column) in object.table.columns.iter().enumerate() {
            let mut notes = ColumnNotes::decode(&column.note);
            let generated = notes.generated.take().map(|text| generated::kept(at + 1, &text));
            let default = generated.or_else(|| objects.default_text(column, &notes));
            rows.extend(default.map(|default| {
                let own = default_oid(object.oid, at + 1);
                vec![oid(own), oid(object.oid), short(at + 1), text(default)]
            }));
        }
    }
    Ok(rows)
}

/// Rows of `pg_index`.
pub(super) fn indexes(objects: &Objects) -> Result<Vec<Row>> {
    let one = |object: Object<'_>| object.index.map(|index| index_row(&object, index, objects));
    objects.all().filter_map(one).collect()
}

fn index_row(object: &Object<'_>, index: &IndexInfo, objects: &Objects) -> Result<Row> {
    let (mut places, mut collations, mut classes, mut options) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for name in index.columns.iter().map(|key| &key.name).chain(&index.included) {
        places.push(short(rules::place(object.table, name).unwrap_or(0)));
    }
    let of_table = TableNotes::decode(&object.table.note);
    for (at, key) in index.columns.iter().enumerate() {
        let column = object.table.columns.iter().find(|column| column.name == key.name);
        let notes = column.map_or_else(ColumnNotes::default, |one| ColumnNotes::decode(&one.note));
        let ty =
            column.map_or(SqlType::Unknown, |column| notes.type_of(column.kind, &objects.made));
        let own = column.filter(|column| is_collatable(base_oid(column, &notes, objects)));
        let class = of_table.class(index.id, at);
        collations.push(oid(match (own, key.collation.given()) {
            (None, _) => 0,
            (Some(_), Some(given)) => collation_oid(given.name(), objects),
            (Some(column), None) => collation_of(column, &notes, objects),
        }));
        let given = class.and_then(|name| builtin::class_named(index.method, name));
        let usual = || builtin::operator_class(index.method, ty);
        classes.push(oid(given.map_or_else(usual, |class| class.oid)));
        options.push(short(usize::from(key.descending) + 2 * usize::from(key.nulls_first)));
    }
    let [on, off] = [true, false].map(Datum::Bool);
    let kind = of_table.key_kind(index);
    let is_immediate = kind.is_none_or(|kind| kind.deferral == Deferral::Never);
    let is_unique = kind.is_some();
    let kind = kind.unwrap_or_default();
    Ok(vec![
        oid(object.oid),
        oid(object.table_oid()),
        short(places.len()),
        short(index.columns.len()),
        Datum::Bool(is_unique),
        Datum::Bool(kind.nulls_not_distinct),
        Datum::Bool(kind.primary),
        off.clone(),
        Datum::Bool(is_immediate),
        off.clone(),
        on.clone(),
        off.clone(),
        on.clone(),
        on,
        off,
        vector(SqlType::Int2, places)?,
        vector(SqlType::Oid, collations)?,
        vector(SqlType::Oid, classes)?,
        vector(SqlType::Int2, options)?,
        object.expressions().map_or(Datum::Null, text),
        object.condition(&objects.made).map_or(Datum::Null, text),
    ])
}

/// Rows of `pg_tables`.
pub(super) fn tables(objects: &Objects) -> Result<Vec<Row>> {
    let owner = |object: &Object<'_>| text(objects.owner_name(object.owner()));
    let one = |object: Object<'_>| {
        let [indexed, triggers] = [!object.table.indexes.is_empty(), rules::has_keys(object.table)];
        let mut row = vec![text(object.schema()), text(object.name()), owner(&object), Datum::Null];
        row.extend([indexed, false, triggers, false].map(Datum::Bool));
        row
    };
    Ok(objects.tables().filter(|object| object.kind() == 'r').map(one).collect())
}

/// Rows of `pg_matviews`: each with its query.
pub(super) fn materialized_views(objects: &Objects) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for object in objects.tables().filter(Object::is_materialized_view) {
        let Some(query) = objects.view_query(object.oid)? else { continue };
        let owner = objects.owner_name(object.owner());
        let mut row = vec![text(object.schema()), text(object.name()), text(owner), Datum::Null];
        row.extend([!object.table.indexes.is_empty(), is_populated(&object)].map(Datum::Bool));
        row.push(text(query));
        rows.push(row);
    }
    Ok(rows)
}

/// Can it be read?
fn is_populated(object: &Object<'_>) -> bool {
    let rows = TableNotes::decode(&object.table.note).stored_rows();
    object.index.is_some() || rows != Some(Rows::Missing)
}

/// Rows of `pg_views`: each with its query.
pub(super) fn views(objects: &Objects) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for object in objects.tables().filter(Object::is_view) {
        let Some(query) = objects.view_query(object.oid)? else { continue };
        let owner = objects.owner_name(object.owner());
        rows.push(vec![text(object.schema()), text(object.name()), text(owner), text(query)]);
    }
    Ok(rows)
}

/// Rows of `pg_rewrite`: a view has a rule.
pub(super) fn rewrites(objects: &Objects) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for object in objects.tables() {
        let Some(query) = objects.written_query(object.oid, &SearchPath::default())? else {
            continue;
        };
        let mut row = vec![oid(rewrite_oid(object.oid)), text("_RETURN"), oid(object.oid)];
        row.extend([char('1'), char('O'), Datum::Bool(true), text("<>"), text(query)]);
        rows.push(row);
    }
    Ok(rows)
}

/// The number of the rule of a view.
pub(super) fn rewrite_oid(view: u32) -> u32 {
    made_oid(view, "_RETURN")
}

/// Rows of `pg_indexes`.
pub(super) fn definitions(objects: &Objects) -> Result<Vec<Row>> {
    let path = SearchPath::default();
    let how = How { is_pretty: false, path: &path };
    let one = |object: Object<'_>| {
        let definition = object.definition(objects, how).transpose()?;
        let (schema, table) = (text(object.schema()), text(object.table_name()));
        let name = text(object.name());
        Some(definition.map(|one| vec![schema, table, name, Datum::Null, text(one)]))
    };
    objects.all().filter_map(one).collect()
}

/// Rows of `pg_sequence`.
pub(super) fn sequences(objects: &Objects) -> Result<Vec<Row>> {
    let one = |one: &Sequence| {
        let schema = &one.schema;
        let mut row = vec![oid(one.oid), oid(one.ty.oid())];
        row.extend([schema.start, schema.increment, schema.max, schema.min].map(Datum::Int8));
        row.extend([Datum::Int8(one.notes.cache.unwrap_or(1)), Datum::Bool(schema.cycle)]);
        row
    };
    Ok(objects.sequences().iter().map(one).collect())
}
