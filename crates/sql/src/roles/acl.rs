//! Privileges, and who has given which of them to whom.
//!
//! A list of items as PostgreSQL keeps one with each object (`acl.c`): a grantee has from a grantor
//! some privileges, and may pass some of these on.
//!
//! Invariants: an item has privileges; no two have the same grantee and grantor; whoever gave
//! something has the right to pass it on, as the owner or by another item.
//! Does not do: which roles have the privileges of others (`actor`).

use crate::error::{Result, SqlError, code};
use crate::notes::{line, lines};
use crate::privileges::{ObjectKind, Privileges};

/// The number of everybody.
pub(crate) const EVERYBODY: u32 = 0;

/// What a grantee has from a grantor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Item {
    pub(crate) grantee: u32,
    pub(crate) grantor: u32,
    pub(crate) privileges: Privileges,
    /// Those of them that the grantee may pass on.
    pub(crate) options: Privileges,
}

/// The privileges on an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Acl(Vec<Item>);

/// What is given or taken away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) grantee: u32,
    pub(crate) grantor: u32,
    pub(crate) privileges: Privileges,
    /// Of a grant: with the right to pass it on. Of a revocation: that right alone.
    pub(crate) options: bool,
}

impl Acl {
    /// What holds for an object of a kind as long as nobody says otherwise.
    pub(crate) fn usual(kind: ObjectKind, owner: u32) -> Acl {
        let everybody = kind.of_everybody();
        let mut items = Vec::new();
        if !everybody.is_empty() {
            let (privileges, options) = (everybody, Privileges::NONE);
            items.push(Item { grantee: EVERYBODY, grantor: owner, privileges, options });
        }
        let (privileges, options) = (kind.privileges(), Privileges::NONE);
        items.push(Item { grantee: owner, grantor: owner, privileges, options });
        Acl(items)
    }

    /// A list of these items.
    pub(crate) fn of(items: Vec<Item>) -> Acl {
        Acl(items)
    }

    pub(crate) fn items(&self) -> &[Item] {
        &self.0
    }

    /// What somebody has who has the privileges of these roles.
    pub(crate) fn of_roles(&self, has: impl Fn(u32) -> bool) -> Privileges {
        let own = self.0.iter().filter(|item| item.grantee == EVERYBODY || has(item.grantee));
        own.fold(Privileges::NONE, |all, item| all.and(item.privileges))
    }

    /// What a role may pass on, where `owner` may pass on everything.
    pub(crate) fn options_of(&self, role: u32, owner: u32, kind: ObjectKind) -> Privileges {
        if role == owner {
            return kind.privileges();
        }
        let own = self.0.iter().filter(|item| item.grantee == role);
        own.fold(Privileges::NONE, |all, item| all.and(item.options))
    }

    fn item(&mut self, grantee: u32, grantor: u32) -> Option<&mut Item> {
        self.0.iter_mut().find(|item| item.grantee == grantee && item.grantor == grantor)
    }

    /// Gives privileges; `has`: which roles' privileges the grantor has.
    ///
    /// # Errors
    /// `0LP01` for the right to pass on of everybody, or given back to where it came from.
    pub(crate) fn grant(
        &mut self,
        change: Change,
        owner: u32,
        kind: ObjectKind,
        has: impl Fn(u32) -> bool,
    ) -> Result<()> {
        let Change { grantee, grantor, privileges, options } = change;
        if options && grantee == EVERYBODY {
            let message = "grant options can only be granted to roles";
            return Err(SqlError::new(code::INVALID_GRANT, message));
        }
        if options && grantee != owner {
            self.check_no_circle(change, owner, kind, has)?;
        }
        if privileges.is_empty() {
            return Ok(());
        }
        let passed_on = if options { privileges } else { Privileges::NONE };
        match self.item(grantee, grantor) {
            Some(item) => {
                item.privileges = item.privileges.and(privileges);
                item.options = item.options.and(passed_on);
            }
            None => self.0.push(Item { grantee, grantor, privileges, options: passed_on }),
        }
        Ok(())
    }

    /// Fails if the grantor could not pass on without what the grantee has given.
    fn check_no_circle(
        &self,
        change: Change,
        owner: u32,
        kind: ObjectKind,
        has: impl Fn(u32) -> bool,
    ) -> Result<()> {
        if has(owner) {
            return Ok(());
        }
        let mut without = self.clone();
        let all = Change {
            grantee: change.grantee,
            privileges: kind.privileges(),
            options: true,
            grantor: EVERYBODY,
        };
        let givers: Vec<u32> = self.0.iter().map(|item| item.grantor).collect();
        for grantor in givers {
            without.revoke(Change { grantor, ..all }, true, owner)?;
        }
        let left = without.0.iter().filter(|item| has(item.grantee));
        let left = left.fold(Privileges::NONE, |all, item| all.and(item.options));
        if left.has_all(change.privileges) {
            return Ok(());
        }
        let message = "grant options cannot be granted back to your own grantor";
        Err(SqlError::new(code::INVALID_GRANT, message))
    }

    /// Takes privileges away, or the right to pass them on. What was passed on by that right goes
    /// with it if `cascade`.
    ///
    /// # Errors
    /// `2BP01` if something was passed on and stays.
    pub(crate) fn revoke(&mut self, change: Change, cascade: bool, owner: u32) -> Result<()> {
        let Change { grantee, grantor, privileges, options } = change;
        let Some(item) = self.item(grantee, grantor) else { return Ok(()) };
        item.options = item.options.without(privileges);
        if !options {
            item.privileges = item.privileges.without(privileges);
        }
        self.0.retain(|item| !item.privileges.is_empty());
        self.take_back(grantee, privileges, cascade, owner)
    }

    /// Takes back what `grantor` has given of `privileges` that it may not pass on any more.
    fn take_back(
        &mut self,
        grantor: u32,
        privileges: Privileges,
        cascade: bool,
        owner: u32,
    ) -> Result<()> {
        if grantor == owner {
            return Ok(());
        }
        let own = self.0.iter().filter(|item| item.grantee == grantor);
        let still = own.fold(Privileges::NONE, |all, item| all.and(item.options));
        let lost = privileges.without(still);
        let dependent: Vec<u32> = self
            .0
            .iter()
            .filter(|item| item.grantor == grantor && item.privileges.has_any(lost))
            .map(|item| item.grantee)
            .collect();
        if dependent.is_empty() {
            return Ok(());
        }
        if !cascade {
            return Err(SqlError::new(code::DEPENDENT_OBJECTS, "dependent privileges exist")
                .hint("Use CASCADE to revoke them too."));
        }
        for grantee in dependent {
            let change = Change { grantee, grantor, privileges: lost, options: false };
            self.revoke(change, true, owner)?;
        }
        Ok(())
    }

    /// Has it the same items as another one, in whatever order?
    pub(crate) fn is_same(&self, other: &Acl) -> bool {
        let has = |all: &Acl, item: &Item| all.0.contains(item);
        self.0.len() == other.0.len() && self.0.iter().all(|item| has(other, item))
    }

    /// Adds what another list gives.
    pub(crate) fn merge(&mut self, other: &Acl) {
        for item in &other.0 {
            match self.item(item.grantee, item.grantor) {
                Some(known) => {
                    known.privileges = known.privileges.and(item.privileges);
                    known.options = known.options.and(item.options);
                }
                None => self.0.push(*item),
            }
        }
    }

    /// Puts the items in the order of their grantees, and these in that of their grantors.
    pub(crate) fn sort(&mut self) {
        self.0.sort_by_key(|item| (item.grantee, item.grantor));
    }

    /// Another role owns the object: what the one had and gave is the other's.
    pub(crate) fn change_owner(&mut self, from: u32, to: u32) {
        let mut items: Vec<Item> = Vec::with_capacity(self.0.len());
        for mut item in std::mem::take(&mut self.0) {
            for role in [&mut item.grantee, &mut item.grantor] {
                if *role == from {
                    *role = to;
                }
            }
            let same =
                |known: &&mut Item| (known.grantee, known.grantor) == (item.grantee, item.grantor);
            match items.iter_mut().find(same) {
                Some(known) => {
                    known.privileges = known.privileges.and(item.privileges);
                    known.options = known.options.and(item.options);
                }
                None => items.push(item),
            }
        }
        self.0 = items;
    }

    /// Takes away everything that a role has or gave; was there anything?
    pub(crate) fn forget(&mut self, role: u32) -> bool {
        let before = self.0.len();
        self.0.retain(|item| item.grantee != role && item.grantor != role);
        self.0.len() != before
    }

    /// Does a role have or give anything?
    pub(crate) fn names(&self, role: u32) -> bool {
        self.0.iter().any(|item| item.grantee == role || item.grantor == role)
    }

    pub(crate) fn decode(text: &str) -> Acl {
        let number = |field: &String| field.parse::<u32>().ok();
        let bits = |field: &String| field.parse().ok().map(Privileges::of_bits);
        let item = |fields: Vec<String>| match fields.as_slice() {
            [grantee, grantor, privileges, options] => Some(Item {
                grantee: number(grantee)?,
                grantor: number(grantor)?,
                privileges: bits(privileges)?,
                options: bits(options)?,
            }),
            _ => None,
        };
        Acl(lines(text).filter_map(item).collect())
    }

    pub(crate) fn encode(&self) -> String {
        let mut out = String::new();
        for Item { grantee, grantor, privileges, options } in &self.0 {
            let fields = [grantee.to_string(), grantor.to_string()];
            let sets = [privileges.bits().to_string(), options.bits().to_string()];
            line(&mut out, &[&fields[0], &fields[1], &sets[0], &sets[1]]);
        }
        out
    }
}

/// An item as PostgreSQL shows it, such as `ann=r*w/bob`.
pub(crate) fn shown(item: &Item, name: impl Fn(u32) -> String) -> String {
    let mut text = match item.grantee {
        EVERYBODY => String::new(),
        role => name(role),
    };
    text.push('=');
    for one in item.privileges.each() {
        text.push(one.letter());
        if item.options.has_all(one) {
            text.push('*');
        }
    }
    text.push('/');
    text.push_str(&name(item.grantor));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: u32 = 10;
    const TABLE: ObjectKind = ObjectKind::Table;

    fn shown_all(acl: &Acl) -> Vec<String> {
        acl.items().iter().map(|item| shown(item, |role| role.to_string())).collect()
    }

    fn change(grantee: u32, grantor: u32, privileges: Privileges, options: bool) -> Change {
        Change { grantee, grantor, privileges, options }
    }

    #[test]
    fn what_was_passed_on_goes_with_the_right_to_pass_on() {
        let mut acl = Acl::usual(TABLE, OWNER);
        assert_eq!(shown_all(&acl), ["10=arwdDxt/10"]);
        acl.grant(change(1, OWNER, Privileges::SELECT, true), OWNER, TABLE, |role| role == OWNER)
            .unwrap();
        acl.grant(change(2, 1, Privileges::SELECT, true), OWNER, TABLE, |role| role == 1).unwrap();
        acl.grant(change(EVERYBODY, 2, Privileges::SELECT, false), OWNER, TABLE, |role| role == 2)
            .unwrap();
        assert_eq!(shown_all(&acl), ["10=arwdDxt/10", "1=r*/10", "2=r*/1", "=r/2"]);
        let back = change(1, 2, Privileges::SELECT, true);
        assert_eq!(
            acl.clone().grant(back, OWNER, TABLE, |role| role == 2).unwrap_err().sqlstate,
            "0LP01"
        );
        let own = change(1, OWNER, Privileges::SELECT, true);
        assert_eq!(acl.clone().revoke(own, false, OWNER).unwrap_err().sqlstate, "2BP01");
        acl.revoke(own, true, OWNER).unwrap();
        assert_eq!(shown_all(&acl), ["10=arwdDxt/10", "1=r/10"]);
        assert_eq!(Acl::decode(&acl.encode()), acl);
    }

    #[test]
    fn an_owner_is_followed_by_another() {
        let mut acl = Acl::usual(TABLE, OWNER);
        acl.grant(change(1, OWNER, Privileges::INSERT, false), OWNER, TABLE, |role| role == OWNER)
            .unwrap();
        acl.change_owner(OWNER, 1);
        assert_eq!(shown_all(&acl), ["1=arwdDxt/1"]);
        assert!(acl.names(1) && !acl.names(OWNER));
        assert!(acl.forget(1) && acl.items().is_empty());
    }
}
