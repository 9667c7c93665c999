//! Whether LDPC coding takes one more symbol, or one more quarter of an HE symbol, because puncturing would weaken it
//! too much (IEEE 802.11-2016 19.3.11.7.5, 802.11ax-2021 27.3.12.5.2).

/// Codewords and their length for this many payload and available bits.
fn codewords(payload: u64, available: u64, (over, under): (u64, u64)) -> (u64, u64) {
    // Whether the available bits leave this much room beyond the payload, `room` scaled by the share of parity.
    let roomy = |room: u64| available * under >= payload * under + room * (under - over);
    match available {
        ..=648 => (1, if roomy(912) { 1296 } else { 648 }),
        649..=1296 => (1, if roomy(1464) { 1944 } else { 1296 }),
        1297..=1944 => (1, 1944),
        1945..=2592 => (2, if roomy(2916) { 1944 } else { 1296 }),
        _ => ((payload * under).div_ceil(1944 * over), 1944),
    }
}

/// Whether `payload` bits in `available` coded bits at this code rate need more room.
pub(super) fn wants_more(payload: u64, available: u64, (over, under): (u32, u32)) -> bool {
    let (over, under) = (u64::from(over), u64::from(under));
    let (words, length) = codewords(payload, available, (over, under));
    let shortened = (words * length * over / under).saturating_sub(payload);
    let punctured = (words * length).saturating_sub(available + shortened);
    // 10 % of the parity bits with little shortening, or 30 % in any case; all scaled by the denominator of the rate.
    let parity = words * length * (under - over);
    let much = 10 * punctured * under > parity;
    let little_shortened = 10 * shortened * (under - over) < 12 * punctured * over;
    much && little_shortened || 10 * punctured * under > 3 * parity
}
