//! QUIC by quinn-proto. What it has in common with its fork stands in `quic/adapter.rs`.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use quinn_proto as proto;
use quinn_proto::congestion::{BbrConfig, Controller, ControllerMetrics};
use quinn_proto::crypto::{ClientConfig, CryptoError, HeaderKey, KeyPair, Keys, PacketKey, Session};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, RttEstimator, Side, TransportError};

use crate::controller::controllers;
use crate::plain::{Watched, Watching, watched};

#[path = "quic/adapter.rs"]
mod adapter;

pub use adapter::pair;

pub use crate::quic::{Congestion, ID_BYTES, Settings};

/// Its name.
pub const NAME: &str = "quinn";

/// What is called differently in the two crates.
mod calls {
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::time::Instant;

    use bytes::{Bytes, BytesMut};
    use quinn_proto::crypto::HandshakeTokenKey;
    use quinn_proto::{
        Connection, ConnectionIdGenerator, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, QlogConfig,
        SendStream, ServerConfig, Transmit, TransportConfig,
    };

    use crate::stack::span;
    use crate::{Log, Report};

    pub(super) fn token_key(key: &[u8; 64]) -> Arc<dyn HandshakeTokenKey> {
        Arc::new(ring::hkdf::Salt::new(ring::hkdf::HKDF_SHA256, &[]).extract(key))
    }

    pub(super) fn endpoint(config: Arc<EndpointConfig>, server: Option<Arc<ServerConfig>>) -> Endpoint {
        Endpoint::new(config, server, true, None)
    }

    pub(super) fn ids(
        config: &mut EndpointConfig,
        make: impl Fn() -> Box<dyn ConnectionIdGenerator> + Send + Sync + 'static,
    ) {
        config.cid_generator(make);
    }

    pub(super) fn write_log(transport: &mut TransportConfig, log: &Log, zero: Instant) {
        let mut qlog = QlogConfig::default();
        qlog.writer(Box::new(log.clone()))
            .title(Some(log.title.clone()))
            .description(Some(log.description.clone()))
            .start_time(zero);
        transport.qlog_stream(qlog.into_stream());
    }

    pub(super) fn handle(
        endpoint: &mut Endpoint,
        now: Instant,
        peer: SocketAddr,
        ecn: Option<EcnCodepoint>,
        data: BytesMut,
        answer: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        endpoint.handle(now, peer, None, ecn, data, answer)
    }

    /// One datagram at a time: trains would have to be cut.
    pub(super) fn transmit(
        connection: &mut Connection,
        now: Instant,
        into: &mut Vec<u8>,
    ) -> Option<Transmit> {
        connection.poll_transmit(now, 1, into)
    }

    /// How much of it the stream takes now.
    pub(super) fn write(stream: &mut SendStream<'_>, data: Bytes) -> usize {
        stream.write_chunks(&mut [data]).map_or(0, |written| written.bytes)
    }

    pub(super) fn told(connection: &mut Connection, report: Report) -> Report {
        let path = connection.stats().path;
        Report {
            cwnd_bytes: Some(path.cwnd),
            packet_bytes: Some(path.current_mtu.into()),
            rtt: Some(span(path.rtt)),
            min_rtt: Some(span(path.min_rtt)),
            lost_packets: Some(path.lost_packets),
            lost_bytes: Some(path.lost_bytes),
            congestion_events: Some(path.congestion_events),
            ..report
        }
    }
}

controllers! {
    quinn_proto,
    driven {
        fn on_ack(&mut self, _: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
            self.acked(sent, bytes, app_limited, rtt.get());
        }

        fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
            self.congestion(now, sent, is_persistent, lost_bytes);
        }

        fn metrics(&self) -> ControllerMetrics {
            let mut metrics = ControllerMetrics::default();
            metrics.congestion_window = self.cwnd();
            metrics.ssthresh = self.ssthresh();
            metrics
        }
    }
    overhearing {
        fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
            self.controller.on_ack(now, sent, bytes, app_limited, rtt);
        }

        fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
            self.losses.note(sent, lost_bytes);
            self.controller.on_congestion_event(now, sent, is_persistent, lost_bytes);
        }
    }
}

watched! {
    quinn_proto,
    config {
        fn start_session(
            self: Arc<Self>,
            version: u32,
            server_name: &str,
            params: &TransportParameters,
        ) -> Result<Box<dyn Session>, ConnectError> {
            let of = self.config.clone().start_session(version, server_name, params)?;
            Ok(Box::new(Watching { of, plain: self.plain.clone() }))
        }
    }
    session {
        // Initial packets have no data.
        fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
            self.of.initial_keys(dst_cid, side)
        }

        fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
            self.of.is_valid_retry(orig_dst_cid, header, payload)
        }
    }
    key {
        fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
            self.see(buf, header_len);
            self.of.encrypt(packet, buf, header_len);
        }

        fn decrypt(&self, packet: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
            self.of.decrypt(packet, header, payload)
        }
    }
}
