//! First in, first out.

use std::collections::VecDeque;

use lasthop_core::time::Time;

use super::{Parcel, Served, Service, Shed, Verdict};

/// Packets in the order of their arrival.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fifo {
    parcels: VecDeque<Parcel>,
    bytes: u64,
}

impl Fifo {
    /// The packet that leaves next, which stays.
    #[inline]
    pub(super) fn first(&self) -> Option<&Parcel> {
        self.parcels.front()
    }

    /// All packets, in the order in which they leave.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Parcel> + ExactSizeIterator {
        self.parcels.iter()
    }

    /// Takes the packet at this place of the order away.
    pub(super) fn take(&mut self, place: usize) -> Option<Parcel> {
        let parcel = self.parcels.remove(place)?;
        self.bytes -= u64::from(parcel.bytes);
        Some(parcel)
    }

    /// The packet that leaves next.
    #[inline]
    pub(super) fn take_first(&mut self) -> Option<Parcel> {
        let parcel = self.parcels.pop_front()?;
        self.bytes -= u64::from(parcel.bytes);
        Some(parcel)
    }
}

impl Service for Fifo {
    #[inline]
    fn push(&mut self, parcel: Parcel, _shed: &mut Vec<Shed>) -> Verdict {
        self.bytes += u64::from(parcel.bytes);
        self.parcels.push_back(parcel);
        Verdict::Admit
    }

    #[inline]
    fn pop(&mut self, _now: Time, _shed: &mut Vec<Shed>) -> Option<Served> {
        self.take_first().map(|parcel| Served { parcel, marked: false })
    }

    #[inline]
    fn packets(&self) -> u64 {
        self.parcels.len() as u64
    }

    #[inline]
    fn bytes(&self) -> u64 {
        self.bytes
    }
}
