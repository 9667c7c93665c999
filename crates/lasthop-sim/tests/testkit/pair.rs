//! Two ends of a TCP connection with a clock and nothing between them but a delay: what the engine's world does for a
//! sender and a receiver, for tests that want to decide the fate of every single packet.
//!
//! Time jumps from one event to the next. Nothing here knows links, queues or scenarios.

use std::collections::{BTreeMap, BTreeSet};

use lasthop_core::packet::{Kind, NONE, Packet, flag};
use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};
use lasthop_net::measure::{FlowStats, Window};
use lasthop_net::plan::{Percentiles, TcpConfig};
use lasthop_net::transport::extra::Extra;
use lasthop_net::transport::tcp::receiver::TcpReceiver;
use lasthop_net::transport::tcp::sender::TcpSender;
use lasthop_net::transport::wire::Wire;

/// Everything is measured.
const ALWAYS: Window = Window { from: Time::ZERO, to: Time::MAX };

/// What happens to a packet on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It arrives after the delay.
    Pass,
    /// It never arrives.
    Drop,
    /// It arrives so much later.
    Delay(Span),
    /// It arrives twice, the second time so much later.
    Duplicate(Span),
    /// It arrives with congestion marked.
    Mark,
}

/// Decides the fate of a packet: the packet, which it may change, and how many went its way before it.
type Decide = Box<dyn FnMut(&mut Packet, usize) -> Fate>;

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) at: Time,
    pub(crate) packet: Packet,
    pub(crate) extra: Option<Extra>,
    pub(crate) fate: Fate,
}

impl Sent {
    /// SACK blocks that it carries.
    pub(crate) fn blocks(&self) -> Vec<(u64, u64)> {
        self.extra.map_or_else(Vec::new, |extra| extra.sack.as_slice().to_vec())
    }
}

/// What leaves an end while it acts.
#[derive(Default)]
struct Outbox {
    packets: Vec<Packet>,
    extras: Vec<Extra>,
    wakes: BTreeSet<Time>,
}

impl Wire for Outbox {
    fn send(&mut self, packet: Packet, _: Time) {
        self.packets.push(packet);
    }

    fn wake(&mut self, at: Time) {
        self.wakes.insert(at);
    }

    fn attach(&mut self, extra: Extra) -> u32 {
        self.extras.push(extra);
        (self.extras.len() - 1) as u32
    }
}

/// A sender, a receiver and the way between them.
pub(crate) struct Pair {
    pub(crate) sender: TcpSender,
    pub(crate) receiver: TcpReceiver,
    /// What the receiver counted.
    pub(crate) stats: FlowStats,
    pub(crate) now: Time,
    /// Time from one end to the other.
    pub(crate) delay: Span,
    /// Everything that was sent, in order.
    pub(crate) log: Vec<Sent>,
    decide: Decide,
    outbox: Outbox,
    /// Packets on their way by arrival, and how many were sent before each.
    flying: BTreeMap<(Time, usize), (Packet, Option<Extra>)>,
    /// Packets sent there and back.
    counts: [usize; 2],
}

impl Pair {
    /// A pair 10 ms apart whose packets all pass.
    pub(crate) fn new(config: &TcpConfig) -> Pair {
        let mut clock = Stream::new(1, "clock");
        Pair {
            sender: TcpSender::new(config, &mut clock, ALWAYS, Percentiles::Exact),
            receiver: TcpReceiver::new(config),
            stats: FlowStats::new(Percentiles::Exact),
            now: Time::ZERO,
            delay: Span::from_millis(10),
            log: Vec::new(),
            decide: Box::new(|_, _| Fate::Pass),
            outbox: Outbox::default(),
            flying: BTreeMap::new(),
            counts: [0; 2],
        }
    }

    /// Lets `decide` decide what happens to every packet; it also gets how many went the same way before it.
    #[must_use]
    pub(crate) fn on_the_way(mut self, decide: impl FnMut(&mut Packet, usize) -> Fate + 'static) -> Pair {
        self.decide = Box::new(decide);
        self
    }

    /// Drops the packets with these numbers, there and back.
    #[must_use]
    pub(crate) fn losing(self, there: &[usize], back: &[usize]) -> Pair {
        let lost = [there.to_vec(), back.to_vec()];
        self.on_the_way(move |packet, number| {
            let lost = &lost[usize::from(!packet.is_forward())];
            if lost.contains(&number) { Fate::Drop } else { Fate::Pass }
        })
    }

    /// The application writes `bytes`; the first time opens the connection.
    pub(crate) fn write(&mut self, bytes: u64) {
        self.sender.on_data(Some(bytes), self.now, &mut self.outbox);
        self.post();
    }

    /// It writes no more.
    pub(crate) fn close(&mut self) {
        self.sender.on_close(false, self.now, &mut self.outbox);
        self.post();
    }

    /// A whole transfer: opens the connection, writes `bytes`, closes, and runs until nothing is left to be done.
    pub(crate) fn transfer(&mut self, bytes: u64) {
        // Closed first, so that the FIN rides on the last segment.
        self.close();
        self.write(bytes);
        self.run_until(Time::MAX);
    }

    /// Sends what the sender has put into the outbox.
    fn post(&mut self) {
        for packet in std::mem::take(&mut self.outbox.packets) {
            let extra = (packet.extra != NONE).then(|| self.outbox.extras[packet.extra as usize]);
            self.send(self.now, packet, extra.as_ref());
        }
        self.outbox.extras.clear();
    }

    /// Sends a packet and decides its fate.
    fn send(&mut self, at: Time, mut packet: Packet, extra: Option<&Extra>) {
        let extra = extra.copied();
        let count = &mut self.counts[usize::from(!packet.is_forward())];
        let fate = (self.decide)(&mut packet, *count);
        *count += 1;
        self.log.push(Sent { at, packet, extra, fate });
        let arrival = at + self.delay;
        let arrivals = match fate {
            Fate::Pass => [Some(arrival), None],
            Fate::Mark => {
                packet.flags |= flag::CE;
                [Some(arrival), None]
            }
            Fate::Drop => [None, None],
            Fate::Delay(more) => [Some(arrival + more), None],
            Fate::Duplicate(later) => [Some(arrival), Some(arrival + later)],
        };
        for (arrival, copy) in arrivals.into_iter().flatten().zip(0..) {
            self.flying.insert((arrival, 2 * self.log.len() + copy), (packet, extra));
        }
    }

    /// When something happens next.
    pub(crate) fn next_time(&self) -> Option<Time> {
        let arrival = self.flying.first_key_value().map(|(&(at, _), _)| at);
        let wake = self.outbox.wakes.first().copied();
        [arrival, wake, self.receiver.due()].into_iter().flatten().min()
    }

    /// Jumps to what happens next and lets it happen; `false` if nothing is left.
    pub(crate) fn step(&mut self) -> bool {
        let Some(now) = self.next_time() else { return false };
        assert!(now >= self.now, "time goes on: {now} after {}", self.now);
        self.now = now;
        if let Some(entry) = self.flying.first_entry()
            && entry.key().0 == now
        {
            let (packet, extra) = entry.remove();
            self.arrive(&packet, extra.as_ref());
        } else if self.receiver.due() == Some(now) {
            self.answer_overdue();
        } else {
            self.outbox.wakes.remove(&now);
            self.sender.on_timer(now, &mut self.outbox);
            self.post();
        }
        true
    }

    /// Lets everything happen up to `end`.
    pub(crate) fn run_until(&mut self, end: Time) {
        for _ in 0..1_000_000 {
            if self.next_time().is_none_or(|next| next > end) {
                self.now = if end == Time::MAX { self.now } else { end };
                return;
            }
            self.step();
        }
        panic!("the pair does not come to rest: {} at {}", self.log.len(), self.now);
    }

    fn arrive(&mut self, packet: &Packet, extra: Option<&Extra>) {
        if !packet.is_forward() {
            self.sender.on_ack(packet, extra, self.now, &mut self.outbox);
            self.post();
            return;
        }
        if self.receiver.owes(packet, self.now) {
            self.answer_overdue();
        }
        let answer = self.receiver.receive(packet, extra, self.now, &mut self.stats, &ALWAYS);
        if let Some(kind) = answer {
            self.answer(kind, self.now);
        }
    }

    fn answer_overdue(&mut self) {
        while let Some((kind, due)) = self.receiver.overdue(self.now) {
            self.answer(kind, due);
        }
    }

    fn answer(&mut self, kind: Kind, at: Time) {
        let extra = self.receiver.extra(kind, at);
        let packet = self.receiver.acknowledge(kind, at);
        self.send(at, packet, extra.as_ref());
    }

    /// What was sent of this kind.
    pub(crate) fn sent(&self, kind: Kind) -> Vec<Sent> {
        self.log.iter().filter(|sent| sent.packet.kind == kind).copied().collect()
    }

    /// Packets with data that were sent again.
    pub(crate) fn repeated(&self) -> Vec<Sent> {
        self.log.iter().filter(|sent| sent.packet.note.again()).copied().collect()
    }
}
