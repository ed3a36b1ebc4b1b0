//! Power cuts and failing calls: what was acknowledged is found again, whole.
//!
//! A program apart from `../api/`, because `.ci/run` builds these optimised and asks for many runs.

mod common;
mod crash;
mod faults;
mod power_cuts;
