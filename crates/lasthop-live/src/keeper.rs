//! Programs that end with us, whatever ends us, together with all that they have started.
//!
//! Between us and a program stands a process of ours, its keeper. The kernel makes it the parent of every orphan below
//! it, whatever session or group that is in (`PR_SET_CHILD_SUBREAPER`), and tells it when the thread that started it
//! has died (`PR_SET_PDEATHSIG`), be it by `kill -9`. It then kills its children until it has none. Being a copy of us
//! that has not called exec, it makes system calls alone, and allocates nothing.

use std::fs;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use libc::{c_int, pid_t, sigset_t};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long what runs may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(2);
/// How long a keeper may take in all; one that is stuck is killed.
const MOST: Duration = Duration::from_secs(10);
/// How often a keeper looks for orphans that it has to end.
static LOOK: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };
/// Asks a keeper to end what it keeps: SIGTERM, and what does not heed it is killed.
const ASK: c_int = libc::SIGTERM;
/// Tells a keeper to kill what it keeps; the kernel sends it when we have died.
const KILL: c_int = libc::SIGUSR1;
/// What keepers are called in lists of processes. Not as we are: who kills us by name should not hit them.
const NAME: &std::ffi::CStr = c"keeper";

/// A program and what it has started. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    keeper: Child,
    /// Has the status of the program when it has ended.
    told: PipeReader,
    status: Option<ExitStatus>,
}

impl Running {
    /// Starts a program; `prepare` is called between fork and exec and must not allocate.
    pub(crate) fn start(
        mut command: Command,
        mut prepare: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
    ) -> io::Result<Running> {
        let (told, tell) = io::pipe()?;
        let (parent, tell_to, words) = (std::process::id() as pid_t, tell.as_raw_fd(), own_words());
        #[expect(unsafe_code, reason = "between fork and exec: system calls alone, and no allocation")]
        unsafe {
            command.pre_exec(move || {
                end_with(parent, libc::SIGKILL)?;
                prepare()?;
                divide(parent, tell_to, words)
            });
        }
        Ok(Running { keeper: command.spawn()?, told, status: None })
    }

    /// A process in the namespaces of the program.
    pub(crate) fn process(&self) -> u32 {
        self.keeper.id()
    }

    /// Whether the program runs, or anything that it has started.
    pub(crate) fn runs(&mut self) -> bool {
        matches!(self.keeper.try_wait(), Ok(None))
    }

    /// How the program ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        let mut ready = [PollFd::new(self.told.as_fd(), PollFlags::POLLIN)];
        if self.status.is_none() && matches!(poll(&mut ready, PollTimeout::ZERO), Ok(1..)) {
            return self.wait().ok();
        }
        self.status
    }

    /// Waits until the program has ended, and returns how.
    pub(crate) fn wait(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        let mut status = [0; size_of::<c_int>()];
        // A keeper that says nothing was killed, and its program with it.
        let status = match self.told.read_exact(&mut status) {
            Ok(()) => ExitStatus::from_raw(c_int::from_ne_bytes(status)),
            Err(_) => self.keeper.wait()?,
        };
        self.status = Some(status);
        Ok(status)
    }

    /// Ends the program and what it has started: asks first.
    pub(crate) fn end(&mut self) {
        if !self.runs() {
            return;
        }
        let _ = kill(Pid::from_raw(self.keeper.id() as i32), Signal::SIGTERM);
        let asked = Instant::now();
        while asked.elapsed() < MOST {
            if !self.runs() {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Becomes readable when the program ends.
impl AsFd for Running {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.told.as_fd()
    }
}

/// Where the kernel shows the words of our command line: the address of the first byte, and how many there are.
fn own_words() -> (usize, usize) {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program is in parentheses and may hold anything; behind it is field 3 (proc(5)).
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).and_then(|field| field.parse::<usize>().ok());
    match (field(48), field(49)) {
        (Some(first), Some(end)) if first > 0 && end > first => (first, end - first),
        _ => (0, 0),
    }
}

/// Gets this signal when the parent dies; an error if it has died already.
fn end_with(parent: pid_t, signal: c_int) -> io::Result<()> {
    #[expect(unsafe_code, reason = "system calls alone")]
    let is_there = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) == 0 && libc::getppid() == parent };
    if is_there { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Becomes two: the keeper, which does not return, and below it what becomes the program.
#[expect(unsafe_code, reason = "system calls alone, on memory of this frame")]
fn divide(parent: pid_t, tell_to: RawFd, words: (usize, usize)) -> io::Result<()> {
    unsafe {
        let (mut every, mut before): (sigset_t, sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut every);
        // Nothing but SIGKILL ends a keeper. Where SIGCHLD is ignored, the status of children is lost.
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const every, &raw mut before);
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        if libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) != 0 {
            return Err(io::Error::last_os_error());
        }
        let keeper = libc::getpid();
        match libc::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                end_with(keeper, libc::SIGKILL)?;
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut());
                Ok(())
            }
            program => keep(program, parent, tell_to, words),
        }
    }
}

/// What a keeper is at.
#[derive(Clone, Copy)]
enum Stage {
    /// What it keeps may run.
    Keeping,
    /// It asks what it keeps to end, and has done so last at this time.
    Asking(Instant),
    Killing,
}

/// The whole life of a keeper.
#[expect(unsafe_code, reason = "system calls alone, on memory of this frame; own words: see there")]
fn keep(program: pid_t, parent: pid_t, tell_to: RawFd, (words, length): (usize, usize)) -> ! {
    unsafe {
        // Ctrl-C at the terminal and kill of a group are for the program, which stays in the group that it is in.
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        // Written by the kernel at exec, and by and for nothing else in this process.
        std::ptr::write_bytes(words as *mut u8, 0, length);
        close_all_but(tell_to);
        let mut stage = match end_with(parent, KILL) {
            Ok(()) => Stage::Keeping,
            Err(_) => Stage::Killing,
        };
        let mut every: sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut every);
        let mut asked: [pid_t; 64] = [0; 64];
        let mut next = 0;
        loop {
            if !reap(program, tell_to) {
                libc::_exit(0);
            }
            match &mut stage {
                Stage::Keeping => {}
                Stage::Asking(last) if last.elapsed() > GRACE => stage = Stage::Killing,
                // Orphans appear when their parents end.
                Stage::Asking(last) => children(|child| {
                    if !asked.contains(&child) {
                        libc::kill(child, libc::SIGTERM);
                        asked[next % asked.len()] = child;
                        (next, *last) = (next + 1, Instant::now());
                    }
                }),
                Stage::Killing => {
                    // Where /proc has no list of children, at least the program.
                    libc::kill(program, libc::SIGKILL);
                    children(|child| {
                        libc::kill(child, libc::SIGKILL);
                    });
                }
            }
            let most = if matches!(stage, Stage::Keeping) { std::ptr::null() } else { &raw const LOOK };
            match (libc::sigtimedwait(&raw const every, null_mut(), most), stage) {
                (KILL, _) => stage = Stage::Killing,
                (ASK, Stage::Keeping) => stage = Stage::Asking(Instant::now()),
                _ => {}
            }
        }
    }
}

/// Takes note of children that have ended, and tells the status of the program; whether there are any left.
#[expect(unsafe_code, reason = "system calls alone, on memory of this frame")]
fn reap(program: pid_t, tell_to: RawFd) -> bool {
    loop {
        let mut status: c_int = 0;
        let child = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
        if child <= 0 {
            return child == 0;
        }
        if child == program {
            let bytes = status.to_ne_bytes();
            unsafe { libc::write(tell_to, bytes.as_ptr().cast(), bytes.len()) };
        }
    }
}

/// Does something with each of our children; with the first few hundred if there are more.
#[expect(unsafe_code, reason = "system calls alone, on memory of this frame")]
fn children(mut act: impl FnMut(pid_t)) {
    let mut text = [0_u8; 4096];
    let length = unsafe {
        let list = libc::open(c"/proc/thread-self/children".as_ptr(), libc::O_RDONLY);
        let length = libc::read(list, text.as_mut_ptr().cast(), text.len());
        libc::close(list);
        usize::try_from(length).unwrap_or(0)
    };
    let mut child: pid_t = 0;
    for &byte in &text[..length] {
        // Behind each number stands a blank: one that was cut off is left.
        match byte {
            b'0'..=b'9' => child = child.wrapping_mul(10).wrapping_add((byte - b'0').into()),
            _ if child > 0 => act(std::mem::take(&mut child)),
            _ => {}
        }
    }
}

/// Closes every descriptor but one: what we hold open must not depend on what we keep.
#[expect(unsafe_code, reason = "system calls alone")]
fn close_all_but(kept: RawFd) {
    let close = |first: u32, last: u32| unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    let kept = kept as u32;
    let below = if kept == 0 { 0 } else { close(0, kept - 1) };
    if below == 0 && close(kept + 1, u32::MAX) == 0 {
        return;
    }
    // Before Linux 5.9.
    for descriptor in (0..65_536).filter(|&descriptor| descriptor != kept) {
        unsafe { libc::close(descriptor as RawFd) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str) -> Running {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        Running::start(command, || Ok(())).expect("a shell")
    }

    /// The processes that sleep for this long, by the words of their commands.
    fn sleepers(seconds: &str) -> usize {
        let words = format!("sleep\0{seconds}\0");
        let places = fs::read_dir("/proc").expect("/proc").flatten();
        let texts = places.filter_map(|place| fs::read_to_string(place.path().join("cmdline")).ok());
        texts.filter(|text| *text == words).count()
    }

    fn until(what: impl Fn() -> bool) {
        let began = Instant::now();
        while !what() {
            assert!(began.elapsed() < Duration::from_secs(20), "it did not come about");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn the_status_is_that_of_the_program() {
        assert_eq!(shell("exit 7").wait().expect("a status").code(), Some(7));
        assert_eq!(shell("kill -9 $$").wait().expect("a status").signal(), Some(9));
        assert_eq!(shell("kill -TERM $$").wait().expect("a status").signal(), Some(15));
        let missing = Running::start(Command::new("no-such-program"), || Ok(()));
        assert_eq!(missing.expect_err("there is none").kind(), io::ErrorKind::NotFound);
        let refused = Running::start(Command::new("true"), || Err(io::Error::from_raw_os_error(libc::EPERM)));
        assert_eq!(refused.expect_err("refused").kind(), io::ErrorKind::PermissionDenied);
    }

    /// What a program has left goes on when it has ended, as servers that go into the background do; it ends with us.
    #[test]
    fn what_a_program_leaves_ends_with_us() {
        let mut running = shell("setsid sleep 4711.25 & (sleep 4711.25 &) ; exit 3");
        assert_eq!(running.wait().expect("a status").code(), Some(3));
        until(|| sleepers("4711.25") == 2);
        assert!(running.runs());
        running.end();
        assert_eq!(sleepers("4711.25"), 0);
    }

    /// The end of the thread that has started it stands for ours.
    #[test]
    fn all_end_when_we_die() {
        let thread = std::thread::spawn(|| {
            let text = "trap '' TERM; env -i setsid sh -c 'sleep 4712.25 & sleep 4712.25' & sleep 4712.25";
            let running = shell(text);
            until(|| sleepers("4712.25") == 3);
            std::mem::forget(running);
        });
        thread.join().expect("a thread");
        until(|| sleepers("4712.25") == 0);
    }

    #[test]
    fn what_does_not_heed_is_killed() {
        let mut running = shell("trap '' TERM; setsid sleep 4713.25 & while :; do sleep 4713.25; done");
        until(|| sleepers("4713.25") == 2);
        let asked = Instant::now();
        running.end();
        assert!(asked.elapsed() >= GRACE);
        assert_eq!(running.wait().expect("a status").signal(), Some(9));
        assert_eq!(sleepers("4713.25"), 0);
    }

    /// A keeper does not bear our name, so that `pkill` with our name leaves it alive.
    #[test]
    fn a_keeper_is_not_called_as_we_are() {
        let running = shell("sleep 4714.25");
        until(|| sleepers("4714.25") == 1);
        let place = format!("/proc/{}", running.process());
        let words = fs::read(format!("{place}/cmdline")).expect("a process");
        assert!(words.iter().all(|&byte| byte == 0), "{words:?}");
        assert_eq!(fs::read_to_string(format!("{place}/comm")).expect("a process"), "keeper\n");
        assert_eq!(fs::read_dir(format!("{place}/fd")).expect("a process").count(), 1);
    }
}
