//! Memory on large pages. A packet in a world of ten thousand flows meets twenty places that lie far from each other;
//! on pages of 4 kB the processor finds none of them without walking through the tables of pages.
//!
//! It changes no result: the only effect is on time.

/// Size of a large page of most processors.
const SIZE: usize = 2 << 20;

/// Has the memory around these addresses gathered on large pages, if the system can (Linux 6.1).
pub fn gather(addresses: impl Iterator<Item = usize>) {
    if cfg!(not(target_os = "linux")) {
        return;
    }
    let mut pages: Vec<usize> = Vec::new();
    for page in addresses.map(|address| address / SIZE) {
        // Neighbours come one after the other as a rule.
        if pages.last() != Some(&page) {
            pages.push(page);
        }
    }
    pages.sort_unstable();
    pages.dedup();
    #[cfg(target_os = "linux")]
    for page in pages {
        #[expect(unsafe_code, reason = "no safe function of the language asks for large pages")]
        // SAFETY: what lies there keeps its address and its contents; of pages that are not there, or
        // not to be had, it returns an error, which means that nothing has changed.
        unsafe {
            libc::madvise(std::ptr::without_provenance_mut(page * SIZE), SIZE, libc::MADV_COLLAPSE);
        }
    }
}

/// Addresses on each page that a list lies on.
pub fn pages_of<T>(list: &[T]) -> impl Iterator<Item = usize> {
    let range = list.as_ptr_range();
    (range.start.addr()..range.end.addr()).step_by(SIZE).chain([range.end.addr()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no madvise")]
    fn what_is_gathered_stays_as_it_is() {
        let list: Vec<u64> = (0..1_000_000).collect();
        gather(pages_of(&list).chain([1]));
        assert!(list.iter().copied().eq(0..1_000_000));
        assert_eq!(pages_of(&list).count(), 5);
    }
}
