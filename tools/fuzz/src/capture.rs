//! A capture of packets, pcap or pcapng, and what is estimated from it.
#![no_main]

use lasthop_sim::capture::{estimate, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for only in [None, Some(0)] {
        if let Ok(capture) = read::read_from(data, only) {
            drop(estimate::estimate(&capture).to_string());
        }
    }
});
