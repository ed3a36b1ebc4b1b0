//! Roles: what is kept of each, and finding them.
//!
//! A role is a text that the store keeps under the role's name. So it is made, changed and rolled
//! back with the transaction, and reading it locks nothing.
//!
//! Invariants: a role has one number from its creation until it is dropped, and no number is given
//! twice. A role without a text is none, but for [`OWNER`], which is always there, and PostgreSQL's
//! predefined ones.
//! Does not do: what roles may do (`actor`, `rights`).

use rightlink::{Database, Transaction};

use crate::error::{Result, SqlError, code};
use crate::notes::{line, lines};
use crate::settings::USER;
use crate::types::calendar::EPOCH_SECONDS;
use crate::types::{Datum, SqlType, Times, text};

/// In front of the name under which a role is kept.
const KEPT: &str = "role ";
/// The name under which the number of the next role is kept.
const NEXT: &str = "next role";
/// The first number of a role that is made.
const FIRST: u32 = 16_384;
/// The number of the owner of what nobody else owns, as PostgreSQL has it.
pub(crate) const OWNER: u32 = 10;

/// Roles that are always there and that nobody logs in as, with their numbers in PostgreSQL.
pub(crate) const PREDEFINED: [(u32, &str); 12] = [
    (DATABASE_OWNER, "pg_database_owner"),
    (READ_ALL_DATA, "pg_read_all_data"),
    (WRITE_ALL_DATA, "pg_write_all_data"),
    (MONITOR, "pg_monitor"),
    (3_374, "pg_read_all_settings"),
    (READ_ALL_STATS, "pg_read_all_stats"),
    (STAT_SCAN_TABLES, "pg_stat_scan_tables"),
    (4_569, "pg_read_server_files"),
    (4_570, "pg_write_server_files"),
    (4_571, "pg_execute_server_program"),
    (SIGNAL_BACKEND, "pg_signal_backend"),
    (CHECKPOINT, "pg_checkpoint"),
];
/// Has the privileges of the owner of the database.
pub(crate) const DATABASE_OWNER: u32 = 6_171;
/// May read every table, view and sequence.
pub(crate) const READ_ALL_DATA: u32 = 6_181;
/// May write every table, view and sequence.
pub(crate) const WRITE_ALL_DATA: u32 = 6_182;
/// May look into pages of relations, as long as it sees no values.
pub(crate) const STAT_SCAN_TABLES: u32 = 3_377;
/// May see what others do.
pub(crate) const READ_ALL_STATS: u32 = 3_375;
/// Has those of three others.
pub(crate) const MONITOR: u32 = 3_373;
/// May end what others do.
pub(crate) const SIGNAL_BACKEND: u32 = 4_200;
/// May run CHECKPOINT.
pub(crate) const CHECKPOINT: u32 = 4_544;

/// What a role may do besides what it was given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Attributes {
    pub(crate) superuser: bool,
    /// Has it the privileges of the roles that it is a member of?
    pub(crate) inherit: bool,
    pub(crate) create_role: bool,
    pub(crate) create_db: bool,
    pub(crate) login: bool,
    pub(crate) replication: bool,
    pub(crate) bypass_rls: bool,
    /// Most sessions at a time; -1 for any number.
    pub(crate) connection_limit: i32,
    /// What verifies its password (RFC 5803).
    pub(crate) password: Option<String>,
    /// Until when the password is good.
    pub(crate) valid_until: Option<String>,
}

impl Attributes {
    /// Those of CREATE ROLE without options.
    pub(crate) const PLAIN: Attributes = Attributes {
        superuser: false,
        inherit: true,
        create_role: false,
        create_db: false,
        login: false,
        replication: false,
        bypass_rls: false,
        connection_limit: -1,
        password: None,
        valid_until: None,
    };

    /// Those of the owner of the database.
    pub(crate) const ALL: Attributes = Attributes {
        superuser: true,
        create_role: true,
        create_db: true,
        login: true,
        replication: true,
        bypass_rls: true,
        ..Attributes::PLAIN
    };

    /// Switches by their words.
    fn switches(&mut self) -> [(&'static str, &mut bool); 7] {
        [
            ("superuser", &mut self.superuser),
            ("inherit", &mut self.inherit),
            ("createrole", &mut self.create_role),
            ("createdb", &mut self.create_db),
            ("login", &mut self.login),
            ("replication", &mut self.replication),
            ("bypassrls", &mut self.bypass_rls),
        ]
    }

    /// Switches an attribute; false if the word means none.
    pub(crate) fn switch(&mut self, word: &str, on: bool) -> bool {
        let found = self.switches().into_iter().find(|(name, _)| *name == word);
        found.map(|(_, switch)| *switch = on).is_some()
    }
}

/// A role that another one is a member of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Membership {
    pub(crate) role: u32,
    pub(crate) grantor: u32,
    /// May the member give the membership to others?
    pub(crate) admin: bool,
}

/// A role.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Role {
    pub(crate) name: String,
    pub(crate) oid: u32,
    pub(crate) attributes: Attributes,
    pub(crate) member_of: Vec<Membership>,
    /// What ALTER ROLE SET says: names of settings and values.
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) comment: Option<String>,
}

impl Role {
    /// The owner of what nobody else owns.
    pub(crate) fn owner() -> Role {
        Role::plain(USER, OWNER, Attributes::ALL)
    }

    pub(crate) fn plain(name: &str, oid: u32, attributes: Attributes) -> Role {
        let (member_of, settings, name) = (Vec::new(), Vec::new(), name.to_owned());
        Role { name, oid, attributes, member_of, settings, comment: None }
    }

    fn predefined(oid: u32, name: &str) -> Role {
        let mut role = Role::plain(name, oid, Attributes::PLAIN);
        if oid == MONITOR {
            let below = [3_374, READ_ALL_STATS, 3_377];
            let member = |role| Membership { role, grantor: OWNER, admin: false };
            role.member_of = below.map(member).to_vec();
        }
        role
    }

    /// Is it one that is always there?
    pub(crate) fn is_fixed(&self) -> bool {
        self.oid < FIRST
    }

    fn decode(name: &str, text: &str) -> Role {
        let mut role = Role::plain(name, 0, Attributes { inherit: false, ..Attributes::PLAIN });
        for fields in lines(text) {
            match fields.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                ["role", oid, words @ ..] => {
                    role.oid = oid.parse().unwrap_or(0);
                    for word in words {
                        role.attributes.switch(word, true);
                    }
                }
                ["limit", count] => {
                    role.attributes.connection_limit = count.parse().unwrap_or(-1);
                }
                ["password", text] => role.attributes.password = Some((*text).to_owned()),
                ["until", text] => role.attributes.valid_until = Some((*text).to_owned()),
                ["member", of, grantor, rest @ ..] => {
                    let (of, grantor) = (of.parse().unwrap_or(0), grantor.parse().unwrap_or(0));
                    role.member_of.push(Membership { role: of, grantor, admin: !rest.is_empty() });
                }
                ["set", name, value] => {
                    role.settings.push(((*name).to_owned(), (*value).to_owned()));
                }
                ["comment", text] => role.comment = Some((*text).to_owned()),
                _ => {}
            }
        }
        role
    }

    fn encode(&self) -> String {
        let mut out = String::new();
        let (oid, mut attributes) = (self.oid.to_string(), self.attributes.clone());
        let mut fields = vec!["role", &oid];
        let on = attributes.switches().into_iter().filter(|(_, on)| **on);
        fields.extend(on.map(|(word, _)| word));
        line(&mut out, &fields);
        if self.attributes.connection_limit >= 0 {
            line(&mut out, &["limit", &self.attributes.connection_limit.to_string()]);
        }
        let texts =
            [("password", &self.attributes.password), ("until", &self.attributes.valid_until)];
        for (word, text) in texts.into_iter().chain([("comment", &self.comment)]) {
            if let Some(text) = text {
                line(&mut out, &[word, text]);
            }
        }
        for Membership { role, grantor, admin } in &self.member_of {
            let numbers = [role.to_string(), grantor.to_string()];
            let fields = ["member", &numbers[0], &numbers[1], "admin"];
            line(&mut out, &fields[..if *admin { 4 } else { 3 }]);
        }
        for (name, value) in &self.settings {
            line(&mut out, &["set", name, value]);
        }
        out
    }

    /// Keeps it.
    pub(crate) fn store(&self, txn: &mut Transaction) -> Result<()> {
        let name = format!("{KEPT}{}", self.name);
        Ok(txn.catalog().keep(&name, Some(&self.encode()))?)
    }

    /// Takes it away.
    pub(crate) fn remove(&self, txn: &mut Transaction) -> Result<()> {
        Ok(txn.catalog().keep(&format!("{KEPT}{}", self.name), None)?)
    }
}

/// All roles.
pub(crate) struct Roles(Vec<Role>);

impl Roles {
    /// All that a transaction sees.
    pub(crate) fn load(txn: &mut Transaction) -> Result<Roles> {
        let mut all = vec![Role::owner()];
        all.extend(PREDEFINED.iter().map(|(oid, name)| Role::predefined(*oid, name)));
        for kept in txn.catalog().kept_from(KEPT)? {
            let role = Role::decode(&kept.name[KEPT.len()..], &kept.text);
            // The owner may have settings or a comment of its own.
            match all.iter_mut().find(|known| known.oid == role.oid) {
                Some(known) => *known = role,
                None => all.push(role),
            }
        }
        Ok(Roles(all))
    }

    pub(crate) fn all(&self) -> &[Role] {
        &self.0
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Role> {
        self.0.iter().find(|role| role.name == name)
    }

    pub(crate) fn numbered(&self, oid: u32) -> Option<&Role> {
        self.0.iter().find(|role| role.oid == oid)
    }

    /// The role of this name.
    ///
    /// # Errors
    /// `42704` if there is none.
    pub(crate) fn existing(&self, name: &str) -> Result<&Role> {
        self.named(name).ok_or_else(|| no_role(name))
    }

    /// The name of the role that has a number, or the number where there is none any more.
    pub(crate) fn name_of(&self, oid: u32) -> String {
        self.numbered(oid).map_or_else(|| oid.to_string(), |role| role.name.clone())
    }

    /// A role, and those that it is a member of, through others too, in the order in which
    /// PostgreSQL finds them. `inherited`: only those whose privileges it has.
    pub(crate) fn above(&self, oid: u32, inherited: bool) -> Vec<u32> {
        let mut found = vec![oid];
        let mut next = 0;
        while let Some(own) = found.get(next).copied() {
            next += 1;
            if own == OWNER && !found.contains(&DATABASE_OWNER) {
                found.push(DATABASE_OWNER);
            }
            let Some(role) = self.numbered(own) else { continue };
            if inherited && !role.attributes.inherit {
                continue;
            }
            let mut above: Vec<u32> = role.member_of.iter().map(|one| one.role).collect();
            above.sort_unstable();
            for role in above {
                if !found.contains(&role) {
                    found.push(role);
                }
            }
        }
        found
    }

    /// Roles that are members of this one, with their memberships.
    pub(crate) fn members_of(&self, oid: u32) -> impl Iterator<Item = (&Role, &Membership)> {
        self.0.iter().filter_map(move |role| {
            let membership = role.member_of.iter().find(|one| one.role == oid)?;
            Some((role, membership))
        })
    }
}

/// The role of this name, if there is one that was made.
pub(crate) fn made(txn: &mut Transaction, name: &str) -> Result<Option<Role>> {
    let kept = txn.catalog().kept(&format!("{KEPT}{name}"))?;
    Ok(kept.map(|text| Role::decode(name, &text)))
}

/// What verifies the password of a role (RFC 5803), for whoever lets clients in: `None` if there is
/// no such role, or one without a password or with one whose time is over.
///
/// # Errors
/// What keeps it from being read.
pub fn role_password(db: &Database, name: &str) -> Result<Option<String>> {
    let mut txn = db.begin();
    let Some(role) = made(&mut txn, name)? else { return Ok(None) };
    let now = db.unix_micros() - EPOCH_SECONDS * 1_000_000;
    let until = role.attributes.valid_until.as_deref();
    let until = until.map(|until| text::parse(SqlType::Timestamptz, until, &Times::default()));
    let is_over = match until.transpose()? {
        Some(Datum::Timestamptz(end)) => end < now,
        _ => false,
    };
    Ok(role.attributes.password.filter(|_| !is_over))
}

/// Is a role a member of another one, itself or through others? For whoever lets clients in.
///
/// # Errors
/// What keeps the roles from being read.
pub fn is_member(db: &Database, name: &str, of: &str) -> Result<bool> {
    let roles = Roles::load(&mut db.begin())?;
    let (role, of) = (roles.named(name), roles.named(of));
    Ok(role.zip(of).is_some_and(|(role, of)| roles.above(role.oid, false).contains(&of.oid)))
}

/// A number for a new role.
pub(crate) fn next_number(txn: &mut Transaction) -> Result<u32> {
    // The lock of all that is kept, so that nobody else takes the number.
    let known = txn.catalog().kept(NEXT)?;
    txn.catalog().keep(NEXT, known.as_deref().or(Some("")))?;
    let next = txn.catalog().kept(NEXT)?.and_then(|text| text.parse().ok()).unwrap_or(FIRST);
    txn.catalog().keep(NEXT, Some(&(next + 1).to_string()))?;
    Ok(next)
}

/// The error for a role that is not there.
pub(crate) fn no_role(name: &str) -> SqlError {
    SqlError::new(code::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_come_back() {
        let role = Role {
            name: "ann".into(),
            oid: 16_400,
            attributes: Attributes {
                login: true,
                connection_limit: 3,
                password: Some("SCRAM-SHA-256$4096:c2FsdA==$a:b".into()),
                valid_until: Some("2030-01-01 00:00:00+00".into()),
                ..Attributes::PLAIN
            },
            member_of: vec![
                Membership { role: 16_390, grantor: OWNER, admin: true },
                Membership { role: READ_ALL_DATA, grantor: 16_390, admin: false },
            ],
            settings: vec![("search_path".into(), "a\tb, c".into())],
            comment: Some("first".into()),
        };
        assert_eq!(Role::decode("ann", &role.encode()), role);
        let plain = Role::plain("bob", 7, Attributes { inherit: false, ..Attributes::PLAIN });
        assert_eq!(Role::decode("bob", &plain.encode()), plain);
    }

    #[test]
    fn privileges_come_through_roles_that_inherit() {
        let member = |role| Membership { role, grantor: OWNER, admin: false };
        let role = |oid, inherit, of: &[u32]| Role {
            member_of: of.iter().copied().map(member).collect(),
            ..Role::plain("r", oid, Attributes { inherit, ..Attributes::PLAIN })
        };
        let roles = Roles(vec![role(1, true, &[2]), role(2, false, &[3]), role(3, true, &[1])]);
        assert_eq!(roles.above(1, true), [1, 2]);
        assert_eq!(roles.above(1, false), [1, 2, 3]);
        assert_eq!(roles.above(2, true), [2]);
        let members: Vec<u32> = roles.members_of(1).map(|(role, _)| role.oid).collect();
        assert_eq!(members, [3]);
    }
}
