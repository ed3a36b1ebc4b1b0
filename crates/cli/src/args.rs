//! What can be typed: commands, options, defaults, and an example for each.
//!
//! Invariants: every command has one line of purpose and an example; `EXIT_CODES` lists exactly the
//! codes of `failure::Exit`.
//! Does not do: checks that need the database.

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand, ValueEnum};
use rightlink::Method;

/// Shown at the end of `rightlink --help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  wrong usage: an unknown option, a value that is none, a request that makes no sense
  2  bad input data: a bad line, a duplicate key, a value over a limit
  3  not found: database, table, index, column, row or file
  4  conflict: the database is open elsewhere, or the name is taken
  5  damage found: by verify, or by any command on the way
  6  input/output error, the disk is full, or memory has run out

Start with the guided tour:
  rightlink tour";

/// Rightlink: a transactional table store in one directory.
#[derive(Parser)]
#[command(name = "rightlink", version, after_help = EXIT_CODES, disable_help_subcommand = true)]
pub(crate) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of every command.
#[derive(clap::Args, Clone)]
pub(crate) struct Common {
    /// Print JSON: one object a line, errors too (on standard error)
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Memory for everything that grows with the data, at least 8M (suffix K, M or G)
    #[arg(long, global = true, value_name = "SIZE", default_value = "128M",
          value_parser = crate::figures::parse_bytes)]
    pub(crate) memory: usize,
    /// How to reach the disk: sync, worker, io_uring [default: io_uring; worker if it is refused]
    #[arg(long, global = true, value_name = "METHOD", value_parser = parse_method)]
    pub(crate) io_method: Option<Method>,
    /// Bypass the operating system's page cache for data files
    #[arg(long, global = true)]
    pub(crate) direct: bool,
}

fn parse_method(text: &str) -> Result<Method, String> {
    text.parse().map_err(|error| format!("{error}"))
}

/// The commands.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Load CSV files with a header line into a table
    Load(LoadArgs),
    /// Print rows of a table, through an index if wanted
    Scan(ScanArgs),
    /// Print all rows of a table as CSV or JSON lines, for load or for other programs
    Export(ExportArgs),
    /// Print the rows with these primary keys
    Get(GetArgs),
    #[command(flatten)]
    Upkeep(Upkeep),
    /// Make a database from a copy, recover and verify it
    #[command(after_help = "\
The copy is not changed. Until the new database has been verified it is marked as unfinished, and no
command opens it; remove its directory and begin again after a failure.

Example:
  rightlink restore shop.copy shop.db")]
    Restore {
        /// Directory of the copy
        dir: PathBuf,
        /// Directory for the database, made now
        db: PathBuf,
    },
    /// Run SQL: statements of -c, of a file, or typed
    Sql(SqlArgs),
    /// Serve psql and other PostgreSQL clients
    Serve(ServeArgs),
    /// Make a line for serve --users: the password is read from standard input
    #[command(after_help = "\
The file of users must be its owner's alone: create it under umask 077.

Example:
  (umask 077 && echo secret | rightlink password ann >> users)")]
    Password {
        /// Name of the user
        name: String,
    },
    /// A guided tour on 27,004 real flights: load, ask, update, kill, recover, verify
    Tour(TourArgs),
}

/// Commands that look at a database or after it. A server that has it open runs them for its owner.
#[derive(Subcommand)]
pub(crate) enum Upkeep {
    /// List the tables
    #[command(after_help = "Example:\n  rightlink tables shop.db")]
    Tables {
        /// Directory of the database
        db: PathBuf,
    },
    /// Show columns and indexes of a table
    #[command(after_help = "Example:\n  rightlink describe shop.db orders")]
    Describe {
        /// Directory of the database
        db: PathBuf,
        /// Name of the table
        table: String,
    },
    /// Show sizes, and figures of pool, log, checkpoints, reads and writes since opening
    #[command(after_help = STAT)]
    Stat(StatArgs),
    /// Show the pages of a table or an index, or the items of one page
    #[command(after_help = INSPECT)]
    Inspect {
        /// Directory of the database
        db: PathBuf,
        /// Name of a table (its heap) or of an index
        relation: String,
        /// Block whose items to show; all pages without it
        block: Option<u32>,
    },
    /// Check pages, heaps and indexes, and all of them against each other
    #[command(after_help = "Example:\n  rightlink verify shop.db --offline")]
    Verify {
        /// Directory of the database
        db: PathBuf,
        /// Check a database that nobody has open, without recovery and without changing a byte
        #[arg(long)]
        offline: bool,
    },
    /// Remove dead row versions and their index entries
    #[command(after_help = "Example:\n  rightlink vacuum shop.db orders")]
    Vacuum {
        /// Directory of the database
        db: PathBuf,
        /// Only this table
        table: Option<String>,
    },
    /// Write all changed pages to their places, so that the next start has little to do
    #[command(after_help = "Example:\n  rightlink checkpoint shop.db")]
    Checkpoint {
        /// Directory of the database
        db: PathBuf,
    },
    /// Build the indexes of a table anew, or one of them
    #[command(after_help = "Example:\n  rightlink reindex shop.db orders orders_customer")]
    Reindex {
        /// Directory of the database
        db: PathBuf,
        /// Name of the table
        table: String,
        /// Name of the index; all of them without it
        index: Option<String>,
    },
    /// Copy a database into a new directory
    #[command(after_help = BACKUP)]
    Backup {
        /// Directory of the database
        db: PathBuf,
        /// Directory for the copy, made now
        dir: PathBuf,
        /// Most bytes to copy in a second (suffix K, M or G) [default: as fast as it goes]
        #[arg(long, value_name = "SIZE", value_parser = crate::figures::parse_bytes)]
        rate: Option<usize>,
    },
}

impl Upkeep {
    /// Directory of the database.
    pub(crate) fn db(&self) -> &Path {
        match self {
            Upkeep::Stat(StatArgs { db, .. })
            | Upkeep::Tables { db }
            | Upkeep::Describe { db, .. }
            | Upkeep::Inspect { db, .. }
            | Upkeep::Verify { db, .. }
            | Upkeep::Vacuum { db, .. }
            | Upkeep::Checkpoint { db }
            | Upkeep::Reindex { db, .. }
            | Upkeep::Backup { db, .. } => db,
        }
    }

    /// Does it go on when nobody reads what it prints? Its work or its exit code counts.
    pub(crate) fn outlives_reader(&self) -> bool {
        matches!(self, Upkeep::Verify { .. } | Upkeep::Backup { .. })
    }
}

/// Arguments of `stat`.
#[derive(clap::Args)]
pub(crate) struct StatArgs {
    /// Directory of the database
    pub(crate) db: PathBuf,
    /// Show what changed, again and again, after so many seconds each
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) watch: Option<u32>,
    /// With --watch: end after so many times [default: never]
    #[arg(long, value_name = "TIMES", requires = "watch")]
    pub(crate) count: Option<u64>,
    /// Show instead what of each relation is garbage or empty
    #[arg(long, conflicts_with = "watch")]
    pub(crate) bloat: bool,
}

const STAT: &str = "\
With --watch each figure that changed is shown with its change, also what upkeep in the background
does; it ends when its reader does.

With --bloat every page is read. `anew` is an estimate of the blocks that the relation would have
if it were built anew, from the bytes that live items take.

Examples:
  rightlink stat shop.db --json
  rightlink stat shop.db --watch 5
  rightlink stat shop.db --bloat";

const BACKUP: &str = "\
The copy holds every transaction that was committed before, and is a database: open it as it is, or
bring it back by restore. A copy that was cut short is marked as unfinished, and no command opens
it. Of a database that is served, its server makes the copy, while it goes on serving.

Example:
  rightlink backup shop.db shop.copy";

const INSPECT: &str = "\
Columns: level (0 is a leaf), l_item (number within the level), blkno, left and right sibling, \
flags,
type (l leaf, i inner, r root, m meta, d deleted, h heap, - unused), live and dead items, average
item size, page size, free size, high key.

Examples:
  rightlink inspect shop.db orders_customer
  rightlink inspect shop.db orders_customer 1";

/// How rows are printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    // Aligned columns for people.
    Table,
    // With a header; null is an empty field.
    Csv,
    // One object a row.
    Json,
}

/// Arguments of `load`.
#[derive(clap::Args)]
#[command(after_help = "\
The table is created when it does not exist; else rows are appended, matched by header names. A
column without a field gets its default or generated number, else null; a file that lacks one that
may not be null and has neither is refused, and one that lacks a default that only SQL works out. An
empty field is null. Types are inferred from the first rows of the first file: bool, int4, int8,
float8, date, timestamp, timestamptz, uuid, else text; numbers with a leading zero stay text. A bad
line is named by file, line and column, and nothing of its batch stays; --skip goes on from there.
With --reject bad lines go to a file of their own, with place and reason, and the others are loaded:
values that are none, wrong numbers of fields, duplicate keys, bytes that are no UTF-8, text behind
a closing quote. The exit code is then 2. A quote that is never closed ends the load all the same.
With --json, {\"committed_rows\": N} is written after every durable batch.

Examples:
  rightlink load shop.db orders orders.csv --primary-key id --index orders_customer=customer,placed
  rightlink load air.db flights data/flights.csv --primary-key id \\
      --index \"flights_delay=dest,arr_delay desc nulls last\"
  zcat big.csv.gz | rightlink load shop.db orders - --schema \"id int8, customer text null\"")]
pub(crate) struct LoadArgs {
    /// Directory of the database; made when it does not exist
    pub(crate) db: PathBuf,
    /// Name of the table
    pub(crate) table: String,
    /// CSV files, - for standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Column types instead of inferred ones: "col type [collate locale] [null], ..."
    #[arg(long, value_name = "COLUMNS")]
    pub(crate) schema: Option<String>,
    /// Columns of the primary key: a[,b]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub(crate) primary_key: Vec<String>,
    /// An index: name=col[,col desc nulls last]..., or name=hash(col[,col]...), then
    /// [include (col[,col])] [nulls not distinct] [where col >= 5 and ...]; may be repeated
    #[arg(long, value_name = "INDEX")]
    pub(crate) index: Vec<String>,
    /// An index that refuses duplicates; may be repeated
    #[arg(long, value_name = "INDEX")]
    pub(crate) unique_index: Vec<String>,
    /// Most rows of a transaction; fewer where they need too much memory
    #[arg(long, value_name = "ROWS", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) batch: u32,
    /// Most rows from which types are inferred; fewer where they need too much memory
    #[arg(long, value_name = "ROWS", default_value_t = 10_000,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) sample: u32,
    /// Rows to leave out at the beginning, over all files: continues a load that was cut short
    #[arg(long, value_name = "ROWS", default_value_t = 0)]
    pub(crate) skip: u64,
    /// Put bad lines into this new file, with the reason, and load the others
    #[arg(long, value_name = "FILE")]
    pub(crate) reject: Option<PathBuf>,
    /// What stands for null; an empty field is then an empty text
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) null: String,
    /// Do not wait for the disk at each batch: a crash may lose the newest batches, never parts
    #[arg(long)]
    pub(crate) relaxed: bool,
}

/// Arguments of `scan`.
#[derive(clap::Args)]
#[command(after_help = "\
Bounds are given in the order of the index: where a column is descending, --from is the larger
value. They may name fewer columns than the index has. Values are separated by commas, quoted as in
CSV when they hold one; \\N is null. Without --index, bounds and --desc use the primary key.
A hash index takes --equal with all of its columns, and nothing else.
--format csv prints a header, and null as an empty field; json prints one object a row.

Examples:
  rightlink scan air.db flights --limit 5
  rightlink scan air.db flights --index flights_delay --equal ORD --limit 10 \\
      --columns carrier,flight,arr_delay
  rightlink scan air.db flights --index flights_hour --from 2013-01-31 --format csv > last.csv")]
pub(crate) struct ScanArgs {
    /// Directory of the database
    pub(crate) db: PathBuf,
    /// Name of the table
    pub(crate) table: String,
    /// Index to go through, in its order
    #[arg(long, value_name = "NAME")]
    pub(crate) index: Option<String>,
    /// First key: v[,v]...
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) from: Option<String>,
    /// Last key, included: v[,v]...
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) to: Option<String>,
    /// Only keys that begin with these values: v[,v]...
    #[arg(long, value_name = "KEY", allow_hyphen_values = true,
          conflicts_with_all = ["from", "to", "any_of"])]
    pub(crate) equal: Option<String>,
    /// As --equal, but may be repeated: rows that match any of them
    #[arg(long, value_name = "KEY", allow_hyphen_values = true,
          conflicts_with_all = ["from", "to"])]
    pub(crate) any_of: Vec<String>,
    /// Backward, from the last key to the first
    #[arg(long)]
    pub(crate) desc: bool,
    /// Most rows
    #[arg(long, value_name = "ROWS")]
    pub(crate) limit: Option<u64>,
    /// Columns to print, in this order
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub(crate) columns: Option<Vec<String>>,
    /// How to print rows
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// How rows are exported.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    // With a header.
    Csv,
    // One object a row.
    Jsonl,
}

/// Arguments of `export`.
#[derive(clap::Args)]
#[command(after_help = "\
The rows are those of one moment, in no order. As CSV null is an empty field, or what --null says; a
value that would be read back as null ends the export. What load makes of the file has the same
rows; give it the same --null, and --schema where types cannot be told from the values.

Examples:
  rightlink export shop.db orders > orders.csv
  rightlink export shop.db orders --format jsonl | gzip > orders.jsonl.gz
  rightlink export a.db t --null '\\N' | rightlink load b.db t - --null '\\N'")]
pub(crate) struct ExportArgs {
    /// Directory of the database
    pub(crate) db: PathBuf,
    /// Name of the table
    pub(crate) table: String,
    /// How to print rows
    #[arg(long, value_enum, default_value_t = ExportFormat::Csv)]
    pub(crate) format: ExportFormat,
    /// What stands for null in CSV
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) null: String,
    /// Columns to print, in this order
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub(crate) columns: Option<Vec<String>>,
}

/// Arguments of `get`.
#[derive(clap::Args)]
#[command(after_help = "\
The exit code is 3 when a key has no row.

Example:
  rightlink get air.db flights 1 27004 --json")]
pub(crate) struct GetArgs {
    /// Directory of the database
    pub(crate) db: PathBuf,
    /// Name of the table
    pub(crate) table: String,
    /// Primary keys: v, or v,v where it has several columns
    #[arg(required = true, value_name = "KEY", allow_negative_numbers = true)]
    pub(crate) keys: Vec<String>,
    /// How to print rows
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// Arguments of `sql`.
#[derive(clap::Args)]
#[command(after_help = "\
Statements are PostgreSQL's. Without -c and -f they are read from standard input; \\? shows the
commands of the shell.

Examples:
  rightlink sql new.db --create -c \"create table t (id bigint primary key, name text)\"
  rightlink sql air.db -c \"select dest, avg(arr_delay) from flights group by dest order by 2 desc\"
  rightlink sql air.db -f schema.sql
  rightlink sql air.db")]
pub(crate) struct SqlArgs {
    /// Directory of the database
    pub(crate) db: PathBuf,
    /// Make the database when it does not exist
    #[arg(long)]
    pub(crate) create: bool,
    /// Run these statements, in one transaction unless they say otherwise
    #[arg(short, long, value_name = "SQL", allow_hyphen_values = true)]
    pub(crate) command: Option<String>,
    /// Run the statements of a file
    #[arg(short, long, value_name = "FILE", conflicts_with = "command")]
    pub(crate) file: Option<PathBuf>,
    /// How to print rows
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// Arguments of `serve`.
#[derive(clap::Args)]
#[command(after_help = "\
Without --listen and --socket it listens on 127.0.0.1:5432. A Unix socket is open to its owner \
only and asks for no password. SIGTERM and Ctrl-C let running statements finish.

Clients ask for the database by the name of its directory without the ending, or as postgres.

Examples:
  rightlink serve shop.db
  psql -h localhost shop

  (umask 077 && echo secret | rightlink password ann >> users)
  rightlink serve shop.db --listen 0.0.0.0:5432 --users users --tls-cert shop.pem --tls-key shop.key
  rightlink serve shop.db --socket /run/shop
  psql -h /run/shop shop")]
pub(crate) struct ServeArgs {
    /// Directory of the database
    pub(crate) db: PathBuf,
    /// Make the database when it does not exist
    #[arg(long)]
    pub(crate) create: bool,
    /// A further name that clients may ask for; may be given several times [always: the name of the
    /// directory without its ending, and postgres]
    #[arg(long, value_name = "NAME")]
    pub(crate) database: Vec<String>,
    /// Address and port of TCP; may be given several times
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Vec<std::net::SocketAddr>,
    /// Directory for a Unix socket
    #[arg(long, value_name = "DIR")]
    pub(crate) socket: Option<PathBuf>,
    /// Port that names the Unix socket
    #[arg(long, value_name = "PORT", default_value_t = 5432)]
    pub(crate) port: u16,
    /// Who may connect by TCP: lines made by `rightlink password`, in a file that others can
    /// neither read nor write [default: everyone]
    #[arg(long, value_name = "FILE")]
    pub(crate) users: Option<PathBuf>,
    /// Who may connect by TCP from where: rules in the form of pg_hba.conf, with the methods trust,
    /// reject and scram-sha-256 [default: all users, everyone without users]
    #[arg(long, value_name = "FILE")]
    pub(crate) hba: Option<PathBuf>,
    /// Certificate chain for TLS, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key for TLS, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Let other machines in without a password or without TLS
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Clients at a time; the owner has 8 more places through the Unix socket
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    pub(crate) max_connections: usize,
    /// Give up a client of TCP that takes nothing of what it was sent for so long, also one that
    /// only does not read [default: never one that lives]
    #[arg(long, value_name = "SECONDS", default_value_t = 0, hide_default_value = true)]
    pub(crate) tcp_user_timeout: u32,
}

/// Arguments of `tour`.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  rightlink tour /tmp/air.db --seed 7")]
pub(crate) struct TourArgs {
    /// Directory for the database; it must be new or empty [default: a new one in the directory for
    /// temporary files]
    pub(crate) dir: Option<PathBuf>,
    /// The flights, a CSV file
    #[arg(long, value_name = "FILE", default_value = "data/flights.csv")]
    pub(crate) data: PathBuf,
    /// Chooses the moment of the kill [default: random, and printed]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_command_has_a_purpose_and_an_example() {
        for command in Args::command().get_subcommands() {
            let name = command.get_name();
            assert!(command.get_about().is_some(), "{name} says what it is for");
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&format!("rightlink {name} ")), "{name} has an example");
        }
    }
}
