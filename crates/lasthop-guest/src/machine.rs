//! The machine around the process: its file systems and modules, its ports, and the files that QEMU hands to it.
//!
//! Ports are those of QEMU's machine `pc`: `docs/specs/fw_cfg.rst`, `docs/specs/pvpanic.rst` and the devices
//! `isa-debugcon` and `isa-debug-exit` of QEMU.

use std::arch::asm;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use nix::kmod::{ModuleInitFlags, finit_module};
use nix::mount::{MsFlags, mount};
use nix::sys::mman::{MlockAllFlags, mlockall};

/// The file of QEMU with the jobs.
pub(crate) const JOBS: &str = "opt/lasthop/job";
/// Statuses of the machine: QEMU exits with twice that and one.
pub(crate) const DONE: u8 = 1;
/// The machine could not do its jobs.
pub(crate) const FAILED: u8 = 2;

/// `isa-debugcon`: bytes for a file of the host.
const TELL: u16 = 0xe9;
/// `isa-debug-exit`: ends the machine at once.
const END: u16 = 0xf4;
/// `pvpanic`: QEMU stops the machine, which is what the host waits for.
const PAUSE: u16 = 0x505;
/// fw_cfg: which file, and its bytes.
const SELECT: u16 = 0x510;
const BYTES: u16 = 0x511;
/// The list of files.
const LIST: u16 = 0x19;
/// Bytes of an entry of the list: size, number, nothing, name.
const ENTRY: usize = 64;
/// Files that QEMU may have: more is a list that was misread.
const MOST_FILES: usize = 1024;

/// Where the RAM disk has the kernel's modules, in the order of their names.
const MODULES: &str = "/modules";
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// How long the kernel may take to trust its clock.
const UNTIL_TRUSTED: u32 = 300;
/// Defaults of the kernel follow its memory, and the window scale follows these: they are those of a machine with
/// gigabytes.
const BUFFERS: [(&str, &str); 3] = [
    ("/proc/sys/net/ipv4/tcp_rmem", "4096 131072 6291456"),
    ("/proc/sys/net/ipv4/tcp_wmem", "4096 16384 4194304"),
    ("/proc/sys/net/ipv4/tcp_mem", "190000 253000 380000"),
];

/// Mounts what the kernel offers, loads the modules of the RAM disk, and waits until timers are exact.
pub(crate) fn set_up() -> io::Result<()> {
    for (kind, place) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        mount(Some(kind), place, Some(kind), MsFlags::empty(), None::<&str>)?;
    }
    let mut modules =
        fs::read_dir(MODULES)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    modules.sort();
    for module in modules {
        load(&module)?;
    }
    for (setting, value) in BUFFERS {
        fs::write(setting, value)?;
    }
    // With the first clock source of a boot, timers have the tick of 4 ms.
    let mut left = UNTIL_TRUSTED;
    while fs::read_to_string(CLOCK_SOURCE)?.trim() != "tsc" {
        left = left.checked_sub(1).ok_or_else(|| io::Error::other("the kernel does not trust its TSC"))?;
        thread::sleep(Duration::from_millis(10));
    }
    // So that the first packets do not wait for pages of the program.
    mlockall(MlockAllFlags::MCL_CURRENT)?;
    allow_ports()
}

fn load(module: &Path) -> io::Result<()> {
    let file = File::open(module)?;
    finit_module(&file, c"", ModuleInitFlags::empty())
        .map_err(|error| io::Error::other(format!("{}: {}", module.display(), io::Error::from(error))))
}

#[expect(unsafe_code, reason = "a system call without memory")]
fn allow_ports() -> io::Result<()> {
    match unsafe { libc::ioperm(0, 1 << 16, 1) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Stops the machine until it is continued. A boot without a snapshot goes on at once.
pub(crate) fn pause() {
    put(PAUSE, 1);
}

/// Ends the machine.
pub(crate) fn end(status: u8) -> ! {
    // Without it, when nothing was set up, the port is not ours.
    let _ = allow_ports();
    put(END, status);
    std::process::exit(i32::from(status));
}

/// Writes bytes for the host.
#[expect(unsafe_code, reason = "a port of this machine, and a slice that lives")]
pub(crate) fn tell(bytes: &[u8]) {
    unsafe {
        asm!("rep outsb", in("dx") TELL, inout("rsi") bytes.as_ptr() => _, inout("rcx") bytes.len() => _,
            options(readonly, nostack));
    }
}

/// Reads a file that QEMU has for the machine.
pub(crate) fn take_file(name: &str) -> io::Result<Vec<u8>> {
    let broken = |what: &str| io::Error::other(format!("QEMU's list of files {what}"));
    select(LIST);
    let count = u32::from_be_bytes(*bytes(4).first_chunk().ok_or_else(|| broken("is empty"))?) as usize;
    if count > MOST_FILES {
        return Err(broken("is not one"));
    }
    let list = bytes(count * ENTRY);
    let found = list.chunks_exact(ENTRY).find_map(|entry| {
        let (size, rest) = entry.split_first_chunk::<4>()?;
        let (number, rest) = rest.split_first_chunk::<2>()?;
        let named = rest[2..].split(|&byte| byte == 0).next()?;
        (named == name.as_bytes()).then(|| (u32::from_be_bytes(*size) as usize, u16::from_be_bytes(*number)))
    });
    let (size, number) = found.ok_or_else(|| broken(&format!("does not have {name}")))?;
    select(number);
    Ok(bytes(size))
}

#[expect(unsafe_code, reason = "a port of this machine")]
fn put(port: u16, byte: u8) {
    unsafe { asm!("out dx, al", in("dx") port, in("al") byte, options(nomem, nostack, preserves_flags)) }
}

#[expect(unsafe_code, reason = "a port of this machine")]
fn select(file: u16) {
    unsafe { asm!("out dx, ax", in("dx") SELECT, in("ax") file, options(nomem, nostack, preserves_flags)) }
}

/// The next bytes of the selected file.
#[expect(unsafe_code, reason = "a port of this machine, and room for this many bytes")]
fn bytes(count: usize) -> Vec<u8> {
    let mut place = vec![0; count];
    unsafe {
        asm!("rep insb", in("dx") BYTES, inout("rdi") place.as_mut_ptr() => _, inout("rcx") count => _,
            options(nostack, preserves_flags));
    }
    place
}
