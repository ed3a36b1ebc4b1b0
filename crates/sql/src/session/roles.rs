//! Roles: making, changing and dropping them, membership, and as which one a session runs.
//!
//! PostgreSQL's `user.c` says who may do what; so does this file, at the head of each statement.
//!
//! Invariants: no role is a member of itself, through others either; a role that owns something or
//! has privileges stays.
//! Does not do: privileges on objects (`grants`).

use super::access::of_database;
use super::utility::written;
use super::{Session, Sink};
use crate::bind::ddl::Definition;
use crate::error::{Result, SqlError, code};
use crate::parse::roles::{MembershipChange, RoleName, RoleOption, RoleStatement};
use crate::privileges::Privileges;
use crate::roles::actor::Actor;
use crate::roles::rights::{denied_to, must};
use crate::roles::role::{
    self, Attributes, DATABASE_OWNER, Membership, OWNER, Role, Roles, no_role,
};
use crate::roles::{rights, verifier};
use crate::types::{Datum, SqlType, text};

/// Names that no role can have.
const RESERVED: [&str; 2] = ["public", "none"];

/// As whom a session has logged in.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Login {
    /// The number of the role, if the user is one.
    pub(super) role: Option<u32>,
}

impl Session {
    /// The session runs as the role that its user is, if there is one of that name; without this it
    /// may do everything, as the owner of the database may.
    ///
    /// # Errors
    /// `28000` for a role that may not log in, `53300` for one that has too many sessions, `42501`
    /// for one that may not connect to the database.
    pub fn log_in(&mut self) -> Result<()> {
        let result = self.find_login();
        self.abort();
        result
    }

    fn find_login(&mut self) -> Result<()> {
        let name = self.seat.name().to_owned();
        let txn = &mut self.ensure()?.txn;
        let Some(role) = role::made(txn, &name)? else { return Ok(()) };
        if !role.attributes.login {
            let message = format!("role \"{name}\" is not permitted to log in");
            return Err(SqlError::new("28000", message));
        }
        let limit = usize::try_from(role.attributes.connection_limit).unwrap_or(usize::MAX);
        let clients = self.seat.activity().all();
        let own = clients.iter().filter(|client| client.who.user == name).count();
        if own > limit && !role.attributes.superuser {
            let message = format!("too many connections for role \"{name}\"");
            return Err(SqlError::new("53300", message));
        }
        self.login = Login { role: Some(role.oid) };
        let actor = self.actor()?;
        let need = of_database(&self.database, Privileges::CONNECT);
        rights::check(&mut self.ensure()?.txn, &actor, &need)
            .map_err(|error| error.detail("User does not have CONNECT privilege."))?;
        for (name, value) in &role.settings {
            // What has become wrong since is as if it were not said.
            let _ = self.settings.set_at_start(name, value);
        }
        self.settings.runs_as_superuser(actor.is_superuser);
        Ok(())
    }

    /// As whom statements run now.
    pub(super) fn actor(&mut self) -> Result<Actor> {
        let identity = self.settings.identity();
        let named = identity.role.as_ref().or(identity.session.as_ref());
        if named.is_none() && self.login.role.is_none() {
            return Ok(Actor::unbounded(self.seat.user()));
        }
        let login = self.seat.user();
        let roles = Roles::load(&mut self.ensure()?.txn)?;
        let found = match named {
            Some(name) => roles.named(name),
            None => self.login.role.and_then(|oid| roles.numbered(oid)),
        };
        let name = named.unwrap_or(&login);
        match found {
            Some(role) => Ok(Actor::of(role, &roles)),
            None if self.login.role.is_none() && *name == login => Ok(Actor::unbounded(login)),
            None => Err(no_role(name)),
        }
    }

    /// As whom the session has logged in, or SET SESSION AUTHORIZATION says.
    pub(super) fn session_actor(&mut self) -> Result<Actor> {
        let roles = Roles::load(&mut self.ensure()?.txn)?;
        let identity = self.settings.identity();
        let found = match &identity.session {
            Some(name) => roles.named(name),
            None => self.login.role.and_then(|oid| roles.numbered(oid)),
        };
        match (found, &identity.session, self.login.role) {
            (Some(role), ..) => Ok(Actor::of(role, &roles)),
            (None, None, None) => Ok(Actor::unbounded(self.seat.user())),
            (None, name, _) => Err(no_role(name.as_deref().unwrap_or(self.seat.name()))),
        }
    }

    /// Fails unless the session may run as the role that a setting names.
    pub(super) fn check_identity(&mut self, setting: &str, value: &str) -> Result<()> {
        let login = self.login_actor()?;
        if setting == "session_authorization" {
            if value == self.seat.name() || login.is_superuser && self.knows_role(value)? {
                return Ok(());
            }
            if !login.is_superuser {
                return Err(denied_to("set session authorization"));
            }
            return Err(no_role(value));
        }
        if value == "none" {
            return Ok(());
        }
        let actor = self.session_actor()?;
        let roles = Roles::load(&mut self.ensure()?.txn)?;
        let role = match roles.named(value) {
            Some(role) => role,
            None if value == self.seat.name() && self.login.role.is_none() => return Ok(()),
            None => return Err(no_role(value)),
        };
        match actor.is_member_of(role.oid) {
            true => Ok(()),
            false => Err(denied_to(&format!("set role \"{value}\""))),
        }
    }

    fn knows_role(&mut self, name: &str) -> Result<bool> {
        Ok(Roles::load(&mut self.ensure()?.txn)?.named(name).is_some())
    }

    /// As whom the session has logged in, whatever was set since.
    fn login_actor(&mut self) -> Result<Actor> {
        let Some(oid) = self.login.role else { return Ok(Actor::unbounded(self.seat.user())) };
        let roles = Roles::load(&mut self.ensure()?.txn)?;
        let role = roles.numbered(oid).ok_or_else(|| no_role(self.seat.name()))?;
        Ok(Actor::of(role, &roles))
    }

    /// Clients know whether the session may do everything.
    pub(super) fn tell_identity(&mut self) -> Result<()> {
        let actor = self.actor()?;
        self.settings.runs_as_superuser(actor.is_superuser);
        Ok(())
    }

    /// The role that a statement names.
    pub(super) fn role(&mut self, name: &RoleName, roles: &Roles) -> Result<Role> {
        let actor = match name {
            RoleName::Named(name) => return self.role_called(name, roles),
            RoleName::Everybody => return Err(no_role("public")),
            RoleName::Current => self.actor()?,
            RoleName::Session => self.session_actor()?,
        };
        match roles.numbered(actor.oid) {
            Some(role) if *role.name == *actor.name => Ok(role.clone()),
            _ => Ok(Role { name: actor.name.to_string(), ..Role::owner() }),
        }
    }

    /// The role of this name; a user whom the server knows and who is no role is the owner of the
    /// database.
    fn role_called(&mut self, name: &str, roles: &Roles) -> Result<Role> {
        match roles.named(name) {
            Some(role) => Ok(role.clone()),
            None if self.login.role.is_none() && name == self.seat.name() => Ok(Role::owner()),
            None => Err(no_role(name)),
        }
    }

    /// Runs a statement about roles and gives its tag.
    pub(super) fn role_statement(
        &mut self,
        statement: &RoleStatement,
        sink: &mut dyn Sink,
    ) -> Result<String> {
        self.ensure()?;
        self.check_writable("a definition")?;
        self.ensure()?.used = true;
        let tag = match statement {
            RoleStatement::Create { name, options } => {
                self.create_role(name, options)?;
                "CREATE ROLE"
            }
            RoleStatement::Alter { role, options } => {
                self.alter_role(role, options)?;
                "ALTER ROLE"
            }
            RoleStatement::Rename { name, to } => {
                self.rename_role(name, to)?;
                "ALTER ROLE"
            }
            RoleStatement::Configure { role, setting, value } => {
                self.configure_role(role, setting.as_deref(), value.as_deref())?;
                "ALTER ROLE"
            }
            RoleStatement::Drop { names, if_exists } => {
                self.drop_roles(names, *if_exists, sink)?;
                "DROP ROLE"
            }
            RoleStatement::Membership(change) => {
                self.change_membership(change, sink)?;
                if change.grants { "GRANT ROLE" } else { "REVOKE ROLE" }
            }
            RoleStatement::Comment { name, text } => {
                self.comment_on_role(name, text.as_deref())?;
                "COMMENT"
            }
            other => return self.grant_statement(other, sink),
        };
        self.tell_identity()?;
        Ok(tag.to_owned())
    }

    fn create_role(&mut self, name: &str, options: &[RoleOption]) -> Result<()> {
        let actor = self.actor()?;
        let mut attributes = Attributes::PLAIN;
        let password = take_options(&mut attributes, options)?;
        self.check_attributes(&actor, &Attributes::PLAIN, &attributes, "create")?;
        if !actor.create_role {
            return Err(denied_to("create role"));
        }
        check_name(name)?;
        let roles = Roles::load(&mut self.ensure()?.txn)?;
        if roles.named(name).is_some() {
            let message = format!("role \"{name}\" already exists");
            return Err(SqlError::new(code::DUPLICATE_OBJECT, message));
        }
        set_password(&mut attributes, password)?;
        self.read_until(&mut attributes)?;
        let txn = &mut self.ensure()?.txn;
        let mut made = Role::plain(name, role::next_number(txn)?, attributes);
        for option in options {
            let RoleOption::In(above) = option else { continue };
            for above in above {
                let above = self.role(above, &roles)?;
                self.check_may_admit(&actor, &above, &roles)?;
                let (role, grantor) = (above.oid, actor.oid);
                made.member_of.push(Membership { role, grantor, admin: false });
            }
        }
        made.store(&mut self.ensure()?.txn)?;
        for option in options {
            let RoleOption::Members(members, admin) = option else { continue };
            let change = MembershipChange {
                roles: vec![RoleName::Named(name.to_owned())],
                members: members.clone(),
                grants: true,
                admin: *admin,
                by: None,
                cascade: false,
            };
            self.change_membership(&change, &mut super::auto_analyze::Silent)?;
        }
        Ok(())
    }

    /// Who may give these attributes to a role that has `before`.
    fn check_attributes(
        &mut self,
        actor: &Actor,
        before: &Attributes,
        after: &Attributes,
        verb: &str,
    ) -> Result<()> {
        if actor.is_superuser {
            return Ok(());
        }
        if after.superuser || before.superuser {
            return Err(match verb {
                "create" => must("be superuser to create superusers"),
                _ => must("be superuser to alter superuser roles or change superuser attribute"),
            });
        }
        if after.replication != before.replication {
            return Err(must(&match verb {
                "create" => "be superuser to create replication users".to_owned(),
                _ => "be superuser to alter replication roles or change replication attribute"
                    .to_owned(),
            }));
        }
        if after.bypass_rls != before.bypass_rls {
            return Err(must(match verb {
                "create" => "be superuser to create bypassrls users",
                _ => "be superuser to change bypassrls attribute",
            }));
        }
        Ok(())
    }

    /// The end of a password's life, as it is kept.
    fn read_until(&mut self, attributes: &mut Attributes) -> Result<()> {
        if let Some(until) = &attributes.valid_until {
            let read = text::parse(SqlType::Timestamptz, until, &self.times())?;
            attributes.valid_until = Some(kept_time(&read));
        }
        Ok(())
    }

    fn alter_role(&mut self, name: &RoleName, options: &[RoleOption]) -> Result<()> {
        let actor = self.actor()?;
        let roles = Roles::load(&mut self.ensure()?.txn)?;
        let mut role = self.role(name, &roles)?;
        let before = role.attributes.clone();
        let password = take_options(&mut role.attributes, options)?;
        self.check_attributes(&actor, &before, &role.attributes, "alter")?;
        // Everybody may change the own password.
        let only_password = matches!(options, [RoleOption::Password(_)]) && role.oid == actor.oid;
        if !actor.create_role && !only_password {
            return Err(SqlError::new(code::INSUFFICIENT_PRIVILEGE, "permission denied"));
        }
        refuse_fixed(&role)?;
        set_password(&mut role.attributes, password)?;
        if options.iter().any(|one| matches!(one, RoleOption::ValidUntil(_))) {
            self.read_until(&mut role.attributes)?;
        }
        role.store(&mut self.ensure()?.txn)
    }

    fn rename_role(&mut self, name: &str, to: &str) -> Result<()> {
        let actor = self.actor()?;
        let roles = Roles::load(&mut self.ensure()?.txn)?;
        let mut role = roles.existing(name)?.clone();
        if role.oid == self.session_actor()?.oid {
            let message = "session user cannot be renamed";
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
        }
        if role.oid == actor.oid {
            let message = "current user cannot be renamed";
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
        }
        check_name(to)?;
        if roles.named(to).is_some() {
            let message = format!("role \"{to}\" already exists");
            return Err(SqlError::new(code::DUPLICATE_OBJECT, message));
        }
        if role.attributes.superuser && !actor.is_superuser {
            return Err(must("be superuser to rename superusers"));
        }
        if !actor.create_role {
            return Err(denied_to("rename role"));
        }
        refuse_fixed(&role)?;
        let txn = &mut self.ensure()?.txn;
        role.remove(txn)?;
        to.clone_into(&mut role.name);
        role.store(txn)
    }

    fn configure_role(
        &mut self,
        name: &RoleName,
        setting: Option<&str>,
        value: Option<&[String]>,
    ) -> Result<()> {
        let actor = self.actor()?;
        let roles = Roles::load(&mut self.ensure()?.txn)?;
        let mut role = self.role(name, &roles)?;
        let may = match role.attributes.superuser {
            true => actor.is_superuser,
            false => actor.create_role || role.oid == actor.oid,
        };
        if !may && role.attributes.superuser {
            return Err(must("be superuser to alter superusers"));
        }
        if !may {
            return Err(SqlError::new(code::INSUFFICIENT_PRIVILEGE, "permission denied"));
        }
        match (setting, value) {
            (None, _) => role.settings.clear(),
            (Some(setting), value) => {
                let setting = setting.to_ascii_lowercase();
                role.settings.retain(|(known, _)| *known != setting);
                if let Some(value) = value {
                    let value = self.settings.checked(&setting, &written(&setting, value))?;
                    role.settings.push((setting, value));
                }
            }
        }
        role.store(&mut self.ensure()?.txn)
    }

    fn drop_roles(
        &mut self,
        names: &[RoleName],
        if_exists: bool,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let actor = self.actor()?;
        if !actor.create_role {
            return Err(denied_to("drop role"));
        }
        for name in names {
            let RoleName::Named(name) = name else {
                let message = "cannot use special role specifier in DROP ROLE";
                return Err(SqlError::new(code::INVALID_PARAMETER, message));
            };
            let roles = Roles::load(&mut self.ensure()?.txn)?;
            let Some(role) = roles.named(name) else {
                if !if_exists {
                    return Err(no_role(name));
                }
                self.tell(sink, "NOTICE", &format!("role \"{name}\" does not exist, skipping"));
                continue;
            };
            refuse_fixed(role)?;
            if role.oid == actor.oid {
                let message = "current user cannot be dropped";
                return Err(SqlError::new(code::OBJECT_IN_USE, message));
            }
            if role.oid == self.session_actor()?.oid {
                let message = "session user cannot be dropped";
                return Err(SqlError::new(code::OBJECT_IN_USE, message));
            }
            if role.attributes.superuser && !actor.is_superuser {
                return Err(must("be superuser to drop superusers"));
            }
            let uses = self.uses_of_role(role.oid)?;
            if !uses.is_empty() {
                let message =
                    format!("role \"{name}\" cannot be dropped because some objects depend on it");
                return Err(SqlError::new(code::DEPENDENT_OBJECTS, message).detail(uses.join("\n")));
            }
            let txn = &mut self.ensure()?.txn;
            for (member, _) in roles.members_of(role.oid) {
                let mut member = member.clone();
                member.member_of.retain(|one| one.role != role.oid);
                member.store(txn)?;
            }
            role.remove(txn)?;
        }
        Ok(())
    }

    /// Fails unless an actor may make others members of a role.
    fn check_may_admit(&mut self, actor: &Actor, role: &Role, roles: &Roles) -> Result<()> {
        if role.oid == DATABASE_OWNER {
            let message = "role \"pg_database_owner\" cannot have explicit members";
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
        }
        if role.attributes.superuser {
            return match actor.is_superuser {
                true => Ok(()),
                false => Err(must("be superuser to alter superusers")),
            };
        }
        // With the right to give the membership on, its own or that of a role above it.
        let is_admin = |(member, membership): (&Role, &Membership)| {
            membership.admin && actor.is_member_of(member.oid)
        };
        if actor.create_role || roles.members_of(role.oid).any(is_admin) {
            return Ok(());
        }
        let name = &role.name;
        Err(must(&format!("have admin option on role \"{name}\"")))
    }

    fn change_membership(&mut self, change: &MembershipChange, sink: &mut dyn Sink) -> Result<()> {
        let actor = self.actor()?;
        let mut roles = Roles::load(&mut self.ensure()?.txn)?;
        let grantor = match &change.by {
            None => actor.oid,
            Some(name) => {
                let by = self.role(name, &roles)?;
                if by.oid != actor.oid && !actor.is_superuser {
                    return Err(must("be superuser to set grantor"));
                }
                by.oid
            }
        };
        for name in &change.roles {
            let role = self.role(name, &roles)?;
            self.check_may_admit(&actor, &role, &roles)?;
            for member in &change.members {
                let mut member = self.role(member, &roles)?;
                if change.grants {
                    let own = Membership { role: role.oid, grantor, admin: change.admin };
                    if let Some(message) = admit(&role, &mut member, own, &roles)? {
                        self.tell(sink, "NOTICE", &message);
                    }
                } else if let Some(message) = dismiss(&role, &mut member, change.admin) {
                    self.tell(sink, "WARNING", &message);
                }
                member.store(&mut self.ensure()?.txn)?;
                roles = Roles::load(&mut self.ensure()?.txn)?;
            }
        }
        Ok(())
    }

    fn comment_on_role(&mut self, name: &str, text: Option<&str>) -> Result<()> {
        let actor = self.actor()?;
        let roles = Roles::load(&mut self.ensure()?.txn)?;
        let mut role = roles.existing(name)?.clone();
        if role.attributes.superuser && !actor.is_superuser {
            return Err(must("be superuser to alter superusers"));
        }
        if !actor.create_role {
            return Err(must(&format!("be member of role \"{name}\"")));
        }
        role.comment = text.filter(|text| !text.is_empty()).map(str::to_owned);
        role.store(&mut self.ensure()?.txn)
    }
}

/// Makes one role a member of another; a message if it is one.
fn admit(
    role: &Role,
    member: &mut Role,
    membership: Membership,
    roles: &Roles,
) -> Result<Option<String>> {
    if roles.above(role.oid, false).contains(&member.oid) {
        let (role, member) = (&role.name, &member.name);
        let message = format!("role \"{role}\" is a member of role \"{member}\"");
        return Err(SqlError::new(code::INVALID_GRANT, message));
    }
    let name = member.name.clone();
    match member.member_of.iter_mut().find(|one| one.role == role.oid) {
        Some(known) if known.admin || !membership.admin => {
            let message = format!("role \"{name}\" is already a member of role \"{}\"", role.name);
            return Ok(Some(message));
        }
        Some(known) => known.admin = true,
        None => member.member_of.push(membership),
    }
    Ok(None)
}

/// Takes a member out of a role, or only the right to give the membership on; a message if it is
/// none.
fn dismiss(role: &Role, member: &mut Role, admin_only: bool) -> Option<String> {
    let Some(at) = member.member_of.iter().position(|one| one.role == role.oid) else {
        let (member, role) = (&member.name, &role.name);
        return Some(format!("role \"{member}\" is not a member of role \"{role}\""));
    };
    if admin_only {
        member.member_of[at].admin = false;
    } else {
        member.member_of.remove(at);
    }
    None
}

/// Takes what options say, and gives the password if they say one.
fn take_options(
    attributes: &mut Attributes,
    options: &[RoleOption],
) -> Result<Option<Option<String>>> {
    let mut password = None;
    for option in options {
        match option {
            RoleOption::Switch(word, on) => {
                assert!(attributes.switch(word, *on), "the parser knows the words");
            }
            RoleOption::Limit(limit) => match i32::try_from(*limit) {
                Ok(limit) if limit >= -1 => attributes.connection_limit = limit,
                _ => {
                    let message = format!("invalid connection limit: {limit}");
                    return Err(SqlError::new(code::INVALID_PARAMETER, message));
                }
            },
            RoleOption::Password(given) => password = Some(given.clone()),
            RoleOption::ValidUntil(until) => attributes.valid_until = Some(until.clone()),
            RoleOption::In(_) | RoleOption::Members(..) => {}
        }
    }
    Ok(password)
}

/// Keeps what verifies a password; an empty one is none, as in PostgreSQL.
fn set_password(attributes: &mut Attributes, password: Option<Option<String>>) -> Result<()> {
    let Some(password) = password else { return Ok(()) };
    attributes.password = match password.as_deref() {
        None | Some("") => None,
        Some(text) if verifier::is_verifier(text) => Some(text.to_owned()),
        Some(text) if text.starts_with("md5") && text.len() == 35 => {
            return Err(SqlError::unsupported("an MD5 password"));
        }
        Some(text) => Some(verifier::of_password(text)?),
    };
    Ok(())
}

fn kept_time(value: &Datum) -> String {
    value.to_text().unwrap_or_default()
}

/// Fails for a role that is always there.
fn refuse_fixed(role: &Role) -> Result<()> {
    if !role.is_fixed() {
        return Ok(());
    }
    let name = &role.name;
    let message = match role.oid {
        OWNER => format!("role \"{name}\" is the owner of the database"),
        _ => format!("role name \"{name}\" is reserved"),
    };
    Err(SqlError::new(code::RESERVED_NAME, message))
}

fn check_name(name: &str) -> Result<()> {
    let reserved = RESERVED.contains(&name);
    if !reserved && !name.starts_with("pg_") && !name.is_empty() {
        return Ok(());
    }
    if name.is_empty() {
        return Err(SqlError::new(code::INVALID_NAME, "zero-length delimited identifier"));
    }
    let message = format!("role name \"{name}\" is reserved");
    let error = SqlError::new(code::RESERVED_NAME, message);
    Err(if reserved {
        error
    } else {
        error.detail("Role names starting with \"pg_\" are reserved.")
    })
}

impl Session {
    /// The owner of what a definition makes, as it is noted.
    pub(super) fn owner_of_new(&mut self, definition: &Definition) -> Result<Option<u32>> {
        let Definition::CreateSchema { owner: Some(name), .. } = definition else {
            return Ok(self.actor()?.noted());
        };
        let actor = self.actor()?;
        let roles = Roles::load(&mut self.ensure()?.txn)?;
        let owner = self.role(name, &roles)?;
        if !actor.is_member_of(owner.oid) {
            return Err(must(&format!("be member of role \"{}\"", owner.name)));
        }
        Ok(Some(owner.oid).filter(|oid| *oid != OWNER))
    }
}
