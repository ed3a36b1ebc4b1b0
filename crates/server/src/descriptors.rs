//! How many connections the limit of open files has room for.
//!
//! Invariants: clients, those without a password included, never take the descriptors that the
//! database needs: without them nobody opens a table, or writes beyond the log that is open.
//! Does not do: counting what is open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files that are no connections: listeners, the log, temporary files, the program's own.
const OWN: u64 = 256;
/// Connections where the limit is too low for anything; whoever has it so low knows why.
const LEAST: u64 = 8;

/// Raises the limit of open files as far as it goes and gives it; `None` for no limit.
pub(crate) fn raise() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    // Linux goes no higher, whatever the limit says.
    let highest = limit.maximum.unwrap_or(1 << 20);
    if limit.current.is_some_and(|current| current < highest) {
        let raised = Rlimit { current: Some(highest), maximum: limit.maximum };
        // Where that is refused, the old one holds.
        let _ = setrlimit(Resource::Nofile, raised);
    }
    getrlimit(Resource::Nofile).current
}

/// As many connections as wanted, or as `files` has room for: one half of what the program does
/// not need itself, since tables and indexes have files too.
pub(crate) fn room_for(wanted: usize, files: Option<u64>) -> usize {
    let Some(files) = files else { return wanted };
    let room = (files.saturating_sub(OWN) / 2).max(LEAST);
    wanted.min(usize::try_from(room).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_files() {
        assert_eq!(room_for(2_000, None), 2_000);
        assert_eq!(room_for(2_000, Some(1 << 20)), 2_000);
        assert_eq!(room_for(2_000, Some(1_024)), 384);
        assert_eq!(room_for(100, Some(1_024)), 100);
        assert_eq!(room_for(100, Some(64)), 8);
    }
}
