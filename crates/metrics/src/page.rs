//! Prometheus' text format, version 0.0.4.

use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;

use crate::{BOUNDS_US, ByLabel, Histogram};

/// A page that is being written.
#[derive(Debug, Default)]
pub struct Page(String);

impl Page {
    /// The text.
    pub fn text(self) -> String {
        self.0
    }

    /// A figure that only grows, of one value.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, help, "counter");
        self.value(name, &[], value);
    }

    /// Figures that only grow, by the values of one label.
    pub fn counters<'v>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'v str, u64)>,
    ) {
        self.head(name, help, "counter");
        values.into_iter().for_each(|(of, value)| self.value(name, &[(label, of)], value));
    }

    /// Figures that only grow, by a label whose values are known at run time.
    pub fn by_label(&mut self, name: &str, help: &str, label: &str, values: &ByLabel) {
        let all = values.all();
        self.counters(name, help, label, all.iter().map(|(of, value)| (of.as_str(), *value)));
    }

    /// A figure that comes and goes, of one value.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.gauges(name, help, [(vec![], value)]);
    }

    /// Figures that come and go, by several labels: names and what they are.
    pub fn gauges<V: Display>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Vec<(&'static str, String)>, V)>,
    ) {
        self.head(name, help, "gauge");
        for (labels, value) in values {
            let labels: Vec<(&str, &str)> = labels.iter().map(|(name, of)| (*name, of.as_str())).collect();
            self.value(name, &labels, value);
        }
    }

    /// Times, in seconds.
    pub fn histogram(&mut self, name: &str, help: &str, times: &Histogram) {
        self.head(name, help, "histogram");
        let mut count = 0;
        for (at, bucket) in times.buckets.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            let bound = BOUNDS_US.get(at).map_or("+Inf".to_owned(), |us| (*us as f64 / 1e6).to_string());
            self.value(&format!("{name}_bucket"), &[("le", &bound)], count);
        }
        self.value(&format!("{name}_sum"), &[], times.sum_us.load(Ordering::Relaxed) as f64 / 1e6);
        self.value(&format!("{name}_count"), &[], count);
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        // Writing into a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<String> = labels.iter().map(|(name, of)| format!("{name}=\"{}\"", escaped(of))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_page_is_prometheus_text() {
        let (times, errors) = (Histogram::new(), ByLabel::new());
        times.observe(Duration::from_micros(100));
        times.observe(Duration::from_secs(20));
        errors.add("42P01", 1);
        errors.add("42P01", 2);
        let mut page = Page::default();
        page.counter("a_total", "All.", 7);
        page.by_label("e_total", "Errors.", "sqlstate", &errors);
        page.gauges("g", "By two.", [(vec![("node", "d\"1".to_owned()), ("state", "idle".to_owned())], 0.5)]);
        page.histogram("t_seconds", "Times.", &times);
        let text = page.text();
        for line in [
            "# TYPE a_total counter\na_total 7\n",
            "e_total{sqlstate=\"42P01\"} 3\n",
            "g{node=\"d\\\"1\",state=\"idle\"} 0.5\n",
            "t_seconds_bucket{le=\"0.0001\"} 1\n",
            "t_seconds_bucket{le=\"10\"} 1\nt_seconds_bucket{le=\"+Inf\"} 2\nt_seconds_sum 20.0001\nt_seconds_count 2\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
