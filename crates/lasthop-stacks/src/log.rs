//! The qlog of an end of a connection, on its way from the stack to what drives it: that of quinn by
//! draft-ietf-quic-qlog-main-schema-05, that of noq by a later draft.
//!
//! What quinn-proto 0.11.19 writes is read back and mended where it is not what the schema says: its RTT are in seconds
//! and not in milliseconds, the lengths of packets stand where the schema has those without headers, every loss is said
//! to be found by reordering, and neither the end nor the meaning of its times is told. noq-proto 1.4.0 shares with it
//! the lengths, the end and the times alone.

use std::io;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

/// What separates records (RFC 7464).
const RECORD: u8 = 0x1e;
const RTTS: [&str; 4] = ["min_rtt", "smoothed_rtt", "latest_rtt", "rtt_variance"];

/// The log of the end of a connection that has the data. Clones are the same log.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// What stands at its head: of what it is.
    pub title: String,
    /// How it came to be.
    pub description: String,
    /// Whether it is that of the end that answers.
    pub answers: bool,
    text: Arc<Mutex<Vec<u8>>>,
}

impl Log {
    /// An empty one.
    pub fn new(title: String, description: String) -> Log {
        Log { title, description, answers: false, text: Arc::default() }
    }

    /// Takes what has been written since the last call: whole records.
    pub fn take(&self) -> Vec<u8> {
        let written = mem::take(&mut *self.text());
        let mut taken = Vec::with_capacity(written.len() + written.len() / 8);
        for record in written.split(|&byte| byte == RECORD).filter(|record| !record.is_empty()) {
            // What a stack left in the midst of when it panicked is no record.
            let Ok(mut value) = serde_json::from_slice(record) else { continue };
            if mend(&mut value, self.answers).is_none() {
                continue;
            }
            taken.push(RECORD);
            taken.extend_from_slice(value.to_string().as_bytes());
            taken.push(b'\n');
        }
        taken
    }

    fn text(&self) -> MutexGuard<'_, Vec<u8>> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl io::Write for Log {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.text().extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Makes a record what the schema says; `None` if nothing is left of it.
fn mend(record: &mut Value, answers: bool) -> Option<()> {
    let kind = record.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    if let Some(trace) = record.get_mut("trace") {
        let role = if answers { "server" } else { "client" };
        trace["vantage_point"] = json!({ "name": "sender", "type": role });
        trace["common_fields"] =
            json!({ "protocol_type": ["QUIC"], "time_format": "relative", "reference_time": 0.0 });
        return Some(());
    }
    let data = record.get_mut("data")?.as_object_mut()?;
    match kind.as_str() {
        "transport:packet_sent" | "quic:packet_sent" => {
            let length = data.get_mut("header")?.as_object_mut()?.remove("length")?;
            data.insert("raw".to_owned(), json!({ "length": length }));
        }
        "recovery:packet_lost" => drop(data.remove("trigger")),
        "recovery:metrics_updated" => {
            // quinn's pacer does not use it, and BBR draws it from the system: it is another in every run.
            data.remove("pacing_rate");
            for rtt in RTTS {
                if let Some(Value::Number(seconds)) = data.get(rtt) {
                    // To the nanosecond.
                    let millis = (seconds.as_f64()? * 1e9).round() / 1e6;
                    data.insert(rtt.to_owned(), json!(millis));
                }
            }
            if data.is_empty() {
                return None;
            }
        }
        _ => {}
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// By hand, of records as quinn writes them.
    #[test]
    fn records_are_those_of_the_schema() {
        let mut log = Log::new("a flow".to_owned(), String::new());
        let mut mended = |record: &str| {
            log.write_all(b"\x1e").and_then(|()| log.write_all(record.as_bytes())).unwrap();
            String::from_utf8(log.take()).unwrap()
        };
        let sent = mended(
            r#"{"time":0.5,"name":"transport:packet_sent","data":{"header":{"packet_number":7,"length":1200}}}"#,
        );
        assert_eq!(
            sent,
            "\x1e{\"time\":0.5,\"name\":\"transport:packet_sent\",\"data\":{\"header\":{\"packet_number\":7},\
             \"raw\":{\"length\":1200}}}\n"
        );
        let metrics = mended(
            "{\"name\":\"recovery:metrics_updated\",\"data\":{\"min_rtt\":0.042806853,\"pacing_rate\":5,\
             \"congestion_window\":12000}}",
        );
        assert!(
            metrics.ends_with("\"data\":{\"min_rtt\":42.806853,\"congestion_window\":12000}}\n"),
            "{metrics}"
        );
        assert_eq!(mended(r#"{"name":"recovery:metrics_updated","data":{"pacing_rate":5}}"#), "");
        let lost = mended(
            r#"{"name":"recovery:packet_lost","data":{"header":{},"trigger":"reordering_threshold"}}"#,
        );
        assert!(lost.ends_with("\"data\":{\"header\":{}}}\n"), "{lost}");
        let head = mended(r#"{"qlog_version":"0.3","trace":{"vantage_point":{"type":"unknown"}}}"#);
        assert!(head.contains(r#""vantage_point":{"name":"sender","type":"client"}"#), "{head}");
        assert_eq!(mended("{\"time\""), "");
    }
}
