//! The experiments that answer one of the five threads: `rightlink-bench --thread 003 [--quick]`.
//!
//! A thread is a list of steps, each an experiment with the knobs that the thread is about: a base
//! cell, and one factor varied at a time. Its page is in `docs/threads`.
//!
//! Invariants: a step that has ended leaves its JSON lines in the directory of results, under its
//! own name, and is not run again. So a run that was ended goes on where it was.
//! Does not do: measure (the experiments do); keep what half a step came to.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, value_parser};

use crate::Failure;
use crate::report::say;

/// One experiment of a thread.
struct Step {
    /// Names its file of results.
    name: &'static str,
    /// The experiment with its knobs, as on the command line.
    full: &'static str,
    /// The same in a short form.
    quick: &'static str,
}

/// A thread and its experiments.
struct Thread {
    number: &'static str,
    page: &'static str,
    steps: &'static [Step],
}

const THREADS: [Thread; 5] = [
    Thread {
        number: "000",
        page: "docs/threads/000-right-separator.md",
        steps: &[
            Step {
                name: "shapes",
                full: "descent --level tree --optimisation all,none,separators,separator-first",
                quick: "descent --level tree --optimisation all,separators --shape ten-empty-icu \
                        --keys 100000 --quick",
            },
            Step {
                name: "each",
                full: "descent --level tree --shape int8,uuid,ten-empty-icu,collated-icu \
                       --keys 1000000",
                quick: "descent --level tree --shape int8 --keys 100000 --quick",
            },
            Step {
                name: "singly",
                full: "descent --level tree --shape int8,uuid,ten-empty-icu,thirty-one-icu \
                       --keys 1000000 --batch 1 --optimisation all,separators,separator-first",
                quick: "descent --level tree --shape uuid --keys 50000 --batch 1 \
                        --optimisation all,separators --quick",
            },
            Step {
                name: "writer",
                full: "descent --level tree --shape int8,uuid,ten-empty-icu,thirty-one-icu \
                       --keys 1000000 --writer false,true \
                       --optimisation all,separators,separator-first",
                quick: "descent --level tree --shape uuid --keys 50000 --writer true \
                        --optimisation all,separators --quick",
            },
            Step {
                name: "table",
                full: "descent --level table --keys 1000000 --optimisation all,separators",
                quick: "descent --level table --keys 50000 --optimisation all,separators \
                        --shape uuid --quick",
            },
        ],
    },
    Thread {
        number: "001",
        page: "docs/threads/001-dead-row-store.md",
        steps: &[
            Step {
                name: "nodes",
                full: "dead-rows --structure ours,fixed,array,roaring --keys \
                       sequential-by-8,half-by-8,0x7F07FF00FF,0xFFFF0000003F",
                quick: "dead-rows --structure ours,fixed,array --keys sequential-by-8,half-by-8 \
                        --quick",
            },
            Step {
                name: "stores",
                full: "dead-rows",
                quick: "dead-rows --keys 30-per-block,100-per-block --quick",
            },
            Step { name: "vacuum", full: "vacuum", quick: "vacuum --rows 50000 --quick" },
        ],
    },
    Thread {
        number: "002",
        page: "docs/threads/002-insert-prefetch.md",
        steps: &[
            Step {
                name: "batches",
                full: "insert-prefetch --indexes 5 --batch 1,100,1000,10000 --index btree \
                       --method io_uring --device native",
                quick: "insert-prefetch --rows 50000 --batch 10000 --quick",
            },
            Step {
                name: "indexes",
                full: "insert-prefetch --indexes 1,2,5,8 --batch 100,10000 --index btree \
                       --method io_uring --device native",
                quick: "insert-prefetch --rows 50000 --indexes 1 --batch 100 --quick",
            },
            Step {
                name: "writers",
                full: "insert-prefetch --writers 1,2,4,16,64 --indexes 5 --batch 1,100,1000 \
                       --index btree --method io_uring --device native \
                       --setting cold-leaves,steady",
                quick: "insert-prefetch --rows 50000 --writers 4 --batch 100 \
                        --setting cold-leaves --quick",
            },
            Step {
                name: "buffered",
                full: "insert-prefetch --io buffered --indexes 5 --batch 1,100,1000,10000 \
                       --index btree --method io_uring --device native",
                quick: "insert-prefetch --rows 50000 --io buffered --batch 100 \
                        --setting cold-leaves --quick",
            },
        ],
    },
    Thread {
        number: "003",
        page: "docs/threads/003-dead-entry-hints.md",
        steps: &[
            // Policies in turns on one table, a minute each: five minutes a cell.
            Step {
                name: "clients",
                full: "hot-update --hints each --column unindexed --unique false \
                       --mix 50/50,5/95 --seconds 60 --threads 10,40,70,230,400,800",
                quick: "hot-update --hints each --column unindexed --unique false --mix 5/95 \
                        --seconds 1 --threads 64 --quick",
            },
            Step {
                name: "keys",
                full: "hot-update --hints each --column indexed,unindexed --unique true,false \
                       --mix 5/95 --seconds 45 --threads 64",
                quick: "hot-update --hints off,epoch --column indexed --unique true --mix 5/95 \
                        --seconds 1 --quick",
            },
            Step {
                name: "unlogged",
                full: "hot-update --hints each --column unindexed --unique false --mix 5/95 \
                       --seconds 30 --threads 64 --logged false",
                quick: "hot-update --hints page-lsn --column unindexed --unique false \
                        --mix 5/95 --seconds 1 --threads 64 --logged false --quick",
            },
            // A table of its own for each policy, so that one picture shows one policy.
            Step {
                name: "moments",
                full: "hot-update --column indexed --unique false --mix 50/50 --seconds 60 \
                       --threads 64 --vacuum_at 15 --scan_at 40",
                quick: "hot-update --hints epoch --column indexed --unique false --mix 50/50 \
                        --seconds 2 --vacuum_at 1 --scan_at 1 --quick",
            },
            Step {
                name: "partial",
                full: "hot-update --hints epoch --column indexed --unique true --mix updates \
                       --seconds 20 --threads 4 --indexes 2,5,10 --fillfactor 100,90",
                quick: "hot-update --hints epoch --column indexed --unique true --mix updates \
                        --seconds 1 --threads 4 --indexes 5 --fillfactor 90 --quick",
            },
        ],
    },
    Thread {
        number: "004",
        page: "docs/threads/004-index-prefetching.md",
        steps: &[
            Step { name: "data", full: "row-order", quick: "row-order --quick" },
            Step {
                name: "zones",
                full: "index-scan --rows 1000000 --io buffered,direct --cache cold --device native \
                       --method io_uring --selectivity 1,10 \
                       --fuzz 0,1,2,4,8,16,32,64,128,256,512,1024,2048,4096,8192,16384,32768,\
                       65536,131072,262144,524288,1000000,-1",
                quick: "index-scan --rows 40000 --io buffered --cache cold --device native \
                        --kind heap --quick",
            },
            Step {
                name: "methods",
                full: "index-scan --io buffered --cache cold --device native --method worker,sync \
                       --selectivity 1,10 --fuzz 0,64,1024,16384,-1",
                quick: "index-scan --rows 20000 --io buffered --cache cold --device native \
                        --method sync --kind heap --fuzz 64 --quick",
            },
            Step {
                name: "selectivity",
                full: "index-scan --io buffered --cache cold --device native --method io_uring \
                       --selectivity 0.01,0.1,1,10,100 --fuzz 0,64,1024,-1",
                quick: "index-scan --rows 20000 --io buffered --cache cold --device native \
                        --kind heap --selectivity 100 --fuzz -1 --quick",
            },
            Step {
                name: "tables",
                full: "index-scan --io buffered --cache cold --device native --method io_uring \
                       --selectivity 1 --fuzz 0,64,1024,-1 --fillfactor 20,60,100 \
                       --duplicates 1,32 --run 1,64",
                quick: "index-scan --rows 20000 --io buffered --cache cold --device native \
                        --kind heap --fuzz 64 --fillfactor 100 --duplicates 32 --run 64 --quick",
            },
            Step {
                name: "maps",
                full: "index-scan --io buffered,direct --cache cold --device native \
                       --method io_uring --selectivity 1,10 --fuzz 0,64,-1 --kind index-only \
                       --changed 0,1,10,50",
                quick: "index-scan --rows 20000 --io buffered --cache cold --device native \
                        --kind index-only --fuzz 64 --changed 10 --quick",
            },
            Step {
                name: "estimates",
                full: "index-scan --io direct --cache cold --device native \
                       --method io_uring,worker --selectivity 1,10 --estimate known,none",
                quick: "index-scan --rows 20000 --cache cold --device native --kind heap \
                        --fuzz 64 --estimate known,none --quick",
            },
            Step {
                name: "limits",
                full: "limit-sweep --method io_uring",
                quick: "limit-sweep --rows 20000 --limit 1,64 --quick",
            },
            Step {
                name: "writes",
                full: "beside-writes --method io_uring",
                quick: "beside-writes --rows 50000 --quick",
            },
        ],
    },
];

/// The flags of the command without an experiment.
pub(crate) fn flags() -> [Arg; 3] {
    let thread = Arg::new("thread").long("thread").value_name("NUMBER");
    let quick = Arg::new("quick").long("quick").requires("thread").action(ArgAction::SetTrue);
    let results = Arg::new("results").long("results").value_name("DIR").requires("thread");
    [
        thread
            .value_parser(THREADS.map(|thread| thread.number))
            .help("Run the experiments that answer a thread of docs/threads"),
        quick.help("Run the short form of each: half a minute a thread"),
        results
            .value_parser(value_parser!(PathBuf))
            .default_value("bench/results")
            .help("Keep the JSON lines here; a step that has ended is not run again"),
    ]
}

/// Runs the steps of the thread that `matches` name, if they name one; `run` runs a command line.
/// False: they do not.
pub(crate) fn run(
    matches: &ArgMatches,
    mut run: impl FnMut(&[String]) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let Some(number) = matches.get_one::<String>("thread") else { return Ok(false) };
    let thread = THREADS.iter().find(|thread| thread.number == number);
    let thread = thread.expect("the command line has no other");
    let quick = matches.get_flag("quick");
    let results: &PathBuf = matches.get_one("results").expect("it has a default");
    std::fs::create_dir_all(results)?;
    say(&format!("thread {number}: see {}", thread.page));
    for step in thread.steps {
        let form = if quick { "-quick" } else { "" };
        let file = results.join(format!("{number}-{}{form}.jsonl", step.name));
        if file.exists() {
            say(&format!("{} is there: {} is not run again", file.display(), step.name));
            continue;
        }
        run_step(if quick { step.quick } else { step.full }, &file, &mut run)?;
    }
    Ok(true)
}

/// Runs the command line `words`; its lines are in `file` once all of it has ended.
fn run_step(
    words: &str,
    file: &Path,
    run: &mut impl FnMut(&[String]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let part = file.with_extension("part");
    let mut line: Vec<String> = words.split_whitespace().map(str::to_string).collect();
    say(&format!("rightlink-bench {}", line.join(" ")));
    line.extend(["--json".to_string(), part.display().to_string()]);
    run(&line)?;
    std::fs::rename(&part, file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every step is a command line that the command takes, and has a page.
    #[test]
    fn steps_are_command_lines() {
        for thread in THREADS {
            let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(thread.page);
            assert!(page.exists(), "{}", thread.page);
            for words in thread.steps.iter().flat_map(|step| [step.full, step.quick]) {
                let line = ["rightlink-bench"].into_iter().chain(words.split_whitespace());
                let matches = crate::command().try_get_matches_from(line);
                assert!(matches.is_ok_and(|matches| matches.subcommand().is_some()), "{words}");
            }
        }
    }

    /// A step that ended is left alone; one that failed is run again.
    #[test]
    fn a_run_goes_on_where_it_was_ended() {
        let dir = std::env::temp_dir().join(format!("rl-threads-{}", std::process::id()));
        let words = ["rightlink-bench", "--thread", "001", "--quick", "--results"];
        let line = words.into_iter().map(str::to_string).chain([dir.display().to_string()]);
        let matches = crate::command().try_get_matches_from(line).unwrap();
        let mut ran = Vec::new();
        let mut turn = |fails: &str| {
            run(&matches, |line| {
                ran.push(line[0].clone());
                std::fs::write(line.last().expect("a file of results"), "{}\n")?;
                if line[0] == fails { Err("ended".into()) } else { Ok(()) }
            })
        };
        assert!(turn("vacuum").is_err());
        assert!(turn("").unwrap());
        assert!(turn("").unwrap());
        assert_eq!(ran, ["dead-rows", "dead-rows", "vacuum", "vacuum"]);
        assert!(dir.join("001-stores-quick.jsonl").exists());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
