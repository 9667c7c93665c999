//! What a scenario says that its author may not have meant: allowed, run as written, and worth a sentence.
//!
//! The front shows these sentences before a run. They change nothing, and a scenario that gives rise to none is not
//! therefore a good one.

use lasthop_core::time::Time;
use lasthop_core::units::Rate;
use lasthop_net::plan::cellular::CellularUser;
use lasthop_net::plan::{Direction, FlowPlan, LinkPlan, MediumPlan, Plan, Transport};

use crate::scenario::{Scenario, stack_of};

/// One sentence for each thing worth saying about `scenario`: of its keys, then in the order of its links.
pub fn advice(scenario: &Scenario) -> Vec<String> {
    let plan = scenario.plan();
    let renamed = scenario.renamed().iter();
    let renamed =
        renamed.map(|(former, name)| format!("the key {former} is called {name} now; both are read"));
    let frame = plan.flows.iter().map(|flow| packet_size(&flow.transport)).max().unwrap_or(0);
    let mut sentences: Vec<(String, String)> = Vec::new();
    for link in &plan.links {
        for (direction, back, way) in
            [(&link.forward, &link.reverse, ""), (&link.reverse, &link.forward, " (reverse)")]
        {
            // Links made by a count share their settings: one sentence for all.
            if let Some(sentence) = small_window(direction, back, frame)
                && !sentences.iter().any(|(_, known)| *known == sentence)
            {
                sentences.push((shown_name(link, way), sentence));
            }
        }
    }
    let links = sentences.into_iter().map(|(name, sentence)| format!("link \"{name}\": {sentence}"));
    let users = plan.cellular.iter().flat_map(|cell| cell.users.iter());
    let late = users.filter_map(|user| never_goes(user, plan));
    let unseeded = plan.flows.iter().filter_map(unseeded);
    renamed.chain(links).chain(plan.media.iter().filter_map(overlap)).chain(late).chain(unseeded).collect()
}

/// Says so if a stack draws from the system what no seed settles.
fn unseeded(flow: &FlowPlan) -> Option<String> {
    let stack = stack_of(&flow.transport)?;
    let congestion = &flow.transport.stack()?.congestion;
    let name = stack.unseeded.filter(|name| name == congestion)?;
    Some(format!(
        "flow \"{}\": {name} of {} takes no seed, so that two runs of one seed differ: choose {} if a run is to be \
         repeated",
        flow.name, stack.name, stack.congestion[0],
    ))
}

/// Says so if the first handover of a user would begin after the end.
fn never_goes(user: &CellularUser, plan: &Plan) -> Option<String> {
    let first = *user.handovers.as_ref()?.at.first()?;
    let end = Time::ZERO + plan.duration;
    (first >= end).then(|| {
        format!(
            "link \"{}\": no handover takes place, as the first would begin at {first} and the run ends at {end}: make \
             the run longer, or the first handover earlier, if this is not meant",
            plan.links[user.link].name
        )
    })
}

/// Says so if stations of two cells of one channel hear each other: they share the air, which may be what is studied.
fn overlap(medium: &MediumPlan) -> Option<String> {
    let heard = |from: usize, to: usize| {
        let power = medium.propagation.received(medium.distance(from, to, Time::ZERO));
        medium.stations[from].mac != medium.stations[to].mac && power >= medium.sense_threshold
    };
    let count = medium.stations.len();
    let pairs = || (0..count).flat_map(|from| (0..from).map(move |to| (from, to)));
    let (from, to) = pairs().find(|&(from, to)| heard(from, to))?;
    Some(format!(
        "cells \"{}\" and another share a channel and overlap: \"{}\" and \"{}\", {:.0} m apart, sense each other and \
         take turns: give one another channel if this is not meant",
        medium.name,
        medium.stations[to].name,
        medium.stations[from].name,
        medium.distance(from, to, Time::ZERO),
    ))
}

fn shown_name(link: &LinkPlan, way: &str) -> String {
    format!("{}{way}", link.name)
}

/// The bytes of a full packet.
fn packet_size(transport: &Transport) -> u64 {
    match transport {
        Transport::Tcp(config) => config.packet_size.into(),
        Transport::Udp(config) => u64::from(config.header) + u64::from(config.payload),
        Transport::Rate(config) => config.packet_size.into(),
        Transport::Outside(config) => u64::from(config.header) + u64::from(config.payload),
    }
}

/// Says so if the link's own retransmission holds fewer frames than are on their way: even without a single error the
/// link then waits for acknowledgements instead of sending.
fn small_window(direction: &Direction, back: &Direction, frame: u64) -> Option<String> {
    let arq = direction.arq.as_ref()?;
    let sending = direction.rate.serialisation(frame);
    // Until the acknowledgement of a frame is back, as the link waits for it without an error.
    let cycle = sending + direction.delay + back.rate.serialisation(arq.ack_size.into()) + back.delay;
    let needed = u32::try_from(cycle.0.div_ceil(sending.0.max(1))).unwrap_or(u32::MAX);
    if arq.window >= needed {
        return None;
    }
    let bits = u128::from(arq.window) * u128::from(frame) * 8 * 1_000_000_000;
    let most = Rate(u64::try_from(bits / u128::from(cycle.0.max(1))).unwrap_or(u64::MAX));
    Some(format!(
        "its ARQ window of {} frames is less than the {needed} frames of {frame} B that are on their way in the \
         {:.1} ms until a link acknowledgement is back, so that it carries {} at most, and less with errors: raise \
         arq.window to {needed} or more if this is not meant",
        arq.window,
        cycle.seconds() * 1e3,
        rounded(most),
    ))
}

/// The rate to three digits.
fn rounded(rate: Rate) -> Rate {
    let unit = 10_u64.pow(rate.0.max(1).ilog10().saturating_sub(2));
    Rate(rate.0 / unit * unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Format, Scenario};

    fn said(arq: &str) -> Vec<String> {
        let text = format!(
            "duration = \"1 s\"\n[topology]\nkind = \"graph\"\nnodes = [\"a\", \"b\"]\n\
             [[topology.links]]\nname = \"radio\"\nfrom = \"a\"\nto = \"b\"\nrate = \"20 Mbit/s\"\ndelay = \"10 ms\"\n\
             {arq}\n[[flows]]\nsource = \"a\"\nsink = \"b\"\ntransport = \"reno\"\n"
        );
        advice(&Scenario::parse(&text, Format::Toml, "test", &[]).unwrap())
    }

    /// 1500 B take 0.6 ms; with 20 ms of propagation and 0.0096 ms for 24 B of acknowledgement that is 20.61 ms, 34.3
    /// frames. 16 of them in that time are 9.32 Mbit/s.
    #[test]
    fn a_window_below_the_bandwidth_delay_product_is_said() {
        let sentences = said("arq = { window = 16, ack_size = \"24 B\" }");
        assert_eq!(
            sentences[0],
            "link \"radio\": its ARQ window of 16 frames is less than the 35 frames of 1500 B that are on their way in \
             the 20.6 ms until a link acknowledgement is back, so that it carries 9.31 Mbit/s at most, and less with \
             errors: raise arq.window to 35 or more if this is not meant"
        );
    }

    #[test]
    fn nothing_is_said_of_a_window_that_is_large_enough_or_of_no_arq() {
        assert_eq!(said("arq = { window = 35, ack_size = \"24 B\" }"), Vec::<String>::new());
        assert_eq!(said(""), Vec::<String>::new());
    }

    #[test]
    fn a_sender_without_a_seed_is_said() {
        let said = |transport: &str| {
            let text = format!(
                "duration = \"1 s\"\n[topology]\nkind = \"graph\"\nnodes = [\"a\", \"b\"]\n\
                 links = [{{ from = \"a\", to = \"b\", rate = \"1 Mbit/s\", delay = \"1 ms\" }}]\n\
                 [[flows]]\nname = \"one\"\nsource = \"a\"\nsink = \"b\"\ntransport = \"{transport}\"\n"
            );
            advice(&Scenario::parse(&text, Format::Toml, "test", &[]).unwrap())
        };
        assert_eq!(
            said("noq:bbr3"),
            [
                "flow \"one\": bbr3 of noq takes no seed, so that two runs of one seed differ: choose cubic if a run \
                 is to be repeated"
            ]
        );
        for seeded in ["noq", "quinn:bbr", "bbr3"] {
            assert_eq!(said(seeded), Vec::<String>::new(), "{seeded}");
        }
    }

    /// Two cells of one channel, 100 m and 2 km apart: the sense threshold reaches 550 m.
    #[test]
    fn cells_that_overlap_are_said() {
        let said = |distance: u32| {
            let cell = |access_point: &str, station: &str, at: u32| {
                format!(
                    "[[topology.cells]]\naccess_point = \"{access_point}\"\nposition = [{at}, 0]\n\
                     stations = [{{ node = \"{station}\", position = [{at}, 5] }}]\n"
                )
            };
            let text = format!(
                "duration = \"1 s\"\n[topology]\nkind = \"graph\"\nnodes = [\"a\", \"b\", \"c\", \"d\"]\n{}{}\
                 [[flows]]\nsource = \"b\"\nsink = \"a\"\ntransport = \"reno\"\n",
                cell("a", "b", 0),
                cell("c", "d", distance)
            );
            advice(&Scenario::parse(&text, Format::Toml, "test", &[]).unwrap())
        };
        assert_eq!(
            said(100),
            [
                "cells \"cell-1\" and another share a channel and overlap: \"a\" and \"c\", 100 m apart, sense each \
              other and take turns: give one another channel if this is not meant"
            ]
        );
        assert_eq!(said(2_000), Vec::<String>::new());
    }

    /// A run that ends before the first handover, with either key.
    #[test]
    fn a_handover_beyond_the_end_is_said() {
        let said = |handovers: &str| {
            let text = format!(
                "duration = \"10 s\"\n[topology]\nkind = \"graph\"\nnodes = [\"base\", \"phone\"]\n\
                 [[topology.cellular]]\nbase = \"base\"\n\
                 users = [{{ node = \"phone\", cqi = 9, handovers = {{ {handovers} }} }}]\n\
                 [[flows]]\nsource = \"base\"\nsink = \"phone\"\ntransport = \"reno\"\n"
            );
            advice(&Scenario::parse(&text, Format::Toml, "test", &[]).unwrap())
        };
        for beyond in ["every = \"100 s\"", "at = [\"100 s\"]"] {
            assert_eq!(
                said(beyond),
                [
                    "link \"base-phone\": no handover takes place, as the first would begin at 100 s and the run ends \
                     at 10 s: make the run longer, or the first handover earlier, if this is not meant"
                ]
            );
        }
        assert_eq!(said("every = \"4 s\""), Vec::<String>::new());
    }
}
