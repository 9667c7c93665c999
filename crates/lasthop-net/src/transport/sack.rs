//! The SACK blocks of one ACK (RFC 2018, RFC 2883), as receivers write them and senders and traces read them.

/// Most blocks that fit into an ACK (without timestamps).
pub const MAX_SACK_BLOCKS: usize = 4;

/// SACK blocks of one ACK: `[start, end)` pairs, the first reports what triggered the ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(u64, u64); MAX_SACK_BLOCKS],
    count: u8,
}

impl SackBlocks {
    /// Adds a block if there is room.
    pub fn push(&mut self, start: u64, end: u64) {
        if let Some(slot) = self.blocks.get_mut(usize::from(self.count)) {
            *slot = (start, end);
            self.count += 1;
        }
    }

    /// Takes all of them out.
    #[inline]
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Leaves the first `count`.
    pub fn keep(&mut self, count: usize) {
        self.count = self.count.min(count as u8);
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The duplicate that the first block reports, if it is a DSACK block (RFC 2883 §4): it lies below the cumulative
    /// acknowledgement `ack` or within the second block.
    pub fn duplicate(&self, ack: u64) -> Option<(u64, u64)> {
        let &(start, end) = self.as_slice().first()?;
        let within = self.as_slice().get(1).is_some_and(|&(from, to)| from <= start && end <= to);
        (start < ack || within).then_some((start, end))
    }

    /// The same blocks in ascending order.
    #[must_use]
    pub fn ascending(mut self) -> SackBlocks {
        self.blocks[..usize::from(self.count)].sort_unstable();
        self
    }

    /// The blocks.
    pub fn as_slice(&self) -> &[(u64, u64)] {
        &self.blocks[..usize::from(self.count)]
    }
}
