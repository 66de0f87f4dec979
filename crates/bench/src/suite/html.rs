//! A report as one page that needs nothing else: no script, no font, no picture from elsewhere.
//!
//! Every number on the page stands beside its full value (`data-value`), which is the one in the JSON; the JSON itself is at the
//! page's end.

use std::fmt::Write;

use super::chart::{COLORS, figure};
use super::machine::Load;
use super::result::{Cell, Outcome, Report, Table};

const STYLE: &str = "\
:root{color-scheme:light dark;--ground:#fff;--ink:#1b1f24;--soft:#5b6570;--line:#d9dee3;--tint:#f4f6f8;--warn:#fff3d6;\
--0:#1f5fa8;--1:#d9730d;--2:#27895a;--3:#b3261e;--4:#7b4bb7;--5:#8a6d00;--6:#0f8a96;--7:#b03a78}
@media (prefers-color-scheme:dark){:root{--ground:#14181d;--ink:#e4e8ec;--soft:#9aa5b1;--line:#353d46;--tint:#1d232a;--warn:#3a3016;\
--0:#6ea8ee;--1:#f2a35c;--2:#5fc793;--3:#f08a80;--4:#b795ec;--5:#d6bb4e;--6:#56c9d6;--7:#ea86b8}}
body{margin:0 auto;max-width:62rem;padding:1.5rem;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.7rem}h2{margin-top:3rem;border-top:1px solid var(--line);padding-top:1rem}h3{margin-bottom:.3rem}h4{margin:.2rem 0}
code{background:var(--tint);padding:.1em .3em;border-radius:3px;overflow-wrap:anywhere}
.scroll{overflow-x:auto}table{border-collapse:collapse;margin:.5rem 0 1rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:baseline}
th{font-weight:600;color:var(--soft)}td.n{text-align:right;white-space:nowrap}td small{color:var(--soft);margin-left:.4em}
.findings li{margin:.2rem 0}.about,.soft,figcaption{color:var(--soft)}.warn{background:var(--warn);padding:.5rem .8rem;border-radius:4px}
figure{margin:1rem 0}svg{width:100%;height:auto;background:var(--tint);border-radius:4px;font:12px system-ui,sans-serif}
svg text{fill:var(--soft)}svg .axis{fill:var(--ink)}.grid{stroke:var(--line)}.line{fill:none;stroke-width:2}
.dashed{stroke-dasharray:5 4}.range{stroke:var(--soft);stroke-width:1.5}.ref{stroke:var(--soft);stroke-dasharray:2 3}
.mark{stroke:var(--3);stroke-dasharray:3 3;opacity:.7}
.key{display:inline-block;width:1rem;height:.35rem;margin:0 .35rem .15rem .6rem;border-radius:2px}.key.dashed{opacity:.5}
.key.upright{width:2px;height:.8rem;background:var(--3);margin-bottom:-.1rem}
@media print{body{max-width:none}}
";

/// Text between tags and in attributes.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

impl Report {
    /// The page.
    pub fn to_html(&self) -> String {
        let title = match self.experiments.as_slice() {
            [one] => format!("Loxodonta: {}", one.title),
            all => format!("Loxodonta: {} experiments", all.len()),
        };
        let mut page = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>\n{STYLE}",
            escape(&title)
        );
        for n in 0..COLORS {
            // Writing to a String cannot fail.
            let _ =
                writeln!(page, ".s{n}{{stroke:var(--{n})}}.f{n}{{fill:var(--{n})}}.key.c{n}{{background:var(--{n})}}");
        }
        let _ = writeln!(page, "</style>\n</head>\n<body>\n<h1>{}</h1>", escape(&title));
        self.head(&mut page);
        self.experiments.iter().for_each(|outcome| section(&mut page, outcome));
        // Nothing in it may look like the end of the element.
        let json = self.to_json().replace("</", "<\\/");
        let _ = write!(page, "<script type=\"application/json\" id=\"report\">\n{json}</script>\n</body>\n</html>\n");
        page
    }

    /// The report as JSON, for machines.
    pub fn to_json(&self) -> String {
        // No map of these types has a key that is no string, and numbers that JSON does not have are left out of figures.
        serde_json::to_string_pretty(self).map_or(String::new(), |text| text + "\n")
    }

    fn head(&self, page: &mut String) {
        let machine = &self.machine;
        let mut facts = vec![
            ("begun".to_owned(), format!("{} UTC", self.begun)),
            ("command".to_owned(), self.command.clone()),
            ("build".to_owned(), self.build.describe()),
        ];
        facts.extend(self.against.as_ref().map(|build| ("other build".to_owned(), build.describe())));
        facts.extend([
            ("processor".to_owned(), format!("{} cores, {}", machine.cores, machine.processor)),
            ("memory".to_owned(), format!("{:.1} GiB", machine.memory_gib)),
            (
                "disk".to_owned(),
                format!("{}; a write of 8 KiB and its flush take {:.2} ms", machine.disk, machine.flush_ms),
            ),
            ("system".to_owned(), format!("{}, Linux {}", machine.system, machine.kernel)),
        ]);
        facts_table(page, &facts);
        if self.build.profile != "release" {
            let _ = writeln!(
                page,
                "<p class=\"warn\">This is a {} build: its figures say nothing about speed.</p>",
                escape(&self.build.profile)
            );
        }
        if let [_, _, ..] = self.experiments.as_slice() {
            page.push_str("<ul>\n");
            for outcome in &self.experiments {
                let _ =
                    writeln!(page, "<li><a href=\"#{}\">{}</a></li>", escape(&outcome.name), escape(&outcome.title));
            }
            page.push_str("</ul>\n");
        }
    }
}

impl super::result::Build {
    fn describe(&self) -> String {
        format!("{} ({}, {}, written {} UTC)", self.version, self.profile, self.program, self.written)
    }
}

fn facts_table(page: &mut String, facts: &[(String, String)]) {
    page.push_str("<div class=\"scroll\"><table>\n");
    for (name, value) in facts {
        let _ = writeln!(page, "<tr><th>{}</th><td>{}</td></tr>", escape(name), escape(value));
    }
    page.push_str("</table></div>\n");
}

fn section(page: &mut String, outcome: &Outcome) {
    let _ = writeln!(
        page,
        "<section id=\"{}\">\n<h2>{}</h2>\n<p class=\"about\">{}</p>\n<p><code>{}</code></p>",
        escape(&outcome.name),
        escape(&outcome.title),
        escape(&outcome.about),
        escape(&outcome.command)
    );
    if !outcome.findings.is_empty() {
        page.push_str("<ul class=\"findings\">\n");
        outcome.findings.iter().for_each(|finding| {
            let _ = writeln!(page, "<li>{}</li>", escape(finding));
        });
        page.push_str("</ul>\n");
    }
    outcome.charts.iter().for_each(|chart| page.push_str(&figure(chart)));
    outcome.tables.iter().filter(|table| !table.rows.is_empty()).for_each(|one| table(page, one));
    let load = |load: &Load| {
        let waiting = load
            .waiting_share
            .map_or(String::new(), |share| format!(", tasks waited {:.0} % of the time", share * 100.0));
        format!("{:.1} cores busy, load average {:.2}{waiting}", load.busy_cores, load.average)
    };
    let others = &outcome.others_cores;
    let mut facts = outcome.settings.clone();
    facts.extend([
        ("PostgreSQL".to_owned(), outcome.server_version.clone()),
        ("begun".to_owned(), format!("{} UTC, {:.0} s", outcome.begun, outcome.seconds)),
        ("machine before".to_owned(), load(&outcome.load_before)),
        ("machine after".to_owned(), load(&outcome.load_after)),
        (
            "other programs".to_owned(),
            format!("{:.2} cores during a step (median), at most {:.2}", others.median, others.max),
        ),
    ]);
    page.push_str("<details>\n<summary>Settings and the machine's load</summary>\n");
    facts_table(page, &facts);
    page.push_str("</details>\n</section>\n");
}

fn table(page: &mut String, table: &Table) {
    if !table.title.is_empty() {
        let _ = writeln!(page, "<h3>{}</h3>", escape(&table.title));
    }
    page.push_str("<div class=\"scroll\"><table>\n<tr>");
    table.columns.iter().for_each(|name| {
        let _ = write!(page, "<th>{}</th>", escape(name));
    });
    page.push_str("</tr>\n");
    for row in &table.rows {
        page.push_str("<tr>");
        for cell in row {
            let shown = escape(&cell.shown());
            let _ = match cell {
                Cell::Text(_) => write!(page, "<td>{shown}</td>"),
                Cell::Number { value, .. } => {
                    let spread = match cell.spread_shown() {
                        spread if spread.is_empty() => spread,
                        spread => format!("<small>{spread}</small>"),
                    };
                    write!(page, "<td class=\"n\" data-value=\"{value}\">{shown}{spread}</td>")
                }
            };
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n");
}
