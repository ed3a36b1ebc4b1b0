//! What the C library's allocator keeps of memory that was given back.
//!
//! glibc has an arena for each of up to eight threads a processor. How much free memory each arena
//! keeps follows the largest block that was ever freed: after a sort of 32 MiB up to 64 MiB, in
//! every arena, and no memory budget knows of it. Limits that are set once do not follow.
//!
//! Invariants: set before a second thread starts.
//! Does not do: anything with other allocators, or on other systems.

/// Limits what the allocator keeps.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn limit() {
    use std::ffi::c_int;

    unsafe extern "C" {
        fn mallopt(parameter: c_int, value: c_int) -> c_int;
    }

    /// `M_TRIM_THRESHOLD`: bytes at the end of an arena that it keeps.
    const TRIM_THRESHOLD: c_int = -1;
    /// `M_MMAP_THRESHOLD`: larger blocks come from the system and go back to it.
    const MMAP_THRESHOLD: c_int = -3;
    /// `M_ARENA_MAX`: how many arenas there are.
    const ARENA_MAX: c_int = -8;

    let settings = [(TRIM_THRESHOLD, 256 << 10), (MMAP_THRESHOLD, 256 << 10), (ARENA_MAX, 8)];
    for (parameter, value) in settings {
        // SAFETY: glibc's function of this name and type; it takes any values, and locks the
        // allocator itself.
        let done = unsafe { mallopt(parameter, value) };
        debug_assert_eq!(done, 1, "glibc knows parameter {parameter}");
    }
}

/// Other allocators are as they are.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn limit() {}
