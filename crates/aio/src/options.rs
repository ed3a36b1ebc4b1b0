//! How I/O is to be done: method, direct or buffered, depth, and the modelled device if any.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What is expected of a file that is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpenMode {
    /// It exists and is only read.
    ReadOnly,
    /// It exists.
    Existing,
    /// It is made if it does not exist.
    Create,
    /// It does not exist and is made.
    CreateNew,
}

/// How asynchronous operations are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// By the submitting thread, one after the other.
    Sync,
    /// By worker threads.
    Worker,
    /// By the kernel, through an io_uring.
    IoUring,
    /// On a simulated disk. No name stands for it.
    Sim,
}

/// A word that should have named an option, and what it should have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadOption(pub String);

impl fmt::Display for BadOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadOption {}

impl FromStr for Method {
    type Err = BadOption;

    fn from_str(text: &str) -> Result<Method, BadOption> {
        match text {
            "sync" => Ok(Method::Sync),
            "worker" => Ok(Method::Worker),
            "io_uring" => Ok(Method::IoUring),
            _ => Err(BadOption(format!("I/O method {text:?} is not sync, worker or io_uring"))),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Method::Sync => "sync",
            Method::Worker => "worker",
            Method::IoUring => "io_uring",
            Method::Sim => "sim",
        })
    }
}

/// How I/O is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoOptions {
    /// How asynchronous operations are carried out.
    pub method: Method,
    /// Past the page cache, with everything aligned to 4096.
    pub direct: bool,
    /// The most operations in flight; a submit beyond it waits for one to complete.
    pub depth: u32,
    /// Most threads of the worker method; few are started before they are needed.
    pub workers: u32,
    /// A modelled device; none is the native one.
    pub device: Option<DeviceModel>,
}

impl Default for IoOptions {
    /// Worker threads on buffered files: works everywhere.
    fn default() -> IoOptions {
        IoOptions { method: Method::Worker, direct: false, depth: 64, workers: 64, device: None }
    }
}

impl IoOptions {
    /// The default options with another method.
    pub fn with_method(method: Method) -> IoOptions {
        IoOptions { method, ..IoOptions::default() }
    }
}

/// A device that is slower than the one at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceModel {
    /// Time that one read or write takes.
    pub latency: Duration,
    /// Number of operations that the device serves at once.
    pub depth: u32,
    /// Bytes per second of all operations together. `None`: no limit.
    pub bytes_per_s: Option<u64>,
}

impl FromStr for DeviceModel {
    type Err = BadOption;

    /// Reads `latency=500us,depth=64` and optionally `,bandwidth=200M` (bytes per second).
    fn from_str(text: &str) -> Result<DeviceModel, BadOption> {
        let mut model = DeviceModel { latency: Duration::ZERO, depth: 0, bytes_per_s: None };
        for part in text.split(',') {
            let bad =
                || BadOption(format!("device model {part:?} is not latency=, depth=, bandwidth="));
            let (key, value) = part.split_once('=').ok_or_else(bad)?;
            match key {
                "latency" => model.latency = duration(value).ok_or_else(bad)?,
                "depth" => model.depth = value.parse().map_err(|_| bad())?,
                "bandwidth" => model.bytes_per_s = Some(bytes(value).ok_or_else(bad)?),
                _ => return Err(bad()),
            }
        }
        if model.depth == 0 || model.latency.is_zero() {
            let what = format!("device model {text:?} needs latency and depth above zero");
            return Err(BadOption(what));
        }
        Ok(model)
    }
}

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = text.get(..end)?.parse().ok()?;
    Some((number, text.get(end..)?))
}

fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    let nanos: u64 = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    number.checked_mul(nanos).map(Duration::from_nanos)
}

fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let factor: u64 = match unit {
        "" => 1,
        "K" | "k" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor).filter(|&bytes| bytes > 0)
}

impl fmt::Display for DeviceModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "latency={}us,depth={}", self.latency.as_micros(), self.depth)?;
        match self.bytes_per_s {
            Some(bytes) => write!(f, ",bandwidth={bytes}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_by_name() {
        for method in [Method::Sync, Method::Worker, Method::IoUring] {
            assert_eq!(method.to_string().parse(), Ok(method));
        }
        assert!("sim".parse::<Method>().is_err());
    }

    #[test]
    fn device_models_by_text() {
        let model: DeviceModel = "latency=500us,depth=64".parse().unwrap();
        let latency = Duration::from_micros(500);
        assert_eq!(model, DeviceModel { latency, depth: 64, bytes_per_s: None });
        let model: DeviceModel = "depth=1,latency=2ms,bandwidth=200M".parse().unwrap();
        assert_eq!(model.bytes_per_s, Some(200 << 20));
        assert_eq!(model.to_string().parse(), Ok(model));
        for bad in ["", "latency=5", "depth=4", "latency=1us,depth=0", "latency=1us,depth=2,x=1"] {
            assert!(bad.parse::<DeviceModel>().is_err(), "{bad}");
        }
    }
}
