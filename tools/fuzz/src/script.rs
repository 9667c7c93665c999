//! A script of packets, which is simulated.
#![no_main]

use lasthop_sim::script::Script;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(script) = Script::read(text, "fuzz") {
        drop(script.simulate());
    }
});
