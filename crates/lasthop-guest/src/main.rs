//! The first and only process of a virtual machine: it sets the machine up, does its jobs, and shuts it down.
//!
//! `make kernel-guest` builds it into the RAM disk, `lasthop.guest` (Python) starts the machine. Nothing else runs
//! beside it, and time is counted in instructions, so that what the kernel does is the same each time. It must never
//! wait for anything outside the machine.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod jobs;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod machine;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[expect(clippy::print_stderr, reason = "the console of the machine is where its error is looked for")]
fn main() {
    let status = match machine::set_up().and_then(|()| run()) {
        Ok(()) => machine::DONE,
        Err(error) => {
            eprintln!("lasthop-guest: {error}");
            machine::FAILED
        }
    };
    machine::end(status);
}

/// Stops for the snapshot; the caller puts jobs into the machine before it continues it.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn run() -> std::io::Result<()> {
    machine::pause();
    for job in jobs::read(&machine::take_file(machine::JOBS)?)? {
        let mut line = serde_json::to_vec(&jobs::done(&job))?;
        line.push(b'\n');
        machine::tell(&line);
    }
    Ok(())
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
#[expect(clippy::print_stderr, reason = "a program that was started where it cannot do anything")]
fn main() {
    eprintln!("lasthop-guest runs in the virtual machine that `make kernel-guest` builds");
    std::process::exit(2);
}
