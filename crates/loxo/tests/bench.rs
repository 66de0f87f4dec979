//! `loxo bench`: a report's page shows the numbers of its JSON, an interrupted run leaves nothing running and goes on when it is
//! repeated; TPC-H and TPC-DS are loaded, refreshed and asked, and every answer is judged.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::TempDir;

/// The smallest load that has rows: a tenth of a percent of TPC-H's.
const TINY: [&str; 8] = ["--sf", "0.001", "--streams", "2", "--datanodes", "1", "--coordinators", "1"];

fn bench(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loxo"));
    command.arg("bench").args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[track_caller]
fn succeeds(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{error}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn page_in(dir: &TempDir) -> (PathBuf, String) {
    let page = dir.path().join("report.html");
    let name = page.to_str().unwrap().to_owned();
    (page, name)
}

/// Of the elements that begin so, in the order of the page.
fn values(page: &str, element: &str) -> Vec<f64> {
    let value = |rest: &str| {
        let tag = &rest[..rest.find('>').unwrap()];
        let text = tag.split_once("data-value=\"")?.1.split_once('"')?.0;
        Some(text.parse().unwrap())
    };
    page.split(element).skip(1).filter_map(value).collect()
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn sorted(mut numbers: Vec<f64>) -> Vec<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers
}

#[track_caller]
fn the_page_shows_the_json(page: &str, report: &Value) {
    let (shown, embedded) = page.split_once("<script type=\"application/json\" id=\"report\">").unwrap();
    let embedded = embedded.split_once("</script>").unwrap().0.replace("<\\/", "</");
    assert_eq!(&serde_json::from_str::<Value>(&embedded).unwrap(), report);
    for elsewhere in ["http:", "https:", "src=", "url(", "@import", "<link", "<iframe"] {
        assert!(!shown.contains(elsewhere), "the page needs something else: {elsewhere}");
    }
    let experiments = list(report, "experiments");
    let number = |cell: &Value| cell["value"].as_f64();
    let cells = |outcome: &Value| -> Vec<f64> {
        list(outcome, "tables")
            .iter()
            .flat_map(|table| list(table, "rows"))
            .flat_map(|row| row.as_array().unwrap())
            .filter_map(number)
            .collect()
    };
    let in_tables: Vec<f64> = experiments.iter().flat_map(cells).collect();
    assert!(in_tables.len() > 10, "{in_tables:?}");
    assert_eq!(values(shown, "<td class=\"n\""), in_tables);
    let points = |outcome: &Value| -> Vec<f64> {
        let series = list(outcome, "charts").iter().flat_map(|chart| list(chart, "series"));
        series.flat_map(|series| list(series, "points")).filter_map(|point| point["y"].as_f64()).collect()
    };
    let drawn = [values(shown, "<circle"), values(shown, "<rect class=\"bar")].concat();
    assert!(drawn.len() > 1, "{drawn:?}");
    assert_eq!(sorted(drawn), sorted(experiments.iter().flat_map(points).collect()));
}

/// Debian's names, and others'.
fn browser() -> Option<PathBuf> {
    let names = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).flat_map(|dir| names.map(|name| dir.join(name))).find(|file| file.exists())
}

/// Every chart has a size, and every bar and point lies within it.
const LOOK: &str = r#"<script>
let wrong = [], shapes = 0;
const charts = document.querySelectorAll("svg");
for (const svg of charts) {
  const frame = svg.getBoundingClientRect();
  if (frame.width < 200 || frame.height < 80) wrong.push("a chart of " + frame.width + "x" + frame.height);
  for (const shape of svg.querySelectorAll("circle, rect.bar, text")) {
    const box = shape.getBoundingClientRect();
    shapes += shape.tagName == "text" ? 0 : 1;
    if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
      wrong.push(shape.outerHTML);
  }
}
document.body.setAttribute("data-found", charts.length + " charts, " + shapes + " shapes, wrong: " + wrong.length);
document.body.setAttribute("data-wrong", wrong.slice(0, 3).join(" "));
</script>"#;

#[track_caller]
fn a_browser_shows_it(page: &Path, charts: usize) {
    let Some(browser) = browser() else {
        eprintln!("SKIPPED: there is no Chromium (Debian's package chromium-headless-shell)");
        return;
    };
    let text = std::fs::read_to_string(page).unwrap();
    let looked = page.with_extension("looked.html");
    std::fs::write(&looked, text.replace("</body>", &format!("{LOOK}</body>"))).unwrap();
    let output = Command::new(&browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,2000", "--virtual-time-budget=2000"])
        .arg(format!("--user-data-dir={}", page.with_extension("profile").display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", looked.display()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let shown = succeeds(&output);
    let found = shown.split_once("data-found=\"").expect("the script ran").1.split_once('"').unwrap().0;
    assert!(found.starts_with(&format!("{charts} charts, ")) && found.ends_with("wrong: 0"), "{found}: {}", {
        shown.split_once("data-wrong=\"").map_or("", |(_, rest)| &rest[..rest.len().min(600)])
    });
}

/// Nobody has the clusters of that run on his command line, and their directories are gone.
#[track_caller]
fn nothing_is_left_of(pid: u32) {
    let prefix = format!("loxo-bench-{pid}-");
    let entries = |dir: &Path| std::fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path()).collect::<Vec<_>>();
    let left: Vec<PathBuf> =
        entries(&std::env::temp_dir()).into_iter().filter(|path| path.to_string_lossy().contains(&prefix)).collect();
    assert!(left.is_empty(), "{left:?}");
    for process in entries(Path::new("/proc")) {
        let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        assert!(!line.contains(&prefix), "{line}");
    }
}

#[test]
fn a_page_shows_the_numbers_of_its_json() {
    let dir = TempDir::new("bench").unwrap();
    let (page, name) = page_in(&dir);
    let arguments = [&["bulk", "--quick", "--rounds", "2", "--report", &name], &TINY[..]].concat();
    let child = bench(&arguments).spawn().unwrap();
    let pid = child.id();
    let text = succeeds(&child.wait_with_output().unwrap());
    nothing_is_left_of(pid);
    assert!(text.contains("rows/s") && text.contains("Every load was counted"), "{text}");
    assert!(!std::fs::read_to_string(page.with_extension("json")).unwrap().contains(": -0.0"));
    let report = json(&page.with_extension("json"));
    let [outcome] = list(&report, "experiments") else { panic!("{report}") };
    assert_eq!((&outcome["complete"], list(outcome, "samples").len()), (&Value::Bool(true), 5));
    assert!(!page.with_extension("steps").exists());
    the_page_shows_the_json(&std::fs::read_to_string(&page).unwrap(), &report);
    a_browser_shows_it(&page, list(outcome, "charts").len());

    let own = page.with_extension("json").to_str().unwrap().to_owned();
    let compared = succeeds(&bench(&["compare", &own, &own]).output().unwrap());
    assert!(compared.contains("0 figures worse, 0 better"), "{compared}");
    let planned = succeeds(&bench(&["plan", "--rate", "100M", "--from", &own]).output().unwrap());
    assert!(planned.contains("PROJECTION") && planned.contains("100,000,000 rows/s"), "{planned}");
}

#[test]
fn an_interrupted_run_leaves_nothing_running_and_goes_on() {
    let dir = TempDir::new("bench").unwrap();
    let (page, name) = page_in(&dir);
    let arguments = [&["bulk", "--rounds", "8", "--report", &name], &TINY[..]].concat();
    let child = bench(&arguments).spawn().unwrap();
    let (pid, steps) = (child.id(), page.with_extension("steps"));
    let deadline = Instant::now() + Duration::from_secs(600);
    // The head, and two samples.
    while std::fs::read_to_string(&steps).unwrap_or_default().lines().count() < 3 {
        assert!(Instant::now() < deadline, "nothing was measured");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(Command::new("kill").args(["-INT", &pid.to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("interrupted") && said.contains("Repeat the command"), "{said}");
    nothing_is_left_of(pid);
    let report = json(&page.with_extension("json"));
    the_page_of_a_part(&page, &report);
    let first = list(&report["experiments"][0], "samples").to_vec();
    assert!((2..16).contains(&first.len()), "{report}");

    let other = [&["bulk", "--rounds", "7", "--report", &name], &TINY[..]].concat();
    let refused = bench(&other).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("another command"), "{refused:?}");

    let again = bench(&arguments).output().unwrap();
    succeeds(&again);
    let report = json(&page.with_extension("json"));
    let outcome = &report["experiments"][0];
    assert_eq!(outcome["complete"], Value::Bool(true));
    // Eight rounds of two kinds of tables, and the check at the end.
    let all = list(outcome, "samples");
    assert_eq!(all.len(), 17);
    assert_eq!(&all[..first.len()], &first[..]);
    assert!(!steps.exists());
}

#[track_caller]
fn the_page_of_a_part(page: &Path, report: &Value) {
    let outcome = &report["experiments"][0];
    assert_eq!(outcome["complete"], Value::Bool(false));
    let text = std::fs::read_to_string(page).unwrap();
    assert!(text.contains("did not come to its end"), "{text}");
    the_page_shows_the_json(&text, report);
}

/// The sample of a point.
#[track_caller]
fn at<'v>(outcome: &'v Value, point: &str) -> &'v Value {
    let found = list(outcome, "samples").iter().find(|sample| sample["point"] == point);
    found.unwrap_or_else(|| panic!("no {point}: {outcome}"))
}

/// All that a run of TPC-H measures has a figure and no word of something wrong.
#[track_caller]
fn everything_was_measured(outcome: &Value) {
    assert_eq!(outcome["complete"], Value::Bool(true));
    for point in ["Q6", "Q15", "streams", "RF1", "RF2"] {
        let sample = at(outcome, &format!("{point}, 1 datanodes"));
        for side in ["stock", "cluster"] {
            assert!(sample["figures"][side].as_f64().is_some_and(|seconds| seconds > 0.0), "{point}: {sample}");
        }
        let words: Vec<&String> = sample["words"].as_object().unwrap().keys().collect();
        assert!(!words.iter().any(|word| word.starts_with("wrong") || word.starts_with("failed")), "{sample}");
    }
    let loads: Vec<&Value> =
        list(outcome, "samples").iter().filter(|sample| sample["point"] == "load, 1 datanodes").collect();
    let [load] = loads[..] else { panic!("{loads:?}") };
    for phase in ["copy_cluster", "keys_cluster", "analyze_cluster", "copy_stock", "keys_stock", "analyze_stock"] {
        assert!(load["figures"][phase].as_f64().is_some_and(|seconds| seconds > 0.0), "{phase}: {load}");
    }
}

#[test]
fn tpch_is_loaded_again_and_goes_on_after_an_interruption() {
    let dir = TempDir::new("bench").unwrap();
    let (page, name) = page_in(&dir);
    let options = ["--sf", "0.01", "--queries", "6,14,15,22", "--rounds", "2", "--nodes", "1", "--streams", "3"];
    let chosen = ["--layout", "lineitem=l_partkey,customer=c_custkey"];
    let arguments = [&["power", "--report", &name], &options[..], &chosen[..]].concat();
    let child = bench(&arguments).spawn().unwrap();
    let (pid, steps) = (child.id(), page.with_extension("steps"));
    let deadline = Instant::now() + Duration::from_secs(600);
    // The head, the load and a query.
    while std::fs::read_to_string(&steps).unwrap_or_default().lines().count() < 3 {
        assert!(Instant::now() < deadline, "nothing was measured");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(Command::new("kill").args(["-INT", &pid.to_string()]).status().unwrap().success());
    let interrupted = child.wait_with_output().unwrap();
    assert_eq!(interrupted.status.code(), Some(1), "{interrupted:?}");
    nothing_is_left_of(pid);

    let text = succeeds(&bench(&arguments).output().unwrap());
    assert!(text.contains("RF2, old orders go") && text.contains("3 streams at once"), "{text}");
    assert!(text.contains("4 of 4 answers right") && text.contains("geometric mean"), "{text}");
    let report = json(&page.with_extension("json"));
    everything_was_measured(&report["experiments"][0]);
    the_page_shows_the_json(&std::fs::read_to_string(&page).unwrap(), &report);
}

/// What a cluster and one server say differently, and what both refuse, on purpose.
const JUDGED: [(&str, &str); 5] = [
    ("1.sql", "SELECT d_year, count(*) FROM store_sales JOIN date_dim ON d_date_sk = ss_sold_date_sk GROUP BY d_year"),
    // More customers than one have the same number of tickets.
    (
        "2.sql",
        "SELECT ss_customer_sk FROM store_sales GROUP BY 1 ORDER BY count(DISTINCT ss_ticket_number) DESC LIMIT 3",
    ),
    ("3.sql", "SELECT pg_listening_channels()"),
    ("4.sql", "SELECT current_setting('port') FROM reason LIMIT 1"),
    ("5.sql", "SELECT 1 + FROM reason"),
];

#[test]
fn answers_over_tpcds_are_judged() {
    let dir = TempDir::new("bench").unwrap();
    let (page, name) = page_in(&dir);
    let queries = dir.path().join("queries");
    std::fs::create_dir(&queries).unwrap();
    JUDGED.iter().for_each(|(file, text)| std::fs::write(queries.join(file), text).unwrap());
    let options = ["tpcds", "--sf", "0.001", "--rounds", "1", "--report", &name, "--queries"];
    let output = bench(&[&options[..], &[queries.to_str().unwrap()]].concat()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    // A wrong answer fails the run.
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("wrong answers: query 4"), "{error}");
    let report = json(&page.with_extension("json"));
    let outcome = &report["experiments"][0];
    let word =
        |query: &str, word: &str| at(outcome, &format!("query {query}"))["words"][word].as_str().map(str::to_owned);
    assert!(at(outcome, "query 1")["figures"]["rows"].as_f64().is_some_and(|rows| rows > 1.0), "{outcome}");
    for query in ["1", "2"] {
        assert_eq!((word(query, "wrong"), word(query, "refused"), word(query, "failed")), (None, None, None));
    }
    assert!(word("3", "refused").is_some_and(|text| text.contains("(0A000)")), "{outcome}");
    assert!(word("5", "right").is_some_and(|text| text.contains("(42601)")), "{outcome}");
    let findings = list(outcome, "findings");
    let tally =
        "5 queries: 3 answers right, 1 wrong, 1 refused, 0 errors, 0 given up, 0 that one server does not answer.";
    assert!(findings.iter().any(|finding| finding == tally), "{findings:?}");
    the_page_shows_the_json(&std::fs::read_to_string(&page).unwrap(), &report);
}

#[test]
fn queries_that_are_not_there_are_named() {
    let dir = TempDir::new("bench").unwrap();
    let none = bench(&["tpcds", "--queries", dir.path().to_str().unwrap()]).output().unwrap();
    assert!(String::from_utf8_lossy(&none.stderr).contains("there is no file *.sql"), "{none:?}");
    let unknown = bench(&["tpcds", "--only", "1,100"]).output().unwrap();
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("there is no query 100"), "{unknown:?}");
    let layout = bench(&["power", "--layout", "lineitem=no_column"]).output().unwrap();
    assert!(String::from_utf8_lossy(&layout.stderr).contains("no column"), "{layout:?}");
}

/// Runs an experiment of tables of its own to its end; gives what it has printed and the report's outcome.
#[track_caller]
fn measured(arguments: &[&str]) -> (String, Value) {
    let dir = TempDir::new("bench").unwrap();
    let (page, name) = page_in(&dir);
    let child = bench(&[arguments, &["--report", &name][..]].concat()).spawn().unwrap();
    let pid = child.id();
    let text = succeeds(&child.wait_with_output().unwrap());
    nothing_is_left_of(pid);
    let report = json(&page.with_extension("json"));
    the_page_shows_the_json(&std::fs::read_to_string(&page).unwrap(), &report);
    assert_eq!(report["experiments"][0]["complete"], Value::Bool(true));
    (text, report["experiments"][0].clone())
}

/// The figure of the sample that is called so.
#[track_caller]
fn figure(outcome: &Value, point: &str, name: &str) -> f64 {
    let sample = list(outcome, "samples").iter().find(|sample| sample["point"] == point);
    let value = sample.and_then(|sample| sample["figures"][name].as_f64());
    value.unwrap_or_else(|| panic!("{point} has no {name}: {outcome}"))
}

#[track_caller]
fn money_was_summed_beside(outcome: &Value, load: &str) {
    let of = |name: &str| figure(outcome, &format!("{load}: transfer-sum"), name);
    assert!(of("transfers_per_second") > 0.0 && of("sums_per_second") > 0.0);
    assert_eq!(of("wrong_sums"), 0.0);
}

/// What installs go-tpc.
const GO_TPC: &str = "go install github.com/pingcap/go-tpc/cmd/go-tpc@v1.0.12";

/// Where loxo looks for it.
fn is_there(program: pgerror::Result<PathBuf>) -> bool {
    if let Err(missing) = &program {
        eprintln!("SKIPPED: {missing}");
    }
    program.is_ok()
}

#[test]
fn money_moves_and_is_summed_beside_pgbench() {
    let arguments = ["tpcb", "--scale", "1", "--seconds", "1", "--rounds", "1", "--mode", "prepared", "--clients", "2"];
    let (text, outcome) = measured(&arguments);
    assert!(text.contains("No sum was wrong") && text.contains("no money was made or lost"), "{text}");
    for load in ["TPC-B, prepared", "select-only, prepared"] {
        let cluster = format!("{load}: cluster");
        assert!(figure(&outcome, &cluster, "tps") > 0.0);
        assert!(figure(&outcome, &cluster, "coordinator_cpu_us") > 0.0);
        money_was_summed_beside(&outcome, load);
        match bench::oltp::pgbouncer() {
            Ok(_) => assert!(figure(&outcome, &format!("{load}: PgBouncer"), "tps") > 0.0),
            Err(_) => assert!(text.contains("Nothing went through PgBouncer: it is not installed"), "{text}"),
        }
    }
}

#[test]
fn two_builds_take_turns() {
    let own = env!("CARGO_BIN_EXE_loxo");
    let (text, outcome) = measured(&[&["bulk", "--quick", "--rounds", "1", "--against", own], &TINY[..]].concat());
    for build in ["this", "against"] {
        let of_build = list(&outcome, "samples").iter().filter(|sample| sample["build"] == build);
        // Logged, unlogged, and the check.
        assert_eq!(of_build.count(), 3, "{outcome}");
    }
    let builds = &outcome["tables"][0];
    assert!(list(builds, "rows").len() > 4, "{builds}");
    assert!(text.contains(builds["title"].as_str().unwrap()), "{text}");
}

#[test]
fn awaited_rows_go_through_a_bare_relay_too() {
    let size = ["--shape", "each", "--clients", "1", "--nodes", "1", "--seconds", "1", "--rounds", "1"];
    let (text, outcome) = measured(&[&["insert"], &size[..]].concat());
    assert!(text.contains("of the rate of a bare relay"), "{text}");
    for side in ["direct", "relay", "cluster"] {
        let point = format!("each, rows on one node, 1 datanodes: {side}");
        assert!(figure(&outcome, &point, "rows_per_second") > 0.0);
    }
    let cpu = figure(&outcome, "each, rows on one node, 1 datanodes: relay", "coordinator_cpu_us");
    assert!(cpu > 0.0, "{outcome}");
}

#[test]
fn sysbench_goes_by_turns_to_both_sides() {
    if !is_there(bench::oltp::sysbench::program()) {
        return;
    }
    let size = ["--tables", "1", "--rows", "1000", "--clients", "2", "--seconds", "1", "--rounds", "1"];
    let (text, outcome) = measured(&[&["sysbench", "--script", "oltp_read_write"], &size[..]].concat());
    assert!(text.contains("as many rows as before"), "{text}");
    for side in ["direct", "cluster"] {
        let of = |name: &str| figure(&outcome, &format!("oltp_read_write: {side}"), name);
        assert!(of("tps") > 0.0 && of("p50_ms") > 0.0 && of("p50_ms") <= of("p99_ms"), "{outcome}");
    }
    money_was_summed_beside(&outcome, "oltp_read_write");
}

#[test]
fn tpcc_is_consistent_on_both_sides() {
    if !is_there(bench::oltp::tpcc::program()) {
        return;
    }
    let (text, outcome) = measured(&["tpcc", "--warehouses", "1", "--clients", "2", "--seconds", "2", "--rounds", "1"]);
    assert!(text.contains("conditions of consistency"), "{text}");
    for side in ["direct", "cluster"] {
        let of = |name: &str| figure(&outcome, &format!("2 clients: {side}"), name);
        assert!(of("tpmc") > 0.0 && of("new_order_latency_ms") > 0.0 && of("server_cpu_us") > 0.0, "{outcome}");
    }
    money_was_summed_beside(&outcome, "2 clients");
}

#[test]
fn ch_compares_all_answers() {
    if !is_there(bench::oltp::tpcc::program()) {
        return;
    }
    let (text, outcome) = measured(&["ch", "--warehouses", "1", "--clients", "1", "--rounds", "1"]);
    assert!(text.contains("conditions of consistency"), "{text}");
    assert_eq!(figure(&outcome, "queries alone: cluster", "failed_queries"), 0.0);
    assert!(figure(&outcome, "queries beside TPC-C: cluster", "q22_ms") > 0.0);
    assert!(figure(&outcome, "queries beside TPC-C: cluster", "tpmc") > 0.0);
    money_was_summed_beside(&outcome, "queries beside TPC-C");
}

#[test]
fn ticks_are_loaded_on_every_number_of_datanodes() {
    let size = ["--rows", "2000", "--datanodes", "1,2", "--loaders", "1,2", "--rounds", "1"];
    let (text, outcome) = measured(&[&["ticks"], &size[..]].concat());
    assert!(text.contains("Fastest: "), "{text}");
    for datanodes in [1, 2] {
        let point = format!("{datanodes} datanodes, 2 loaders: cluster");
        assert_eq!(figure(&outcome, &point, "rows"), 2000.0);
    }
}

#[test]
fn a_missing_program_is_named_with_what_installs_it() {
    for (arguments, install) in [
        (&["sysbench", "--quick"][..], "apt-get install sysbench"),
        (&["tpcc", "--quick"], GO_TPC),
        (&["ch", "--quick"], GO_TPC),
        (&["all", "--quick", "--only", "tpcb,ch"], GO_TPC),
    ] {
        let mut command = bench(arguments);
        command.env("PATH", "/nonexistent").env("HOME", "/nonexistent").env_remove("GOBIN").env_remove("GOPATH");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("is not installed") && said.contains(install), "{said}");
        assert!(!said.contains("starting"), "{said}");
    }
}
