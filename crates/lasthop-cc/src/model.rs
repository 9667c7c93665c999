//! Throughput models: the rate of a window-based controller over a path with a given round-trip time and loss rate.
//!
//! Equation-based senders (TFRC and others) use them, and tests compare the controllers with them. Rates are per
//! second, times are in seconds, and a loss event rate `p` is a fraction of the packets sent, `0 < p <= 1`. Without
//! loss the rate is infinite. The functions use no packets or events.
//!
//! *References:* Padhye, Firoiu, Towsley & Kurose, SIGCOMM 1998; Yang & Lam, ICNP 2000; RFC 5348; Mathis, Semke,
//! Mahdavi & Ott, CCR 27(3), 1997.

/// A path as the models see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// Round-trip time, in seconds.
    pub rtt_s: f64,
    /// Retransmission timeout before any backing off, in seconds.
    pub rto_s: f64,
    /// Segments acknowledged by one ACK (`b` of the papers): 1, or 2 with delayed ACKs.
    pub segments_per_ack: f64,
}

impl Path {
    /// A path whose timeout is four round-trip times and where every segment is acknowledged, as RFC 5348 §3.1
    /// assumes.
    pub fn rfc5348(rtt_s: f64) -> Path {
        Path { rtt_s, rto_s: 4.0 * rtt_s, segments_per_ack: 1.0 }
    }
}

/// Share of segments that timeouts follow, times how long their backing off lasts: `p (1 + 32 p^2)`.
fn backed_off(p: f64) -> f64 {
    p * (1.0 + 32.0 * p * p)
}

/// Sending rate of TCP in segments per second (Padhye et al. 1998, eq. 30 without the receiver's window):
/// `1 / (RTT sqrt(2bp/3) + RTO min(1, 3 sqrt(3bp/8)) p (1 + 32 p^2))`.
pub fn padhye(path: &Path, p: f64) -> f64 {
    gaimd(path, 1.0, 0.5, p)
}

/// Sending rate in segments per second of a law that adds `alpha` segments per RTT and keeps the share `beta` of its
/// window after a loss (Yang & Lam 2000, eq. 1); with 1 and 1/2 it is [`padhye`]:
/// `1 / (RTT sqrt(2b(1-beta)p / (alpha(1+beta))) + RTO min(1, 3 sqrt((1-beta^2)bp / (2 alpha))) p (1 + 32 p^2))`.
pub fn gaimd(path: &Path, alpha: f64, beta: f64, p: f64) -> f64 {
    let b = path.segments_per_ack;
    let triple_duplicates = (2.0 * b * (1.0 - beta) * p / (alpha * (1.0 + beta))).sqrt();
    let timeouts = (3.0 * ((1.0 - beta * beta) * b * p / (2.0 * alpha)).sqrt()).min(1.0);
    1.0 / (path.rtt_s * triple_duplicates + path.rto_s * timeouts * backed_off(p))
}

/// The square-root law in segments per second (Mathis et al. 1997): `sqrt(3/2) / (RTT sqrt(p))`.
pub fn square_root(rtt_s: f64, p: f64) -> f64 {
    1.5f64.sqrt() / (rtt_s * p.sqrt())
}

/// The allowed sending rate of TFRC in bytes per second for packets of `packet_bytes` (RFC 5348 §3.1, without the cap
/// of [`padhye`]): `s / (RTT sqrt(2bp/3) + RTO 3 sqrt(3bp/8) p (1 + 32 p^2))`.
pub fn rfc5348(path: &Path, packet_bytes: f64, p: f64) -> f64 {
    let b = path.segments_per_ack;
    let triple_duplicates = (2.0 * b * p / 3.0).sqrt();
    let timeouts = 3.0 * (3.0 * b * p / 8.0).sqrt();
    packet_bytes / (path.rtt_s * triple_duplicates + path.rto_s * timeouts * backed_off(p))
}

/// The loss event rate at which [`rfc5348`] allows `rate` bytes per second: its inverse (RFC 5348 §6.3.1 needs it for
/// the first loss). 1 if even that allows more, 0 if `rate` is infinite.
pub fn rfc5348_loss_event_rate(path: &Path, packet_bytes: f64, rate: f64) -> f64 {
    // The rate falls strictly with p, so halving the interval finds it; it ends when no number lies in between.
    let (mut low, mut high) = (0.0, 1.0);
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            return high;
        }
        if rfc5348(path, packet_bytes, middle) > rate {
            low = middle;
        } else {
            high = middle;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::close;

    const PATH: Path = Path { rtt_s: 0.1, rto_s: 0.4, segments_per_ack: 1.0 };

    /// TV-9.1: RTT 0.1 s, RTO 0.4 s, one ACK per segment.
    #[test]
    fn response_function_of_tcp() {
        for (p, full, simple) in [
            (0.001, 383.8436, 387.298),
            (0.01, 112.3322, 122.474),
            (0.05, 36.8589, 54.772),
            (0.1, 17.7010, 38.730),
        ] {
            close(padhye(&PATH, p), full, 4);
            close(square_root(0.1, p), simple, 3);
        }
    }

    /// TV-8.1: the same with p = 0.01 for three pairs of alpha and beta.
    #[test]
    fn response_function_of_general_aimd() {
        close(padhye(&PATH, 0.01), 112.3322, 4);
        for (alpha, beta, rate) in
            [(0.3125, 0.875, 137.5673), (0.31, 0.875, 137.0159), (0.2, 0.875, 110.0538)]
        {
            close(gaimd(&PATH, alpha, beta, 0.01), rate, 4);
        }
    }

    /// TV-9.4: bytes per second with an RTT of 0.1 s.
    #[test]
    fn allowed_rate_of_tfrc() {
        let path = Path::rfc5348(0.1);
        close(rfc5348(&path, 1000.0, 0.01), 112_332.2, 1);
        close(rfc5348(&path, 1000.0, 0.001), 383_843.6, 1);
        close(rfc5348(&path, 1460.0, 0.01), 164_005.1, 1);
    }

    /// TV-9.2: 125,000 B/s in packets of 1000 B over 0.1 s.
    #[test]
    fn inverse_of_the_allowed_rate() {
        let path = Path::rfc5348(0.1);
        let p = rfc5348_loss_event_rate(&path, 1000.0, 125_000.0);
        close(p, 0.008_308_14, 8);
        close(1.0 / p, 120.36, 2);
    }

    #[test]
    fn inverse_at_its_ends() {
        let path = Path::rfc5348(0.1);
        close(rfc5348_loss_event_rate(&path, 1000.0, 0.0), 1.0, 12);
        assert!(rfc5348_loss_event_rate(&path, 1000.0, f64::INFINITY) < 1e-300);
        assert_eq!(rfc5348(&path, 1000.0, 0.0), f64::INFINITY);
        for p in [1e-6, 1e-3, 0.3, 0.9] {
            let rate = rfc5348(&path, 500.0, p);
            let back = rfc5348_loss_event_rate(&path, 500.0, rate);
            assert!((back / p - 1.0).abs() < 1e-9, "{back} is not {p}");
        }
    }
}
