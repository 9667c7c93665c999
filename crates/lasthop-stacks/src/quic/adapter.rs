//! QUIC by quinn-proto or by noq-proto, a fork of it: one connection that sends over one stream or in datagrams, or
//! that asks and is answered over many streams, set up by TLS 1.3.
//!
//! This file is compiled twice, as a part of [`crate::quinn`] and of [`crate::noq`]. What is called differently in the
//! two stands there, and nothing else does.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use lasthop::{Clock, Ecn, Stream, Time};
use lasthop_cc::LossKind;

use super::proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use super::proto::{
    ClientConfig, Connection, ConnectionHandle, ConnectionId, ConnectionIdGenerator, DatagramEvent, Dir,
    EcnCodepoint, Endpoint, EndpointConfig, Event, ServerConfig, StreamEvent, StreamId, TimeSource,
    TransportConfig, VarInt, congestion,
};
use super::{BbrConfig, Factory, NAME, calls};
use crate::controller::{Beliefs, Losses, Overheard};
use crate::plain::{Plain, Watched};
use crate::quic::{Congestion, ID_BYTES, Settings};
use crate::{Carried, Ends, Report, Stack, certificate, entropy};

/// Windows that limit nothing up to 1 Gbit/s and 100 ms, in bytes: of a stream, and of a connection.
const STREAM_WINDOW: u32 = 16 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;
/// What the application hands over at once.
static PIECE: [u8; 64 << 10] = [0x6c; 64 << 10];
/// What waits for the stack at most, in bytes of datagrams; the oldest of more is dropped. That is its own limit, but
/// it does not count what it drops: it is given little at once.
const WAITING: u64 = 1 << 20;
const HANDED_OVER: usize = 4 << 10;
/// What a datagram takes before the peer has said what it takes: that of 1200 B, with which connections begin.
const BEFORE: usize = 1200 - 38;
/// Where its data belongs stands at the head of each datagram.
const POSITION: usize = 8;
/// An application that writes now and then keeps its connection: both end one after 30 s of silence.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Connection ids from the run's stream.
struct Ids(Stream);

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; ID_BYTES];
        self.0.fill(&mut id);
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

impl TimeSource for entropy::FixedDay {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + entropy::DAY
    }
}

/// What makes the controllers of a connection.
fn factory(congestion: &Congestion) -> Arc<Factory> {
    match congestion {
        Congestion::NewReno => Arc::new(congestion::NewRenoConfig::default()),
        Congestion::Cubic => Arc::new(congestion::CubicConfig::default()),
        Congestion::Bbr => Arc::new(BbrConfig::default()),
        Congestion::Ours(ours) => Arc::new(ours.clone()),
    }
}

/// Both ends of a connection, for [`crate::Run::connect`].
pub fn pair(settings: &Settings, ends: &Ends) -> (String, Box<dyn Stack>, Box<dyn Stack>) {
    let transport = Arc::new(transport(settings));
    let (mut sender, mut receiver) = (ends.sender_entropy.clone(), ends.receiver_entropy.clone());
    let plain = settings.measured.then(Plain::default);
    let (mut client, mut server) = configurations(&mut receiver, &transport, settings, plain.as_ref());
    let clock = Clock::new();
    let open = |client: &ClientConfig, server: &ServerConfig, entropies: (Stream, Stream), bytes| {
        let lengths = match (settings.exchange, settings.answers) {
            (true, _) => (None, None),
            (false, true) => (None, Some(bytes)),
            (false, false) => (Some(bytes), None),
        };
        open(clock, (client.clone(), Arc::new(server.clone())), (ends, entropies), lengths)
    };
    if settings.early_data {
        // They have met before the run: what the one keeps of it stands in the configurations.
        let (mut one, mut other) = open(&client, &server, (sender.branch(), receiver.branch()), 0);
        meet(&mut one, &mut other, ends.at);
        plain.iter().for_each(Plain::reset);
    }
    let losses = Losses::default();
    let of_sender = Arc::new(transport_of_sender(settings, &losses, clock));
    if settings.is_served() {
        server.transport_config(of_sender);
    } else {
        client.transport_config(of_sender);
    }
    let bytes = if settings.timed { 0 } else { settings.bytes.unwrap_or(u64::MAX) };
    let (mut one, mut other) = open(&client, &server, (sender, receiver), bytes);
    for (end, asks) in [(&mut one, true), (&mut other, false)] {
        end.more = settings.timed;
        end.messages = settings.datagrams.then(Messages::default);
        end.ranges = settings.measured.then(Ranges::default);
        end.streams = settings.exchange.then(|| Streams { asks, ..Streams::default() });
    }
    one.plain = plain;
    let sending = if settings.is_served() { &mut other } else { &mut one };
    if let Congestion::Ours(ours) = &settings.congestion {
        sending.beliefs = Some(ours.beliefs());
    }
    sending.losses = losses;
    if settings.datagrams {
        one.stream = None;
    }
    (format!("{NAME} {}", settings.congestion.name(NAME)), Box::new(one), Box::new(other))
}

/// What both ends are told of transport.
fn transport(settings: &Settings) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .congestion_controller_factory(factory(&settings.congestion))
        // Answers come one behind the other, as far as nothing is lost.
        .send_fairness(!settings.exchange)
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .send_window(STREAM_WINDOW.into());
    if settings.timed {
        transport.keep_alive_interval(Some(KEEP_ALIVE));
    }
    if settings.datagrams {
        transport.datagram_send_buffer_size(HANDED_OVER);
    }
    transport
}

/// The same for the end that has the data: it may write a log, whose times are those of the run, and tells what is lost
/// for good.
fn transport_of_sender(settings: &Settings, losses: &Losses, clock: Clock) -> TransportConfig {
    let mut transport = transport(settings);
    if settings.datagrams {
        let factory = factory(&settings.congestion);
        transport.congestion_controller_factory(Arc::new(Overheard { factory, losses: losses.clone() }));
    }
    if let Some(log) = &settings.log {
        calls::write_log(&mut transport, log, clock.instant(Time::ZERO));
    }
    transport
}

/// Both ends of a transfer; one of them has what it hands over.
fn open(
    clock: Clock,
    (client, server): (ClientConfig, Arc<ServerConfig>),
    (ends, (mut sender, mut receiver)): (&Ends, (Stream, Stream)),
    (opening_has, answering_has): (Option<u64>, Option<u64>),
) -> (End, End) {
    let mut opening = calls::endpoint(endpoint(&mut sender), None);
    let answering = calls::endpoint(endpoint(&mut receiver), Some(server));
    let now = clock.instant(ends.at);
    let opened =
        entropy::lend(&mut sender, || opening.connect(now, client, ends.receiver, certificate::NAME));
    let mut one = End::new(clock, opening, ends.receiver, sender, opening_has);
    match opened {
        Ok((handle, mut connection)) => {
            if connection.has_0rtt() && opening_has.is_some() {
                one.stream = connection.streams().open(Dir::Uni);
            }
            one.connection = Some((handle, connection));
            one.work(ends.at);
        }
        Err(error) => one.report.closed = Some((ends.at, error.to_string())),
    }
    (one, End::new(clock, answering, ends.sender, receiver, answering_has))
}

/// Carries datagrams between two ends, without any time between, until neither has one.
fn meet(one: &mut End, other: &mut End, now: Time) {
    let mut datagram = Vec::new();
    loop {
        let mut is_idle = true;
        for is_first in [true, false] {
            let (from, to) = if is_first { (&mut *one, &mut *other) } else { (&mut *other, &mut *one) };
            datagram.clear();
            if let Some(ecn) = from.transmit(now, &mut datagram) {
                to.receive(now, ecn, &mut datagram);
                is_idle = false;
            }
        }
        if is_idle {
            return;
        }
    }
}

fn endpoint(entropy: &mut Stream) -> Arc<EndpointConfig> {
    let (mut reset, mut seed) = ([0; 64], [0; 32]);
    entropy.fill(&mut reset);
    entropy.fill(&mut seed);
    let ids = entropy.branch();
    let mut endpoint = EndpointConfig::new(Arc::new(ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &reset)));
    endpoint.rng_seed(Some(seed));
    calls::ids(&mut endpoint, move || Box::new(Ids(ids.clone())));
    Arc::new(endpoint)
}

/// TLS of both ends. What stands behind `expect` depends on constants of this crate alone, and every run comes by it.
fn configurations(
    entropy: &mut Stream,
    transport: &Arc<TransportConfig>,
    settings: &Settings,
    plain: Option<&Plain>,
) -> (ClientConfig, ServerConfig) {
    let (certificate, key) = certificate::certificate(entropy);
    let mut token = [0; 64];
    entropy.fill(&mut token);
    let first_id = {
        let mut id = [0; 20];
        entropy.fill(&mut id);
        ConnectionId::new(&id)
    };
    let (provider, day) = (entropy::provider(), Arc::new(entropy::FixedDay));
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).expect("the certificate is well-formed");
    let versions = [&rustls::version::TLS13];
    let mut client = rustls::ClientConfig::builder_with_details(provider.clone(), day.clone())
        .with_protocol_versions(&versions)
        .expect("the provider has suites of TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut server = rustls::ServerConfig::builder_with_details(provider, day.clone())
        .with_protocol_versions(&versions)
        .expect("the provider has suites of TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key.into())
        .expect("the key is that of the certificate");
    if let Some(secrets) = &settings.secrets {
        client.key_log = Arc::new(secrets.clone());
    }
    if settings.early_data {
        client.enable_early_data = true;
        // RFC 9001 §4.6.1: QUIC allows this or none.
        server.max_early_data_size = u32::MAX;
    }
    client.alpn_protocols = vec![b"lasthop".to_vec()];
    server.alpn_protocols.clone_from(&client.alpn_protocols);
    let client = QuicClientConfig::try_from(client).expect("the provider has the suite of Initial packets");
    let server = QuicServerConfig::try_from(server).expect("the provider has the suite of Initial packets");
    let mut client = match plain {
        Some(plain) => {
            ClientConfig::new(Arc::new(Watched { config: Arc::new(client), plain: plain.clone() }))
        }
        None => ClientConfig::new(Arc::new(client)),
    };
    client.transport_config(transport.clone()).initial_dst_cid_provider(Arc::new(move || first_id));
    let mut server = ServerConfig::new(Arc::new(server), calls::token_key(&token));
    server.transport_config(transport.clone()).time_source(day);
    (client, server)
}

struct End {
    clock: Clock,
    endpoint: Endpoint,
    peer: std::net::SocketAddr,
    connection: Option<(ConnectionHandle, Connection)>,
    entropy: Stream,
    /// Answers of the endpoint itself, outside a connection.
    answers: VecDeque<Vec<u8>>,
    stream: Option<StreamId>,
    /// What the sending application has not handed over yet; `None` at the receiver.
    left: Option<u64>,
    /// All that it has to hand over.
    whole: Option<u64>,
    /// It will write more.
    more: bool,
    /// What goes in datagrams, if that is how data goes.
    messages: Option<Messages>,
    /// What is told of data that comes, if something is.
    ranges: Option<Ranges>,
    /// What is told of data that leaves, if something is.
    plain: Option<Plain>,
    /// What its controller takes losses for, if it is one of ours.
    beliefs: Option<Beliefs>,
    /// What is lost of datagrams.
    losses: Losses,
    /// Over what requests and answers go, if that is what it is for.
    streams: Option<Streams>,
    report: Report,
}

/// The streams of requests and answers, by their number.
#[derive(Debug, Default)]
struct Streams {
    /// This end opens them.
    asks: bool,
    all: Vec<OneStream>,
    /// Bytes that the stack has not taken yet.
    left: u64,
    /// Those on which something has come, and all that has.
    heard: Vec<(u32, u64)>,
}

#[derive(Clone, Debug, Default)]
struct OneStream {
    id: Option<StreamId>,
    written: u64,
    /// Of these, what the stack has not taken yet.
    left: u64,
    read: u64,
}

/// Datagrams that wait for the stack.
#[derive(Debug, Default)]
struct Messages {
    /// Where each begins, and its length.
    queue: VecDeque<(u64, u64)>,
    waiting: u64,
    written: u64,
    /// Bytes that were dropped.
    dropped: u64,
}

/// What is told of data that comes.
#[derive(Debug, Default)]
struct Ranges {
    /// Ranges that have come and were not taken.
    arrived: Vec<Range<u64>>,
    /// Of a stream: those beyond a gap, by where they begin.
    ahead: BTreeMap<u64, u64>,
}

impl End {
    fn new(
        clock: Clock,
        endpoint: Endpoint,
        peer: std::net::SocketAddr,
        entropy: Stream,
        left: Option<u64>,
    ) -> End {
        End {
            clock,
            endpoint,
            peer,
            connection: None,
            entropy,
            answers: VecDeque::new(),
            stream: None,
            left,
            whole: left,
            more: false,
            messages: None,
            ranges: None,
            plain: None,
            beliefs: None,
            losses: Losses::default(),
            streams: None,
            report: Report::default(),
        }
    }

    /// What the connection tells its endpoint, and what that answers. Without it connection ids run out.
    fn move_events(&mut self) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(answer);
            }
        }
    }

    /// The application: opens the stream, writes and reads.
    fn work(&mut self, now: Time) {
        self.move_events();
        let Some((_, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected => {
                    self.report.connected = Some(now);
                    // Early data that was refused was not read: its stream is gone, and all of it is sent anew.
                    let is_refused = connection.has_0rtt() && !connection.accepted_0rtt();
                    if self.left.is_some() && self.messages.is_none() && (self.stream.is_none() || is_refused)
                    {
                        self.stream = connection.streams().open(Dir::Uni);
                        self.left = self.whole;
                    }
                    if let Some(streams) = self.streams.as_mut().filter(|all| all.asks && is_refused) {
                        streams.begin_anew();
                    }
                }
                Event::ConnectionLost { reason } => {
                    self.report.closed = Some((now, reason.to_string()));
                }
                Event::Stream(StreamEvent::Finished { .. }) => self.report.finished = Some(now),
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                    self.stream = connection.streams().accept(Dir::Uni);
                }
                Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                    while let Some(id) = connection.streams().accept(Dir::Bi) {
                        let streams = self.streams.as_mut();
                        self.report.delivered_bytes += streams.map_or(0, |all| all.read(connection, id));
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => {
                    let streams = self.streams.as_mut();
                    self.report.delivered_bytes += streams.map_or(0, |all| all.read(connection, id));
                }
                _ => {}
            }
        }
        if let Some(streams) = &mut self.streams {
            streams.write(connection);
            return;
        }
        if let Some(messages) = &mut self.messages {
            if self.left.is_some() {
                messages.hand_over(connection);
            } else {
                self.report.delivered_bytes += receive(connection, self.ranges.as_mut());
            }
            return;
        }
        let Some(stream) = self.stream else { return };
        match &mut self.left {
            Some(left) => write(connection, stream, left, self.more),
            None => read(connection, stream, now, (&mut self.report, self.ranges.as_mut())),
        }
    }
}

impl Streams {
    fn at(&mut self, number: usize) -> &mut OneStream {
        if self.all.len() <= number {
            self.all.resize(number + 1, OneStream::default());
        }
        &mut self.all[number]
    }

    /// What was sent early was refused, and all of it goes again.
    fn begin_anew(&mut self) {
        for stream in &mut self.all {
            (stream.id, stream.left) = (None, stream.written);
        }
        self.left = self.all.iter().map(|stream| stream.left).sum();
    }

    /// Hands over what the stack takes.
    fn write(&mut self, connection: &mut Connection) {
        if self.left == 0 {
            return;
        }
        for stream in self.all.iter_mut().filter(|stream| stream.left > 0) {
            if self.asks && stream.id.is_none() {
                // They are taken in turn, so that the stack's numbers are ours.
                stream.id = connection.streams().open(Dir::Bi);
            }
            let Some(id) = stream.id else { return };
            let before = stream.left;
            write(connection, id, &mut stream.left, true);
            self.left -= before - stream.left;
        }
    }

    /// Reads what is there of a stream, and returns how many bytes that were.
    fn read(&mut self, connection: &mut Connection, id: StreamId) -> u64 {
        let number = id.index() as u32;
        let stream = self.at(number as usize);
        stream.id = Some(id);
        let mut came = 0;
        if let Ok(mut chunks) = connection.recv_stream(id).read(true) {
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                came += chunk.bytes.len() as u64;
            }
            // Whether windows have opened is asked in the same instant, by the call to transmit.
            let _ = chunks.finalize();
        }
        stream.read += came;
        let read = stream.read;
        self.heard.extend((came > 0).then_some((number, read)));
        came
    }
}

impl Messages {
    fn write(&mut self, bytes: u64) {
        self.queue.push_back((self.written, bytes));
        self.written += bytes;
        self.waiting += bytes;
        while self.waiting > WAITING
            && let Some((_, oldest)) = self.queue.pop_front()
        {
            self.waiting -= oldest;
            self.dropped += oldest;
        }
    }

    /// Gives the stack as many as it takes, none longer than fits into a packet.
    fn hand_over(&mut self, connection: &mut Connection) {
        let mut datagrams = connection.datagrams();
        // Before the peer has said what it takes, none is.
        let Some(longest) = datagrams.max_size().filter(|&longest| longest > POSITION) else { return };
        while let Some((position, bytes)) = self.queue.front_mut() {
            let length = (*bytes).min((longest - POSITION) as u64);
            let mut datagram = BytesMut::zeroed(POSITION + length as usize);
            datagram[..POSITION].copy_from_slice(&position.to_be_bytes());
            if datagrams.send(datagram.freeze(), false).is_err() {
                return;
            }
            (*position, *bytes) = (*position + length, *bytes - length);
            self.waiting -= length;
            if *bytes == 0 {
                self.queue.pop_front();
            }
        }
    }
}

/// Reads what has come in datagrams, and returns how many bytes that were.
fn receive(connection: &mut Connection, mut ranges: Option<&mut Ranges>) -> u64 {
    let mut read = 0;
    while let Some(datagram) = connection.datagrams().recv() {
        let Some((position, data)) = datagram.split_first_chunk::<POSITION>() else { continue };
        read += data.len() as u64;
        if let Some(ranges) = &mut ranges {
            let start = u64::from_be_bytes(*position);
            ranges.arrived.push(start..start + data.len() as u64);
        }
    }
    read
}

/// Hands over what the stack takes; the end of the stream behind the last byte, unless `more` will be written.
fn write(connection: &mut Connection, id: StreamId, left: &mut u64, more: bool) {
    let mut stream = connection.send_stream(id);
    while *left > 0 {
        let length = (*left).min(PIECE.len() as u64) as usize;
        match calls::write(&mut stream, Bytes::from_static(&PIECE[..length])) {
            0 => return,
            written => *left -= written as u64,
        }
        if *left == 0 && !more {
            // An error says that the peer has stopped the stream: nothing is left to do.
            let _ = stream.finish();
        }
    }
}

/// Reads what is there in order. Where ranges are told it is taken as it comes, and counted once all before is there.
fn read(
    connection: &mut Connection,
    id: StreamId,
    now: Time,
    (report, mut ranges): (&mut Report, Option<&mut Ranges>),
) {
    let mut stream = connection.recv_stream(id);
    // The stream was read to its end or reset: nothing more comes.
    let Ok(mut chunks) = stream.read(ranges.is_none()) else { return };
    loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => match &mut ranges {
                Some(ranges) => {
                    ranges.take(&mut report.delivered_bytes, chunk.offset, chunk.bytes.len() as u64);
                }
                None => report.delivered_bytes += chunk.bytes.len() as u64,
            },
            Ok(None) => {
                report.finished = report.finished.or(Some(now));
                break;
            }
            Err(_) => break,
        }
    }
    // Whether windows have opened is asked in the same instant, by the call to transmit.
    let _ = chunks.finalize();
}

impl Ranges {
    /// Takes a range of a stream, of which `delivered` bytes are there without a gap.
    fn take(&mut self, delivered: &mut u64, start: u64, length: u64) {
        self.arrived.push(start..start + length);
        self.ahead.insert(start, length);
        while let Some(next) = self.ahead.first_entry()
            && next.key() == delivered
        {
            *delivered += next.remove();
        }
    }
}

impl Stack for End {
    fn next_timeout(&mut self) -> Option<Time> {
        let clock = self.clock;
        let (_, connection) = self.connection.as_mut()?;
        connection.poll_timeout().map(|at| clock.time(at))
    }

    fn handle_timeout(&mut self, now: Time) {
        let at = self.clock.instant(now);
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(at);
        }
        self.work(now);
    }

    fn receive(&mut self, now: Time, ecn: Ecn, data: &mut [u8]) {
        let at = self.clock.instant(now);
        let (ecn, bytes) = (EcnCodepoint::from_bits(ecn.bits()), BytesMut::from(&*data));
        let mut answer = Vec::new();
        let endpoint = &mut self.endpoint;
        let event = entropy::lend(&mut self.entropy, || {
            calls::handle(endpoint, at, self.peer, ecn, bytes, &mut answer)
        });
        match event {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    entropy::lend(&mut self.entropy, || connection.handle_event(event));
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) if self.connection.is_none() => {
                let accepted = entropy::lend(&mut self.entropy, || {
                    let accepted = endpoint.accept(incoming, at, &mut answer, None);
                    accepted.map_err(|refused| refused.response)
                });
                match accepted {
                    Ok(connection) => self.connection = Some(connection),
                    Err(Some(transmit)) => self.answers.push_back(answer[..transmit.size].to_vec()),
                    Err(None) => {}
                }
            }
            // A second connection, as damaged datagrams may seem to ask for.
            Some(DatagramEvent::NewConnection(incoming)) => endpoint.ignore(incoming),
            Some(DatagramEvent::Response(transmit)) => {
                self.answers.push_back(answer[..transmit.size].to_vec());
            }
            None => return,
        }
        self.work(now);
    }

    fn transmit(&mut self, now: Time, datagram: &mut Vec<u8>) -> Option<Ecn> {
        if let Some(answer) = self.answers.pop_front() {
            datagram.extend(answer);
            return Some(Ecn::NotEct);
        }
        let at = self.clock.instant(now);
        let (_, connection) = self.connection.as_mut()?;
        if let Some(messages) = &mut self.messages {
            messages.hand_over(connection);
        }
        let entropy = &mut self.entropy;
        let transmit = entropy::lend(entropy, || calls::transmit(connection, at, datagram))?;
        datagram.truncate(transmit.size);
        self.move_events();
        Some(transmit.ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8)))
    }

    fn write(&mut self, now: Time, bytes: u64, is_last: bool) {
        self.more = !is_last;
        match (&mut self.messages, &mut self.left, &mut self.whole) {
            (Some(messages), ..) if bytes > 0 => messages.write(bytes),
            (None, Some(left), Some(whole)) => (*left, *whole) = (*left + bytes, *whole + bytes),
            _ => {}
        }
        self.work(now);
        // Where something was left, its last byte has the end of the stream behind it.
        if let (true, Some(0), Some(stream)) = (is_last, self.left, self.stream)
            && let Some((_, connection)) = &mut self.connection
        {
            // An error says that it has been ended, or the peer has stopped it.
            let _ = connection.send_stream(stream).finish();
        }
    }

    fn exchange(&mut self, now: Time, stream: u32, bytes: u64) {
        if let Some(streams) = &mut self.streams {
            let one = streams.at(stream as usize);
            (one.written, one.left) = (one.written + bytes, one.left + bytes);
            streams.left += bytes;
        }
        self.work(now);
    }

    fn heard(&mut self, all: &mut Vec<(u32, u64)>) {
        if let Some(streams) = &mut self.streams {
            all.append(&mut streams.heard);
        }
    }

    fn waiting(&mut self) -> u64 {
        let Some(messages) = &self.messages else {
            let (whole, plain) = (self.whole.unwrap_or(0), self.plain.as_ref());
            return plain.map_or(0, |plain| whole.saturating_sub(plain.until()));
        };
        let taken = self.connection.as_mut().map_or(0, |(_, connection)| {
            HANDED_OVER.saturating_sub(connection.datagrams().send_buffer_space())
        });
        messages.waiting + taken as u64
    }

    fn lost(&self) -> Option<Time> {
        self.losses.newest().map(|sent| self.clock.time(sent))
    }

    fn room(&mut self) -> Option<u32> {
        let (_, connection) = self.connection.as_mut()?;
        let longest = connection.datagrams().max_size().unwrap_or(BEFORE);
        let room = if self.messages.is_some() {
            longest.saturating_sub(POSITION)
        } else {
            // 9 bytes are counted for the head of a datagram. That of a frame of a stream has type and stream in a byte
            // each, where its data belongs in 4 below 1 GiB and in 8 beyond, and the stack keeps 8 for a length.
            let is_far = self.whole.is_some_and(|whole| whole >= 1 << 30);
            (longest + 9).saturating_sub(if is_far { 18 } else { 14 })
        };
        u32::try_from(room).ok()
    }

    fn carried(&mut self) -> Carried {
        self.plain.as_ref().map_or(Carried::Nothing, Plain::take)
    }

    fn beliefs(&mut self, all: &mut Vec<(Time, LossKind)>) {
        if let Some(beliefs) = &self.beliefs {
            all.extend(beliefs.take().into_iter().map(|(sent, kind)| (self.clock.time(sent), kind)));
        }
    }

    fn arrived(&mut self, all: &mut Vec<Range<u64>>) {
        if let Some(ranges) = &mut self.ranges {
            all.append(&mut ranges.arrived);
        }
    }

    fn stop(&mut self, now: Time) {
        if let Some(messages) = &mut self.messages {
            messages.queue.clear();
            messages.waiting = 0;
        }
        let left = self.left.replace(0);
        let Some((_, connection)) = &mut self.connection else { return };
        match self.stream {
            // RFC 9000 §3.1. An error says that all was acknowledged, or that the peer had stopped it.
            Some(stream) => drop(connection.send_stream(stream).reset(VarInt::from_u32(0))),
            None if left.is_some() => {
                connection.close(self.clock.instant(now), VarInt::from_u32(0), Bytes::new());
            }
            None => {}
        }
    }

    fn delivered(&mut self) -> u64 {
        self.report.delivered_bytes
    }

    fn report(&mut self) -> Report {
        let Some((_, connection)) = &mut self.connection else { return self.report.clone() };
        calls::told(connection, self.report.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that has forgotten the ends' meeting refuses early data, and the client sends it once more.
    #[test]
    fn early_data_that_is_refused_is_sent_anew() {
        let settings = Settings { early_data: true, ..Settings::default() };
        let transport = Arc::new(TransportConfig::default());
        let stream = |name: &str| Stream::new(1, name);
        let address = |port| std::net::SocketAddr::from(([10, 0, 0, 1], port));
        let ends = Ends {
            at: Time(0),
            sender: address(1),
            receiver: address(2),
            longest: 1472,
            sender_entropy: stream("sender"),
            receiver_entropy: stream("receiver"),
        };
        let (client, server) = configurations(&mut stream("receiver"), &transport, &settings, None);
        let (_, forgetful) = configurations(&mut stream("receiver"), &transport, &settings, None);
        let (server, forgetful) = (Arc::new(server), Arc::new(forgetful));
        let clock = Clock::new();
        let transfer = |server: &Arc<ServerConfig>, name: &str| {
            let entropies = (stream(name), stream(&format!("{name}, the other")));
            let (mut one, mut other) =
                open(clock, (client.clone(), server.clone()), (&ends, entropies), (Some(1000), None));
            let is_early = one.stream.is_some();
            meet(&mut one, &mut other, ends.at);
            let accepted = one.connection.as_ref().is_some_and(|(_, connection)| connection.accepted_0rtt());
            (is_early, accepted, other.report.delivered_bytes, other.report.finished.is_some())
        };
        assert_eq!(transfer(&server, "first"), (false, false, 1000, true));
        assert_eq!(transfer(&server, "second"), (true, true, 1000, true));
        assert_eq!(transfer(&forgetful, "third"), (true, false, 1000, true));
    }
}
