//! Looks ahead: while one packet is dealt with, has what the next ones will meet brought into the caches.
//!
//! With ten thousand flows the links, senders and receivers are not in the caches when a packet comes, and a packet
//! and its ACK touch thirty cache lines. The calendar names the packets of its next day; each goes through four steps,
//! one for each packet that arrives meanwhile, because a step reads what the one before it has asked for.

use lasthop_core::large_pages::{gather, pages_of};
use lasthop_core::packet::NONE;
use lasthop_core::prefetch::prefetch;

use super::World;
use crate::network::Place;
use crate::transport::endpoint::Endpoint;

/// With fewer flows all of it is in the caches, and looking ahead costs more than it saves.
const FEWEST_FLOWS: usize = 256;

/// The last packets that were named, newest first; [`NONE`] where there was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ahead {
    last: [u32; 3],
    /// Whether it is worth while.
    pays: bool,
}

impl Ahead {
    /// Of a world with this many flows.
    pub(super) fn of(flows: usize) -> Ahead {
        Ahead { last: [NONE; 3], pays: flows >= FEWEST_FLOWS }
    }
}

impl World {
    /// Has everything that packets meet gathered on large pages, if that pays.
    pub(super) fn gather(&self) {
        if !self.ahead.pays {
            return;
        }
        let senders = pages_of(&self.senders).chain(pages_of(&self.sent));
        gather(
            senders.chain(self.senders.iter().flat_map(Endpoint::addresses)).chain(self.network.addresses()),
        );
    }

    /// Takes one step for each of the packets that come next.
    #[inline]
    pub(super) fn look_ahead(&mut self) {
        if !self.ahead.pays {
            return;
        }
        let upcoming = self.network.upcoming();
        if upcoming.is_some() || self.ahead.last != [NONE; 3] {
            self.prepare(upcoming.unwrap_or(NONE));
        }
    }

    fn prepare(&mut self, newest: u32) {
        let [second, third, fourth] = self.ahead.last;
        self.ahead.last = [newest, second, third];
        if second != NONE {
            let hop = self.network.awaited(second);
            if hop.place() == Place::Sender {
                prefetch(&self.senders[hop.flow() as usize]);
                prefetch(&self.sent[hop.flow() as usize]);
            } else {
                self.network.prepare_way(second);
            }
        }
        if third != NONE {
            let hop = self.network.awaited(third);
            if hop.place() != Place::Sender {
                self.network.prepare_receiver(hop.flow());
            } else if let Some(sender) = self.senders[hop.flow() as usize].tcp_sender() {
                sender.prepare();
                self.network.prepare_place(self.sent[hop.flow() as usize].first_hop);
            }
        }
        if fourth != NONE {
            let hop = self.network.awaited(fourth);
            if hop.place() == Place::Sender
                && let Some(sender) = self.senders[hop.flow() as usize].tcp_sender()
            {
                sender.prepare_history();
                self.network.prepare_link(self.sent[hop.flow() as usize].first_hop);
            }
        }
    }
}
