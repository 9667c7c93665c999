//! The bytes of real packets while the packets themselves are on their way through the world.
//!
//! A ring of a fixed number of places: the newest packet takes the place of the oldest. No caller has to free a
//! packet is gone (lost, withheld, kept twice by a helper), and memory is bounded whatever comes.

/// Packets whose bytes are kept. At 100 Mbit/s of full packets and their ACKs that is what comes in 4 s, and at most
/// 100 MB of packets of 1500 bytes.
pub const PLACES: usize = 1 << 16;

/// The ring.
#[derive(Debug)]
pub struct Store {
    places: Vec<Place>,
    next: u32,
}

#[derive(Clone, Debug, Default)]
struct Place {
    ticket: u32,
    bytes: Vec<u8>,
}

impl Default for Store {
    fn default() -> Store {
        Store::new(PLACES)
    }
}

impl Store {
    /// A ring of `places`, a power of two.
    pub fn new(places: usize) -> Store {
        Store { places: vec![Place::default(); places.next_power_of_two()], next: 0 }
    }

    /// Keeps the bytes of a packet; the ticket gets them back.
    pub fn put(&mut self, bytes: &[u8]) -> u32 {
        let ticket = self.next;
        self.next = self.next.wrapping_add(1);
        let last = self.places.len() - 1;
        let place = &mut self.places[ticket as usize & last];
        place.ticket = ticket;
        place.bytes.clear();
        place.bytes.extend_from_slice(bytes);
        ticket
    }

    /// The bytes of a ticket, to be changed on their way out; `None` if newer packets have taken their place.
    pub fn get_mut(&mut self, ticket: u32) -> Option<&mut [u8]> {
        let last = self.places.len() - 1;
        let place = &mut self.places[ticket as usize & last];
        (place.ticket == ticket && !place.bytes.is_empty()).then_some(&mut place.bytes[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_take_the_place_of_the_oldest() {
        let mut store = Store::new(4);
        let tickets: Vec<u32> = (0..6u8).map(|byte| store.put(&[byte])).collect();
        let kept: Vec<Option<u8>> =
            tickets.iter().map(|&ticket| store.get_mut(ticket).map(|bytes| bytes[0])).collect();
        assert_eq!(kept, [None, None, Some(2), Some(3), Some(4), Some(5)]);
        assert!(store.get_mut(77).is_none(), "a ticket that was never given");
    }
}
