//! Keys that had another name: files, studies and overrides that have it are still read.

use super::diagnostic::{ScenarioError, Source, quoted};
use super::transport::OwnTransport;
use super::value::{Node, Value};

/// The name that a key had, and the one that it has.
const NAMES: [(&str, &str); 7] = [
    ("least_rate", "min_rate"),
    ("least_samples", "min_samples"),
    ("least_timeout", "min_timeout"),
    ("least_window", "min_window"),
    ("most_divisor", "max_divisor"),
    ("most_rate", "max_rate"),
    ("most_retransmissions", "max_retransmissions"),
];

/// The names of keys while a scenario is read.
pub(super) struct Names {
    /// Parameters of controllers that users wrote, which may have any name.
    own: Vec<&'static str>,
    /// The former names that came up, with today's.
    pub(super) met: Vec<(&'static str, &'static str)>,
}

impl Names {
    /// Beside the parameters of `transports`.
    pub(super) fn beside(transports: &[OwnTransport]) -> Names {
        let own = transports.iter().flat_map(OwnTransport::params).map(|param| param.name);
        Names { own: own.collect(), met: Vec::new() }
    }

    /// Today's name of `key`.
    pub(super) fn of<'k>(&mut self, key: &'k str) -> &'k str {
        let Some((former, name)) = NAMES.iter().find(|(former, _)| *former == key) else { return key };
        if self.own.contains(&key) {
            return key;
        }
        if !self.met.contains(&(*former, *name)) {
            self.met.push((former, name));
        }
        name
    }

    /// Gives the keys of `node` their names of today.
    pub(super) fn renew(&mut self, node: &mut Node, source: &Source<'_>) -> Result<(), ScenarioError> {
        match &mut node.value {
            Value::List(list) => list.iter_mut().try_for_each(|node| self.renew(node, source)),
            Value::Map(map) => {
                for index in 0..map.entries.len() {
                    let name = self.of(&map.entries[index].key).to_owned();
                    let entry = &map.entries[index];
                    if name != entry.key && map.find(&name).is_some() {
                        let message = format!("{} and {} are one key", quoted(&entry.key), quoted(&name));
                        return Err(source.error(
                            &entry.key_place,
                            message,
                            &format!("leave {} out", entry.key),
                        ));
                    }
                    map.entries[index].key = name;
                    self.renew(&mut map.entries[index].node, source)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::NAMES;
    use crate::scenario::{Format, Scenario};

    const CALL: &str = r#"
        duration = "1 s"
        [topology]
        kind = "graph"
        nodes = ["a", "b"]
        links = [{ from = "a", to = "b", rate = "5 Mbit/s", delay = "20 ms" }]
        [[flows]]
        name = "most_rate"
        source = "a"
        sink = "b"
        transport = { rate = "gcc", KEYS }"#;

    fn read(keys: &str, overrides: &[(&str, &str)]) -> Result<Scenario, String> {
        let overrides: Vec<_> =
            overrides.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let text = CALL.replace("KEYS", keys);
        Scenario::parse(&text, Format::Toml, "call.toml", &overrides).map_err(|error| error.to_string())
    }

    /// In a file, in an override and in a table that an override gives; a flow of that name keeps it.
    #[test]
    fn a_former_name_is_todays() {
        let today = read("max_rate = 2e6", &[]).unwrap();
        assert!(today.renamed().is_empty());
        let path = "flows.most_rate.transport.most_rate";
        let table = r#"{ rate = "gcc", most_rate = 2e6 }"#;
        for former in [
            read("most_rate = 2e6", &[]),
            read("max_rate = 1e6", &[(path, "2e6")]),
            read("most_rate = 1e6", &[(path, "2e6")]),
            read("most_rate = 1e6", &[("flows.most_rate.transport.max_rate", "2e6")]),
            read("", &[("flows.0.transport", table)]),
        ] {
            let former = former.unwrap();
            assert_eq!(
                crate::advice::advice(&former),
                ["the key most_rate is called max_rate now; both are read"]
            );
            let transport = |of: &Scenario| format!("{:?}", of.plan().flows[0].transport);
            assert_eq!(transport(&former), transport(&today));
            assert_eq!(former.to_json(), today.to_json());
            assert_eq!(former.renamed(), [("most_rate", "max_rate")]);
        }
    }

    #[test]
    fn both_names_at_once_are_refused() {
        let said = read("most_rate = 2e6, max_rate = 2e6", &[]).unwrap_err();
        assert!(said.contains("\"most_rate\" and \"max_rate\" are one key"), "{said}");
        assert!(said.contains("leave most_rate out"), "{said}");
        assert!(said.contains("call.toml:11"), "{said}");
    }

    /// A former name is no name of another key, and today's names are known.
    #[test]
    fn every_name_of_today_is_a_key() {
        let schema = crate::scenario::schema();
        for (former, name) in NAMES {
            assert!(schema.contains(&format!("\"{name}\"")), "{name}");
            assert!(!schema.contains(&format!("\"{former}\"")), "{former}");
        }
    }
}
