//! The bytes of datagrams of others while they are on their way through a world: slots that are used again, no
//! allocation once a run has warmed up. A slot is freed when no packet of the world carries its number any more.

use std::collections::VecDeque;

use lasthop_net::device::Middlebox;
use lasthop_net::plan::Plan;
use lasthop_net::transport::outside::Loss;
use lasthop_net::world::World;

/// A datagram on its way.
#[derive(Clone, Debug)]
pub struct Slot<About> {
    /// What it carries.
    pub bytes: Vec<u8>,
    /// What its driver notes of it.
    pub about: About,
    /// How often it has arrived.
    pub copies: u32,
    /// Its last copy that was lost.
    pub lost: Option<Loss>,
    /// It is gone, and kept for an erasure code.
    is_retained: bool,
}

/// Lost datagrams that an erasure code may still make anew: more than all blocks of a code hold.
const RETAINED: usize = 8_192;

/// The slots.
#[derive(Clone, Debug)]
pub struct Store<About> {
    slots: Vec<Slot<About>>,
    free: Vec<u32>,
    /// Lost datagrams that are kept for a while, oldest first, if a link has an erasure code.
    retained: VecDeque<u32>,
    retains: bool,
    losses: Vec<Loss>,
    gone: Vec<u32>,
}

impl<About> Store<About> {
    /// For a world of this plan, which has to track tickets ([`World::track_tickets`]).
    pub fn new(plan: &Plan) -> Store<About> {
        let sides = plan.links.iter().flat_map(|link| [&link.forward, &link.reverse]);
        let mut devices = sides.flat_map(|side| &side.middleboxes);
        Store {
            slots: Vec::new(),
            free: Vec::new(),
            retained: VecDeque::new(),
            retains: devices.any(|device| matches!(device, Middlebox::Fec(_))),
            losses: Vec::new(),
            gone: Vec::new(),
        }
    }

    /// Keeps a datagram and returns the number of its slot.
    pub fn keep(&mut self, about: About, data: &[u8]) -> u32 {
        let number = self.free.pop();
        let mut bytes =
            number.map(|number| std::mem::take(&mut self.slots[number as usize].bytes)).unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(data);
        let slot = Slot { bytes, about, copies: 0, lost: None, is_retained: false };
        if let Some(number) = number {
            self.slots[number as usize] = slot;
            return number;
        }
        self.slots.push(slot);
        self.slots.len() as u32 - 1
    }

    /// A datagram by the number of its slot.
    pub fn get_mut(&mut self, number: u32) -> &mut Slot<About> {
        &mut self.slots[number as usize]
    }

    /// Frees what the world carries no longer; `gone` is told of each such slot. All departures must have been taken.
    pub fn settle(&mut self, world: &mut World, mut gone: impl FnMut(&Slot<About>)) {
        self.losses.clear();
        world.losses(&mut self.losses);
        for loss in &self.losses {
            self.slots[loss.ticket as usize].lost = Some(*loss);
        }
        self.gone.clear();
        world.gone_tickets(&mut self.gone);
        for index in 0..self.gone.len() {
            let number = self.gone[index];
            gone(&self.slots[number as usize]);
            self.release(number, world);
        }
    }

    fn release(&mut self, number: u32, world: &World) {
        if !self.retains {
            return self.free.push(number);
        }
        if !std::mem::replace(&mut self.slots[number as usize].is_retained, true) {
            self.retained.push_back(number);
        }
        while self.retained.len() > RETAINED
            && let Some(oldest) = self.retained.pop_front()
        {
            if world.is_carried(oldest) {
                self.retained.push_back(oldest);
            } else {
                self.free.push(oldest);
            }
        }
    }

    /// Datagrams that are kept because they may still arrive.
    pub fn under_way(&self) -> usize {
        self.slots.len() - self.free.len() - self.retained.len()
    }
}
