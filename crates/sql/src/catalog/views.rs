//! Rows of the relations that are made up from what the store knows.
//!
//! What catalogs tell of objects is made when it is read, from what the statement's transaction
//! sees; all else when the statement begins.
//!
//! Invariants: a row has exactly the columns that `plan::views` lists, of their types.
//! Does not do: reading rows in part.

use rightlink::{Database, Transaction};

use super::numbers::{DATABASE, number, text};
use super::objects::Objects;
use super::{Listing, SessionInfo};
use super::{
    builtin, column_statistics, constraints, dependencies, figures, information, keywords,
    relations, roles, shared,
};
use super::{system_indexes, system_parts, system_rows, trees, tuples, types, zones};
use crate::catalog::system_views::{Kind, LiveColumn, View};
use crate::error::Result;
use crate::names::{bare, schema_of};
use crate::roles::actor::Actor;
use crate::roles::rights;
use crate::roles::role::{Roles, STAT_SCAN_TABLES};
use crate::schemas::no_table;
use crate::settings::Shown;
use crate::types::{Array, Datum, ElementType, RegKind, Registered, Row, SqlType};

/// Are the rows made of what the transaction sees of the store's catalog, and nothing else?
pub(crate) fn is_of_objects(kind: Kind) -> bool {
    !matches!(
        kind,
        Kind::Sequences
            | Kind::VacuumProgress
            | Kind::Snapshots
            | Kind::Figures
            | Kind::Activity
            | Kind::DatabaseUse
            | Kind::Checkpoints
            | Kind::LogUse
            | Kind::PageUse
            | Kind::Cursors
            | Kind::PreparedStatements
            | Kind::PreparedTransactions
            | Kind::Locks
            | Kind::Settings
            | Kind::ZoneNames
            | Kind::ZoneAbbreviations
            | Kind::TreeMeta
            | Kind::TreePage
            | Kind::TreeItems
            | Kind::TreeStatistics
            | Kind::SequencePosition
            | Kind::Tuples
            | Kind::Keywords
    )
}

/// Are the rows made also of what the transaction sees of the store's catalog?
pub(crate) fn asks_objects(kind: Kind) -> bool {
    kind == Kind::Sequences || is_of_objects(kind)
}

/// Can its rows serve other statements, which see the same objects? Those cannot that tell of the
/// session. Live columns ([`View::live_at`]) are made anew, and so cannot find rows.
pub(crate) fn can_be_kept(view: &View, key: Option<usize>) -> bool {
    match view.kind {
        Kind::Class | Kind::TableUse | Kind::IndexUse => {
            key.is_none_or(|at| view.live_at(at).is_none())
        }
        Kind::Database | Kind::AuthId | Kind::Roles | Kind::Users | Kind::ColumnStatistics => false,
        Kind::Information(about) => !about.depends_on_role(),
        kind => is_of_objects(kind),
    }
}

/// The rows of `view` that are made of what the transaction sees of the store's catalog.
pub(crate) fn rows_of_objects(
    view: &View,
    objects: &Objects,
    session: &SessionInfo<'_>,
) -> Result<Vec<Row>> {
    let mut rows = match view.kind {
        Kind::Fixed(file) => builtin::rows(view, file)?,
        Kind::Type => types::rows(view, objects)?,
        Kind::Enum => types::labels(objects),
        Kind::Function => shared::functions(view, objects)?,
        Kind::Namespace => shared::namespaces(objects)?,
        Kind::Collation => shared::collations(objects)?,
        Kind::Class => relations::classes(objects, session.db)?,
        Kind::Attribute => relations::attributes(objects)?,
        Kind::AttributeDefault => relations::defaults(objects)?,
        Kind::Index => relations::indexes(objects)?,
        Kind::Constraint => constraints::rows(objects)?,
        Kind::Depend => dependencies::rows(objects)?,
        Kind::Tables => relations::tables(objects)?,
        Kind::Views => relations::views(objects)?,
        Kind::MaterializedViews => relations::materialized_views(objects)?,
        Kind::Indexes => relations::definitions(objects)?,
        Kind::Sequence => relations::sequences(objects)?,
        Kind::TableUse => figures::tables(objects, session.db)?,
        Kind::IndexUse => figures::indexes(objects, session.db)?,
        Kind::TableBlocks => figures::blocks_of_tables(view, objects),
        Kind::IndexBlocks => figures::blocks_of_indexes(view, objects),
        Kind::SequenceBlocks => figures::blocks_of_sequences(view, objects),
        Kind::Description => shared::descriptions(objects)?,
        Kind::SharedDescription => shared::shared_descriptions(objects)?,
        Kind::Database => shared::databases(objects, session)?,
        Kind::AuthId => roles::auth_ids(objects, session),
        Kind::Roles => roles::roles(objects, session),
        Kind::Users => roles::users(objects, session),
        Kind::Groups => roles::groups(objects)?,
        Kind::AuthMembers => roles::members(objects),
        Kind::DefaultAcl => roles::default_acls(objects),
        Kind::RoleSettings => roles::settings(objects),
        Kind::Rewrite => relations::rewrites(objects)?,
        Kind::ColumnStatistics => column_statistics::shown(objects, session.user),
        Kind::KeptStatistics => column_statistics::kept(objects),
        Kind::Information(about) => information::rows(about, objects, session)?,
        Kind::Nothing | Kind::Lookups | Kind::FirstPrivileges => Vec::new(),
        _ => unreachable!("rows that are not of objects are made when the statement begins"),
    };
    rows.extend(system_rows::of(view.kind, objects, session.database));
    rows.extend(system_parts::of(view.kind, objects)?);
    rows.extend(system_indexes::of(view.kind)?);
    check_width(view, &rows);
    Ok(rows)
}

/// The same for other statements: what tells of use is null in them, for it is made anew.
pub(crate) fn rows_to_keep(
    view: &View,
    objects: &Objects,
    session: &SessionInfo<'_>,
) -> Result<Vec<Row>> {
    let mut rows = rows_of_objects(view, objects, session)?;
    let columns =
        (0..view.columns.len()).filter(|at| matches!(view.live_at(*at), Some(LiveColumn::Use)));
    for at in columns {
        rows.iter_mut().for_each(|row| row[at] = Datum::Null);
    }
    Ok(rows)
}

/// What live columns of `view` tell now of the objects that have these numbers, column by column;
/// `None`: what they told when the row was made.
pub(crate) fn live_values(
    view: &View,
    columns: &[usize],
    numbers: &[u32],
    objects: &Objects,
    db: Option<&Database>,
) -> Result<Vec<Vec<Option<Datum>>>> {
    let is_of_use = |at: &usize| matches!(view.live_at(*at), Some(LiveColumn::Use));
    let rows = match columns.iter().any(is_of_use) {
        true => figures::of_numbers(numbers, objects, db)?,
        false => Vec::new(),
    };
    let values = |at: &usize| match view.live_at(*at) {
        Some(LiveColumn::Size(size)) => {
            let now = |number: &u32| relations::size_now(objects, *number, size, db);
            numbers.iter().map(now).collect()
        }
        Some(LiveColumn::Use) => {
            rows.iter().map(|row| row.as_ref().map(|row| row[*at].clone())).collect()
        }
        None => vec![None; numbers.len()],
    };
    Ok(columns.iter().map(values).collect())
}

/// The rows of `view` for these arguments, which the transaction or the server tells; `objects` if
/// it asks for them.
pub(crate) fn rows(
    view: &View,
    args: &[Datum],
    objects: Option<&Objects>,
    txn: &mut Transaction,
    session: &SessionInfo<'_>,
) -> Result<Vec<Row>> {
    let db = session.db.expect("a statement has a database");
    check_may_look(view, txn, session)?;
    let rows = match view.kind {
        Kind::Sequences => all_sequences(objects.expect("asked for where objects are known"), txn)?,
        Kind::VacuumProgress => vacuums(view, txn, db, session.database)?,
        Kind::Snapshots => snapshots(db),
        Kind::Figures => figures_since_opened(db),
        Kind::Keywords => keywords::rows(),
        Kind::Tuples => tuples::rows(args, txn, session)?,
        Kind::Activity => figures::activity(view, db, session, &Roles::load(txn)?),
        Kind::DatabaseUse => vec![figures::database(view, db, session)?],
        Kind::Checkpoints => vec![figures::checkpoints(view, db)],
        Kind::LogUse => vec![figures::log(view, db)],
        Kind::PageUse => vec![figures::pages(view, db)],
        Kind::Cursors => listing(session).cursors.clone(),
        Kind::PreparedStatements => listing(session).prepared_statements.clone(),
        Kind::PreparedTransactions => {
            figures::prepared(view, db, session.database, &Roles::load(txn)?)
        }
        Kind::Locks => figures::locks(view, db, session)?,
        Kind::Settings => settings(session),
        Kind::ZoneNames => zones::names(session),
        Kind::ZoneAbbreviations => zones::abbreviated(session),
        Kind::TreeMeta | Kind::TreePage | Kind::TreeItems | Kind::TreeStatistics => {
            trees::rows(view.kind, args, txn, &session.settings.path())?
        }
        Kind::SequencePosition => position(args, txn)?,
        _ => unreachable!("rows of objects are made when they are read"),
    };
    check_width(view, &rows);
    Ok(rows)
}

/// Fails for a role that may not look into pages of any relation: their bytes are values.
fn check_may_look(view: &View, txn: &mut Transaction, session: &SessionInfo<'_>) -> Result<()> {
    let is_raw = matches!(view.kind, Kind::TreeMeta | Kind::TreePage | Kind::TreeItems);
    if !is_raw && !matches!(view.kind, Kind::TreeStatistics | Kind::Tuples) {
        return Ok(());
    }
    let actor = Actor::called(session.user, &Roles::load(txn)?);
    if actor.is_superuser || !is_raw && actor.has_privileges_of(STAT_SCAN_TABLES) {
        return Ok(());
    }
    Err(match is_raw {
        true => rights::must("be superuser to use pageinspect functions"),
        false => rights::denied("function", view.name),
    })
}

/// The session's own, which it gathered for this statement.
fn listing<'s>(session: &SessionInfo<'s>) -> &'s Listing {
    session.listing.expect("gathered for a statement that asks")
}

/// Every row has the columns of its relation, and their types.
fn check_width(view: &View, rows: &[Row]) {
    let width = view.columns.len();
    let name = view.name;
    assert!(rows.iter().all(|row| row.len() == width), "rows of {name} have {width} columns");
    if cfg!(debug_assertions) {
        for (value, (column, ty)) in rows.iter().flat_map(|row| row.iter().zip(view.columns)) {
            let known = value.type_of();
            let fits = known.is_none_or(|known| known == *ty)
                || known == Some(SqlType::Text) && *ty == SqlType::Name;
            assert!(fits, "{name}.{column} is {ty:?}, not {known:?}");
        }
    }
}

/// Those of the transaction that are there when they are looked at.
fn all_sequences(objects: &Objects, txn: &mut Transaction) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for one in objects.sequences() {
        let at = match txn.catalog().sequence_position(&one.schema.name) {
            Err(rightlink::Error::NotFound(_)) => continue,
            at => at?,
        };
        let schema = &one.schema;
        let owner = objects.owner_name(objects.owner_of_sequence(one));
        let mut row = vec![text(schema_of(&schema.name)), text(bare(&schema.name)), text(owner)];
        let ty = one.ty.name().to_owned();
        row.push(Registered::datum(RegKind::Type, one.ty.oid(), Some(ty)));
        let numbers = [schema.start, schema.min, schema.max, schema.increment];
        row.extend(numbers.map(Datum::Int8));
        row.extend([Datum::Bool(schema.cycle), Datum::Int8(one.notes.cache.unwrap_or(1))]);
        row.push(if at.drawn { Datum::Int8(at.value) } else { Datum::Null });
        rows.push(row);
    }
    Ok(rows)
}

/// Where a sequence is; how many numbers the log is ahead is not counted as PostgreSQL does.
fn position(args: &[Datum], txn: &mut Transaction) -> Result<Vec<Row>> {
    let Some(Datum::Text(name)) = args.first() else { return Ok(Vec::new()) };
    let at = match txn.catalog().sequence_position(name) {
        Err(rightlink::Error::NotFound(_)) => return Err(no_table(name)),
        at => at?,
    };
    Ok(vec![vec![Datum::Int8(at.value), Datum::Null, Datum::Bool(at.drawn)]])
}

fn vacuums(view: &View, txn: &mut Transaction, db: &Database, database: &str) -> Result<Vec<Row>> {
    let running = db.vacuum_progress();
    if running.is_empty() {
        return Ok(Vec::new());
    }
    let objects = Objects::of(txn)?;
    let oid = |name: &str| objects.relation_named(name).map_or(Datum::Null, Datum::Oid);
    let one = |progress: rightlink::VacuumProgress| {
        let phase = match progress.phase {
            rightlink::VacuumPhase::Waiting => "initializing",
            rightlink::VacuumPhase::Heap => "scanning heap",
            rightlink::VacuumPhase::Indexes => "vacuuming indexes",
            rightlink::VacuumPhase::Freeing => "vacuuming heap",
        };
        let known = vec![
            ("datid", Datum::Oid(DATABASE)),
            ("datname", text(database)),
            ("relid", oid(&progress.table)),
            ("relname", text(bare(&progress.table))),
            ("automatic", Datum::Bool(progress.automatic)),
            ("phase", text(phase)),
            ("heap_blks_total", number(progress.heap_blocks)),
            ("heap_blks_scanned", number(progress.heap_blocks_done)),
            ("index_vacuum_count", number(progress.index_passes)),
            ("index_blks_total", number(progress.index_blocks)),
            ("index_blks_vacuumed", number(progress.index_blocks_done)),
            ("num_dead_tuples", number(progress.dead_rows)),
        ];
        let is_told = |name: &str| view.columns.iter().any(|(known, _)| *known == name);
        figures::row_of(view, known.into_iter().filter(|(name, _)| is_told(name)).collect())
    };
    Ok(running.into_iter().map(one).collect())
}

fn snapshots(db: &Database) -> Vec<Row> {
    let one = |info: rightlink::SnapshotInfo| {
        vec![
            number(info.transaction),
            number(info.snapshots),
            Datum::Float8(info.age.as_secs_f64()),
            number(info.commits_since),
        ]
    };
    db.snapshots().into_iter().map(one).collect()
}

/// What the store counts, as `rightlink stat` shows it.
fn figures_since_opened(db: &Database) -> Vec<Row> {
    let one = |(name, value): (&str, u64)| vec![text(name), number(value)];
    db.stats().figures.into_iter().map(one).collect()
}

fn settings(session: &SessionInfo<'_>) -> Vec<Row> {
    let optional = |value: Option<&str>| value.map_or(Datum::Null, text);
    let bound = |value: Option<i64>| value.map_or(Datum::Null, |value| text(value.to_string()));
    let one = |shown: Shown| {
        vec![
            text(shown.name),
            text(shown.value),
            optional(shown.unit),
            text(shown.category),
            optional(shown.text),
            Datum::Null,
            text(shown.context),
            text(shown.kind),
            text(shown.source),
            bound(shown.least),
            bound(shown.most),
            list(&shown.choices),
            optional(shown.boot),
            text(shown.reset),
            // There are no files of settings.
            Datum::Null,
            Datum::Null,
            Datum::Bool(false),
        ]
    };
    session.settings.all(session.modes).into_iter().map(one).collect()
}

/// An array of texts, null for none.
fn list(values: &[&str]) -> Datum {
    let element = ElementType::of(SqlType::Text).expect("it is an element");
    let array = Array::of(element, values.iter().map(|value| text(*value)).collect());
    array.ok().filter(|_| !values.is_empty()).map_or(Datum::Null, Datum::from)
}
