//! A file of a link, of any layout that is known; what is read is converted to each.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use lasthop_core::time::Span;
use lasthop_sim::link_trace::{LinkTrace, Target};
use lasthop_sim::scenario::Way;
use libfuzzer_sys::fuzz_target;

const MOST_BITS: f64 = 1e9;

static PLACE: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("lasthop-fuzz-{}", std::process::id())));

fuzz_target!(|data: &[u8]| {
    fs::write(&*PLACE, data).expect("there is room for the file");
    for name in Way::NAMES {
        let way = Way::by_name(name).expect("its own name");
        let Ok(trace) = LinkTrace::read(&PLACE, way) else { continue };
        drop(trace.summary());
        // A long recording of a fast link is millions of lines, which takes time and shows nothing new.
        if trace.bins(Span::from_secs(1)).is_none_or(|rates| rates.iter().sum::<f64>() > MOST_BITS) {
            continue;
        }
        for target in Target::NAMES {
            let target = Target::by_name(target).expect("its own name");
            drop(trace.convert(target, Span::from_secs(1)));
        }
    }
});
