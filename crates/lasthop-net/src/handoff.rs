//! What the hosts at the ends of a link learn of its outages: that it fades, that it is back, that a handoff is done.
//!
//! `world.rs` asks for the events of a direction once per run and gives them to the senders and receivers that act on
//! them. Predictions may be wrong: outages come without a warning, and warnings without an outage.

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use crate::plan::Warning;

/// What a host learns of its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// The link is back.
    Up,
    /// The handoff is complete: the host is attached again.
    Handoff,
    /// The link is about to go down, in so long.
    Fading(Span),
}

/// The events of a link that is down in these intervals, in the order of time. `stream` is the link's own.
pub(crate) fn host_events(
    outages: &[(Time, Time)],
    warning: Option<Warning>,
    duration: Span,
    stream: &mut Stream,
) -> Vec<(Time, HostEvent)> {
    let mut events = Vec::new();
    let mut earlier = Time::ZERO;
    for &(start, end) in outages {
        if let Some(warning) = warning {
            // One draw per outage, so that the others keep theirs when one is added at the end.
            let missed = stream.uniform() < warning.miss;
            // No warning comes before the link is back from the outage before.
            let at = Time(start.0.saturating_sub(warning.lead.0)).max(earlier);
            if !missed {
                events.push((at, HostEvent::Fading(start.since(at))));
            }
        }
        events.extend([(end, HostEvent::Up), (end, HostEvent::Handoff)]);
        earlier = end;
    }
    if let Some(Warning { lead, false_alarms, .. }) = warning {
        for _ in 0..false_alarms {
            let at = Time(stream.below(duration.0));
            let over = at + lead;
            // One that falls among the warnings of a true outage is none.
            let clear = outages.iter().all(|&(start, end)| over + lead < start || at > end);
            if clear {
                events.extend([(at, HostEvent::Fading(lead)), (over, HostEvent::Up)]);
            }
        }
    }
    // Stable: what one outage brings stays in its order.
    events.sort_by_key(|&(at, _)| at);
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn events(warning: Option<Warning>) -> Vec<(Time, HostEvent)> {
        let outages = [(at(10_000), at(11_000)), (at(11_050), at(12_000))];
        host_events(&outages, warning, Span::from_secs(60), &mut Stream::new(1, "warnings"))
    }

    #[test]
    fn every_outage_is_announced_and_its_end_told() {
        let lead = Span::from_millis(100);
        let warned = events(Some(Warning { lead, miss: 0.0, false_alarms: 0 }));
        let expected = [
            (at(9_900), HostEvent::Fading(lead)),
            (at(11_000), HostEvent::Up),
            (at(11_000), HostEvent::Handoff),
            (at(11_000), HostEvent::Fading(Span::from_millis(50))),
            (at(12_000), HostEvent::Up),
            (at(12_000), HostEvent::Handoff),
        ];
        assert_eq!(warned, expected);
        assert_eq!(events(None).len(), 4);
    }

    #[test]
    fn predictions_may_be_wrong() {
        let lead = Span::from_millis(100);
        let missed = events(Some(Warning { lead, miss: 1.0, false_alarms: 0 }));
        assert_eq!(missed, events(None));
        let alarmed = events(Some(Warning { lead, miss: 0.0, false_alarms: 10 }));
        let count = |events: &[(Time, HostEvent)]| {
            events.iter().filter(|(_, event)| matches!(event, HostEvent::Fading(_))).count()
        };
        assert!((8..=12).contains(&count(&alarmed)), "{alarmed:?}");
        assert!(alarmed.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    }
}
