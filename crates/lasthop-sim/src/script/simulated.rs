//! The stack of the engine: one end of a connection with a clock, and nothing else around it. Time jumps.

use std::collections::{BTreeSet, VecDeque};
use std::io;

use lasthop_core::packet::{Kind, NONE, Packet};
use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};
use lasthop_net::measure::{FlowStats, Window};
use lasthop_net::plan::{Percentiles, TcpConfig};
use lasthop_net::transport::codec::{self, MAX_PACKET};
use lasthop_net::transport::extra::Extra;
use lasthop_net::transport::outside::Gateway;
use lasthop_net::transport::tcp::receiver::TcpReceiver;
use lasthop_net::transport::tcp::sender::TcpSender;
use lasthop_net::transport::wire::Wire;

use super::{Examined, RECEIVER, SENDER, STACK_START, Stack, State};

/// Everything is measured.
const ALWAYS: Window = Window { from: Time::ZERO, to: Time::MAX };

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

/// The end that is examined.
enum End {
    Sender(Box<TcpSender>),
    Receiver(Box<TcpReceiver>, Box<FlowStats>),
}

/// The end with what it stands on.
pub(super) struct Simulated {
    end: End,
    outbox: Outbox,
    gateway: Gateway,
    now: Time,
    /// What it has sent and the script has not taken yet.
    sent: VecDeque<(Time, Vec<u8>)>,
}

impl Simulated {
    pub(super) fn new(config: &TcpConfig, examined: Examined) -> Simulated {
        let (end, starts) = match examined {
            Examined::Sender => {
                let mut clock = Stream::new(1, "clock");
                let mut sender = TcpSender::new(config, &mut clock, ALWAYS, Percentiles::Exact);
                // As a kernel is asked: what is written at once it might hold back, to send it in one piece.
                sender.write_records();
                (End::Sender(Box::new(sender)), (STACK_START, 0))
            }
            Examined::Receiver => {
                let stats = Box::new(FlowStats::new(Percentiles::Exact));
                (End::Receiver(Box::new(TcpReceiver::new(config)), stats), (0, STACK_START))
            }
        };
        Simulated {
            end,
            outbox: Outbox::default(),
            gateway: Gateway::new((SENDER, starts.0), (RECEIVER, starts.1)),
            now: Time::ZERO,
            sent: VecDeque::new(),
        }
    }

    /// When something happens next.
    pub(super) fn next_time(&self) -> Option<Time> {
        let due = match &self.end {
            End::Sender(_) => None,
            End::Receiver(receiver, _) => receiver.due(),
        };
        [self.outbox.wakes.first().copied(), due].into_iter().flatten().min()
    }

    /// Lets happen what is due now.
    fn act(&mut self) -> io::Result<()> {
        match &mut self.end {
            End::Sender(sender) => {
                self.outbox.wakes.remove(&self.now);
                sender.on_timer(self.now, &mut self.outbox);
                self.post()
            }
            End::Receiver(..) => self.answer_overdue(),
        }
    }

    fn answer_overdue(&mut self) -> io::Result<()> {
        loop {
            let End::Receiver(receiver, _) = &mut self.end else { return Ok(()) };
            let Some((kind, due)) = receiver.overdue(self.now) else { return Ok(()) };
            self.answer(kind, due)?;
        }
    }

    fn answer(&mut self, kind: Kind, at: Time) -> io::Result<()> {
        let End::Receiver(receiver, _) = &mut self.end else { return Ok(()) };
        let extra = receiver.extra(kind, at);
        let packet = receiver.acknowledge(kind, at);
        self.send(at, &packet, extra.as_ref())
    }

    /// Sends what a sender has put into the outbox.
    fn post(&mut self) -> io::Result<()> {
        for packet in std::mem::take(&mut self.outbox.packets) {
            let extra = (packet.extra != NONE).then(|| self.outbox.extras[packet.extra as usize]);
            self.send(self.now, &packet, extra.as_ref())?;
        }
        self.outbox.extras.clear();
        Ok(())
    }

    fn send(&mut self, at: Time, packet: &Packet, extra: Option<&Extra>) -> io::Result<()> {
        let (header, payload) = self.gateway.leave(packet, extra);
        let mut place = vec![0; MAX_PACKET];
        let length = header.write(&vec![0; payload], &mut place).map_err(io::Error::other)?;
        place.truncate(length);
        self.sent.push_back((at, place));
        Ok(())
    }
}

impl Stack for Simulated {
    fn due(&self) -> Option<Time> {
        self.next_time()
    }

    fn tolerance(&self, _: Span) -> Span {
        Span::ZERO
    }

    fn next(&mut self, until: Time) -> io::Result<Option<(Time, Vec<u8>)>> {
        loop {
            if let Some(sent) = self.sent.pop_front() {
                return Ok(Some(sent));
            }
            match self.next_time() {
                Some(next) if next <= until => {
                    self.now = self.now.max(next);
                    self.act()?;
                }
                _ => {
                    self.now = self.now.max(until);
                    return Ok(None);
                }
            }
        }
    }

    fn put(&mut self, packet: &[u8]) -> io::Result<()> {
        let (header, payload) = codec::parse(packet).map_err(io::Error::other)?;
        let entered = self.gateway.enter(&header, packet.len(), payload.len(), self.now);
        let Some((packet, extra)) = entered else { return Ok(()) };
        match &mut self.end {
            End::Sender(sender) => {
                sender.on_ack(&packet, extra.as_ref(), self.now, &mut self.outbox);
                self.post()
            }
            End::Receiver(receiver, _) => {
                if receiver.owes(&packet, self.now) {
                    self.answer_overdue()?;
                }
                let End::Receiver(receiver, stats) = &mut self.end else { return Ok(()) };
                match receiver.receive(&packet, extra.as_ref(), self.now, stats, &ALWAYS) {
                    Some(kind) => self.answer(kind, self.now),
                    None => Ok(()),
                }
            }
        }
    }

    fn write(&mut self, bytes: u64) -> io::Result<()> {
        if let End::Sender(sender) = &mut self.end {
            sender.on_data(Some(bytes), self.now, &mut self.outbox);
        }
        self.post()
    }

    fn close(&mut self) -> io::Result<()> {
        if let End::Sender(sender) = &mut self.end {
            sender.on_close(false, self.now, &mut self.outbox);
        }
        self.post()
    }

    fn state(&mut self) -> io::Result<State> {
        Ok(match &self.end {
            End::Sender(sender) => State {
                cwnd: Some(sender.window().cwnd),
                ssthresh: Some(sender.window().ssthresh),
                srtt_ms: Some(sender.srtt().seconds() * 1e3),
                delivered: None,
            },
            End::Receiver(_, stats) => State { delivered: Some(stats.bytes_delivered), ..State::default() },
        })
    }
}
