//! The example in Go: quic-go over the shared library, in the virtual time of `testing/synctest`.

use std::path::Path;
use std::process::{Command, Output};

/// The first that can seed its random numbers in a test.
const OLDEST: (u32, u32) = (1, 26);

fn version(said: &Output) -> Option<(u32, u32)> {
    let said = String::from_utf8_lossy(&said.stdout);
    let mut parts = said.split_whitespace().nth(2)?.strip_prefix("go")?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[test]
#[expect(clippy::print_stderr, reason = "a test that is left out says so")]
fn the_example_in_go_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("examples/quic_go");
    let test = std::env::current_exe().unwrap();
    let libraries = test.parent().unwrap();
    let go = |words: &[&str]| {
        let mut command = Command::new("go");
        command.current_dir(&folder).args(words).env("LD_LIBRARY_PATH", libraries);
        command.env("CGO_CFLAGS", format!("-I{}", root.join("include").display()));
        command.env("CGO_LDFLAGS", format!("-L{}", libraries.display()));
        command.env("GOTOOLCHAIN", "local").output()
    };
    let known = go(&["version"]).ok().and_then(|said| version(&said));
    if known.is_none_or(|known| known < OLDEST) {
        eprintln!("left out: it needs Go {}.{}, and here is {known:?}", OLDEST.0, OLDEST.1);
        return;
    }
    let fetched = go(&["mod", "download"]).unwrap();
    if !fetched.status.success() {
        eprintln!("left out: quic-go cannot be had: {}", String::from_utf8_lossy(&fetched.stderr));
        return;
    }
    let ran = go(&["test", "-count=2", "-v", "."]).unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    let lines: Vec<_> = said.lines().filter(|line| line.contains("10000000 bytes after")).collect();
    assert_eq!(lines.len(), 2, "{said}");
    // A seed gives the same run: Go does not promise it, as its scheduler has a choice, and it has held so far.
    assert_eq!(lines[0], lines[1]);
}
