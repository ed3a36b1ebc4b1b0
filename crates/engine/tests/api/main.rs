//! Behaviour through the public interface: one program, because each one links the whole engine.
//!
//! The tests of all files run beside each other in one process. A test that needs the process for
//! itself is in `../alone/`; those that crash or fail the disk are in `../durability/`.

mod backup;
mod collations;
mod counters;
mod cursor;
mod damage;
mod definitions;
mod first_day;
mod fresh;
mod hash_index;
mod index_size;
mod insert_ahead;
mod key_twice;
mod long_values;
mod model;
mod observe;
mod online_index;
mod other_version;
mod outcomes;
mod partial_index;
mod prefetch;
mod prepared;
mod read_ahead;
mod records;
mod recovery;
mod rewrite;
mod row_ids;
mod row_locks;
mod savepoint_scans;
mod scan_groups;
mod scripts;
mod skip_scan;
mod unended;
mod upsert;
mod vacuum;
mod verify;
mod verify_offline;
mod verify_online;
mod visitor;
