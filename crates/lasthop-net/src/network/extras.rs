//! What packets on their way carry beyond their headers, in one slab with a free list.

use lasthop_core::packet::NONE;
use lasthop_core::room::make_room;

use crate::transport::extra::Extra;

/// The slab.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExtraArena {
    extras: Vec<Extra>,
    free: Vec<u32>,
}

impl ExtraArena {
    /// Stores an extra and returns its index.
    pub(crate) fn insert(&mut self, extra: Extra) -> u32 {
        if let Some(index) = self.free.pop() {
            self.extras[index as usize] = extra;
            return index;
        }
        make_room(&mut self.extras, 64);
        self.extras.push(extra);
        (self.extras.len() - 1) as u32
    }

    /// The extra at `index`; `None` at [`NONE`].
    pub(crate) fn get(&self, index: u32) -> Option<&Extra> {
        self.extras.get(index as usize)
    }

    /// The extra at `index`, to be changed; `None` at [`NONE`].
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Extra> {
        self.extras.get_mut(index as usize)
    }

    /// Frees the place at `index`, if it is one.
    pub(crate) fn remove(&mut self, index: u32) {
        if index != NONE {
            self.free.push(index);
        }
    }
}
