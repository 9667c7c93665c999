//! Requests and answers: the connections of clients, and the servers that answer them.
//!
//! A connection on a wire carries data both ways; a flow carries them one way. So a connection is two flows with a TCP
//! each: the client's, which carries requests and opens first, and the server's, which carries answers and opens when
//! the client's SYN arrives there. Each direction follows its own law, ACKs of one do not ride on data of the other,
//! and a connection costs a SYN, its answer and an ACK more than on a wire; they are in time for the first answer.
//!
//! Where a stack of others carries the flow, a connection is one flow, whose two ends lie outside. Its driver hears
//! what client and server hand over ([`Act`]), and says what has come ([`World::bring`]).
//!
//! The server answers request by request, in the order in which they come over a connection. The receivers of both
//! flows follow the clock, because applications act at the present time.

use std::collections::VecDeque;

use lasthop_core::event::Target;
use lasthop_core::packet::NONE;
use lasthop_core::time::{Span, Time};

use super::World;
use super::outside::Act;
use crate::network::{Hop, event_kind};
use crate::plan::{Plan, Transport};
use crate::traffic::client::{Acts, Client, Outcome, Running};
use crate::traffic::stream_of;
use crate::transport::endpoint::Endpoint;
use crate::transport::outside::End;

/// A connection of a client, or one of the streams of a connection outside.
#[derive(Clone, Debug)]
struct Connection {
    /// The flow of requests, and the one whose receiver is at the server (its last half, if proxies split it).
    up: usize,
    up_end: usize,
    /// The same of answers. Outside it is one flow for both.
    down: usize,
    down_end: usize,
    /// Its number among the streams of its connection.
    stream: u32,
    /// The server has opened its direction.
    accepted: bool,
    /// Bytes of requests so far.
    requested: u64,
    /// Requests that have not come to the server: where each ends, and the bytes of its answer.
    asked: VecDeque<(u64, u64)>,
    /// Answers that the server is at work on: when each is written, and its bytes.
    thought: VecDeque<(Time, u64)>,
    /// Bytes of answers that the client has.
    arrived: u64,
}

/// A client, its connections and its server.
#[derive(Clone, Debug)]
struct Exchange {
    client: Running,
    server_time: Span,
    /// The flow in whose name it acts.
    lead: usize,
    connections: Vec<Connection>,
}

/// Which connection of which client a flow belongs to.
#[derive(Clone, Copy, Debug)]
struct Place {
    exchange: u32,
    connection: u32,
}

const NOWHERE: Place = Place { exchange: NONE, connection: 0 };

/// All clients of a world. In most worlds there is none, and the lists are empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Exchanges {
    all: Vec<Exchange>,
    /// By flow: whose sender, and whose receiver it has.
    senders: Vec<Place>,
    receivers: Vec<Place>,
    acts: Acts,
}

impl Exchanges {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether `flow` is one of a client's connection.
    pub(super) fn has(&self, flow: usize) -> bool {
        self.senders.get(flow).is_some_and(|place| place.exchange != NONE)
    }

    /// The client that acts in the name of `flow`.
    fn led_by(&self, flow: usize) -> Option<&Exchange> {
        let place = self.senders.get(flow)?;
        self.all.get(place.exchange as usize).filter(|exchange| exchange.lead == flow)
    }

    /// What came of it.
    pub(super) fn outcome_of(&self, flow: usize) -> Option<Outcome<'_>> {
        self.led_by(flow).map(|exchange| exchange.client.outcome())
    }
}

impl World {
    /// Joins flows of requests and of answers to connections of clients.
    pub(super) fn join_exchanges(&mut self, plan: &Plan, seed: u64) {
        let leads: Vec<usize> = (plan.flows.iter().enumerate())
            .filter(|(_, flow)| flow.exchange.is_some_and(|part| part.is_lead()))
            .map(|(number, _)| number)
            .collect();
        if leads.is_empty() {
            return;
        }
        let mut connections: Vec<Vec<[usize; 2]>> = vec![Vec::new(); plan.flows.len()];
        for (number, flow) in plan.flows.iter().enumerate() {
            let Some(part) = flow.exchange.filter(|_| flow.relay.is_none()) else { continue };
            let of_lead = &mut connections[part.of];
            of_lead.resize(of_lead.len().max(part.connection as usize + 1), [0; 2]);
            let ways = &mut of_lead[part.connection as usize];
            if matches!(flow.transport, Transport::Outside(_)) {
                *ways = [number; 2];
            } else {
                ways[usize::from(part.asks)] = number;
            }
        }
        let nowhere = || vec![NOWHERE; plan.flows.len()];
        let mut exchanges = Exchanges { senders: nowhere(), receivers: nowhere(), ..Exchanges::default() };
        let splits = plan.flows.iter().any(|flow| flow.relay.is_some());
        let end_of = |flow: usize| if splits { plan.halves_of(flow).last().unwrap_or(flow) } else { flow };
        for lead in leads {
            let flow = &plan.flows[lead];
            let until = flow.stop.unwrap_or(Time::MAX);
            let Some(client) = Running::new(&flow.traffic, stream_of(seed, &flow.name), until) else {
                continue;
            };
            let planned = flow.traffic.offered().connections();
            let server_time = planned.map_or(Span::ZERO, |all| all.server_time);
            let streams = planned.map_or(1, |all| all.streams);
            let exchange = exchanges.all.len() as u32;
            let connect = |[down, up]: [usize; 2], stream| Connection {
                up,
                up_end: end_of(up),
                down,
                down_end: end_of(down),
                stream,
                accepted: false,
                requested: 0,
                asked: VecDeque::new(),
                thought: VecDeque::new(),
                arrived: 0,
            };
            let with_streams = |&ways| (0..streams).map(move |stream| connect(ways, stream));
            let connections: Vec<Connection> = connections[lead].iter().flat_map(with_streams).collect();
            let all = connections.iter().zip(0u32..);
            for (connection, number) in all.filter(|(connection, _)| connection.stream == 0) {
                let place = Place { exchange, connection: number };
                exchanges.senders[connection.up] = place;
                exchanges.senders[connection.down] = place;
                exchanges.receivers[connection.up_end] = place;
                exchanges.receivers[connection.down_end] = place;
            }
            exchanges.all.push(Exchange { client, server_time, lead, connections });
        }
        self.exchanges = exchanges;
    }

    /// The flows of answers, of answers as they reach the client, and of requests, of each connection of the client of
    /// `flow`; empty if it has none. Outside it is one flow.
    pub fn connections_of(&self, flow: usize) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        let exchange = self.exchanges.led_by(flow);
        let all = exchange.into_iter().flat_map(|all| &all.connections).filter(|one| one.stream == 0);
        all.map(|one| (one.down, one.down_end, one.up))
    }

    /// What came of the client of `flow`, if it has one.
    pub fn outcome_of(&self, flow: usize) -> Option<Outcome<'_>> {
        self.exchanges.outcome_of(flow)
    }

    /// A packet has reached the receiver of a flow; if a client or a server listens there, it hears of it.
    pub(super) fn hear(&mut self, hop: Hop) {
        if !hop.is_receiver() {
            return;
        }
        let flow = hop.flow() as usize;
        let place = self.exchanges.receivers[flow];
        if place.exchange == NONE {
            return;
        }
        let Endpoint::TcpReceiver(receiver) = &self.network.receivers[flow] else { return };
        let (bytes, has_syn, _) = receiver.in_order();
        let connection =
            &mut self.exchanges.all[place.exchange as usize].connections[place.connection as usize];
        if flow != connection.up_end {
            self.answer(place, bytes);
            return;
        }
        let down = connection.down;
        if has_syn && !std::mem::replace(&mut connection.accepted, true) {
            self.recall(down);
            self.with_sender(down, |sender, now, port| sender.on_data(Some(0), false, now, port));
        }
        self.serve(place, bytes);
    }

    /// This many bytes have come in all, in order, to an end of a flow outside over one of its streams: the client or
    /// the server there hears of it.
    pub fn bring(&mut self, flow: usize, end: End, stream: u32, bytes: u64) {
        let Some(&first) = self.exchanges.senders.get(flow).filter(|place| place.exchange != NONE) else {
            return;
        };
        let place = Place { connection: first.connection + stream, ..first };
        match end {
            End::Sender => self.serve(place, bytes),
            End::Receiver => self.answer(place, bytes),
        }
    }

    /// The client has this many bytes of answers.
    fn answer(&mut self, place: Place, bytes: u64) {
        let connection =
            &mut self.exchanges.all[place.exchange as usize].connections[place.connection as usize];
        if bytes > std::mem::replace(&mut connection.arrived, bytes) {
            let number = place.connection as usize;
            let now = self.now;
            self.with_client(place, |client, acts| client.arrive(number, bytes, now, acts));
        }
    }

    /// The client or the server of a connection hands over bytes.
    fn pass(&mut self, place: Place, by: End, bytes: u64) {
        let connection = &self.exchanges.all[place.exchange as usize].connections[place.connection as usize];
        let flow = if by == End::Receiver { connection.up } else { connection.down };
        if self.senders[flow].is_outside() {
            self.acts.push(Act::Exchange { flow, by, stream: connection.stream, bytes });
        } else {
            self.with_sender(flow, |sender, now, port| sender.on_data(Some(bytes), false, now, port));
        }
    }

    /// The server has this many bytes of requests.
    fn serve(&mut self, place: Place, bytes: u64) {
        let exchange = &mut self.exchanges.all[place.exchange as usize];
        let due = self.now + exchange.server_time;
        let at_once = exchange.server_time == Span::ZERO;
        let connection = &mut exchange.connections[place.connection as usize];
        let (down, mut came) = (connection.down, 0);
        while let Some(&(_, answer)) = connection.asked.front().filter(|(end, _)| *end <= bytes) {
            connection.asked.pop_front();
            came += answer;
            if !at_once {
                connection.thought.push_back((due, answer));
            }
        }
        if came == 0 {
            return;
        }
        if at_once {
            self.pass(place, End::Sender, came);
        } else {
            self.network.schedule(due, Target::new(event_kind::TRAFFIC, down as u32));
        }
    }

    /// An application of a connection has something to do; whether `flow` is one of theirs.
    pub(super) fn wake_exchange(&mut self, flow: usize) -> bool {
        let Some(&place) = self.exchanges.senders.get(flow).filter(|place| place.exchange != NONE) else {
            return false;
        };
        let now = self.now;
        let mut all = place.connection;
        while let Some(connection) =
            self.exchanges.all[place.exchange as usize].connections.get_mut(all as usize)
            && (connection.up == flow || connection.down == flow)
        {
            let mut answers = 0;
            while let Some(&(_, bytes)) = connection.thought.front().filter(|(due, _)| *due <= now) {
                connection.thought.pop_front();
                answers += bytes;
            }
            if answers > 0 {
                self.pass(Place { connection: all, ..place }, End::Sender, answers);
            }
            all += 1;
        }
        if flow == self.exchanges.all[place.exchange as usize].lead {
            let started = std::mem::replace(&mut self.started[flow], true);
            self.with_client(
                place,
                |client, acts| {
                    if started { client.wake(now, acts) } else { client.start(now, acts) }
                },
            );
        }
        true
    }

    /// Lets a client act, then does what it wants done.
    fn with_client(&mut self, place: Place, act: impl FnOnce(&mut Running, &mut Acts)) {
        let mut acts = std::mem::take(&mut self.exchanges.acts);
        let exchange = &mut self.exchanges.all[place.exchange as usize];
        let lead = exchange.lead;
        act(&mut exchange.client, &mut acts);
        for ask in acts.asks.drain(..) {
            let connection = &mut self.exchanges.all[place.exchange as usize].connections[ask.connection];
            let up = connection.up;
            let is_new = connection.requested == 0;
            connection.requested += ask.request;
            connection.asked.push_back((connection.requested, ask.answer));
            if is_new {
                self.recall(up);
            }
            let place = Place { connection: ask.connection as u32, ..place };
            self.pass(place, End::Receiver, ask.request);
        }
        if let Some(at) = acts.wake.take() {
            self.network.schedule(at, Target::new(event_kind::TRAFFIC, lead as u32));
        }
        self.exchanges.acts = acts;
    }
}
