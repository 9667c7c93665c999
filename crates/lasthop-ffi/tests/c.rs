//! The example in C, compiled against the header and run with the shared library, where there is a C compiler.

use std::path::Path;
use std::process::Command;

#[test]
fn the_example_in_c_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let test = std::env::current_exe().unwrap();
    let libraries = test.parent().unwrap();
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ping");
    let mut compiler = Command::new("cc");
    compiler.arg(root.join("examples/ping.c")).arg("-I").arg(root.join("include"));
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
    compiler.arg("-L").arg(libraries).args(["-llasthop_c", "-o"]).arg(&program);
    let Ok(compiled) = compiler.output() else {
        // As where a tool is missing elsewhere: the test says so and passes.
        return;
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program).env("LD_LIBRARY_PATH", libraries).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&ran.stdout),
        "20025600 ns: host 0 has ping with ECN bits 1\n\
         40051200 ns: host 1 has pong with ECN bits 0\n\
         the ping was delivered at 20025600 ns\n\
         refused: there is no host 9\n\
         results: there\n",
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}
