//! Airtime queue limits: how much a driver may hold of what waits in queues of its own for each receiver, as mac80211
//! bounds it since Linux 5.5.
//!
//! Each packet that goes to the driver is charged with an estimate of the air it will take, from its length and the
//! mode last used for its receiver; the charge is lifted when the packet is acknowledged or given up. What would exceed
//! a receiver's limit waits in its queue, where FQ-CoDel sees it, and not in the driver, where nothing does.
//! `exchange.rs` hands packets over; a driver without limits takes what it has room for.

use lasthop_core::time::{Span, Time};

use super::Medium;
use super::edca::Category;
use super::mode::{Format, Mode};
use super::plan::{AirtimeLimits, DriverPlan, Queues};
use crate::device::Cx;
use crate::device::arq::mark;
use crate::queue::Served;

/// What mac80211 adds to the length of a frame.
const EXTRA_OCTETS: u32 = 38;
/// Estimates are multiples of this many microseconds.
const UNIT: u32 = 4;
/// The greatest estimate in microseconds: ten bits of units.
const MOST: u32 = UNIT * 1_023;

impl AirtimeLimits {
    /// Those of mac80211.
    pub const LINUX: AirtimeLimits = AirtimeLimits {
        low: Span::from_millis(5),
        high: Span::from_millis(12),
        total: Span::from_millis(24),
    };

    /// Whether a receiver whose packets in the driver take `own` may have another there, if all of them take `all`.
    fn admit(&self, own: Span, all: Span) -> bool {
        own < self.low || all < self.total && own < self.high
    }
}

/// How long a frame of these octets will take by mac80211's estimate, in microseconds: data bits without a preamble,
/// and a share of 36 us and 4 us a stream that grows smaller with faster modes, whose aggregates are longer. `alone`:
/// it will not be aggregated.
fn estimate(mode: Mode, octets: u32, alone: bool) -> u32 {
    if mode.format() == Format::Legacy {
        let airtime = 36 + (8_000_000 * u64::from(octets) / mode.rate().0) as u32;
        return airtime.next_multiple_of(UNIT).min(MOST);
    }
    // Of 1024 octets, in units of 1/1024 us.
    let symbols = (8_192_u64 << 10).div_ceil(u64::from(mode.bits_per_symbol()));
    let usual = symbols * mode.symbol().0 / 1_000;
    let shift = match usual >> 10 {
        _ if alone => 0,
        _ if usual > 400 << 10 => 1,
        _ if usual > 250 << 10 => 2,
        _ if usual > 150 << 10 => 3,
        _ if usual > 70 << 10 => 4,
        _ if mode.format() != Format::He || usual > 20 << 10 => 5,
        _ => 6,
    };
    let overhead = (36 + 4 * u32::from(mode.streams())) >> shift;
    let airtime = ((usual * u64::from(octets)) >> 20) as u32 + overhead;
    airtime.max(UNIT).next_multiple_of(UNIT).min(MOST)
}

impl Medium {
    /// The driver between the queues of a station and the air, if it takes packets before they can be sent.
    pub(super) fn driver_of(&self, index: usize) -> Option<DriverPlan> {
        match self.aggregation_of(index)?.queues {
            Queues::Fair { driver, .. } => driver,
            Queues::Driver(_) => None,
        }
    }

    /// A port has packets in its own queue of a category, and asks for its turn to hand them to the driver.
    pub(super) fn ask(&mut self, index: usize, (port, category): (u16, usize), now: Time) {
        let weight = self.share_of(index);
        let agreement = &mut self.agreements[usize::from(port)][category];
        if std::mem::replace(&mut agreement.asks, true) {
            return;
        }
        let first = agreement.account.comes_first(weight, now);
        let Some(exchange) = &mut self.stations[index].exchange else { return };
        let asking = &mut exchange.functions.list[category].asking;
        if first {
            asking.push_front(port);
        } else {
            asking.push_back(port);
        }
    }

    /// The driver takes what it has room for and what limits allow of a category. Rounds go on while limits allow any
    /// receiver something: one that has used more than its share gets its weight in each of them and waits.
    pub(super) fn hand_over(&mut self, index: usize, category: usize, driver: DriverPlan, cx: &mut Cx<'_>) {
        let weight = self.share_of(index);
        let most = self.aggregation_of(index).map_or(0, |plan| plan.mpdus);
        let mut allowed = true;
        while std::mem::take(&mut allowed) {
            let Some(exchange) = &self.stations[index].exchange else { return };
            for _ in 0..exchange.functions.list[category].asking.len() {
                let Some(exchange) = &mut self.stations[index].exchange else { return };
                let (charged, function) = (exchange.charged, &mut exchange.functions.list[category]);
                if function.staged >= driver.room {
                    return;
                }
                let Some(port) = function.asking.pop_front() else { return };
                let agreement = &mut self.agreements[usize::from(port)][category];
                let admitted = driver.limits.is_none_or(|limits| limits.admit(agreement.charged, charged));
                allowed |= admitted;
                let account = &mut agreement.account;
                let in_debt = weight.is_some() && account.left < agreement.charged.0 as i64;
                if let Some(weight) = weight.filter(|_| in_debt) {
                    account.left += weight.0 as i64;
                }
                function.asking.push_back(port);
                if in_debt || !admitted {
                    continue;
                }
                // Those that take turns by aggregates have one each; air is shared by what is charged.
                let turn = if weight.is_some() { usize::MAX } else { most };
                self.take_up(index, (port, category), (driver, turn), cx);
                self.stop_asking(index, (port, category));
            }
        }
    }

    /// A port whose turn has just been leaves the list if nothing is left in its queue.
    fn stop_asking(&mut self, index: usize, (port, category): (u16, usize)) {
        let agreement = &mut self.agreements[usize::from(port)][category];
        let Some(exchange) = &mut self.stations[index].exchange else { return };
        if agreement.queue.as_ref().is_none_or(|queue| queue.packets() == 0) {
            agreement.asks = false;
            exchange.functions.list[category].asking.pop_back();
        }
    }

    /// Moves packets of a port from its queue to the driver, up to `turn` of them.
    fn take_up(
        &mut self,
        index: usize,
        (port, category): (u16, usize),
        (driver, turn): (DriverPlan, usize),
        cx: &mut Cx<'_>,
    ) {
        let number = usize::from(port);
        let station = &mut self.stations[index];
        let mac = &self.rules[station.mac].plan;
        let (Some(exchange), Some(plan)) = (&mut station.exchange, &mac.aggregation) else { return };
        let mode = plan.modes[usize::from(self.ports[number].last_mode)];
        let alone = category == Category::Voice as usize;
        let agreement = &mut self.agreements[number][category];
        let function = &mut exchange.functions.list[category];
        for _ in 0..turn {
            let admitted =
                driver.limits.is_none_or(|limits| limits.admit(agreement.charged, exchange.charged));
            if !admitted || function.staged >= driver.room {
                break;
            }
            let served = agreement.queue.as_mut().and_then(|queue| queue.pop(cx.now, &mut self.shed));
            let Some(Served { parcel, marked }) = served else { break };
            if marked {
                mark(parcel, self.ports[number].direction, cx);
            }
            if driver.limits.is_some() {
                // The length of the frame without its check sequence.
                let octets = mac.mpdu(parcel.bytes.into()) - 4 + EXTRA_OCTETS;
                let micros = estimate(mode, octets, alone);
                agreement.originator.charges.push_back(micros as u16);
                let charge = Span(u64::from(micros) * 1_000);
                (agreement.charged, exchange.charged) =
                    (agreement.charged + charge, exchange.charged + charge);
            }
            function.staged += 1;
            agreement.originator.staged.push_back(parcel);
        }
        let now = cx.now;
        self.lose_shed(cx);
        if !self.agreements[number][category].originator.staged.is_empty() {
            self.list(index, (port, category), now);
        }
    }

    /// The driver is done with an MPDU: what its packets were charged with is lifted.
    pub(super) fn lift_charge(&mut self, (port, category): (u16, usize), sequence: u16) {
        let agreement = &mut self.agreements[usize::from(port)][category];
        let charge = Span(1_000 * agreement.originator.take_charge(sequence));
        if charge == Span::ZERO {
            return;
        }
        agreement.charged = Span(agreement.charged.0 - charge.0);
        let from = usize::from(self.ports[usize::from(port)].from);
        if let Some(exchange) = &mut self.stations[from].exchange {
            exchange.charged = Span(exchange.charged.0 - charge.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::exchange::{Account, FORGOTTEN};
    use super::*;

    fn mode(format: Format, (width, guard): (u16, u16), (streams, mcs): (u8, u8)) -> Mode {
        Mode::new(format, (width, guard), (streams, mcs)).unwrap()
    }

    /// 1500 octets at 65 Mbit/s: 8192 bits are 126 us, so that 16 share the overhead of 40 us: 126 * 1500 / 1024 + 2,
    /// and 186 us in units of four. Without aggregates 184 + 40.
    #[test]
    fn estimates_by_hand() {
        let seven = mode(Format::Ht, (20, 800), (1, 7));
        assert_eq!(estimate(seven, 1_500, false), 188);
        assert_eq!(estimate(seven, 1_500, true), 224);
        // 6.5 Mbit/s: 1260.3 us for 1024 octets, 1846 us for 1500, half the overhead.
        assert_eq!(estimate(mode(Format::Ht, (20, 800), (1, 0)), 1_500, false), 1_868);
        // 780 Mbit/s: 10.5 us, 15 us; 44 us shared by 32. An empty frame takes one unit.
        let nine = mode(Format::Vht, (80, 800), (2, 9));
        assert_eq!(estimate(nine, 1_500, false), 16);
        assert_eq!(estimate(nine, 0, false), 4);
        // HE MCS 11 of 80 MHz, two streams, 1200.96 Mbit/s: 6.8 us, 9 us; 44 us shared by 64 are nothing.
        assert_eq!(estimate(mode(Format::He, (80, 800), (2, 11)), 1_500, false), 12);
        // 54 Mbit/s before 802.11n: 36 us, and 222 us for 12,000 bits.
        assert_eq!(estimate(mode(Format::Legacy, (20, 800), (1, 7)), 1_500, false), 260);
        // What does not fit into ten bits.
        assert_eq!(estimate(mode(Format::Ht, (20, 800), (1, 0)), 11_454, false), 4_092);
    }

    /// At 188 us each, 27 packets are more than 5 ms, which the first receiver may have whatever the others do, and 64
    /// more than 12 ms, which it may have as long as all have less than 24 ms.
    #[test]
    fn limits_are_crossed_by_the_last_packet() {
        let limits = AirtimeLimits::LINUX;
        let held = |others: Span| {
            let packets = |&count: &u64| limits.admit(Span(188_000 * count), others + Span(188_000 * count));
            (0..200).take_while(packets).count()
        };
        assert_eq!(held(Span::from_millis(24)), 27);
        assert_eq!(held(Span::ZERO), 64);
        // With 20 ms of others there are 4 ms left, and then the low limit of 5 ms.
        assert_eq!(held(Span::from_millis(20)), 27);
        assert_eq!(held(Span::from_millis(16)), 43);
    }

    /// A receiver that comes back with air left goes first, one that owes goes last, until it is forgotten.
    #[test]
    fn an_account_is_forgotten() {
        let weight = Some(Span::from_nanos(256_000));
        let mut account = Account { left: -1, used: Time::ZERO };
        assert!(!account.comes_first(weight, Time::ZERO + Span::from_millis(99)));
        assert!(account.comes_first(weight, Time::ZERO + FORGOTTEN));
        assert_eq!(account.left, 256_000);
        assert!(!account.comes_first(None, Time::ZERO + FORGOTTEN));
    }
}
