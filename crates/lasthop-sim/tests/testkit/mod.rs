//! What the integration tests share: scenarios put together from pieces, runs of them, and a pair of TCP endpoints
//! without a network (`pair.rs`).
//!
//! A test says what its scenario is about in the scenario's own words; the kit adds what every scenario needs, and
//! fails with the message and the text where a test itself is wrong.

pub(crate) mod pair;

use lasthop_net::plan::Plan;
use lasthop_net::trace::{Frames, HopRecord, Recording};
use lasthop_net::world::Evaluation;
use lasthop_sim::run::{Progress, Run, run, run_evaluated};
use lasthop_sim::scenario::{Format, Scenario};

/// The summary alone.
pub(crate) const SUMMARY: Recording = Recording { series: false, trace: false, frames: Frames::None };
/// And the time series.
pub(crate) const SERIES: Recording = Recording { series: true, trace: false, frames: Frames::None };
/// And every packet on every link.
pub(crate) const TRACE: Recording = Recording { series: false, trace: true, frames: Frames::All };
/// All of it.
pub(crate) const EVERYTHING: Recording = Recording { series: true, trace: true, frames: Frames::All };

/// Reads a scenario.
pub(crate) fn parse(text: &str) -> Scenario {
    Scenario::parse(text, Format::Toml, "test", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The plan of a scenario.
pub(crate) fn plan_of(text: &str) -> Plan {
    parse(text).into_plan()
}

/// Runs a plan.
pub(crate) fn run_plan(plan: &Plan, seed: u64, recording: Recording) -> Run {
    run(plan, seed, recording, &Progress::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a scenario.
pub(crate) fn run_text(text: &str, seed: u64, recording: Recording) -> Run {
    run_plan(&plan_of(text), seed, recording)
}

/// Runs a plan with links evaluated ahead of the clock and with links that wait for it, which must do the same, packet
/// for packet, and account for every packet; returns the first run, with its trace.
pub(crate) fn run_plan_both_ways(plan: &Plan, seed: u64) -> Run {
    recorded_both_ways(plan, seed, TRACE)
}

/// The same with what is to be recorded: a trace of a long run, twice, takes gigabytes.
pub(crate) fn recorded_both_ways(plan: &Plan, seed: u64, recording: Recording) -> Run {
    let evaluated = |evaluation| {
        run_evaluated(plan, seed, (recording, evaluation), &Progress::default())
            .unwrap_or_else(|error| panic!("{error}"))
    };
    let (eager, clocked) = (evaluated(Evaluation::Eager), evaluated(Evaluation::Clocked));
    assert_eq!(eager.summary.fingerprint, clocked.summary.fingerprint, "{plan:?}");
    let (network, by_clock) = (&eager.world.network, &clocked.world.network);
    assert!(network.ledger.balances(), "{:?}", network.ledger);
    assert_eq!(network.ledger, by_clock.ledger);
    assert_eq!(network.measured, by_clock.measured);
    assert_eq!(network.packet_hops, by_clock.packet_hops);
    for (one, other) in eager.summary.links.iter().zip(&clocked.summary.links) {
        assert_eq!(one.tied_arrivals, other.tied_arrivals, "{}", one.name);
    }
    eager
}

/// `run_plan_both_ways` of a scenario.
pub(crate) fn run_both_ways(text: &str, seed: u64) -> Run {
    run_plan_both_ways(&plan_of(text), seed)
}

/// Every packet on every link of a run with a trace.
pub(crate) fn hops(run: &Run) -> &[HopRecord] {
    &run.recorded.hops
}

/// The key of a queue that takes as much as `limit` says.
pub(crate) fn drop_tail(limit: &str) -> String {
    format!("queue = {{ kind = \"drop-tail\", limit = \"{limit}\" }}")
}

/// A scenario that grows piece by piece; the pieces are lines of TOML.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    text: String,
}

impl Scene {
    /// It lasts so long.
    pub(crate) fn lasting(duration: &str) -> Scene {
        Scene { text: format!("duration = \"{duration}\"\n") }
    }

    /// More lines: keys of the scenario itself as long as there is no table, and tables.
    #[must_use]
    pub(crate) fn with(mut self, lines: &str) -> Scene {
        self.text += lines;
        self.text.push('\n');
        self
    }

    /// A dumbbell with these keys of the bottleneck and of the access links.
    #[must_use]
    pub(crate) fn dumbbell(self, bottleneck: &str, access: &str) -> Scene {
        let head = "[topology]\nkind = \"dumbbell\"\n";
        self.with(&format!("{head}[topology.bottleneck]\n{bottleneck}\n[topology.access]\n{access}"))
    }

    /// Nodes in a row and the keys of the links between them.
    #[must_use]
    pub(crate) fn chain<const N: usize>(self, nodes: [&str; N], links: &[&str]) -> Scene {
        assert_eq!(links.len() + 1, N, "a link between any two neighbours");
        let scene = self.with(&format!("[topology]\nkind = \"graph\"\nnodes = {nodes:?}"));
        nodes.windows(2).zip(links).fold(scene, |scene, (ends, link)| scene.link(ends[0], ends[1], link))
    }

    /// A link with these keys.
    #[must_use]
    pub(crate) fn link(self, from: &str, to: &str, keys: &str) -> Scene {
        self.with(&format!("[[topology.links]]\nfrom = \"{from}\"\nto = \"{to}\"\n{keys}"))
    }

    /// A flow of a dumbbell with these keys.
    #[must_use]
    pub(crate) fn flow(self, keys: &str) -> Scene {
        self.with(&format!("[[flows]]\n{keys}"))
    }

    /// A flow between two nodes of a graph from the very start, with these keys.
    #[must_use]
    pub(crate) fn between(self, source: &str, sink: &str, keys: &str) -> Scene {
        self.flow(&format!("source = \"{source}\"\nsink = \"{sink}\"\nstart = \"0 s\"\n{keys}"))
    }

    /// The whole text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Its plan.
    pub(crate) fn plan(&self) -> Plan {
        plan_of(&self.text)
    }

    /// Runs it.
    pub(crate) fn run(&self, seed: u64, recording: Recording) -> Run {
        run_plan(&self.plan(), seed, recording)
    }
}
