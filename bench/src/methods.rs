//! How cells read: their method and device, and worker threads against io_uring in cells that
//! differ in the method alone.
//!
//! Invariants: only cells that read ahead are compared, each with its own counterpart.
//! Does not do: timing.

use rightlink_aio::{DeviceModel, Method};

use crate::Failure;
use crate::knobs::Cell;
use crate::report::say;

/// The most that worker threads may take beyond io_uring: on the native device, on a modelled one.
const MOST: (f64, f64) = (1.40, 1.15);

/// Method and device of a cell.
pub(crate) fn io(cell: &Cell) -> Result<(Method, Option<DeviceModel>), Failure> {
    let device: String = cell.get("device")?;
    let device = (device != "native").then(|| device.parse()).transpose()?;
    Ok((cell.get::<String>("method")?.parse()?, device))
}

/// Says, for each device among `cells` and their milliseconds, how worker threads do against
/// io_uring in the geometric mean and at worst.
pub(crate) fn say_ratios(cells: &[(Cell, f64)]) -> Result<(), Failure> {
    let mut devices: Vec<String> = Vec::new();
    for (cell, _) in cells {
        let device = cell.get("device")?;
        if !devices.contains(&device) {
            devices.push(device);
        }
    }
    for device in devices {
        let ratios = ratios(cells, &device)?;
        if ratios.is_empty() {
            continue;
        }
        let mean = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64;
        let worst = ratios.iter().copied().fold(f64::MIN, f64::max);
        let most = if device == "native" { MOST.0 } else { MOST.1 };
        let beyond = ratios.iter().filter(|ratio| **ratio > most).count();
        let verdict = if beyond == 0 { "kept" } else { "MISSED" };
        let (mean, count) = (mean.exp(), ratios.len());
        say(&format!(
            "{device}: worker to io_uring {mean:.2} in the mean, {worst:.2} at worst, at most \
             {most}: {verdict} ({beyond} of {count} cells beyond)"
        ));
    }
    Ok(())
}

fn ratios(cells: &[(Cell, f64)], device: &str) -> Result<Vec<f64>, Failure> {
    let mut ratios = Vec::new();
    for (cell, worker) in cells {
        if cell.get::<String>("method")? != "worker" || cell.get::<String>("device")? != device {
            continue;
        }
        let plain = |cell: &Cell| {
            let mut words = cell.clone().with("method", "").words();
            words.sort();
            words
        };
        let ring = |other: &&(Cell, f64)| {
            other.0.get::<String>("method").is_ok_and(|method| method == "io_uring")
                && plain(&other.0) == plain(cell)
        };
        ratios.extend(cells.iter().find(ring).map(|(_, ring)| worker / ring));
    }
    Ok(ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_counterparts_are_compared() {
        let cell = |method: &str, batch: u32| {
            Cell::default().with("device", "native").with("batch", batch).with("method", method)
        };
        let cells =
            [(cell("io_uring", 1), 2.0), (cell("worker", 1), 3.0), (cell("worker", 2), 9.0)];
        assert_eq!(ratios(&cells, "native").unwrap(), [1.5]);
        assert_eq!(ratios(&cells, "other").unwrap(), [0.0; 0]);
    }
}
