//! Delivery-rate samples of a connection whose stack tells of each packet, for controllers that ask for them.
//!
//! Counted are packets, whatever their size. The stack tells of losses after the ACK that showed them, so that they
//! count in the sample of the next one. It tells nothing of packets whose keys are discarded: one that is older than
//! loss detection (RFC 9002 §6.1.2) would let it be, is forgotten.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use lasthop::Time;
use lasthop_cc::delivery::{Around, DeliverySampler};
use lasthop_cc::{LostSegment, RateSample};

/// What is outstanding for this long beside three RTTs before the newest packet that arrived will not be told of.
const FORGOTTEN: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
struct Packet {
    number: u64,
    sent: Instant,
    /// Arrived, or lost.
    gone: bool,
}

/// The outstanding packets of a connection, and what they tell of the rate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deliveries {
    sampler: DeliverySampler,
    /// One for each of the sampler's segments, in the order of sending.
    packets: VecDeque<Packet>,
    in_flight: u32,
    /// Found lost since the last sample.
    lost: u32,
    /// When the newest packet was sent that the present ACK delivers, once its sample has begun.
    newest: Option<Instant>,
}

impl Deliveries {
    /// Whether nothing is outstanding.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// A packet is sent at `sent`, which is `now`, with a window of `allowed` packets; `idle`: after a pause of the
    /// application.
    pub(crate) fn on_sent(&mut self, number: u64, sent: Instant, idle: bool, allowed: u32, now: Time) {
        self.in_flight += 1;
        self.packets.push_back(Packet { number, sent, gone: false });
        self.sampler.on_send(idle, self.in_flight, allowed, now);
    }

    /// The packet that was sent at `sent` has arrived.
    pub(crate) fn on_arrived(&mut self, number: u64, sent: Instant, now: Time) {
        if self.newest.is_none() {
            self.sampler.begin(self.in_flight, true, now);
        }
        self.newest = self.newest.max(Some(sent));
        let from = self.packets.partition_point(|packet| packet.sent < sent);
        let mut same = self.packets.range(from..).take_while(|packet| packet.sent == sent);
        if let Some(place) = same.position(|packet| !packet.gone && packet.number == number) {
            self.leave(from + place);
            self.sampler.on_delivered(from + place, true);
        }
    }

    /// A packet has been found lost: what is to be told of it.
    pub(crate) fn on_lost(&mut self, number: u64, now: Time) -> Option<LostSegment> {
        // Numbers begin anew in each packet number space: the newest is meant.
        let index = self.packets.iter().rposition(|packet| !packet.gone && packet.number == number)?;
        self.leave(index);
        self.lost += 1;
        self.sampler.on_lost(index, (number, number + 1), now)
    }

    /// The ACK has been processed: its sample. `limited`: the application had nothing to send.
    pub(crate) fn finish(&mut self, around: Around, limited: bool) -> RateSample {
        if limited {
            self.sampler.limit_by_application(around.flight);
        }
        let mut sample = self.sampler.finish(around);
        sample.lost = std::mem::take(&mut self.lost);
        let newest = self.newest.take();
        let patience = 3 * Duration::from_nanos(around.srtt.0) + FORGOTTEN;
        while let Some(&first) = self.packets.front() {
            let forgotten =
                newest.is_some_and(|newest| newest.saturating_duration_since(first.sent) > patience);
            if !first.gone && !forgotten {
                break;
            }
            self.leave(0);
            self.packets.pop_front();
            self.sampler.forget(1);
        }
        sample
    }

    fn leave(&mut self, index: usize) {
        let packet = &mut self.packets[index];
        self.in_flight -= u32::from(!packet.gone);
        packet.gone = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop::Span;

    /// A connection whose clocks agree.
    struct Clock(Instant);

    impl Clock {
        fn at(&self, millis: u64) -> (Instant, Time) {
            (self.0 + Duration::from_millis(millis), Time::ZERO + Span::from_millis(millis))
        }

        fn send(&self, deliveries: &mut Deliveries, number: u64, millis: u64) {
            let (sent, now) = self.at(millis);
            deliveries.on_sent(number, sent, deliveries.packets.is_empty(), 10, now);
        }

        fn ack(&self, deliveries: &mut Deliveries, packets: &[(u64, u64)], millis: u64) -> RateSample {
            for &(number, sent) in packets {
                deliveries.on_arrived(number, self.at(sent).0, self.at(millis).1);
            }
            let around = Around {
                flight: deliveries.in_flight,
                srtt: Span::from_millis(100),
                held_back: Span::ZERO,
                recovery: None,
                mss: 1200,
            };
            deliveries.finish(around, false)
        }
    }

    /// One packet every 10 ms over 100 ms; the third is lost, which shows when three later ones have arrived.
    #[test]
    fn arrivals_and_losses_are_those_of_the_packets() {
        let (clock, mut deliveries) = (Clock(Instant::now()), Deliveries::default());
        for number in 0..8 {
            clock.send(&mut deliveries, number, 10 * number);
        }
        let first = clock.ack(&mut deliveries, &[(0, 0)], 100);
        assert_eq!((first.rate, first.flight), (Some((1, Span::from_millis(100))), 7));
        clock.ack(&mut deliveries, &[(1, 10)], 110);
        for number in 3..6 {
            let sample = clock.ack(&mut deliveries, &[(number, 10 * number)], 100 + 10 * number);
            assert_eq!(sample.delivered, number);
        }
        let lost = deliveries.on_lost(2, clock.at(150).1).unwrap();
        assert_eq!((lost.seq, lost.end, lost.tx_in_flight, lost.lost_since), (2, 3, 3, 1));
        assert_eq!(lost.delivered, 5);
        assert!(deliveries.on_lost(2, clock.at(150).1).is_none(), "once");
        // It counts in the next sample, with the packet that was sent before it was lost.
        let next = clock.ack(&mut deliveries, &[(6, 60)], 160);
        assert_eq!((next.lost, next.lost_since, next.flight), (1, 1, 1));
        assert_eq!(clock.ack(&mut deliveries, &[(7, 70)], 170).lost, 0);
        assert!(deliveries.is_idle() && deliveries.packets.is_empty());
    }

    /// Numbers begin anew in each packet number space: when a packet was sent tells them apart.
    #[test]
    fn a_packet_of_another_space_is_another() {
        let (clock, mut deliveries) = (Clock(Instant::now()), Deliveries::default());
        clock.send(&mut deliveries, 0, 0);
        clock.send(&mut deliveries, 0, 5);
        assert_eq!(clock.ack(&mut deliveries, &[(0, 5)], 105).rtt, Some(Span::from_millis(100)));
        assert_eq!(deliveries.in_flight, 1);
        assert_eq!(clock.ack(&mut deliveries, &[(0, 0)], 106).acked, 1);
        assert!(deliveries.is_idle());
    }

    /// Keys are discarded, and what was sent with them is neither acknowledged nor lost.
    #[test]
    fn what_is_not_told_of_is_forgotten() {
        let (clock, mut deliveries) = (Clock(Instant::now()), Deliveries::default());
        clock.send(&mut deliveries, 0, 0);
        clock.send(&mut deliveries, 1, 1000);
        clock.ack(&mut deliveries, &[(1, 1000)], 1100);
        assert_eq!(deliveries.in_flight, 1, "1 s is not too long");
        clock.send(&mut deliveries, 2, 1301);
        clock.ack(&mut deliveries, &[(2, 1301)], 1401);
        assert!(deliveries.is_idle() && deliveries.packets.is_empty());
    }
}
