//! The few things that steering asks of bpf(2): to find maps by name, to look into them, and to take a congestion
//! control away again. Loading is left to bpftool, which brings libbpf with it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Commands of bpf(2).
mod command {
    pub(super) const DELETE_ELEMENT: libc::c_int = 3;
    pub(super) const NEXT_MAP: libc::c_int = 12;
    pub(super) const OPEN_MAP: libc::c_int = 14;
    pub(super) const INFORM: libc::c_int = 15;
}

/// Bytes of `union bpf_attr` and of `struct bpf_map_info` that are used here.
const ATTRIBUTES: usize = 64;
const INFORMATION: usize = 88;
/// Where the name stands in the latter, and how long it may be.
const NAME: std::ops::Range<usize> = 24..40;

#[expect(unsafe_code, reason = "the kernel reads and writes this many bytes of an array that lives")]
fn bpf(command: libc::c_int, attributes: &mut [u8; ATTRIBUTES]) -> io::Result<i64> {
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), ATTRIBUTES) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done) }
}

fn put(attributes: &mut [u8; ATTRIBUTES], at: usize, value: &[u8]) {
    attributes[at..at + value.len()].copy_from_slice(value);
}

/// A map of the kernel.
#[derive(Debug)]
pub(crate) struct Map(File);

impl Map {
    fn open(id: u32) -> io::Result<Map> {
        let mut attributes = [0; ATTRIBUTES];
        put(&mut attributes, 0, &id.to_ne_bytes());
        let descriptor = bpf(command::OPEN_MAP, &mut attributes)?;
        #[expect(unsafe_code, reason = "the descriptor is new, and owned here alone")]
        Ok(Map(unsafe { File::from_raw_fd(descriptor as libc::c_int) }))
    }

    fn name(&self) -> io::Result<String> {
        let mut information = [0u8; INFORMATION];
        let mut attributes = [0; ATTRIBUTES];
        put(&mut attributes, 0, &self.0.as_raw_fd().to_ne_bytes());
        put(&mut attributes, 4, &(INFORMATION as u32).to_ne_bytes());
        put(&mut attributes, 8, &(information.as_mut_ptr() as u64).to_ne_bytes());
        bpf(command::INFORM, &mut attributes)?;
        let name = information[NAME].iter().take_while(|&&byte| byte != 0);
        Ok(name.map(|&byte| char::from(byte)).collect())
    }

    /// Takes the congestion control away of which this is the map. Connections that have it keep it.
    pub(crate) fn unregister(&self) -> io::Result<()> {
        let key = 0u32;
        let mut attributes = [0; ATTRIBUTES];
        put(&mut attributes, 0, &self.0.as_raw_fd().to_ne_bytes());
        put(&mut attributes, 8, &((&raw const key) as u64).to_ne_bytes());
        bpf(command::DELETE_ELEMENT, &mut attributes).map(drop)
    }

    /// What to wait for, of a ring.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The maps whose names `wanted` accepts, by those names.
pub(crate) fn maps(wanted: impl Fn(&str) -> bool) -> io::Result<Vec<(String, Map)>> {
    let mut found = Vec::new();
    let mut id = 0u32;
    loop {
        let mut attributes = [0; ATTRIBUTES];
        put(&mut attributes, 0, &id.to_ne_bytes());
        match bpf(command::NEXT_MAP, &mut attributes) {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(found),
            Err(error) => return Err(error),
        }
        id = u32::from_ne_bytes([attributes[4], attributes[5], attributes[6], attributes[7]]);
        // It may have gone meanwhile.
        let Ok(map) = Map::open(id) else { continue };
        let name = map.name()?;
        if wanted(&name) {
            found.push((name, map));
        }
    }
}

/// Memory that is shared with the kernel.
#[derive(Debug)]
pub(crate) struct Shared {
    start: NonNull<u8>,
    length: usize,
}

#[expect(unsafe_code, reason = "its owner has it alone; the kernel accesses it through atomics")]
unsafe impl Send for Shared {}

impl Shared {
    /// This many bytes of a map from an offset on.
    pub(crate) fn new(map: &Map, (offset, length): (usize, usize), may_write: bool) -> io::Result<Shared> {
        let protection = libc::PROT_READ | if may_write { libc::PROT_WRITE } else { 0 };
        #[expect(unsafe_code, reason = "new memory of a descriptor that is open")]
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                map.0.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("no memory"))?;
        Ok(Shared { start, length })
    }

    /// What stands at a place, which the kernel may change. Panics beyond the end or between two numbers.
    #[expect(unsafe_code, reason = "within the memory and aligned: the line above sees to both")]
    pub(crate) fn at<T: OfAtomics>(&self, at: usize) -> &T {
        assert!(at.is_multiple_of(align_of::<T>()) && at + size_of::<T>() <= self.length);
        unsafe { self.start.add(at).cast().as_ref() }
    }

    /// The number at a place.
    fn number(&self, at: usize) -> &AtomicU64 {
        self.at(at)
    }

    /// The same of 32 bits.
    fn word(&self, at: usize) -> &AtomicU32 {
        self.at(at)
    }
}

/// What may lie in memory that the kernel changes meanwhile.
///
/// # Safety
///
/// Only for atomics and for structures of C that consist of them.
#[expect(unsafe_code, reason = "which types these are no compiler can tell")]
pub(crate) unsafe trait OfAtomics {}
#[expect(unsafe_code, reason = "an atomic")]
unsafe impl OfAtomics for AtomicU32 {}
#[expect(unsafe_code, reason = "an atomic")]
unsafe impl OfAtomics for AtomicU64 {}

impl Drop for Shared {
    #[expect(unsafe_code, reason = "no reference outlives this")]
    fn drop(&mut self) {
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// The reader's end of a ring buffer. Its records are words of 32 bits.
#[derive(Debug)]
pub(crate) struct Ring {
    map: Map,
    /// How far the reader is: one page.
    read: Shared,
    /// How far the kernel is: one page; and behind it the data, twice in a row, so that no record has a break.
    written: Shared,
    page: usize,
    size: usize,
}

const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

impl Ring {
    pub(crate) fn new(map: Map, size: usize) -> io::Result<Ring> {
        #[expect(unsafe_code, reason = "asks for a number")]
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let read = Shared::new(&map, (0, page), true)?;
        let written = Shared::new(&map, (page, page + 2 * size), false)?;
        Ok(Ring { map, read, written, page, size })
    }

    /// What to wait for.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    /// Hands out what has been written: the words of each record, of which no more than `place` holds are read.
    pub(crate) fn drain(&self, place: &mut [u32], mut take: impl FnMut(&[u32])) {
        let consumed = self.read.number(0);
        let mut at = consumed.load(Ordering::Relaxed);
        while at < self.written.number(0).load(Ordering::Acquire) {
            let start = self.page + (at as usize & (self.size - 1));
            let header = self.written.word(start).load(Ordering::Acquire);
            if header & BUSY != 0 {
                return;
            }
            let length = (header & !(BUSY | DISCARDED)) as usize;
            if header & DISCARDED == 0 {
                let words = place.len().min(length / 4);
                for (index, word) in place[..words].iter_mut().enumerate() {
                    *word = self.written.word(start + 8 + 4 * index).load(Ordering::Relaxed);
                }
                take(&place[..words]);
            }
            at += (length + 8).next_multiple_of(8) as u64;
            consumed.store(at, Ordering::Release);
        }
    }
}
