//! A database of another format version is refused, by name of both versions and with what to do.
//!
//! The fixture is what is not zero of the control file that version 1 wrote for a table of two rows
//! and a clean close: two copies, of which the first 104 bytes and the checksum are set.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

use std::collections::BTreeMap;
use std::path::Path;

use rightlink::{Database, Error};

const COPY: usize = 4096;
/// Of each copy the fields, then the checksum, which is its end.
const VERSION_1: [(&str, &str); 2] = [
    (
        "524c636f6e74726c01000000002000000400000000000000ffd0cf3d26bbe362b30500\
         000000000007000000000000004500000001000000b305000000000000000000010000\
         0000000000000000000000000000000000002000000000000000a9311ff6f4f7ca5e",
        "0f98a150703e3fba",
    ),
    (
        "524c636f6e74726c01000000002000000300000000000000ffd0cf3d26bbe3623b0100\
         0000000000020000000000000040000000000000003b01000000000000000000010000\
         00000000000000000000000000000000000020000000000000000000000000000000",
        "84f06bcc366ba608",
    ),
];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().collect();
    let byte = |two: &[char]| u8::from_str_radix(&two.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// The control file of version 1.
fn version_1() -> Vec<u8> {
    let mut file = Vec::new();
    for (fields, sum) in VERSION_1 {
        let mut copy = vec![0; COPY];
        copy[..104].copy_from_slice(&bytes(fields));
        copy[COPY - 8..].copy_from_slice(&bytes(sum));
        file.extend(copy);
    }
    file
}

/// Names and contents of the files of `dir`, but for the lock.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.is_file() && !path.ends_with("lock"));
    files.map(|path| (path.display().to_string(), std::fs::read(&path).unwrap())).collect()
}

/// The story: outcomes of transactions are kept otherwise from version 2 on. A program that reads
/// the control file of version 1 as if it were its own would miss them and roll everything back.
#[test]
fn a_database_of_version_1_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (dir.path().join("old"), dir.path().join("new"));
    std::fs::create_dir(&old).unwrap();
    std::fs::write(old.join("control"), version_1()).unwrap();
    for folder in ["data", "wal", "tmp"] {
        std::fs::create_dir(old.join(folder)).unwrap();
    }
    let before = files(&old);
    let refused = [
        Database::open(&old).map(drop),
        Database::options().create(false).open(&old).map(drop),
        Database::verify_offline(&old).map(drop),
        Database::restore(&old, &new).map(drop),
    ];
    for refused in refused {
        let Err(Error::Invalid(what)) = &refused else { panic!("refused, not {refused:?}") };
        for said in ["format version 1", "version 2", "`rightlink export`", "`rightlink load`"] {
            assert!(what.contains(said), "{said}: {what}");
        }
    }
    assert_eq!(files(&old), before, "nothing was changed");
    assert!(!new.exists(), "nothing was copied");
}

/// Were it damaged, it would be said to be.
#[test]
fn damage_of_the_control_file_is_not_taken_for_another_version() {
    let dir = tempfile::tempdir().unwrap();
    let mut control = version_1();
    (control[20], control[COPY + 20]) = (control[20] ^ 1, control[COPY + 20] ^ 1);
    std::fs::write(dir.path().join("control"), control).unwrap();
    let refused = Database::open(dir.path()).map(drop);
    assert!(matches!(refused, Err(Error::Corruption { .. })), "{refused:?}");
}
