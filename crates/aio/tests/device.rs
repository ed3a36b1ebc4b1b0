//! The modelled device: what it lets through is what its model says, in simulated time exactly and
//! in real time at most.
#![cfg(not(feature = "shuttle"))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use rightlink_aio::{
    Calibration, Io, IoOptions, Method, OpenMode, SimDisk, calibrate, device_figures,
};
use rightlink_env::Env;
use std::time::Duration;

fn options(method: Method, device: &str) -> IoOptions {
    let device = Some(device.parse().unwrap());
    IoOptions { method, direct: false, depth: 256, workers: 4, device }
}

/// What the model reaches at each depth, in simulated time.
fn modelled(method: Method, device: &str, depths: &[u32], reads: u32) -> Vec<Calibration> {
    let env = Env::simulated(1);
    let io = Io::simulated(&env, SimDisk::new(1), options(method, device)).unwrap();
    calibrate(&io, &env.clock, depths, reads).unwrap()
}

fn rate(runs: &[Calibration], index: usize) -> f64 {
    runs[index].reads_per_s()
}

#[test]
fn rate_grows_with_depth_up_to_the_devices() {
    let runs = modelled(Method::Worker, "latency=500us,depth=64", &[1, 8, 64, 128], 12_800);
    // One read each 500 us is 2000 per second and waiter, up to 64 waiters.
    for (index, expected) in [2_000.0, 16_000.0, 128_000.0, 128_000.0].into_iter().enumerate() {
        let off = (rate(&runs, index) / expected - 1.0).abs();
        assert!(off < 0.02, "{}", runs[index]);
    }
    assert_eq!(runs[0].latency(), Duration::from_micros(500));
    assert_eq!(runs[0].to_string(), "depth 1: 2000 reads/s of 8 KiB, 500 us each");
}

#[test]
fn bandwidth_limits_what_depth_allows() {
    let device = "latency=100us,depth=64,bandwidth=8192000";
    let runs = modelled(Method::Worker, device, &[1, 64], 2_000);
    assert!((rate(&runs, 0) - 1_000.0).abs() < 10.0, "{}", runs[0]);
    assert!((rate(&runs, 1) - 1_000.0).abs() < 70.0, "{}", runs[1]);
}

/// What a modelled device serves at once is found within a tenth of a second, in simulated time.
#[test]
fn the_depth_of_a_device_is_found() {
    for (model, expected) in [
        ("latency=500us,depth=1", 2),
        ("latency=500us,depth=8", 16),
        ("latency=100us,depth=32", 64),
        ("latency=100us,depth=64", 128),
        ("latency=100us,depth=500", 128),
        // The bus carries 8 of the 64; 16 keep it busy but for the ends of the measurement.
        ("latency=1ms,depth=64,bandwidth=65536000", 32),
    ] {
        let env = Env::simulated(1);
        let direct = IoOptions { direct: true, ..options(Method::Worker, model) };
        let io = Io::simulated(&env, SimDisk::new(1), direct).unwrap();
        let start = env.clock.now();
        let found = device_figures(&io, &env.clock, 128, Duration::from_millis(100)).unwrap();
        let found = found.unwrap();
        assert_eq!(found.depth, expected, "{model}");
        let per_block = f64::from(found.in_order_per_s) / f64::from(found.scattered_per_s);
        // Neighbours come with one read, as far as the bus carries them.
        let at_least = if model.contains("bandwidth") { 0.8 } else { 3.0 };
        assert!(per_block >= at_least, "{model}: {found:?}");
        let took = env.clock.now() - start;
        assert!(took < Duration::from_millis(160), "{model}: {took:?}");
        assert_eq!(io.list("").unwrap(), Vec::<String>::new(), "nothing is left behind");
    }
    let env = Env::simulated(1);
    let buffered = options(Method::Worker, "latency=1ms,depth=4");
    let io = Io::simulated(&env, SimDisk::new(1), buffered).unwrap();
    let found = device_figures(&io, &env.clock, 128, Duration::from_millis(100)).unwrap();
    assert_eq!(found, None, "the page cache says nothing about the device");
}

/// The sync method waits for each operation, whatever depth it is asked for.
#[test]
fn sync_reaches_depth_one() {
    let runs = modelled(Method::Sync, "latency=200us,depth=64", &[1, 64], 1_000);
    assert!((rate(&runs, 0) - 5_000.0).abs() < 1.0, "{}", runs[0]);
    assert!((rate(&runs, 1) - 5_000.0).abs() < 1.0, "{}", runs[1]);
}

#[test]
fn blocking_calls_and_syncs_take_their_time() {
    let env = Env::simulated(1);
    let device = options(Method::Worker, "latency=1ms,depth=4");
    let io = Io::simulated(&env, SimDisk::new(1), device).unwrap();
    let file = io.open_file("f", OpenMode::Create).unwrap();
    file.write_all_at(b"x", 0).unwrap();
    file.sync_data().unwrap();
    io.sync_dir("").unwrap();
    assert_eq!(file.read_at(&mut [0; 9], 0), Ok(1));
    assert_eq!(env.clock.now().0, 4_000_000);
}

/// Real time, real methods: the model may be slower than asked, as sleeping is, never faster.
#[test]
fn real_methods_are_never_faster_than_the_model() {
    for method in [Method::Sync, Method::Worker, Method::IoUring] {
        let env = Env::system(0);
        let root = std::env::temp_dir().join(format!("rl-device-{}-{method}", std::process::id()));
        Io::create_root(&root).unwrap();
        let io = Io::open(&env, &root, options(method, "latency=500us,depth=8")).unwrap();
        let runs = calibrate(&io, &env.clock, &[1, 32], 80).unwrap();
        let depth = io.stats().max_depth;
        drop(io);
        std::fs::remove_dir_all(&root).unwrap();
        assert!(rate(&runs, 0) <= 2_000.0, "{method} {}", runs[0]);
        assert!(rate(&runs, 1) <= 16_000.0, "{method} {}", runs[1]);
        assert_eq!(depth, if method == Method::Sync { 1 } else { 32 }, "{method}");
    }
}
