//! Every script of `scripts/` against the engine, and what scripts say when something is wrong.

use std::fs;
use std::path::Path;

use lasthop_sim::script::Script;

/// The scripts that come with the source: name and text.
fn scripts() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts");
    let mut paths: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "script"));
    paths.sort();
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn the_engine_does_what_the_scripts_say() {
    let mut wrong = Vec::new();
    for (name, text) in scripts() {
        let script = Script::read(&text, &name).unwrap_or_else(|error| panic!("{error}"));
        let outcome = script.simulate().unwrap();
        if let Some(failure) = outcome.failure {
            wrong.push(format!("{name}:{}: {}\n  {}", failure.line, failure.text, outcome.log.join("\n  ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Forty at least, no two of the same title, each with the standards that it follows and what the kernel does.
#[test]
fn there_are_enough_and_all_differ() {
    let scripts: Vec<Script> =
        scripts().iter().map(|(name, text)| Script::read(text, name).unwrap()).collect();
    assert!(scripts.len() >= 40, "{}", scripts.len());
    let titles: std::collections::BTreeSet<&str> =
        scripts.iter().map(|script| script.head.title.as_str()).collect();
    assert_eq!(titles.len(), scripts.len());
    assert!(scripts.iter().all(|script| !script.head.sources.is_empty()));
    let on_kernel = scripts.iter().filter(|script| script.head.kernel.is_some()).count();
    assert!(on_kernel >= 30, "{on_kernel}");
}

/// A script of a NewReno sender without timestamps.
fn script(events: &str) -> String {
    let transport = "{ preset = \"newreno\", packet_size = \"1040 B\", timestamps = false }";
    format!("title = \"t\"\nsources = [\"s\"]\ntransport = {transport}\nkernel = \"reno\"\n---\n{events}")
}

/// How a script of these events fails.
fn failure(events: &str) -> (usize, String) {
    let outcome = Script::read(&script(events), "t").unwrap().simulate().unwrap();
    let failure = outcome.failure.expect("it fails");
    (failure.line, failure.text)
}

const OPEN: &str =
    "0 connect\n+0 > S 0:0(0)\n+0.1 < S. 0:0(0) ack 1 win 65535 <mss 1000>\n+0 > . 1:1(0) ack 1\n";

#[test]
fn what_differs_is_told() {
    for (events, line, told) in [
        ("+0.1 > . 1:1001(1000) ack 1", 10, "at 0.200000 s it has to be sent, but nothing was"),
        (
            "+0 write 1000\n+0.1 > . 1:1001(1000) ack 1",
            11,
            "but it was at 0.100000 s: > . 1:1001(1000) ack 1",
        ),
        ("+0 write 1000\n+0 > . 1:501(500) ack 1", 11, "another length was sent"),
        ("+0 write 1000\n+0 > F. 1:1001(1000) ack 1", 11, "another set of flags was sent"),
        ("+0 write 1000\n+0 > . 2:1002(1000) ack 1", 11, "another sequence number was sent"),
        ("+0 write 1000\n+0 > . 1:1001(1000) ack 2", 11, "another acknowledgement was sent"),
        ("+0 write 1000\n+0 > [ect0] . 1:1001(1000) ack 1", 11, "another ECN field was sent"),
        ("+0 write 1000\n+0.1 < . ack 1001", 11, "before '+0.1 < . ack 1001' at 0.200000 s the stack sent"),
        ("+0 = cwnd 9", 10, "cwnd 9 is asserted, but it is 10.0000"),
        ("+0 = ssthresh 9", 10, "ssthresh 9 is asserted, but it is infinite"),
        ("+0 = delivered 9", 10, "this end has no delivered"),
        ("0.05 quiet", 10, "0.050000 s lies before the event above it"),
        ("+0 < . ack 1 <TS ecr @absent>", 10, "no packet above is called @absent"),
    ] {
        let (at, text) = failure(&format!("{OPEN}{events}\n"));
        assert!(text.contains(told), "{events}: {text}");
        assert_eq!(at, line, "{events}");
    }
}

/// A whole number is exact; one with digits behind the point as far as they go.
#[test]
fn a_whole_number_is_exact() {
    let open = OPEN.replace("+0.1 ", "+0.1004 ");
    let (_, text) = failure(&format!("{open}+0 = srtt 100\n"));
    assert_eq!(text, "srtt 100 is asserted, but it is 100.4000");
    let close = Script::read(&script(&format!("{open}+0 = srtt 100.4\n")), "t").unwrap();
    assert_eq!(close.simulate().unwrap().failure, None);
}

/// An end that receives has nothing to connect, write or close.
#[test]
fn what_a_receiver_would_not_obey_is_refused() {
    for action in ["connect", "write 1000", "close"] {
        let text = script(&format!("0 {action}\n")).replace("kernel =", "end = \"receiver\"\nkernel =");
        let error = Script::read(&text, "t").unwrap_err().to_string();
        assert!(error.contains("line 7") && error.contains("the end that is examined receives"), "{error}");
    }
}

#[test]
fn mistakes_are_refused_with_their_line() {
    for (events, told) in [
        ("0 jump", "line 6: \"jump\" after the time"),
        ("soon connect", "line 6: \"soon\" is no time"),
        ("0 connect now", "line 6: \"now\" after \"connect\", which stands alone"),
        ("0 write much", "line 6: write \"much\": give a number of bytes"),
        ("0 > ", "line 6: a segment begins with its flags"),
        ("0 > X 0:0(0)", "line 6: flag 'X'"),
        ("0 > . 1:5(1000) ack 1", "line 6: \"1:5(1000)\": 1000 bytes from 1 on end at 1001"),
        ("0 > . 1:1(0)", "line 6: a segment with '.' among its flags has 'ack', and no other"),
        ("0 > . 1:1(0) ack 1 <mss big>", "line 6: option \"mss big\""),
        ("0 > . 1:1(0) ack 1 <mss 5", "line 6: the options end with '>'"),
        ("0 > . 1:1(0) ack 1 urgent 5", "line 6: \"urgent\" in a segment"),
        ("0 > . 1:9(9999999x1000) ack 1", "line 6: \"1:9(9999999x1000)\": 1 to 10000 segments"),
        ("0 = speed 5", "line 6: nothing is called \"speed\""),
        ("0~1 connect", "line 6: a range of times is for what the stack sends"),
        ("# nothing", "nothing happens after the line '---'"),
    ] {
        let error = Script::read(&script(events), "t").unwrap_err().to_string();
        assert!(error.contains(told), "{events}: {error}");
    }
    for (text, told) in [
        ("title = \"t\"\n", "no line '---'"),
        ("title = \"t\"\nsources = []\ntransport = \"reno\"\n---\n0 connect\n", "say either 'kernel'"),
        ("title = \"t\"\nsorces = []\n---\n", "line 2: unknown field `sorces`"),
        (
            "title = \"t\"\nsources = []\nkernel = \"reno\"\ntransport = \"rneo\"\n---\n0 connect\n",
            "unknown transport",
        ),
        (
            "title = \"t\"\nsources = []\nkernel = \"reno\"\ntransport = \"tfrc\"\n---\n0 connect\n",
            "transport: scripts examine TCP",
        ),
    ] {
        let error = Script::read(text, "t").unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Whatever stands in a script, it is read and run, or refused in words.
    #[test]
    fn nothing_in_a_script_is_a_panic(
        events in "([0-9+~.<>=:(x) SFPREW@\\[\\],a-z\\n#-]|ack |sack |win |TS |> S|< S\\.){0,60}",
    ) {
        if let Ok(script) = Script::read(&script(&events), "t") {
            script.simulate().unwrap();
        }
    }
}
