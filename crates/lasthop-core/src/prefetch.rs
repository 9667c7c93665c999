//! Asks for memory before it is needed. In a world of ten thousand flows nothing that a packet meets is in the caches
//! when the packet arrives; who knows what comes next can have it brought while the present packet is dealt with.
//!
//! The calendar names packets that arrive soon, `lasthop-net` prepares for them. It changes no result: the only effect
//! is on time.

/// Has the cache line of `place` brought into the caches. Returns at once.
#[inline]
pub fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "no safe function of the language asks for memory without waiting for it")]
    // SAFETY: the instruction reads and writes nothing that a program could see and never faults, whatever the address;
    // this one is that of a live object. Every x86-64 processor has it.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
