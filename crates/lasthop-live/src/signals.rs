//! What the threads of a live run are told: when it began, and that it is over.
//!
//! Nothing looks whether it has been told: a thread waits for what it needs and for the end of the run together. Each
//! look would wake a processor, and in a virtual machine that costs more than a packet.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use lasthop_core::time::Time;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::clock::Clock;
use crate::record::Sockets;

/// What a thread is told.
#[derive(Clone, Debug)]
pub(crate) struct Signals {
    run: Arc<Run>,
    /// Sockets that send; their windows are read through them.
    pub(crate) sockets: Sockets,
}

#[derive(Debug)]
struct Run {
    clock: OnceLock<Clock>,
    is_over: AtomicBool,
    /// For those that wait for a time: something of the above has changed.
    changed: (Mutex<()>, Condvar),
    /// For those that wait for a descriptor: it has no writer any more when the run is over.
    end: PipeReader,
    writer: Mutex<Option<PipeWriter>>,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Signals> {
        let (end, writer) = io::pipe()?;
        let run = Run {
            clock: OnceLock::new(),
            is_over: AtomicBool::new(false),
            changed: (Mutex::new(()), Condvar::new()),
            end,
            writer: Mutex::new(Some(writer)),
        };
        Ok(Signals { run: Arc::new(run), sockets: Sockets::default() })
    }

    /// The run begins.
    pub(crate) fn start(&self, clock: Clock) {
        let _changing = self.hold();
        let _ = self.run.clock.set(clock);
        self.run.changed.1.notify_all();
    }

    /// The run is over.
    pub(crate) fn end(&self) {
        let _changing = self.hold();
        self.run.is_over.store(true, Ordering::Relaxed);
        drop(self.run.writer.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.run.changed.1.notify_all();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.run.is_over.load(Ordering::Relaxed)
    }

    /// The time of the run; zero before it.
    pub(crate) fn now(&self) -> Time {
        self.run.clock.get().map_or(Time::ZERO, Clock::now)
    }

    /// How long it is until a time of the run; nothing before the run.
    pub(crate) fn until(&self, at: Time) -> Option<Duration> {
        self.run.clock.get().map(|clock| clock.until(at))
    }

    /// Sleeps until a time of the run; whether it came before the run was over.
    pub(crate) fn sleep_until(&self, at: Time) -> bool {
        let changed = &self.run.changed.1;
        let mut held = self.hold();
        loop {
            if self.is_over() {
                return false;
            }
            held = match self.until(at) {
                None => changed.wait(held).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return true,
                Some(left) => changed.wait_timeout(held, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    /// Waits until a descriptor has one of these events, the time has passed, or the run is over; whether the run
    /// goes on.
    pub(crate) fn wait(
        &self,
        descriptor: BorrowedFd<'_>,
        events: PollFlags,
        most: Option<Duration>,
    ) -> io::Result<bool> {
        let mut ready = [PollFd::new(descriptor, events), self.ending()];
        match ppoll(&mut ready, most.map(TimeSpec::from_duration), None) {
            Ok(_) | Err(Errno::EINTR) => Ok(!self.is_over()),
            Err(error) => Err(error.into()),
        }
    }

    /// What to wait for besides: it has an event when the run is over.
    pub(crate) fn ending(&self) -> PollFd<'_> {
        PollFd::new(self.run.end.as_fd(), PollFlags::POLLIN)
    }

    fn hold(&self) -> MutexGuard<'_, ()> {
        self.run.changed.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says that the run is over when it is dropped, whatever has happened: no thread waits for what does not come.
pub(crate) struct EndsRun<'a>(pub(crate) &'a Signals);

impl Drop for EndsRun<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

    use lasthop_core::time::Span;

    use super::*;

    /// A thread that waits for a clock, a time and a descriptor is told of the end at once.
    #[test]
    fn the_end_wakes_whatever_waits() {
        let signals = Signals::new().expect("a pipe");
        let (reader, _writer) = io::pipe().expect("a pipe");
        let began = Instant::now();
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| signals.sleep_until(Time::ZERO + Span::from_secs(600)));
            let waiter = scope.spawn(|| signals.wait(reader.as_fd(), PollFlags::POLLIN, None));
            thread::sleep(Duration::from_millis(20));
            assert!(!sleeper.is_finished() && !waiter.is_finished(), "there is no clock yet");
            signals.start(Clock::start());
            thread::sleep(Duration::from_millis(20));
            assert!(!sleeper.is_finished(), "600 s are not over");
            drop(EndsRun(&signals));
            assert!(!sleeper.join().expect("no panic"));
            assert!(!waiter.join().expect("no panic").expect("no error"));
        });
        assert!(began.elapsed() < Duration::from_secs(60));
        assert!(!signals.sleep_until(Time::ZERO));
    }

    #[test]
    fn a_time_that_has_come_is_not_waited_for() {
        let signals = Signals::new().expect("a pipe");
        signals.start(Clock::start());
        assert!(signals.sleep_until(Time::ZERO + Span::from_millis(5)));
        assert!(signals.now() >= Time::ZERO + Span::from_millis(5));
    }
}
