//! Every message that a wrong scenario gives, word for word: `scenario_errors.md` holds broken files and what
//! they promise.
//!
//! The files that are not even text (directories, binary data, far too much of it) are made here.

use std::path::{Path, PathBuf};

use lasthop_cc::ControllerConfig;
use lasthop_net::plan::TcpConfig;
use lasthop_net::transport::rate::config::Protocol;
use lasthop_sim::scenario::{Format, STACKS, Scenario};

/// A case of the Markdown file.
struct Case {
    title: String,
    format: Format,
    overrides: Vec<(String, String)>,
    input: String,
    promised: String,
}

/// Reads the cases: a heading, a block with the file, a block with the message. What follows the language of
/// the first block is an override.
fn cases(markdown: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut title = String::new();
    let mut lines = markdown.lines();
    while let Some(line) = lines.next() {
        if let Some(heading) = line.strip_prefix("## ") {
            heading.clone_into(&mut title);
        }
        let Some(info) = line.strip_prefix("```") else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let mut block = block.join("\n");
        let (language, setting) = info.split_once(" --set ").unwrap_or((info, ""));
        if language == "text" {
            let case = cases.last_mut().expect("a message follows a file");
            assert!(case.promised.is_empty(), "{title}: two messages");
            case.promised = with_names(&block);
            continue;
        }
        block.push('\n');
        let overrides = setting.split_once('=').map(|(path, value)| (path.to_owned(), value.to_owned()));
        let format = if language == "json" { Format::Json } else { Format::Toml };
        let overrides = overrides.into_iter().collect();
        cases.push(Case { title: title.clone(), format, overrides, input: block, promised: String::new() });
    }
    cases
}

/// Puts the registered names in, so that a new one does not change a page of messages.
fn with_names(message: &str) -> String {
    let presets: Vec<&str> = TcpConfig::PRESETS.iter().map(|preset| preset.name).collect();
    let controllers = ControllerConfig::NAMES.iter().copied().filter(|name| !presets.contains(name));
    let rates = Protocol::NAMES.iter().copied();
    let stacks = STACKS.iter().map(|stack| stack.name);
    let transports: Vec<&str> =
        presets.iter().copied().chain(["udp"]).chain(rates).chain(controllers).chain(stacks).collect();
    message
        .replace("{presets}, udp", &listed(&transports))
        .replace("{rates}", &listed(Protocol::NAMES))
        .replace("{presets}", &listed(&presets))
        .replace("{controllers}", &listed(ControllerConfig::NAMES))
}

/// Messages cut long lists of names.
fn listed(names: &[&str]) -> String {
    const SHOWN: usize = 24;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[test]
fn every_message_is_as_promised() {
    let cases = cases(include_str!("scenario_errors.md"));
    assert!(cases.len() > 80, "only {} cases were found", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let found = match Scenario::parse(&case.input, case.format, "lab.toml", &case.overrides) {
            Ok(_) => "nothing is wrong".to_owned(),
            Err(error) => error.to_string(),
        };
        if found != case.promised {
            wrong.push(format!("## {}\n--- promised\n{}\n--- found\n{found}\n", case.title, case.promised));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A folder of its own for each test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Checks all that is said of the file: what is wrong, where, and what to do; the folder's path is left out.
fn assert_says(folder: &Path, file: &str, [message, place, remedy]: [&str; 3]) {
    let error = Scenario::load(folder.join(file), &[]).unwrap_err().to_string();
    let found = error.replace(&format!("{}/", folder.display()), "");
    assert_eq!(found, format!("scenario error: {message}\n  {place}\n     {remedy}"));
}

#[test]
fn a_missing_file() {
    let folder = folder("missing");
    std::fs::write(folder.join("lab.toml"), "").unwrap();
    assert_says(&folder, "lba.toml", ["there is no such file", "at lba.toml", "did you mean lab.toml?"]);
    assert_says(
        &folder,
        "x",
        ["there is no such file", "at x", "check the path; `lasthop new` writes a scenario to start from"],
    );
}

#[test]
fn a_directory() {
    let folder = folder("directory");
    std::fs::create_dir(folder.join("scenarios")).unwrap();
    assert_says(
        &folder,
        "scenarios",
        [
            "this is a directory, not a scenario file",
            "at scenarios",
            "name a file in it, such as one ending in .toml",
        ],
    );
}

#[test]
fn an_empty_file() {
    let folder = folder("empty");
    for (file, text) in
        [("empty.toml", ""), ("blank.toml", "\n  \n"), ("mark.toml", "\u{feff}"), ("empty.json", "")]
    {
        std::fs::write(folder.join(file), text).unwrap();
        let place = format!("at {file}");
        let promised = ["the scenario is empty", &place, "`lasthop new` writes a scenario to start from"];
        assert_says(&folder, file, promised);
    }
}

#[test]
fn a_key_of_too_many_parts() {
    let folder = folder("a-key-of-too-many-parts");
    let file = folder.join("deep.toml");
    std::fs::write(&file, format!("name = \"a.b\"\n{}z = 1\n", "a.".repeat(200_000))).unwrap();
    let error = Scenario::load(&file, &[]).unwrap_err().to_string();
    assert!(error.starts_with("scenario error: a key of more than 100 parts\n"), "{error}");
    assert!(error.contains("deep.toml:2:1\n"), "{error}");
    // Many numbers, or sentences, are no key.
    let text = format!("# {}\nname = 1\n", "1.5 2.5 ".repeat(100));
    std::fs::write(&file, text).unwrap();
    let error = Scenario::load(&file, &[]).unwrap_err().to_string();
    assert!(error.starts_with("scenario error: name cannot be 1\n"), "{error}");
}

#[test]
fn binary_data() {
    let folder = folder("binary");
    std::fs::write(folder.join("zero.toml"), b"duration = \"60 s\"\0\0").unwrap();
    assert_says(
        &folder,
        "zero.toml",
        ["this is not a text file: byte 17 is zero", "at zero.toml", "a scenario is TOML text in UTF-8"],
    );
    std::fs::write(folder.join("image.toml"), b"\x89PNG\r\n\x1a\n").unwrap();
    assert_says(
        &folder,
        "image.toml",
        ["this is not a text file: byte 0 is not UTF-8", "at image.toml", "a scenario is TOML text in UTF-8"],
    );
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let folder = folder("large");
    // A hole of 100 MB: no disk is used, and reading it would show in the time.
    let file = std::fs::File::create(folder.join("large.toml")).unwrap();
    file.set_len(100_000_000).unwrap();
    assert_says(
        &folder,
        "large.toml",
        [
            "the file is too large: 100000000 bytes, more than 1048576",
            "at large.toml",
            "a scenario is a short text; use count for many equal flows",
        ],
    );
}

#[cfg(unix)]
#[test]
fn an_endless_device_is_given_up() {
    let error = Scenario::load("/dev/zero", &[]).unwrap_err();
    assert_eq!(error.message(), "the file is too large: 1048577 bytes, more than 1048576");
}

#[test]
fn text_that_is_too_large() {
    let text = " ".repeat(2_000_000);
    let error = Scenario::parse(&text, Format::Toml, "lab.toml", &[]).unwrap_err();
    assert_eq!(error.message(), "the file is too large: 2000000 bytes, more than 1048576");
}

#[test]
fn a_json_file_is_named_with_the_path_of_keys() {
    let folder = folder("json");
    std::fs::write(folder.join("lab.json"), "{\"duration\": 60}").unwrap();
    assert_says(
        &folder,
        "lab.json",
        ["duration: 60 has no unit", "at lab.json: duration", "did you mean \"60 s\" or \"60 ms\"?"],
    );
}
