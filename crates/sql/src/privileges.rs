//! Privileges, and for which kinds of objects there are which.
//!
//! Invariants: letters, words and order are PostgreSQL's.
//! Does not do: who has them (`roles`).

/// Letters and words of privileges, in the order in which PostgreSQL shows them.
const NAMES: [(char, &str); 12] = [
    ('a', "INSERT"),
    ('r', "SELECT"),
    ('w', "UPDATE"),
    ('d', "DELETE"),
    ('D', "TRUNCATE"),
    ('x', "REFERENCES"),
    ('t', "TRIGGER"),
    ('X', "EXECUTE"),
    ('U', "USAGE"),
    ('C', "CREATE"),
    ('T', "TEMPORARY"),
    ('c', "CONNECT"),
];

/// A set of privileges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Privileges(u16);

impl Privileges {
    pub(crate) const NONE: Privileges = Privileges(0);
    pub(crate) const INSERT: Privileges = Privileges(1);
    pub(crate) const SELECT: Privileges = Privileges(1 << 1);
    pub(crate) const UPDATE: Privileges = Privileges(1 << 2);
    pub(crate) const DELETE: Privileges = Privileges(1 << 3);
    pub(crate) const TRUNCATE: Privileges = Privileges(1 << 4);
    pub(crate) const REFERENCES: Privileges = Privileges(1 << 5);
    pub(crate) const USAGE: Privileges = Privileges(1 << 8);
    pub(crate) const CREATE: Privileges = Privileges(1 << 9);
    pub(crate) const TEMPORARY: Privileges = Privileges(1 << 10);
    pub(crate) const CONNECT: Privileges = Privileges(1 << 11);

    /// The set as a number, for what is kept.
    pub(crate) const fn bits(self) -> u16 {
        self.0
    }

    /// The set of such a number.
    pub(crate) const fn of_bits(bits: u16) -> Privileges {
        Privileges(bits)
    }

    /// The privilege that a word means, in lower or upper case.
    pub(crate) fn named(word: &str) -> Option<Privileges> {
        let word = word.to_ascii_uppercase();
        let word = if word == "TEMP" { "TEMPORARY" } else { &word };
        let at = NAMES.iter().position(|(_, name)| *name == word)?;
        Some(Privileges(1 << at))
    }

    /// The letter for a single one.
    pub(crate) fn letter(self) -> char {
        NAMES.get(self.0.trailing_zeros() as usize).map_or('?', |(letter, _)| *letter)
    }

    /// The word for a single one.
    pub(crate) fn name(self) -> &'static str {
        let at = self.0.trailing_zeros() as usize;
        NAMES.get(at).map_or("", |(_, name)| name)
    }

    pub(crate) const fn and(self, other: Privileges) -> Privileges {
        Privileges(self.0 | other.0)
    }

    pub(crate) const fn within(self, other: Privileges) -> Privileges {
        Privileges(self.0 & other.0)
    }

    pub(crate) const fn without(self, other: Privileges) -> Privileges {
        Privileges(self.0 & !other.0)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn has_all(self, of: Privileges) -> bool {
        self.0 & of.0 == of.0
    }

    pub(crate) const fn has_any(self, of: Privileges) -> bool {
        self.0 & of.0 != 0
    }

    pub(crate) const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Each by itself.
    pub(crate) fn each(self) -> impl Iterator<Item = Privileges> {
        let all = (0..NAMES.len()).map(|at| Privileges(1 << at));
        all.filter(move |one| self.has_all(*one))
    }
}

/// What an object is, where it decides which privileges there are for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    /// A view, too.
    Table,
    Sequence,
    Schema,
    Database,
}

impl ObjectKind {
    pub(crate) const ALL: [ObjectKind; 4] =
        [ObjectKind::Table, ObjectKind::Sequence, ObjectKind::Schema, ObjectKind::Database];

    /// Everything that can be given, which its owner has.
    pub(crate) const fn privileges(self) -> Privileges {
        match self {
            ObjectKind::Table => Privileges(0x7f),
            ObjectKind::Sequence => {
                Privileges::USAGE.and(Privileges::SELECT).and(Privileges::UPDATE)
            }
            ObjectKind::Schema => Privileges::USAGE.and(Privileges::CREATE),
            ObjectKind::Database => {
                Privileges::CREATE.and(Privileges::TEMPORARY).and(Privileges::CONNECT)
            }
        }
    }

    /// What everybody has as long as nobody says otherwise.
    pub(crate) const fn of_everybody(self) -> Privileges {
        match self {
            ObjectKind::Database => Privileges::TEMPORARY.and(Privileges::CONNECT),
            _ => Privileges::NONE,
        }
    }

    /// As messages call it.
    pub(crate) const fn noun(self) -> &'static str {
        match self {
            ObjectKind::Table => "table",
            ObjectKind::Sequence => "sequence",
            ObjectKind::Schema => "schema",
            ObjectKind::Database => "database",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn privileges_have_words() {
        for kind in ObjectKind::ALL {
            for one in kind.privileges().each() {
                assert_eq!(Privileges::named(one.name()), Some(one));
            }
        }
        assert_eq!(Privileges::named("temp"), Some(Privileges::TEMPORARY));
        assert_eq!(Privileges::named("eat"), None);
        assert_eq!(ObjectKind::Table.privileges().count(), 7);
    }
}
