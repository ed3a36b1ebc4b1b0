//! A modelled device: every operation gets the moment at which it would be finished there, and is
//! not completed before. Latency runs per operation, at most `depth` operations are served at once,
//! and all of them share one bus. The model adds time and never saves any: what it reaches is
//! measured by [`crate::calibrate`], not claimed.

use crate::options::DeviceModel;
use rightlink_env::Nanos;
use rightlink_env::sync::Mutex;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// The queue of a modelled device.
#[derive(Debug)]
pub(crate) struct Device {
    model: DeviceModel,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    /// When each busy server is free again; at most `depth` of them.
    busy_until: BinaryHeap<Reverse<Nanos>>,
    bus_free: Nanos,
}

impl Device {
    pub(crate) fn new(model: DeviceModel) -> Device {
        assert!(model.depth > 0, "a device serves something");
        Device { model, queue: Mutex::default() }
    }

    /// When an operation of `bytes` bytes that arrives at `now` is finished.
    pub(crate) fn schedule(&self, now: Nanos, bytes: usize) -> Nanos {
        let mut queue = self.queue.lock();
        let start = queue.start(now, self.model.depth);
        let mut finish = start + self.model.latency;
        if let Some(rate) = self.model.bytes_per_s {
            queue.bus_free = queue.bus_free.max(start) + transfer_time(bytes, rate);
            finish = finish.max(queue.bus_free);
        }
        queue.busy_until.push(Reverse(finish));
        assert!(finish >= now, "nothing is finished before it starts");
        finish
    }
}

impl Queue {
    /// When a server is free for an operation that arrives at `now`; takes that server.
    fn start(&mut self, now: Nanos, depth: u32) -> Nanos {
        while self.busy_until.peek().is_some_and(|free| free.0 <= now) {
            self.busy_until.pop();
        }
        if self.busy_until.len() < depth as usize {
            return now;
        }
        self.busy_until.pop().map_or(now, |free| free.0)
    }
}

fn transfer_time(bytes: usize, rate: u64) -> Duration {
    let nanos = bytes as u128 * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn device(text: &str) -> Device {
        Device::new(text.parse().expect("a model"))
    }

    #[test]
    fn serves_depth_at_once() {
        let device = device("latency=10us,depth=2");
        let finish: Vec<u64> = (0..5).map(|_| device.schedule(Nanos(0), 8192).0).collect();
        assert_eq!(finish, [10_000, 10_000, 20_000, 20_000, 30_000]);
        assert_eq!(device.schedule(Nanos(25_000), 8192), Nanos(35_000));
        assert_eq!(device.schedule(Nanos(100_000), 8192), Nanos(110_000));
    }

    #[test]
    fn shares_one_bus() {
        let device = device("latency=1us,depth=100,bandwidth=1000000");
        assert_eq!(device.schedule(Nanos(0), 10), Nanos(10_000));
        assert_eq!(device.schedule(Nanos(0), 10), Nanos(20_000));
        assert_eq!(device.schedule(Nanos(50_000), 0), Nanos(51_000));
    }
}
