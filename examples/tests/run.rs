//! The programs run to their end and say what they did.

use std::process::Command;

/// Runs the program; gives its output.
fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} ended with {}: {errors}", output.status);
    String::from_utf8(output.stdout).expect("the output is UTF-8")
}

#[test]
fn bulk_load_finds_the_readings_that_it_loaded() {
    let output = run(env!("CARGO_BIN_EXE_bulk_load"), &["3000"]);
    assert!(output.starts_with("3000 lines loaded; sensor 7 has "), "{output}");
    assert!(!output.contains("has 0 readings"), "{output}");
}

#[test]
fn queue_does_every_job() {
    let output = run(env!("CARGO_BIN_EXE_queue"), &[]);
    assert!(output.contains("jobs, by worker: ["), "{output}");
}
