//! Each rule of the log, broken, is caught by the test beside it.

use super::*;

#[test]
fn broken_logs_are_caught() {
    let cases: [(&'static str, &'static str, fn()); 14] = [
        ("wal-control-not-settled", "every call fails", every_call_fails_once),
        ("wal-control-not-synced", "crash", crash_at_every_point),
        ("wal-cover-ignored", "reserve", a_full_disk_leaves_a_reserve),
        ("wal-failed-sync-forgiven", "failed sync", a_failed_sync_poisons),
        ("wal-half-record", "panic", a_panic_within_append_poisons),
        ("wal-hole-is-the-end", "stated end", the_control_file_states_the_end),
        ("wal-no-search", "lost writes", gone_segments_and_lost_writes_are_damage),
        ("wal-no-seed", "other database", another_databases_segments_are_refused),
        ("wal-not-synced", "crash", crash_at_every_point),
        ("wal-one-control-copy", "damaged copy", one_damaged_control_copy_is_survived_both_are_not),
        ("wal-segment-name-not-synced", "crash", crash_at_every_point),
        ("wal-segment-not-synced", "crash", crash_at_every_point),
        ("wal-tail-not-repeated", "round trip", round_trip_on_simulated_disk),
        ("wal-tail-not-settled", "page cache", recovery_does_not_trust_the_page_cache),
    ];
    for (rule, name, check) in cases {
        assert!(points::caught(rule, &[(name, check)]).is_some(), "nobody noticed {rule}");
    }
}
