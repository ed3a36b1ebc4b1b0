//! CREATE, ALTER and DROP ROLE, GRANT, REVOKE and their kind, read from their tokens.
//!
//! Invariants: what is refused is refused by name: privileges on columns, on functions, on types.
//! Does not do: what the names mean (`session::roles`, `session::grants`).

use sqlparser::tokenizer::Token;

use crate::error::{Result, SqlError, code};
use crate::parse::cursor::Cursor;
use crate::parse::functions::{self, Signature};
use crate::privileges::{ObjectKind, Privileges};

/// A role, as a statement names it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RoleName {
    Named(String),
    /// CURRENT_USER, CURRENT_ROLE
    Current,
    /// SESSION_USER
    Session,
    /// PUBLIC
    Everybody,
}

/// What CREATE or ALTER ROLE says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RoleOption {
    /// A word that switches an attribute, and whether it is on.
    Switch(&'static str, bool),
    Limit(i64),
    /// `None` is NULL.
    Password(Option<String>),
    ValidUntil(String),
    /// The new role is a member of these.
    In(Vec<RoleName>),
    /// These are members of the new one, with the right to give the membership on.
    Members(Vec<RoleName>, bool),
}

/// Objects that privileges are on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Objects {
    /// Tables or sequences, by their names.
    Relations(ObjectKind, Vec<Vec<String>>),
    /// Schemas or databases.
    Named(ObjectKind, Vec<String>),
    /// All tables or sequences of schemas.
    AllIn(ObjectKind, Vec<String>),
}

/// GRANT or REVOKE of privileges.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PrivilegeChange {
    /// None: ALL.
    pub(crate) privileges: Option<Privileges>,
    pub(crate) roles: Vec<RoleName>,
    pub(crate) grants: bool,
    /// WITH GRANT OPTION, or GRANT OPTION FOR.
    pub(crate) options: bool,
    pub(crate) by: Option<RoleName>,
    pub(crate) cascade: bool,
}

/// GRANT or REVOKE of roles.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MembershipChange {
    pub(crate) roles: Vec<RoleName>,
    pub(crate) members: Vec<RoleName>,
    pub(crate) grants: bool,
    /// WITH ADMIN OPTION, or ADMIN OPTION FOR.
    pub(crate) admin: bool,
    pub(crate) by: Option<RoleName>,
    pub(crate) cascade: bool,
}

/// A statement about roles or privileges.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RoleStatement {
    Create {
        name: String,
        options: Vec<RoleOption>,
    },
    Alter {
        role: RoleName,
        options: Vec<RoleOption>,
    },
    Rename {
        name: String,
        to: String,
    },
    /// ALTER ROLE SET or RESET; no setting: RESET ALL, no value: RESET.
    Configure {
        role: RoleName,
        setting: Option<String>,
        value: Option<Vec<String>>,
    },
    Drop {
        names: Vec<RoleName>,
        if_exists: bool,
    },
    Privileges {
        objects: Objects,
        change: PrivilegeChange,
    },
    Membership(MembershipChange),
    /// ALTER DEFAULT PRIVILEGES
    Defaults {
        roles: Vec<RoleName>,
        schemas: Vec<String>,
        kind: ObjectKind,
        change: PrivilegeChange,
    },
    Reassign {
        from: Vec<RoleName>,
        to: RoleName,
    },
    DropOwned {
        roles: Vec<RoleName>,
        cascade: bool,
    },
    /// COMMENT ON ROLE, `None` is NULL.
    Comment {
        name: String,
        text: Option<String>,
    },
    /// ALTER FUNCTION .. OWNER TO
    OwnFunction {
        function: Signature,
        role: RoleName,
    },
    /// ALTER TABLE, VIEW, SEQUENCE, SCHEMA .. OWNER TO
    Own {
        kind: OwnedKind,
        name: Vec<String>,
        if_exists: bool,
        role: RoleName,
    },
}

/// What an ALTER .. OWNER TO says that the object is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum OwnedKind {
    Table,
    View,
    MaterializedView,
    Sequence,
    Schema,
    Database,
    Type,
    Domain,
}

/// Kinds of objects on which nobody has privileges here.
const OTHERS: [&str; 10] = [
    "function",
    "procedure",
    "routine",
    "language",
    "large",
    "parameter",
    "tablespace",
    "type",
    "domain",
    "foreign",
];
/// Words that switch attributes.
const SWITCHES: [&str; 7] =
    ["superuser", "inherit", "createrole", "createdb", "login", "replication", "bypassrls"];
const SWITCHES_OFF: [&str; 7] = [
    "nosuperuser",
    "noinherit",
    "nocreaterole",
    "nocreatedb",
    "nologin",
    "noreplication",
    "nobypassrls",
];

/// Reads a statement about roles, if it is one.
pub(crate) fn statement(cursor: &mut Cursor) -> Result<Option<RoleStatement>> {
    let of_role = ["role", "user", "group"].iter().any(|word| cursor.is_at(1, word));
    if cursor.is("grant") || cursor.is("revoke") {
        return grant(cursor).map(Some);
    }
    if cursor.is("create") && of_role && !cursor.is_at(2, "mapping") {
        return create(cursor).map(Some);
    }
    if cursor.is("alter") && of_role && !cursor.is_at(2, "mapping") {
        return alter(cursor).map(Some);
    }
    if cursor.is("drop") && of_role && !cursor.is_at(2, "mapping") {
        return drop_roles(cursor).map(Some);
    }
    if cursor.is("drop") && cursor.is_at(1, "owned") {
        return drop_owned(cursor).map(Some);
    }
    if cursor.is("reassign") && cursor.is_at(1, "owned") {
        return reassign(cursor).map(Some);
    }
    if cursor.is("alter") && cursor.is_at(1, "default") && cursor.is_at(2, "privileges") {
        return defaults(cursor).map(Some);
    }
    if cursor.is("comment") && cursor.is_at(1, "on") && cursor.is_at(2, "role") {
        return comment(cursor).map(Some);
    }
    owner(cursor)
}

fn role_name(cursor: &mut Cursor) -> Result<RoleName> {
    cursor.take("group");
    Ok(match cursor.take_any(&["current_user", "current_role", "session_user", "public"]) {
        Some("session_user") => RoleName::Session,
        Some("public") => RoleName::Everybody,
        Some(_) => RoleName::Current,
        None => RoleName::Named(cursor.name()?),
    })
}

fn role_names(cursor: &mut Cursor) -> Result<Vec<RoleName>> {
    let mut all = vec![role_name(cursor)?];
    while cursor.take_token(&Token::Comma) {
        all.push(role_name(cursor)?);
    }
    Ok(all)
}

fn names(cursor: &mut Cursor) -> Result<Vec<String>> {
    let mut all = vec![cursor.name()?];
    while cursor.take_token(&Token::Comma) {
        all.push(cursor.name()?);
    }
    Ok(all)
}

fn qualified_names(cursor: &mut Cursor) -> Result<Vec<Vec<String>>> {
    let mut all = vec![cursor.qualified()?];
    while cursor.take_token(&Token::Comma) {
        all.push(cursor.qualified()?);
    }
    Ok(all)
}

fn create(cursor: &mut Cursor) -> Result<RoleStatement> {
    cursor.expect("create")?;
    let is_user = cursor.take_any(&["role", "user", "group"]) == Some("user");
    let name = cursor.name()?;
    let mut options = Vec::new();
    if is_user {
        options.push(RoleOption::Switch("login", true));
    }
    cursor.take("with");
    while let Some(option) = role_option(cursor, true)? {
        add(&mut options, option, is_user)?;
    }
    cursor.end()?;
    Ok(RoleStatement::Create { name, options })
}

/// Adds an option that may be said once; LOGIN of CREATE USER may be said again.
fn add(options: &mut Vec<RoleOption>, option: RoleOption, is_user: bool) -> Result<()> {
    let same = |known: &RoleOption| match (known, &option) {
        (RoleOption::Switch(a, _), RoleOption::Switch(b, _)) => a == b,
        (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
    };
    let from = usize::from(is_user);
    if options.iter().skip(from).any(same) {
        return Err(SqlError::syntax("conflicting or redundant options"));
    }
    options.push(option);
    Ok(())
}

fn role_option(cursor: &mut Cursor, creates: bool) -> Result<Option<RoleOption>> {
    if let Some(word) = cursor.take_any(&SWITCHES) {
        return Ok(Some(RoleOption::Switch(word, true)));
    }
    if let Some(word) = cursor.take_any(&SWITCHES_OFF) {
        let at = SWITCHES_OFF.iter().position(|known| *known == word);
        let word = SWITCHES[at.expect("it was found among them")];
        return Ok(Some(RoleOption::Switch(word, false)));
    }
    if cursor.take("connection") {
        cursor.expect("limit")?;
        let limit = cursor.number().ok_or_else(|| cursor.unexpected())?;
        return Ok(Some(RoleOption::Limit(limit)));
    }
    if cursor.take("unencrypted") {
        let message = "UNENCRYPTED PASSWORD is no longer supported";
        return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message)
            .hint("Remove UNENCRYPTED to store the password in encrypted form instead."));
    }
    cursor.take("encrypted");
    if cursor.take("password") {
        return Ok(Some(RoleOption::Password(match cursor.take("null") {
            true => None,
            false => Some(cursor.string().ok_or_else(|| cursor.unexpected())?),
        })));
    }
    if cursor.take("valid") {
        cursor.expect("until")?;
        let until = cursor.string().ok_or_else(|| cursor.unexpected())?;
        return Ok(Some(RoleOption::ValidUntil(until)));
    }
    if !creates {
        return Ok(None);
    }
    if cursor.take("in") {
        cursor.take_any(&["role", "group"]).ok_or_else(|| cursor.unexpected())?;
        return Ok(Some(RoleOption::In(role_names(cursor)?)));
    }
    match cursor.take_any(&["role", "user", "admin", "sysid"]) {
        Some("admin") => Ok(Some(RoleOption::Members(role_names(cursor)?, true))),
        Some("sysid") => Err(SqlError::unsupported("SYSID")),
        Some(_) => Ok(Some(RoleOption::Members(role_names(cursor)?, false))),
        None => Ok(None),
    }
}

fn alter(cursor: &mut Cursor) -> Result<RoleStatement> {
    cursor.expect("alter")?;
    let is_group = cursor.take_any(&["role", "user", "group"]) == Some("group");
    if cursor.is("all") {
        return Err(SqlError::unsupported("ALTER ROLE ALL"));
    }
    let role = role_name(cursor)?;
    if cursor.take("rename") {
        cursor.expect("to")?;
        let RoleName::Named(name) = role else { return Err(cursor.unexpected()) };
        let to = cursor.name()?;
        cursor.end()?;
        return Ok(RoleStatement::Rename { name, to });
    }
    if is_group && let Some(word) = cursor.take_any(&["add", "drop"]) {
        cursor.expect("user")?;
        let (roles, members, grants) = (vec![role], role_names(cursor)?, word == "add");
        let (admin, by, cascade) = (false, None, false);
        let change = MembershipChange { roles, members, grants, admin, by, cascade };
        return Ok(RoleStatement::Membership(change));
    }
    if cursor.is("in") && cursor.is_at(1, "database") {
        return Err(SqlError::unsupported("ALTER ROLE IN DATABASE"));
    }
    if cursor.take("set") {
        return configure(cursor, role);
    }
    if cursor.take("reset") {
        let setting = match cursor.take("all") {
            true => None,
            false => Some(cursor.qualified()?.join(".")),
        };
        cursor.end()?;
        return Ok(RoleStatement::Configure { role, setting, value: None });
    }
    cursor.take("with");
    let mut options = Vec::new();
    while let Some(option) = role_option(cursor, false)? {
        add(&mut options, option, false)?;
    }
    cursor.end()?;
    Ok(RoleStatement::Alter { role, options })
}

fn configure(cursor: &mut Cursor, role: RoleName) -> Result<RoleStatement> {
    let setting = match cursor.take("time") {
        true => {
            cursor.expect("zone")?;
            "timezone".to_owned()
        }
        false => cursor.qualified()?.join("."),
    };
    if cursor.take("from") {
        return Err(SqlError::unsupported("ALTER ROLE SET FROM CURRENT"));
    }
    if !cursor.take_token(&Token::Eq) && !cursor.take("to") && setting != "timezone" {
        return Err(cursor.unexpected());
    }
    if cursor.take("default") {
        return Ok(RoleStatement::Configure { role, setting: Some(setting), value: None });
    }
    let mut values = Vec::new();
    loop {
        values.push(cursor.value().ok_or_else(|| cursor.unexpected())?);
        if !cursor.take_token(&Token::Comma) {
            break;
        }
    }
    cursor.end()?;
    Ok(RoleStatement::Configure { role, setting: Some(setting), value: Some(values) })
}

fn drop_roles(cursor: &mut Cursor) -> Result<RoleStatement> {
    cursor.expect("drop")?;
    cursor.take_any(&["role", "user", "group"]);
    let if_exists = cursor.take("if");
    if if_exists {
        cursor.expect("exists")?;
    }
    let names = role_names(cursor)?;
    cursor.end()?;
    Ok(RoleStatement::Drop { names, if_exists })
}

fn drop_owned(cursor: &mut Cursor) -> Result<RoleStatement> {
    for word in ["drop", "owned", "by"] {
        cursor.expect(word)?;
    }
    let roles = role_names(cursor)?;
    let cascade = cursor.take_any(&["cascade", "restrict"]) == Some("cascade");
    cursor.end()?;
    Ok(RoleStatement::DropOwned { roles, cascade })
}

fn reassign(cursor: &mut Cursor) -> Result<RoleStatement> {
    for word in ["reassign", "owned", "by"] {
        cursor.expect(word)?;
    }
    let from = role_names(cursor)?;
    cursor.expect("to")?;
    let to = role_name(cursor)?;
    cursor.end()?;
    Ok(RoleStatement::Reassign { from, to })
}

fn comment(cursor: &mut Cursor) -> Result<RoleStatement> {
    for word in ["comment", "on", "role"] {
        cursor.expect(word)?;
    }
    let name = cursor.name()?;
    cursor.expect("is")?;
    let text = match cursor.take("null") {
        true => None,
        false => Some(cursor.string().ok_or_else(|| cursor.unexpected())?),
    };
    Ok(RoleStatement::Comment { name, text })
}

/// GRANT or REVOKE.
fn grant(cursor: &mut Cursor) -> Result<RoleStatement> {
    let is_of_privileges = cursor.distance_to("on").is_some();
    let grants = cursor.take_any(&["grant", "revoke"]) == Some("grant");
    if !is_of_privileges {
        return membership(cursor, grants).map(RoleStatement::Membership);
    }
    let (privileges, options) = privileges(cursor, grants)?;
    cursor.expect("on")?;
    let objects = objects(cursor)?;
    let change = grantees(cursor, privileges, grants, options)?;
    Ok(RoleStatement::Privileges { objects, change })
}

fn membership(cursor: &mut Cursor, grants: bool) -> Result<MembershipChange> {
    let mut admin = false;
    if !grants && cursor.is("admin") && cursor.is_at(1, "option") {
        for word in ["admin", "option", "for"] {
            cursor.expect(word)?;
        }
        admin = true;
    }
    let roles = role_names(cursor)?;
    cursor.expect(if grants { "to" } else { "from" })?;
    let members = role_names(cursor)?;
    if grants && cursor.take("with") {
        cursor.expect("admin")?;
        cursor.expect("option")?;
        admin = true;
    }
    let by = granted_by(cursor)?;
    let cascade = !grants && cursor.take_any(&["cascade", "restrict"]) == Some("cascade");
    cursor.end()?;
    Ok(MembershipChange { roles, members, grants, admin, by, cascade })
}

fn granted_by(cursor: &mut Cursor) -> Result<Option<RoleName>> {
    if !cursor.take("granted") {
        return Ok(None);
    }
    cursor.expect("by")?;
    role_name(cursor).map(Some)
}

/// A list of privileges, `None` for ALL; and GRANT OPTION FOR.
fn privileges(cursor: &mut Cursor, grants: bool) -> Result<(Option<Privileges>, bool)> {
    let mut options = false;
    if !grants && cursor.is("grant") && cursor.is_at(1, "option") {
        for word in ["grant", "option", "for"] {
            cursor.expect(word)?;
        }
        options = true;
    }
    if cursor.take("all") {
        cursor.take("privileges");
        refuse_columns(cursor)?;
        return Ok((None, options));
    }
    let mut all = Privileges::NONE;
    loop {
        let word = cursor.name()?;
        let one = Privileges::named(&word)
            .ok_or_else(|| SqlError::syntax(format!("unrecognized privilege type \"{word}\"")))?;
        refuse_columns(cursor)?;
        all = all.and(one);
        if !cursor.take_token(&Token::Comma) {
            return Ok((Some(all), options));
        }
    }
}

fn refuse_columns(cursor: &mut Cursor) -> Result<()> {
    match cursor.take_token(&Token::LParen) {
        true => Err(SqlError::unsupported("privileges on columns")),
        false => Ok(()),
    }
}

fn objects(cursor: &mut Cursor) -> Result<Objects> {
    if cursor.take("all") {
        let kind = match cursor.take_any(&[
            "tables",
            "sequences",
            "functions",
            "procedures",
            "routines",
        ]) {
            Some("tables") => ObjectKind::Table,
            Some("sequences") => ObjectKind::Sequence,
            Some(other) => return Err(refused(other)),
            None => return Err(cursor.unexpected()),
        };
        cursor.expect("in")?;
        cursor.expect("schema")?;
        return Ok(Objects::AllIn(kind, names(cursor)?));
    }
    // A table may be called so.
    let is_kind = !cursor.is_at(1, "to") && !cursor.is_at(1, "from");
    if is_kind && let Some(other) = cursor.take_any(&OTHERS) {
        return Err(refused(other));
    }
    match cursor.take_any(&["table", "sequence", "schema", "database"]) {
        Some("sequence") => Ok(Objects::Relations(ObjectKind::Sequence, qualified_names(cursor)?)),
        Some("schema") => Ok(Objects::Named(ObjectKind::Schema, names(cursor)?)),
        Some("database") => Ok(Objects::Named(ObjectKind::Database, names(cursor)?)),
        _ => Ok(Objects::Relations(ObjectKind::Table, qualified_names(cursor)?)),
    }
}

fn refused(what: &str) -> SqlError {
    let what = what.to_uppercase();
    SqlError::unsupported(format!("privileges on {what} objects"))
}

/// What follows the objects: to or from whom.
fn grantees(
    cursor: &mut Cursor,
    privileges: Option<Privileges>,
    grants: bool,
    options: bool,
) -> Result<PrivilegeChange> {
    cursor.expect(if grants { "to" } else { "from" })?;
    let roles = role_names(cursor)?;
    let mut options = options;
    if grants && cursor.take("with") {
        cursor.expect("grant")?;
        cursor.expect("option")?;
        options = true;
    }
    let by = granted_by(cursor)?;
    let cascade = !grants && cursor.take_any(&["cascade", "restrict"]) == Some("cascade");
    cursor.end()?;
    Ok(PrivilegeChange { privileges, roles, grants, options, by, cascade })
}

fn defaults(cursor: &mut Cursor) -> Result<RoleStatement> {
    for word in ["alter", "default", "privileges"] {
        cursor.expect(word)?;
    }
    let (mut roles, mut schemas) = (Vec::new(), Vec::new());
    loop {
        if cursor.take("for") {
            cursor.take_any(&["role", "user"]).ok_or_else(|| cursor.unexpected())?;
            roles = role_names(cursor)?;
        } else if cursor.take("in") {
            cursor.expect("schema")?;
            schemas = names(cursor)?;
        } else {
            break;
        }
    }
    let word = cursor.take_any(&["grant", "revoke"]).ok_or_else(|| cursor.unexpected())?;
    let grants = word == "grant";
    let (privileges, options) = privileges(cursor, grants)?;
    cursor.expect("on")?;
    let kinds = ["tables", "sequences", "schemas", "functions", "routines", "types"];
    let kind = match cursor.take_any(&kinds) {
        Some("tables") => ObjectKind::Table,
        Some("sequences") => ObjectKind::Sequence,
        Some("schemas") if schemas.is_empty() => ObjectKind::Schema,
        Some("schemas") => {
            let message = "cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS";
            return Err(SqlError::new(code::INVALID_GRANT, message));
        }
        Some(other) => return Err(refused(other)),
        None => return Err(cursor.unexpected()),
    };
    let change = grantees(cursor, privileges, grants, options)?;
    Ok(RoleStatement::Defaults { roles, schemas, kind, change })
}

/// ALTER .. OWNER TO; `None` for anything else.
fn owner(cursor: &mut Cursor) -> Result<Option<RoleStatement>> {
    let end = cursor.left();
    if !cursor.is("alter") || end < 5 || !cursor.is_at(end - 3, "owner") {
        return Ok(None);
    }
    if !cursor.is_at(end - 2, "to") {
        return Ok(None);
    }
    const KINDS: [&str; 9] = [
        "table",
        "view",
        "materialized",
        "sequence",
        "schema",
        "database",
        "type",
        "domain",
        "function",
    ];
    let kind = match KINDS.into_iter().find(|word| cursor.is_at(1, word)) {
        Some("table") => OwnedKind::Table,
        Some("view") => OwnedKind::View,
        Some("materialized") if cursor.is_at(2, "view") => OwnedKind::MaterializedView,
        Some("sequence") => OwnedKind::Sequence,
        Some("schema") => OwnedKind::Schema,
        Some("database") => OwnedKind::Database,
        Some("type") => OwnedKind::Type,
        Some("domain") => OwnedKind::Domain,
        Some("function") => {
            cursor.expect("alter")?;
            cursor.expect("function")?;
            let function = functions::signature(cursor)?;
            cursor.expect("owner")?;
            cursor.expect("to")?;
            let role = role_name(cursor)?;
            cursor.end()?;
            return Ok(Some(RoleStatement::OwnFunction { function, role }));
        }
        _ => return Ok(None),
    };
    let place = cursor.place();
    cursor.expect("alter")?;
    cursor.name()?;
    if kind == OwnedKind::MaterializedView {
        cursor.expect("view")?;
    }
    let if_exists = cursor.is("if") && cursor.is_at(1, "exists");
    if if_exists {
        cursor.expect("if")?;
        cursor.expect("exists")?;
    }
    cursor.take("only");
    let name = cursor.qualified()?;
    if !cursor.is("owner") {
        // One change of several.
        cursor.return_to(place);
        return Ok(None);
    }
    cursor.expect("owner")?;
    cursor.expect("to")?;
    let role = role_name(cursor)?;
    cursor.end()?;
    Ok(Some(RoleStatement::Own { kind, name, if_exists, role }))
}
