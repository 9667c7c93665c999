//! Randomness of TLS from the streams of a run: what a handshake draws comes from the stream of the end that draws it.
//!
//! rustls wants its generators to live forever, so they ask for the stream that this thread has lent them, and fail
//! when there is none.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use lasthop::Stream;
use rustls::crypto::{
    ActiveKeyExchange, CryptoProvider, GetRandomFailed, SecureRandom, SharedSecret, SupportedKxGroup,
};
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use rustls::{Error, NamedGroup, PeerMisbehaved};
use x25519_dalek::{PublicKey, StaticSecret};

thread_local! {
    static LENT: RefCell<Option<Stream>> = const { RefCell::new(None) };
}

/// Takes the stream back when the call is over, or has panicked.
struct Loan<'a>(&'a mut Stream);

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        if let Some(stream) = LENT.take() {
            *self.0 = stream;
        }
    }
}

/// Calls into a stack with this stream as the source of randomness.
pub(crate) fn lend<T>(stream: &mut Stream, call: impl FnOnce() -> T) -> T {
    LENT.set(Some(stream.clone()));
    let _loan = Loan(stream);
    call()
}

/// Fills `bytes` from the stream that is lent.
pub(crate) fn fill(bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
    LENT.with_borrow_mut(|lent| lent.as_mut().map(|stream| stream.fill(bytes))).ok_or(GetRandomFailed)
}

#[derive(Debug)]
struct Lent;

impl SecureRandom for Lent {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        fill(bytes)
    }
}

/// X25519 (RFC 7748) with a key from the stream: that of ring takes none.
#[derive(Debug)]
struct X25519;

struct Exchange {
    secret: StaticSecret,
    public: PublicKey,
}

impl SupportedKxGroup for X25519 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut key = [0; 32];
        fill(&mut key)?;
        let secret = StaticSecret::from(key);
        let public = PublicKey::from(&secret);
        Ok(Box::new(Exchange { secret, public }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

impl ActiveKeyExchange for Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let peer: [u8; 32] = peer.try_into().map_err(|_| PeerMisbehaved::InvalidKeyShare)?;
        let shared = self.secret.diffie_hellman(&peer.into());
        if !shared.was_contributory() {
            return Err(PeerMisbehaved::InvalidKeyShare.into());
        }
        Ok(SharedSecret::from(shared.as_bytes().as_slice()))
    }

    fn pub_key(&self) -> &[u8] {
        self.public.as_bytes()
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

/// ring's algorithms with the run's randomness.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    let ring = rustls::crypto::ring::default_provider();
    Arc::new(CryptoProvider { secure_random: &Lent, kx_groups: vec![&X25519], ..ring })
}

/// A day on which every certificate of ours is valid, so that no run depends on the day it is made.
#[derive(Debug)]
pub(crate) struct FixedDay;

/// 2026-01-01.
pub(crate) const DAY: Duration = Duration::from_hours(490_896);

impl TimeProvider for FixedDay {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(DAY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_lent_for_one_call_alone() {
        let mut stream = Stream::new(1, "test");
        let mut twin = stream.clone();
        let mut bytes = [[0; 8]; 3];
        assert!(fill(&mut bytes[0]).is_err());
        lend(&mut stream, || fill(&mut bytes[0])).unwrap();
        lend(&mut stream, || fill(&mut bytes[1])).unwrap();
        assert!(fill(&mut bytes[2]).is_err());
        let mut expected = [[0; 8]; 2];
        twin.fill(&mut expected[0]);
        twin.fill(&mut expected[1]);
        assert_eq!(bytes[..2], expected);
    }

    fn bytes(hex: &str) -> [u8; 32] {
        std::array::from_fn(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
    }

    /// RFC 7748 §5.2, the first vector: a scalar, a coordinate and their product.
    #[test]
    fn the_exchange_is_that_of_the_rfc() {
        let secret =
            StaticSecret::from(bytes("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"));
        let exchange = Box::new(Exchange { public: PublicKey::from(&secret), secret });
        let peer = bytes("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c");
        let shared = exchange.complete(&peer).unwrap();
        let expected = bytes("c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552");
        assert_eq!(shared.secret_bytes(), expected);
    }
}
