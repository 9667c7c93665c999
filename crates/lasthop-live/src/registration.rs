//! Congestion controls that we register with the kernel, each under a name that nothing else has: a session of steering
//! ([`crate::steer`]) or a law that decides in the kernel ([`crate::twin`]).
//!
//! bpftool loads the object. What is registered stays registered without its process, so the name says who made it.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::steer_error::{SteerError, failed};

/// What stands in an object for the eight digits of a name.
pub(crate) const MARK: &[u8; 8] = b"Lh0Id0Tk";
/// Where bpftool may be, beyond PATH.
const FOLDERS: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];
/// Bits of the digits that count; the others say which process made it.
const COUNTED: u32 = 10;

/// Eight digits that nothing else has, with the process that makes it: between the registration and the first
/// word in its maps, no other process may take it for one that was left behind.
pub(crate) fn new_id() -> String {
    static NEXT: OnceLock<AtomicU32> = OnceLock::new();
    let next = NEXT.get_or_init(|| {
        let now =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        AtomicU32::new((now.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32)
    });
    let count = next.fetch_add(1, Ordering::Relaxed) & ((1 << COUNTED) - 1);
    format!("{:08x}", std::process::id() << COUNTED | count)
}

/// The process that made what has these digits.
pub(crate) fn maker(id: &str) -> u32 {
    u32::from_str_radix(id, 16).unwrap_or(0) >> COUNTED
}

/// Whether that process is there.
pub(crate) fn has_maker(id: &str) -> bool {
    fs::metadata(format!("/proc/{}", maker(id))).is_ok()
}

/// Registers what an object has, with these digits in its names.
///
/// The object never has a name in the file system: another user could put a file of that name there first, and root
/// would load it into the kernel. bpftool gets it as its standard input.
pub(crate) fn load(object: &[u8], id: &str) -> Result<(), SteerError> {
    let bpftool = bpftool().ok_or_else(|| SteerError::Load("there is no bpftool".to_owned()))?;
    let object = sealed(&named(object, id)).map_err(failed("keeping the object for bpftool"))?;
    let mut command = Command::new(bpftool);
    command.args(["struct_ops", "register", "/proc/self/fd/0"]).stdin(Stdio::from(object));
    let output = command.output().map_err(failed("starting bpftool"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("bpftool says nothing");
    Err(SteerError::Load(last.to_owned()))
}

/// These bytes as a file without a name, which nothing can change any more.
fn sealed(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create(c"lasthop", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?);
    file.write_all(bytes)?;
    let seals =
        SealFlag::F_SEAL_SEAL | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file)
}

fn named(object: &[u8], id: &str) -> Vec<u8> {
    let mut object = object.to_vec();
    let mut at = 0;
    while let Some(found) = object[at..].windows(MARK.len()).position(|part| part == MARK) {
        object[at + found..at + found + MARK.len()].copy_from_slice(id.as_bytes());
        at += found + MARK.len();
    }
    object
}

fn bpftool() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FOLDERS.map(PathBuf::from));
    // Of a PATH that is empty or has "." the current folder would be one, which may be anybody's.
    let folders = folders.filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join("bpftool")).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn an_object_has_no_name_and_cannot_be_changed() {
        let mut object = sealed(b"object").unwrap();
        assert_eq!(fs::read(format!("/proc/self/fd/{}", object.as_raw_fd())).unwrap(), b"object");
        assert_eq!(object.metadata().unwrap().nlink(), 0);
        assert!(object.write_all(b"another").is_err());
    }

    #[test]
    fn names_differ_and_say_who_made_them() {
        let (first, second) = (new_id(), new_id());
        assert_ne!(first, second);
        assert_eq!((maker(&first), maker(&second)), (std::process::id(), std::process::id()));
        assert!(has_maker(&first));
        assert_eq!(named(b"a_Lh0Id0Tk b_Lh0Id0Tk.", "01234567"), b"a_01234567 b_01234567.");
    }
}
