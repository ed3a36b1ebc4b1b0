//! Roles, and what each may do to which object.
//!
//! | file | hides |
//! |---|---|
//! | `role` | what is kept of a role; membership |
//! | `acl` | privileges, and who has given which of them to whom |
//! | `actor` | as whom a statement runs |
//! | `need` | what a statement needs |
//! | `verifier` | what is kept of a password |
//! | `rights` | owners and privileges of objects: reading and checking them |
//!
//! The model is PostgreSQL's (`aclchk.c`, `acl.c`). The owner of an object is noted with it, as its
//! comment is. Its privileges are a text that the store keeps under the object's number, so that
//! GRANT waits for nobody who reads the object, and is known from the next statement on.
//!
//! Invariants: a user that the server lets in and that is no role may do everything, as the owner
//! of the database may.
//! Does not do: statements about roles (`session`), passwords (the server checks them).

pub(crate) mod acl;
pub(crate) mod actor;
pub(crate) mod need;
pub(crate) mod preparer;
pub(crate) mod rights;
pub(crate) mod role;
pub(crate) mod verifier;
