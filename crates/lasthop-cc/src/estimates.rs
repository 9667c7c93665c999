//! What a law that keeps a model of the path holds for true: for tables of what a sender did, never for other laws.

/// Estimates of a law, in segments and seconds; infinite where nothing bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimates {
    /// What the law is doing, as its source calls it.
    pub state: &'static str,
    /// Round trips so far, as the law counts them.
    pub round: u64,
    /// Segments per second at which it paces, and the gain in that.
    pub pacing: f64,
    /// See `pacing`.
    pub pacing_gain: f64,
    /// Gain of the window.
    pub cwnd_gain: f64,
    /// Greatest rate that counts, in segments per second.
    pub greatest_rate: f64,
    /// Bound of the rate that losses have set for a while.
    pub short_term_rate: f64,
    /// Least RTT in seconds.
    pub least_rtt: f64,
    /// Segments that the path holds by these estimates.
    pub target: f64,
    /// Segments in flight at the last ACK.
    pub flight: f64,
    /// Bounds of the flight: of probes, and what losses have set for a while.
    pub long_term_flight: f64,
    /// See `long_term_flight`.
    pub short_term_flight: f64,
    /// Segments added for ACKs that come in bursts.
    pub extra_acked: f64,
    /// Round trips without growth of the rate.
    pub full_rounds: u32,
    /// Whether the pipe is taken for full.
    pub full: bool,
    /// Whether the sender has been idle, and nothing has been delivered since.
    pub restarts: bool,
    /// Whether what the last ACK delivered had been limited by the application.
    pub app_limited: bool,
}

/// What speaks for each cause of losses, in a law that counts it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossSigns {
    /// What decides: above 1 for the channel, below 1 for congestion.
    pub theta: f64,
    /// Signs of a bad channel, smoothed.
    pub channel: f64,
    /// Signs of congestion, smoothed.
    pub congestion: f64,
}
