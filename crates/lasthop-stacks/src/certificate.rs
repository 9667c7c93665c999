//! The certificate of a run, made on the spot: Ed25519 (RFC 8410), whose signatures have one length, with the key from
//! the run's stream and all else fixed. So the handshake has the same lengths in every run. It protects nothing.

use lasthop::Stream;
use ring::signature::{Ed25519KeyPair, KeyPair};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

/// For whom it is.
pub(crate) const NAME: &str = "localhost";

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const UTC_TIME: u8 = 0x17;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// `[0]`, `[3]` with something inside, and `[2]` without.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const DNS_NAME: u8 = 0x82;

/// id-Ed25519, 1.3.101.112.
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
/// id-at-commonName, 2.5.4.3, and id-ce-subjectAltName, 2.5.29.17.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
/// PKCS#8 with an Ed25519 key of 32 bytes behind it (RFC 8410 §7).
const PKCS8: [u8; 16] = [
    SEQUENCE,
    0x2e,
    INTEGER,
    1,
    0,
    SEQUENCE,
    5,
    OBJECT,
    3,
    0x2b,
    0x65,
    0x70,
    OCTET_STRING,
    0x22,
    OCTET_STRING,
    0x20,
];

/// A value of DER (X.690 §8.1, §10.1).
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut value = vec![tag];
    match content.len() {
        short @ ..128 => value.push(short as u8),
        middle @ ..256 => value.extend([0x81, middle as u8]),
        long => value.extend([0x82, (long >> 8) as u8, long as u8]),
    }
    value.extend_from_slice(content);
    value
}

fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    der(SEQUENCE, &parts.concat())
}

/// Whole bytes: no unused bits.
fn bits(bytes: &[u8]) -> Vec<u8> {
    der(BIT_STRING, &[&[0], bytes].concat())
}

/// A certificate that its own key has signed, and the key.
pub(crate) fn certificate(stream: &mut Stream) -> (CertificateDer<'static>, PrivatePkcs8KeyDer<'static>) {
    let mut seed = [0; 32];
    stream.fill(&mut seed);
    let pkcs8 = [&PKCS8[..], &seed].concat();
    let key = Ed25519KeyPair::from_seed_unchecked(&seed).expect("every 32 bytes are an Ed25519 key");
    let algorithm = || sequence(&[der(OBJECT, ED25519)]);
    let name = || {
        let attribute = sequence(&[der(OBJECT, COMMON_NAME), der(UTF8_STRING, NAME.as_bytes())]);
        sequence(&[der(SET, &attribute)])
    };
    let names = sequence(&[der(DNS_NAME, NAME.as_bytes())]);
    let extension = sequence(&[der(OBJECT, SUBJECT_ALT_NAME), der(OCTET_STRING, &names)]);
    let signed = sequence(&[
        // X.509 version 3 is written as 2.
        der(VERSION, &der(INTEGER, &[2])),
        der(INTEGER, &[1]),
        algorithm(),
        name(),
        sequence(&[der(UTC_TIME, b"200101000000Z"), der(UTC_TIME, b"491231235959Z")]),
        name(),
        sequence(&[algorithm(), bits(key.public_key().as_ref())]),
        der(EXTENSIONS, &sequence(&[extension])),
    ]);
    let signature = bits(key.sign(&signed).as_ref());
    (CertificateDer::from(sequence(&[signed, algorithm(), signature])), PrivatePkcs8KeyDer::from(pkcs8))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// X.690 §8.1.3: lengths below 128 take a byte, longer ones say first how many bytes they take.
    #[test]
    fn lengths_are_written_as_der_has_them() {
        assert_eq!(der(OCTET_STRING, &[7; 127])[..2], [4, 127]);
        assert_eq!(der(OCTET_STRING, &[7; 128])[..3], [4, 0x81, 128]);
        assert_eq!(der(OCTET_STRING, &[7; 300])[..4], [4, 0x82, 1, 44]);
    }

    #[test]
    fn every_certificate_has_the_same_length() {
        let made = |seed| certificate(&mut Stream::new(seed, "certificate")).0;
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
        assert!((1..50).all(|seed| made(seed).len() == made(1).len()));
    }
}
