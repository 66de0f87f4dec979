//! What network interfaces carry, from /proc/net/dev, and what they can carry.

use std::collections::BTreeMap;

use pgerror::Result;

/// Until now, or of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Traffic {
    /// In each direction.
    pub(crate) received: f64,
    pub(crate) sent: f64,
    /// What it can carry in each direction; `None` for the loopback interface and most virtual ones.
    pub(crate) bits_per_second: Option<f64>,
}

/// By the interface's name.
pub(crate) type Interfaces = BTreeMap<String, Traffic>;

impl Traffic {
    pub(crate) fn since(self, before: Self) -> Self {
        Self { received: self.received - before.received, sent: self.sent - before.sent, ..self }
    }

    /// Of what it can carry in the busier direction.
    pub(crate) fn share(self, seconds: f64) -> Option<f64> {
        Some(self.received.max(self.sent) * 8.0 / seconds / self.bits_per_second?)
    }
}

/// Of this machine.
///
/// # Errors
/// When /proc cannot be read.
pub(crate) fn interfaces() -> Result<Interfaces> {
    let mut all = parse(&std::fs::read_to_string("/proc/net/dev")?);
    for (name, traffic) in &mut all {
        let speed = std::fs::read_to_string(format!("/sys/class/net/{name}/speed")).ok();
        let megabits = speed.and_then(|text| text.trim().parse::<f64>().ok());
        traffic.bits_per_second = megabits.filter(|megabits| *megabits > 0.0).map(|megabits| megabits * 1e6);
    }
    Ok(all)
}

/// `eth0: received packets errs drop fifo frame compressed multicast sent …`
fn parse(text: &str) -> Interfaces {
    let interface = |line: &str| {
        let (name, counts) = line.split_once(':')?;
        let counts: Vec<f64> = counts.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        let (received, sent) = (*counts.first()?, *counts.get(8)?);
        Some((name.trim().to_owned(), Traffic { received, sent, bits_per_second: None }))
    };
    text.lines().filter_map(interface).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_each_interface() {
        let text = "Inter-|   Receive                        |  Transmit\n face |bytes    packets errs drop fifo\n\
                    \u{20}   lo: 1000 5 0 0 0 0 0 0 1000 5 0 0 0 0 0 0\n  eth0:250 5 0 0 0 0 0 0 125 5 0 0 0 0 0 0\n";
        let all = parse(text);
        assert_eq!((all.len(), all["lo"].sent, all["eth0"].received, all["eth0"].sent), (2, 1000.0, 250.0, 125.0));
        let eth = Traffic { bits_per_second: Some(1000.0), ..all["eth0"] };
        assert_eq!((eth.share(2.0), all["lo"].share(2.0)), (Some(1.0), None));
        assert!(interfaces().unwrap().contains_key("lo"));
    }
}
