//! Relations that are made up from what the store knows: catalogs, settings, statistics, pages of
//! indexes.
//!
//! | file | hides |
//! |---|---|
//! | `catalogs.txt`, `information.txt` | columns of `pg_catalog` and `information_schema` |
//! | `own` | settings, statistics, functions |
//! | `listed` | reading the lists |
//!
//! Invariants: columns, their order and their types are those of PostgreSQL 15. Types that are not
//! here are told as the nearest one (`docs/sql.md`).
//! Does not do: their rows (`catalog::views`).

mod listed;
mod own;

use std::collections::HashMap;
use std::sync::OnceLock;

pub(crate) use own::SEQUENCE;

use crate::types::SqlType;
use listed::listed;

/// A relation, or a function in FROM.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) name: &'static str,
    /// Its number in PostgreSQL; 0 if it has none.
    pub(crate) oid: u32,
    pub(crate) kind: Kind,
    pub(crate) columns: &'static [(&'static str, SqlType)],
    /// Types of the arguments, if it is a function.
    pub(crate) args: &'static [SqlType],
    pub(crate) told: Told,
}

/// The properties of a relation that catalogs tell beside its columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// Is it a table in PostgreSQL, and not a view?
    pub(crate) is_table: bool,
    pub(crate) is_shared: bool,
    /// Numbers of the type of its rows and of arrays of them.
    pub(crate) row_type: u32,
    pub(crate) array_type: u32,
    /// A column that is not listed may be null, and has its type from no domain.
    pub(crate) columns: &'static [ToldColumn],
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ToldColumn {
    pub(crate) is_required: bool,
    /// The domain of `information_schema` that it has its type from.
    pub(crate) domain: Option<Domain>,
}

/// A domain that is there without being made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Domain {
    pub(crate) oid: u32,
    pub(crate) name: &'static str,
    /// The type below it as the standard calls it, and its name in `pg_type`.
    pub(crate) base: &'static str,
    pub(crate) base_name: &'static str,
}

impl Told {
    /// Of a view whose type has the numbers behind its own.
    pub(super) const fn view(oid: u32) -> Told {
        let (array_type, row_type) = if oid == 0 { (0, 0) } else { (oid + 1, oid + 2) };
        Told { is_table: false, is_shared: false, row_type, array_type, columns: &[] }
    }
}

/// What its rows are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// There is nothing of the kind.
    Nothing,
    /// No rows: what functions of the statement look up.
    Lookups,
    /// The same in every database.
    Fixed(&'static str),
    Type,
    Enum,
    Namespace,
    Collation,
    Class,
    Attribute,
    AttributeDefault,
    Index,
    Constraint,
    Depend,
    Tables,
    Views,
    MaterializedViews,
    Indexes,
    Sequences,
    Sequence,
    Description,
    SharedDescription,
    Database,
    AuthId,
    Roles,
    Users,
    Groups,
    AuthMembers,
    DefaultAcl,
    /// Privileges that were there at the beginning.
    FirstPrivileges,
    /// What roles have settings for.
    RoleSettings,
    Rewrite,
    Function,
    ColumnStatistics,
    /// The same of all tables, as they are kept.
    KeptStatistics,
    VacuumProgress,
    Snapshots,
    Figures,
    TableUse,
    IndexUse,
    TableBlocks,
    IndexBlocks,
    SequenceBlocks,
    Activity,
    DatabaseUse,
    Checkpoints,
    LogUse,
    PageUse,
    Cursors,
    PreparedStatements,
    PreparedTransactions,
    Locks,
    Settings,
    ZoneNames,
    ZoneAbbreviations,
    TreeMeta,
    TreePage,
    TreeItems,
    TreeStatistics,
    /// A relation of `information_schema`.
    Information(Information),
    SequencePosition,
    Tuples,
    Keywords,
}

/// What a column of a relation tells that changes without a definition.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LiveColumn {
    Size(SizeColumn),
    /// How a table or an index was used.
    Use,
}

/// What a column of a relation tells of sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SizeColumn {
    Blocks,
    /// Those of them whose rows everybody sees.
    Visible,
}

/// What a relation of `information_schema` is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Information {
    Schemata,
    Routines,
    Parameters,
    Tables,
    Columns,
    Domains,
    DomainConstraints,
    Views,
    TableConstraints,
    KeyColumns,
    ReferentialConstraints,
    CheckConstraints,
    ColumnColumns,
    ConstraintColumns,
    ConstraintTables,
    Sequences,
    CatalogName,
    EnabledRoles,
    ApplicableRoles,
    /// Those of them that may be given on.
    AdministrableRoles,
    /// `own`: without those that only everybody has.
    TablePrivileges {
        own: bool,
    },
    ColumnPrivileges {
        own: bool,
    },
    UsagePrivileges {
        own: bool,
    },
    CharacterSets,
}

impl Information {
    /// Are its rows other ones for another role?
    pub(crate) fn depends_on_role(self) -> bool {
        matches!(
            self,
            Information::EnabledRoles
                | Information::ApplicableRoles
                | Information::AdministrableRoles
                | Information::TablePrivileges { .. }
                | Information::ColumnPrivileges { .. }
                | Information::UsagePrivileges { .. }
        )
    }
}

/// A schema with relations that are made up.
struct Schema {
    name: &'static str,
    views: Vec<View>,
}

/// What functions look up that read catalogs.
pub(crate) static LOOKUPS: View = View {
    name: "lookups",
    oid: 0,
    kind: Kind::Lookups,
    columns: &[],
    args: &[],
    told: Told::view(0),
};

fn schemas() -> &'static [Schema; 2] {
    static SCHEMAS: OnceLock<[Schema; 2]> = OnceLock::new();
    SCHEMAS.get_or_init(|| {
        let catalogs = include_str!("catalogs.txt");
        let information = include_str!("information.txt");
        [
            Schema { name: "pg_catalog", views: listed(catalogs, catalog_kind) },
            Schema { name: "information_schema", views: listed(information, information_kind) },
        ]
    })
}

fn catalog_kind(name: &str) -> Kind {
    match name {
        "pg_am" => Kind::Fixed(include_str!("../../catalog/builtin/pg_am.tsv")),
        "pg_cast" => Kind::Fixed(include_str!("../../catalog/builtin/pg_cast.tsv")),
        "pg_language" => Kind::Fixed(include_str!("../../catalog/builtin/pg_language.tsv")),
        "pg_opclass" => Kind::Fixed(include_str!("../../catalog/builtin/pg_opclass.tsv")),
        "pg_operator" => Kind::Fixed(include_str!("../../catalog/builtin/pg_operator.tsv")),
        "pg_opfamily" => Kind::Fixed(include_str!("../../catalog/builtin/pg_opfamily.tsv")),
        "pg_proc" => Kind::Function,
        "pg_tablespace" => Kind::Fixed(include_str!("../../catalog/builtin/pg_tablespace.tsv")),
        "pg_type" => Kind::Type,
        "pg_enum" => Kind::Enum,
        "pg_amop" => Kind::Fixed(include_str!("../../catalog/builtin/pg_amop.tsv")),
        "pg_amproc" => Kind::Fixed(include_str!("../../catalog/builtin/pg_amproc.tsv")),
        "pg_auth_members" => Kind::AuthMembers,
        "pg_db_role_setting" => Kind::RoleSettings,
        "pg_default_acl" => Kind::DefaultAcl,
        "pg_group" => Kind::Groups,
        "pg_attrdef" => Kind::AttributeDefault,
        "pg_attribute" => Kind::Attribute,
        "pg_authid" => Kind::AuthId,
        "pg_class" => Kind::Class,
        "pg_collation" => Kind::Collation,
        "pg_constraint" => Kind::Constraint,
        "pg_database" => Kind::Database,
        "pg_depend" => Kind::Depend,
        "pg_description" => Kind::Description,
        "pg_index" => Kind::Index,
        "pg_indexes" => Kind::Indexes,
        "pg_init_privs" => Kind::FirstPrivileges,
        "pg_namespace" => Kind::Namespace,
        "pg_rewrite" => Kind::Rewrite,
        "pg_roles" => Kind::Roles,
        "pg_sequence" => Kind::Sequence,
        "pg_sequences" => Kind::Sequences,
        "pg_shadow" | "pg_user" => Kind::Users,
        "pg_shdescription" => Kind::SharedDescription,
        "pg_tables" => Kind::Tables,
        "pg_timezone_abbrevs" => Kind::ZoneAbbreviations,
        "pg_timezone_names" => Kind::ZoneNames,
        "pg_views" => Kind::Views,
        "pg_matviews" => Kind::MaterializedViews,
        "pg_cursors" => Kind::Cursors,
        "pg_locks" => Kind::Locks,
        "pg_prepared_statements" => Kind::PreparedStatements,
        "pg_prepared_xacts" => Kind::PreparedTransactions,
        "pg_settings" => Kind::Settings,
        "pg_stat_activity" => Kind::Activity,
        "pg_stat_all_indexes" | "pg_stat_user_indexes" => Kind::IndexUse,
        "pg_statio_all_tables" | "pg_statio_user_tables" => Kind::TableBlocks,
        "pg_statio_all_indexes" | "pg_statio_user_indexes" => Kind::IndexBlocks,
        "pg_statio_all_sequences" | "pg_statio_user_sequences" => Kind::SequenceBlocks,
        "pg_stat_all_tables" | "pg_stat_user_tables" => Kind::TableUse,
        "pg_stat_bgwriter" => Kind::Checkpoints,
        "pg_stat_database" => Kind::DatabaseUse,
        "pg_stat_io" => Kind::PageUse,
        "pg_stat_progress_vacuum" => Kind::VacuumProgress,
        "pg_stat_wal" => Kind::LogUse,
        "pg_statistic" => Kind::KeptStatistics,
        "pg_stats" => Kind::ColumnStatistics,
        _ => Kind::Nothing,
    }
}

/// Rows of `pg_type` about types that are there without being made.
pub(crate) const FUNCTIONS: &str = include_str!("../../catalog/builtin/pg_proc.tsv");
pub(crate) const TYPES: &str = include_str!("../../catalog/builtin/pg_type.tsv");

fn information_kind(name: &str) -> Kind {
    let about = match name {
        "character_sets" => Information::CharacterSets,
        "check_constraints" => Information::CheckConstraints,
        "administrable_role_authorizations" => Information::AdministrableRoles,
        "applicable_roles" => Information::ApplicableRoles,
        "column_privileges" => Information::ColumnPrivileges { own: false },
        "role_column_grants" => Information::ColumnPrivileges { own: true },
        "usage_privileges" => Information::UsagePrivileges { own: false },
        "role_usage_grants" => Information::UsagePrivileges { own: true },
        "columns" => Information::Columns,
        "domains" => Information::Domains,
        "domain_constraints" => Information::DomainConstraints,
        "column_column_usage" => Information::ColumnColumns,
        "constraint_column_usage" => Information::ConstraintColumns,
        "constraint_table_usage" => Information::ConstraintTables,
        "enabled_roles" => Information::EnabledRoles,
        "information_schema_catalog_name" => Information::CatalogName,
        "key_column_usage" => Information::KeyColumns,
        "referential_constraints" => Information::ReferentialConstraints,
        "schemata" => Information::Schemata,
        "routines" => Information::Routines,
        "parameters" => Information::Parameters,
        "sequences" => Information::Sequences,
        "table_privileges" => Information::TablePrivileges { own: false },
        "role_table_grants" => Information::TablePrivileges { own: true },
        "table_constraints" => Information::TableConstraints,
        "tables" => Information::Tables,
        "views" => Information::Views,
        _ => return Kind::Nothing,
    };
    Kind::Information(about)
}

impl View {
    /// Has it `tableoid`? A catalog begins with a number that each of its rows has.
    pub(crate) fn has_table_number(&self) -> bool {
        matches!(self.columns, [(_, SqlType::Oid | SqlType::Reg(_)), ..]) && self.oid != 0
    }

    /// What a column tells, if that changes without a definition.
    pub(crate) fn live_at(&self, at: usize) -> Option<LiveColumn> {
        match (self.kind, self.columns[at].0) {
            (Kind::Class, "relpages") => Some(LiveColumn::Size(SizeColumn::Blocks)),
            (Kind::Class, "relallvisible") => Some(LiveColumn::Size(SizeColumn::Visible)),
            (Kind::TableUse | Kind::IndexUse, name) => {
                let names = ["relid", "indexrelid", "schemaname", "relname", "indexrelname"];
                (!names.contains(&name)).then_some(LiveColumn::Use)
            }
            _ => None,
        }
    }

    /// The place of the number of the object that a row with such columns is about.
    pub(crate) fn number_at(&self) -> usize {
        usize::from(self.kind == Kind::IndexUse)
    }

    /// Is it called with arguments, or with none, and no relation?
    fn is_function(&self) -> bool {
        !self.args.is_empty() || self.kind == Kind::Keywords
    }
}

/// The relation of a name; a schema in front must be that of the catalogs.
pub(crate) fn relation(parts: &[String]) -> Option<&'static View> {
    let (schema, name) = match parts {
        [name] => (&schemas()[0], name),
        [schema, name] => (schemas().iter().find(|one| one.name == schema)?, name),
        _ => return None,
    };
    let own =
        own::OWN.iter().filter(|view| schema.name == schemas()[0].name && !view.is_function());
    schema.views.iter().chain(own).find(|view| view.name == *name)
}

/// A relation with its schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub(crate) schema: &'static str,
    pub(crate) view: &'static View,
}

impl Placed {
    /// Its name, with the schema in front unless every path leads to it.
    pub(crate) fn shown(&self) -> String {
        match self.is_visible() {
            true => self.view.name.to_owned(),
            false => format!("{}.{}", self.schema, self.view.name),
        }
    }

    /// Does its name alone mean it?
    pub(crate) fn is_visible(&self) -> bool {
        self.schema == schemas()[0].name
    }
}

/// Relations that have a number.
pub(crate) fn numbered() -> impl Iterator<Item = Placed> {
    let own = own::OWN.iter().filter(|view| view.oid != 0);
    let own = own.map(|view| Placed { schema: schemas()[0].name, view });
    let listed = |schema: &'static Schema| {
        schema.views.iter().map(|view| Placed { schema: schema.name, view })
    };
    schemas().iter().flat_map(listed).chain(own)
}

/// The relation that has a number in PostgreSQL.
pub(crate) fn of_oid(oid: u32) -> Option<Placed> {
    static NUMBERED: OnceLock<HashMap<u32, Placed>> = OnceLock::new();
    let of_number = || numbered().map(|placed| (placed.view.oid, placed)).collect();
    NUMBERED.get_or_init(of_number).get(&oid).copied()
}

/// The relation whose rows have the type of a number, or of whose rows it is the type of arrays.
pub(crate) fn of_row_type(number: u32) -> Option<Placed> {
    static TYPES: OnceLock<HashMap<u32, Placed>> = OnceLock::new();
    let types = |placed: Placed| {
        let told = &placed.view.told;
        [told.row_type, told.array_type].map(|number| (number, placed))
    };
    TYPES.get_or_init(|| numbered().flat_map(types).collect()).get(&number).copied()
}

/// The schema of a type that is there without being made.
pub(crate) fn schema_of_type(number: u32) -> Option<&'static str> {
    match of_row_type(number) {
        Some(placed) => Some(placed.schema),
        None => listed::is_domain(number).then_some(schemas()[1].name),
    }
}

/// The function of a name.
pub(crate) fn function(name: &str) -> Option<&'static View> {
    own::OWN.iter().find(|view| view.name == name && view.is_function())
}
