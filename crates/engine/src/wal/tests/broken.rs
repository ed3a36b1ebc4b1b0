//! Each rule of the log, broken, is caught by the test beside it.

use super::*;
use rightlink_env::Broken;

#[test]
fn broken_logs_are_caught() {
    let cases: [(Broken, &'static str, fn()); 14] = [
        (Broken::ControlCopyNotSynced, "every call fails", every_call_fails_once),
        (Broken::ControlFileNotSynced, "crash", crash_at_every_point),
        (Broken::CoveringSegmentFreed, "reserve", a_full_disk_leaves_a_reserve),
        (Broken::FailedSyncForgiven, "failed sync", a_failed_sync_poisons),
        (Broken::HalfRecordWritten, "panic", a_panic_within_append_poisons),
        (Broken::StatedLogEndIgnored, "stated end", the_control_file_states_the_end),
        (Broken::LogNotSearchedBehindHole, "lost writes", gone_segments_and_lost_writes_are_damage),
        (Broken::LogChecksumNotSeeded, "other database", another_databases_segments_are_refused),
        (Broken::LogNotSynced, "crash", crash_at_every_point),
        (Broken::OneControlCopy, "damaged copy", one_damaged_control_copy_is_survived_both_are_not),
        (Broken::SegmentNameNotSynced, "crash", crash_at_every_point),
        (Broken::SegmentNotSynced, "crash", crash_at_every_point),
        (Broken::LogTailOverwritten, "round trip", round_trip_on_simulated_disk),
        (Broken::LogTailNotRewritten, "page cache", recovery_does_not_trust_the_page_cache),
    ];
    for (rule, name, check) in cases {
        assert!(points::caught(rule, &[(name, check)]).is_some(), "no check noticed {rule}");
    }
}
