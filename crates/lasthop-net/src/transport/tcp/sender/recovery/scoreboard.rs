//! What a receiver is known to hold, for the engines that repair by it (`sack.rs`, `rack.rs`), and what follows from it
//! for the segments outstanding: counters that follow the segments' flags, so that no ACK costs a window's worth of
//! work.

use crate::transport::sack::SackBlocks;
use crate::transport::tcp::segments::{Ranges, Segment, Segments};

/// What the receiver is known to hold, and what that says about the rest.
#[derive(Clone, Debug, Default)]
pub(in crate::transport::tcp::sender) struct Scoreboard {
    pub(super) sacked: Ranges,
    /// Outstanding segments that are SACKed; not SACKed and lost; not SACKed and sent again in this episode.
    pub(super) sacked_count: usize,
    pub(super) lost_count: usize,
    pub(super) repaired_count: usize,
    /// Between the loss and the ACK of all that was outstanding then.
    pub(super) in_recovery: bool,
}

impl Scoreboard {
    /// A segment was acknowledged cumulatively.
    pub(super) fn forget(&mut self, segment: &Segment) {
        if segment.sacked {
            self.sacked_count -= 1;
        } else {
            self.lost_count -= usize::from(segment.lost);
            self.repaired_count -= usize::from(segment.repaired);
        }
    }

    /// Segments believed to be in the network, of `outstanding` ones. Where duplicate ACKs stand for SACKed segments
    /// the counts may exceed them while an ACK is being taken.
    #[inline]
    pub(super) fn pipe(&self, outstanding: usize) -> usize {
        (outstanding + self.repaired_count).saturating_sub(self.sacked_count + self.lost_count)
    }

    /// Whether the blocks tell of data at or above `una` that was not known to be there.
    pub(super) fn has_news(&self, sack: &SackBlocks, una: u64) -> bool {
        sack.as_slice().iter().any(|&(start, end)| {
            let start = start.max(una);
            start < end && !self.sacked.contains_all(start, end)
        })
    }

    /// Marks what the blocks report and shows each segment that is new, with its place, to `on_new`; returns whether
    /// there was any.
    #[inline]
    pub(super) fn note(
        &mut self,
        blocks: &[(u64, u64)],
        una: u64,
        segments: &mut Segments,
        mut on_new: impl FnMut(usize, &Segment),
    ) -> bool {
        let mut news = false;
        for &(start, end) in blocks {
            // Below una: a DSACK, or old news.
            let mut position = start.max(una);
            if position >= end {
                continue;
            }
            // The range that holds the position, or the next one.
            let mut ahead = self.sacked.place_of(position);
            if self.sacked.holds(ahead, position, end) {
                continue;
            }
            let (mut first, mut index) = (position, None);
            while position < end {
                if let Some((_, until)) = self.sacked.at(ahead).filter(|&(known, _)| known <= position) {
                    (position, ahead, index) = (position.max(until), ahead + 1, None);
                    continue;
                }
                let Some(place) = index.or_else(|| segments.find(position)) else { break };
                let Some(segment) = segments.get_mut(place) else { break };
                index = Some(place + 1);
                // A segment of which only the end is reported is not there (RFC 6675 section 2 counts whole ones).
                if position == first && segment.seq.max(una) < position {
                    (position, first) = (segment.end(), segment.end());
                    continue;
                }
                if segment.end() > end {
                    break;
                }
                self.lost_count -= usize::from(segment.lost);
                self.repaired_count -= usize::from(segment.repaired);
                self.sacked_count += 1;
                on_new(place, segment);
                segment.sacked = true;
                position = segment.end();
                news = true;
            }
            self.sacked.insert(first, position.min(end));
        }
        news
    }

    /// Forgets what was taken for lost, because nothing was; what is SACKed stays known.
    pub(super) fn forget_losses(&mut self, segments: &mut Segments) {
        for segment in segments.iter_mut() {
            segment.lost = false;
            segment.repaired = false;
        }
        self.lost_count = 0;
        self.repaired_count = 0;
        self.in_recovery = false;
    }
}
