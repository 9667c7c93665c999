//! What packets on their way carry beyond their headers, in one slab with a free list; and, for the driver of a world
//! that asks for it, which tickets ([`Extra::bytes_at`]) no packet carries any more.

use lasthop_core::packet::NONE;
use lasthop_core::room::make_room;

use crate::transport::extra::Extra;

/// The slab.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExtraArena {
    extras: Vec<Extra>,
    free: Vec<u32>,
    tickets: Option<Box<Tickets>>,
}

/// How many packets carry each ticket: helpers repeat packets.
#[derive(Clone, Debug, Default)]
struct Tickets {
    /// By ticket: the count, and whether it stands in `idle`.
    carried: Vec<(u32, bool)>,
    /// Those whose last packet has gone since the last look. A helper may have made another one meanwhile.
    idle: Vec<u32>,
}

impl ExtraArena {
    /// From now on tickets are counted, and [`ExtraArena::gone`] has those that nothing carries any more.
    pub(crate) fn track_tickets(&mut self) {
        self.tickets.get_or_insert_default();
    }

    /// Whether tickets are counted.
    pub(crate) fn tracks_tickets(&self) -> bool {
        self.tickets.is_some()
    }

    /// Takes the tickets that nothing carries any more, each once.
    pub(crate) fn gone(&mut self, all: &mut Vec<u32>) {
        let Some(tickets) = &mut self.tickets else { return };
        for ticket in tickets.idle.drain(..) {
            let (carried, is_idle) = &mut tickets.carried[ticket as usize];
            *is_idle = false;
            if *carried == 0 {
                all.push(ticket);
            }
        }
    }

    /// Whether a packet carries the ticket.
    pub(crate) fn is_carried(&self, ticket: u32) -> bool {
        let carried = self.tickets.as_ref().and_then(|tickets| tickets.carried.get(ticket as usize));
        carried.is_some_and(|&(carried, _)| carried > 0)
    }

    /// Stores an extra and returns its index.
    pub(crate) fn insert(&mut self, extra: &Extra) -> u32 {
        if let Some(tickets) = &mut self.tickets
            && let Some(ticket) = extra.bytes_at
        {
            let ticket = ticket as usize;
            if tickets.carried.len() <= ticket {
                tickets.carried.resize(ticket + 1, (0, false));
            }
            tickets.carried[ticket].0 += 1;
        }
        if let Some(index) = self.free.pop() {
            self.extras[index as usize] = *extra;
            return index;
        }
        make_room(&mut self.extras, 64);
        self.extras.push(*extra);
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
        if index == NONE {
            return;
        }
        if let Some(tickets) = &mut self.tickets
            && let Some(ticket) = self.extras[index as usize].bytes_at
        {
            let (carried, is_idle) = &mut tickets.carried[ticket as usize];
            *carried -= 1;
            if *carried == 0 && !std::mem::replace(is_idle, true) {
                tickets.idle.push(ticket);
            }
        }
        self.free.push(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ticket is gone with the last packet that carries it.
    #[test]
    fn a_ticket_lasts_as_long_as_its_copies() {
        let mut arena = ExtraArena::default();
        arena.track_tickets();
        let with = |ticket| Extra { bytes_at: Some(ticket), ..Extra::default() };
        let indices = [7, 7, 3].map(|ticket| arena.insert(&with(ticket)));
        let mut gone = Vec::new();
        arena.remove(indices[0]);
        arena.gone(&mut gone);
        assert_eq!(gone, []);
        arena.remove(indices[2]);
        arena.remove(indices[1]);
        arena.remove(NONE);
        // A copy that is made of a packet that has just gone.
        let again = arena.insert(&with(3));
        arena.gone(&mut gone);
        assert_eq!(gone, [7]);
        assert!(arena.is_carried(3) && !arena.is_carried(7));
        arena.remove(again);
        arena.gone(&mut gone);
        assert_eq!(gone, [7, 3]);
    }
}
