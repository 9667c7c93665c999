//! Trains: how much Linux hands to the offload of its device at once. BBR leaves room for them in its window, and the
//! sender of `lasthop-net` forms them.

/// A train is what leaves in this part of a second at the pacing rate (`sk_pacing_shift`).
pub const PER_SECOND: f64 = 1024.0;
/// Below this rate in bit/s a controller that paces has trains of one segment.
const SLOW: f64 = 1.2e6;

/// Segments of the shortest train of a controller that paces at `rate` bit/s (`bbr_min_tso_segs`).
pub fn shortest(rate: f64) -> f64 {
    if rate < SLOW { 1.0 } else { 2.0 }
}
