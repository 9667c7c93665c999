//! QUIC by noq-proto, a fork of quinn with multipath (of which one path is used here) and BBR of version 3, whose pacer
//! obeys its controller. What it has in common with quinn stands in `quic/adapter.rs`.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use noq_proto as proto;
use noq_proto::congestion::{Bbr3Config as BbrConfig, Controller, ControllerMetrics};
use noq_proto::crypto::{ClientConfig, CryptoError, HeaderKey, KeyPair, Keys, PacketKey, Session};
use noq_proto::transport_parameters::TransportParameters;
use noq_proto::{ConnectError, ConnectionId, PathId, RttEstimator, Side, TransportError};

use crate::controller::controllers;
use crate::plain::{Watched, Watching, watched};

#[path = "quic/adapter.rs"]
#[expect(clippy::duplicate_mod, reason = "one adapter for two crates whose types have the same names")]
mod adapter;

pub use adapter::pair;

pub use crate::quic::{Congestion, ID_BYTES, Settings};

/// Its name.
pub const NAME: &str = "noq";

/// What is called differently in the two crates.
mod calls {
    use std::net::SocketAddr;
    use std::num::NonZeroUsize;
    use std::sync::Arc;
    use std::time::Instant;

    use bytes::{Bytes, BytesMut};
    use noq_proto::crypto::{CryptoError, HandshakeTokenKey};
    use noq_proto::{
        Connection, ConnectionId, ConnectionIdGenerator, DatagramEvent, EcnCodepoint, Endpoint,
        EndpointConfig, FourTuple, PathId, QlogConfig, QlogFactory, SendStream, ServerConfig, Side, Transmit,
        TransportConfig,
    };
    use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

    use crate::stack::span;
    use crate::{Log, Report};

    /// What seals tokens: noq's own asks the system for its key.
    struct TokenKey(LessSafeKey);

    /// Twelve of sixteen bytes, which are random for each token.
    fn nonce(whole: u128) -> Nonce {
        let mut nonce = [0; 12];
        nonce.copy_from_slice(&whole.to_le_bytes()[..12]);
        Nonce::assume_unique_for_key(nonce)
    }

    impl HandshakeTokenKey for TokenKey {
        fn seal(&self, token_nonce: u128, data: &mut Vec<u8>) -> Result<(), CryptoError> {
            let sealed = self.0.seal_in_place_append_tag(nonce(token_nonce), Aad::empty(), data);
            sealed.map_err(|_| CryptoError)
        }

        fn open<'a>(&self, token_nonce: u128, data: &'a mut [u8]) -> Result<&'a [u8], CryptoError> {
            let opened = self.0.open_in_place(nonce(token_nonce), Aad::empty(), data);
            opened.map(|opened| &*opened).map_err(|_| CryptoError)
        }
    }

    pub(super) fn token_key(key: &[u8; 64]) -> Arc<dyn HandshakeTokenKey> {
        let key = UnboundKey::new(&AES_256_GCM, &key[..32]).expect("the key has the length of the cipher");
        Arc::new(TokenKey(LessSafeKey::new(key)))
    }

    pub(super) fn endpoint(config: Arc<EndpointConfig>, server: Option<Arc<ServerConfig>>) -> Endpoint {
        Endpoint::new(config, server, true)
    }

    pub(super) fn ids(
        config: &mut EndpointConfig,
        make: impl Fn() -> Box<dyn ConnectionIdGenerator> + Send + Sync + 'static,
    ) {
        config.cid_generator(Arc::new(make));
    }

    /// Where the log of a connection goes, and the zero of its times.
    struct To(Log, Instant);

    impl QlogFactory for To {
        fn for_connection(&self, _: Side, _: SocketAddr, _: ConnectionId, _: Instant) -> Option<QlogConfig> {
            let mut qlog = QlogConfig::new(Box::new(self.0.clone()));
            qlog.title(Some(self.0.title.clone()))
                .description(Some(self.0.description.clone()))
                .start_time(self.1);
            Some(qlog)
        }
    }

    pub(super) fn write_log(transport: &mut TransportConfig, log: &Log, zero: Instant) {
        transport.qlog_factory(Arc::new(To(log.clone(), zero)));
    }

    pub(super) fn handle(
        endpoint: &mut Endpoint,
        now: Instant,
        peer: SocketAddr,
        ecn: Option<EcnCodepoint>,
        data: BytesMut,
        answer: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        endpoint.handle(now, FourTuple::new(peer, None), ecn, data, answer)
    }

    /// One datagram at a time: trains would have to be cut.
    pub(super) fn transmit(
        connection: &mut Connection,
        now: Instant,
        into: &mut Vec<u8>,
    ) -> Option<Transmit> {
        connection.poll_transmit(now, NonZeroUsize::MIN, into)
    }

    /// How much of it the stream takes now.
    pub(super) fn write(stream: &mut SendStream<'_>, data: Bytes) -> usize {
        stream.write_chunks(&mut &mut [data][..]).unwrap_or(0)
    }

    pub(super) fn told(connection: &mut Connection, report: Report) -> Report {
        let Some(path) = connection.path_stats(PathId::ZERO) else { return report };
        Report {
            cwnd_bytes: Some(path.cwnd),
            packet_bytes: Some(path.current_mtu.into()),
            rtt: Some(span(path.rtt)),
            // It does not tell its least one.
            min_rtt: None,
            lost_packets: Some(path.lost_packets),
            lost_bytes: Some(path.lost_bytes),
            congestion_events: Some(path.congestion_events),
            ..report
        }
    }
}

controllers! {
    noq_proto,
    driven {
        fn on_packet_sent(&mut self, now: Instant, _: u16, number: u64) {
            self.packet_sent(now, number);
        }

        fn on_ack(
            &mut self,
            now: Instant,
            sent: Instant,
            bytes: u64,
            number: u64,
            app_limited: bool,
            rtt: &RttEstimator,
        ) {
            self.packet_arrived(now, sent, number);
            self.acked(sent, bytes, app_limited, rtt.get());
        }

        fn on_packet_lost(&mut self, _: u16, number: u64, now: Instant) {
            self.packet_lost(now, number);
        }

        fn on_congestion_event(
            &mut self,
            now: Instant,
            sent: Instant,
            is_persistent: bool,
            _: bool,
            lost_bytes: u64,
            _: u64,
        ) {
            self.congestion(now, sent, is_persistent, lost_bytes);
        }

        fn on_spurious_congestion_event(&mut self) {
            self.spurious();
        }

        fn metrics(&self) -> ControllerMetrics {
            let mut metrics = ControllerMetrics::default();
            metrics.congestion_window = self.cwnd();
            metrics.ssthresh = self.ssthresh();
            metrics.pacing_rate = self.pace();
            metrics
        }
    }
    overhearing {
        fn on_packet_sent(&mut self, now: Instant, bytes: u16, packet: u64) {
            self.controller.on_packet_sent(now, bytes, packet);
        }

        fn on_cwnd_limited(&mut self) {
            self.controller.on_cwnd_limited();
        }

        fn on_ack(
            &mut self,
            now: Instant,
            sent: Instant,
            bytes: u64,
            packet: u64,
            app_limited: bool,
            rtt: &RttEstimator,
        ) {
            self.controller.on_ack(now, sent, bytes, packet, app_limited, rtt);
        }

        fn on_congestion_event(
            &mut self,
            now: Instant,
            sent: Instant,
            is_persistent: bool,
            is_ecn: bool,
            lost_bytes: u64,
            largest_lost: u64,
        ) {
            self.losses.note(sent, lost_bytes);
            self.controller.on_congestion_event(now, sent, is_persistent, is_ecn, lost_bytes, largest_lost);
        }

        fn on_packet_lost(&mut self, lost_bytes: u16, packet: u64, now: Instant) {
            self.controller.on_packet_lost(lost_bytes, packet, now);
        }

        fn on_spurious_congestion_event(&mut self) {
            self.controller.on_spurious_congestion_event();
        }

        fn on_ack_frequency_update(&mut self, threshold: u64, max_ack_delay: Duration) {
            self.controller.on_ack_frequency_update(threshold, max_ack_delay);
        }
    }
}

watched! {
    noq_proto,
    config {
        fn start_session(
            &self,
            version: u32,
            server_name: &str,
            params: &TransportParameters,
        ) -> Result<Box<dyn Session>, ConnectError> {
            let of = self.config.start_session(version, server_name, params)?;
            Ok(Box::new(Watching { of, plain: self.plain.clone() }))
        }
    }
    session {
        // Initial packets have no data.
        fn initial_keys(&self, dst_cid: ConnectionId, side: Side) -> Keys {
            self.of.initial_keys(dst_cid, side)
        }

        fn is_valid_retry(&self, orig_dst_cid: ConnectionId, header: &[u8], payload: &[u8]) -> bool {
            self.of.is_valid_retry(orig_dst_cid, header, payload)
        }
    }
    key {
        fn encrypt(&self, path: PathId, packet: u64, buf: &mut [u8], header_len: usize) {
            self.see(buf, header_len);
            self.of.encrypt(path, packet, buf, header_len);
        }

        fn decrypt(
            &self,
            path: PathId,
            packet: u64,
            header: &[u8],
            payload: &mut BytesMut,
        ) -> Result<(), CryptoError> {
            self.of.decrypt(path, packet, header, payload)
        }
    }
}
