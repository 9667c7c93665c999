//! What people would say of the picture of a call: the video quality Vq of ITU-T G.1070 (06/2018), an opinion score
//! from 1 to 5 by bit rate, frame rate and packet loss.
//!
//! Equations 11-16 to 11-21 of clause 11.3, and the coefficients of Table B.2, column 5: H.264 in VGA on a screen of
//! 9.2 inches, fitted to 400 kbit/s to 2 Mbit/s. Of these there is no opinion outside. It knows nothing of delay, nor
//! of how losses come: the model is for planning, and a decoder that stops at each loss is worse than its screen.

/// The bit rates for which the coefficients hold, in kbit/s.
const RATES: std::ops::RangeInclusive<f64> = 400.0..=2000.0;
/// v1 to v12.
const V: [f64; 12] =
    [5.517, 0.0129, 3.459, 178.53, 1.02, 1.15, 3.55e-4, 0.114, 513.77, 0.736, -6.451, 13.684];

/// Vq of video of `rate` kbit/s and `frames` frames a second, of whose packets `loss` percent are missing.
pub fn video_quality(rate: f64, frames: f64, loss: f64) -> Option<f64> {
    if !RATES.contains(&rate) || frames <= 0.0 {
        return None;
    }
    let [v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12] = V;
    // The frame rate that is best at this bit rate, the quality there, and how little others lower it.
    let best = v1 + v2 * rate;
    let highest = v3 - v3 / (1.0 + (rate / v4).powf(v5));
    let tolerance = v6 + v7 * rate;
    let by_frames = (-(frames.ln() - best.ln()).powi(2) / (2.0 * tolerance * tolerance)).exp();
    let robustness = v10 + v11 * (-frames / v8).exp() + v12 * (-rate / v9).exp();
    Some(1.0 + highest * by_frames * (-loss / robustness).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 Mbit/s: best at 18.417 frames/s, where it is 3.459 x 5.797 / 6.797 = 2.950 above 1; at 30 frames/s
    /// (ln 30 - ln 18.417)^2 = 0.23807 over 2 x 1.505^2 = 4.53005 takes 5.1 %; a loss of 1 % over 0.736 + 13.684
    /// e^-1.9464 = 2.6899 takes 31 % of the rest.
    #[test]
    fn opinions_worked_out_by_hand() {
        let quality = |rate, frames, loss| video_quality(rate, frames, loss).unwrap();
        for (rate, frames, loss, expected) in [
            (1000.0, 18.417, 0.0, 3.950),
            (1000.0, 30.0, 0.0, 3.799),
            (1000.0, 30.0, 1.0, 2.930),
            (512.0, 15.0, 0.0, 3.546),
            (1500.0, 30.0, 5.0, 1.104),
        ] {
            let found = quality(rate, frames, loss);
            assert!((found - expected).abs() < 1.5e-3, "{rate} {frames} {loss}: {found}");
        }
        assert_eq!((video_quality(399.0, 30.0, 0.0), video_quality(1000.0, 0.0, 0.0)), (None, None));
    }
}
