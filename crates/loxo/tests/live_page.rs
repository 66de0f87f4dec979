//! The live page of a coordinator: who may ask, what a role sees and may end, and that a browser draws it.

#[path = "live_page/browser.rs"]
mod browser;
#[path = "live_page/http.rs"]
mod http;

use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use browser::Browser;
use http::{User, login, request, text_of};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::wire::Client;

const SOON: Duration = Duration::from_secs(30);

/// What is there after some time.
#[track_caller]
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < SOON, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn pid(client: &mut Client) -> String {
    client.scalar("SELECT pg_backend_pid()").expect("its number")
}

/// Of a role, on the only coordinator.
fn session(cluster: &Cluster, user: &str) -> Client {
    Client::connect_with(cluster.coordinators()[0], &[("user", user), ("database", "postgres")]).expect("a session")
}

/// One who holds a row, and one who waits for it.
fn blocked(cluster: &Cluster) -> (Client, Client, [String; 2]) {
    let (mut holder, mut waiter) = (session(cluster, "postgres"), session(cluster, "postgres"));
    let pids = [pid(&mut holder), pid(&mut waiter)];
    holder.run("BEGIN; UPDATE t SET v = 'held' WHERE k = 1").expect("a lock");
    waiter.send_query("UPDATE t SET v = 'wanted' WHERE k = 1").expect("a query");
    (holder, waiter, pids)
}

/// The row of a session, as a user of the page sees it.
fn seen(user: &User, pid: &str) -> Option<Value> {
    user.rows("sessions").into_iter().find(|row| row["pid"] == pid)
}

#[track_caller]
fn is_cancelled(waiter: &mut Client) {
    let answers = waiter.wait().expect("an answer");
    let error = answers.iter().find_map(|answer| answer.error.as_ref()).expect("an error");
    assert_eq!(error.code().as_str(), "57014");
}

fn with_table() -> Cluster {
    let cluster = Cluster::start(2, 1).expect("a cluster");
    let sql = "CREATE TABLE t (k int PRIMARY KEY, v text) DISTRIBUTE BY HASH (k); \
        INSERT INTO t SELECT g, 'x' FROM generate_series(1, 100) AS g; CREATE ROLE ann LOGIN";
    session(&cluster, "postgres").run(sql).expect("a table and a role");
    cluster
}

#[test]
fn it_is_an_ordinary_client_behind_cookie_and_token() {
    if testkit::self_test() {
        return;
    }
    let cluster = with_table();
    strangers_are_refused(cluster.pages()[0]);
    let root = User::login(cluster.pages()[0], "postgres", "");
    let (mut holder, mut waiter, pids) = blocked(&cluster);
    waits_are_shown_and_ended(&cluster, &root, &mut waiter, &pids);
    let ended = json!({ "pid": pids[0].parse::<i32>().expect("a number"), "ends": true });
    assert_eq!(root.post("/api/signal", &ended).json(), json!({ "done": true }));
    assert_eq!(holder.last_words().expect("its end").code().as_str(), "57P01");
    until("nobody is there to be ended", || {
        (root.post("/api/signal", &ended).json() == json!({ "done": false })).then_some(())
    });
    for pid in [0, -1] {
        assert_eq!(root.post("/api/signal", &json!({ "pid": pid, "ends": true })).status, 400);
    }
    copies_are_shown(&cluster, &root);
    plans_are_drawn_and_nothing_is_run(&cluster, &root);
    slow_statements_are_for_those_who_may_see_them(&cluster, &root);
    nodes_and_buckets_are_shown(&root);
    impatient_ones_are_refused(&cluster);
    a_new_login_ends_an_old_one(&cluster, &root);
    a_hanging_datanode_ends_nobody(&cluster, &root);
    a_dead_datanode_is_named(&cluster, &root);
    sessions_are_few_and_end(&cluster, &root);
}

fn strangers_are_refused(port: u16) {
    let page = request(port, "/", &[], None);
    assert_eq!(page.status, 200);
    for line in ["content-security-policy: default-src 'none'", "cache-control: no-store", "x-frame-options: deny"] {
        assert!(page.head.contains(line), "{line} in {}", page.head);
    }
    assert!(page.body.contains("<title>coord1") && !page.body.contains("{nonce}"));
    let own = format!("http://127.0.0.1:{port}");
    let json = ("Content-Type", "application/json");
    let body = r#"{"user":"postgres","password":"","database":"postgres"}"#;
    for (headers, body, status) in [
        (vec![("Host", "evil.example")], None, 403),
        (vec![json, ("Origin", "http://evil.example")], Some(body), 403),
        (vec![json, ("Sec-Fetch-Site", "cross-site")], Some(body), 403),
        (vec![("Content-Type", "text/plain"), ("Origin", own.as_str())], Some(body), 415),
        (vec![json], Some("{}"), 400),
        (vec![json], Some(r#"{"user":"nobody_here","password":"","database":"postgres"}"#), 422),
        (vec![json, ("Origin", own.as_str())], Some(body), 200),
    ] {
        let answer = request(port, "/api/login", &headers, body.or(Some("")));
        assert_eq!(answer.status, status, "{headers:?} {answer:?}");
    }
    let long = format!("{{\"user\":\"{}\"}}", "u".repeat(9000));
    assert_eq!(request(port, "/api/login", &[json], Some(&long)).status, 413);
    let user = User::login(port, "postgres", "");
    for (path, body) in [
        ("/api/now", None),
        ("/api/map", None),
        ("/api/slow", None),
        ("/api/signal", Some(r#"{"pid":1,"ends":true}"#)),
        ("/api/plan", Some(r#"{"text":"SELECT 1"}"#)),
        ("/api/logout", Some("{}")),
    ] {
        let cookie = ("Cookie", user.cookie.as_str());
        assert_eq!(request(port, path, &[json, ("X-Loxo-Token", &user.token)], body).status, 401, "{path}");
        assert_eq!(request(port, path, &[json, cookie], body).status, 403, "{path}");
        assert_eq!(request(port, path, &[json, cookie, ("X-Loxo-Token", "0123")], body).status, 403, "{path}");
        let foreign = ("Origin", "http://127.0.0.1:1");
        assert_eq!(request(port, path, &[json, cookie, ("X-Loxo-Token", &user.token), foreign], body).status, 403);
    }
    let head = login(port, "postgres", "").head;
    assert!(head.contains("httponly; samesite=strict"), "{head}");
    assert_eq!(user.post("/api/logout", &json!({})).status, 200);
    assert_eq!(user.get("/api/now").status, 401);
}

/// A blocked session and its blocker; an ordinary role sees that they are there, and can end neither.
fn waits_are_shown_and_ended(cluster: &Cluster, root: &User, waiter: &mut Client, pids: &[String; 2]) {
    let [holding, waiting] = pids;
    let is_blocked = |row: &Value| row["blocked_by"] == format!("{{{holding}}}");
    let row = until("a wait", || seen(root, waiting).filter(is_blocked));
    assert!(row["query"].as_str().is_some_and(|text| text.contains("'wanted'")), "{row}");
    assert_eq!(row["wait_event_type"], "Lock");
    let ann = User::login(cluster.pages()[0], "ann", "");
    assert_eq!(seen(&ann, waiting).expect("the session")["query"], "<insufficient privilege>");
    let cancel = json!({ "pid": waiting.parse::<i32>().expect("a number"), "ends": false });
    let refused = ann.post("/api/signal", &cancel);
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (422, &json!("42501")));
    assert_eq!(root.post("/api/signal", &cancel).json(), json!({ "done": true }));
    is_cancelled(waiter);
    assert_eq!(ann.post("/api/logout", &json!({})).status, 200);
}

fn copies_are_shown(cluster: &Cluster, root: &User) {
    let mut client = session(cluster, "postgres");
    client.begin_copy("COPY t FROM STDIN").expect("a COPY");
    let written = |rows: &[Value]| -> f64 {
        let number = |value: &Value| value.as_str().map_or(0.0, |text| text.parse().expect("a number"));
        rows.iter().map(|row| number(&row["written"]) + number(&row["copying"])).sum()
    };
    let before = written(&root.rows("nodes"));
    let rows: Vec<String> = (1000..60_000).map(|k| format!("{k}\tsome text in a row\n")).collect();
    for part in rows.chunks(1000) {
        client.send_copy(part.concat().as_bytes()).expect("rows");
    }
    let row = until("the COPY", || {
        let rows = root.rows("copies");
        rows.into_iter()
            .find(|row| row["rows"].as_str().is_some_and(|rows| rows.parse::<u32>().is_ok_and(|n| n > 1000)))
    });
    assert_eq!((&row["command"], &row["relation"]), (&json!("COPY FROM"), &json!("public.t")));
    until("rows of the nodes", || (written(&root.rows("nodes")) > before + 1000.0).then_some(()));
    client.end_copy().expect("its end");
    until("no more of it", || root.rows("copies").is_empty().then_some(()));
}

fn plans_are_drawn_and_nothing_is_run(cluster: &Cluster, root: &User) {
    let plan = |text: &str| root.post("/api/plan", &json!({ "text": text }));
    let told = plan("SELECT v, count(*) FROM t GROUP BY v");
    let lines = told.json()["plan"].to_string();
    assert!(lines.contains("Gather") && lines.contains("Seq Scan on t"), "{told:?}");
    assert_eq!(plan("DELETE FROM t").status, 200);
    assert_eq!(plan("INSERT INTO t SELECT k + 1000000, v FROM t").status, 200);
    for (text, code) in [
        ("SELECT 1; DROP TABLE t", "42601"),
        ("DROP TABLE t", "0A000"),
        ("ANALYZE SELECT 1", "0A000"),
        ("SELECT nothing FROM t", "42703"),
        ("SELECT v FROM t WHERE k = $1", "42P02"),
    ] {
        let refused = plan(text);
        assert_eq!((refused.status, &refused.json()["error"]["code"]), (422, &json!(code)), "{text}");
    }
    let slowly = "CREATE FUNCTION slowly() RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(60); RETURN 1; END'";
    session(cluster, "postgres").run(slowly).expect("a function");
    assert_eq!(plan("SELECT slowly()").json()["error"]["code"], "57014");
    assert_eq!(plan("SELECT 1").status, 200, "no transaction is left");
    let long = plan("SELECT v FROM t WHERE v = repeat('x', 100000)");
    let line =
        long.json()["plan"].as_array().expect("lines").iter().map(|line| line.as_str().map_or(0, str::len)).max();
    assert!(line.is_some_and(|bytes| (4000..4200).contains(&bytes)), "{line:?}");
    assert_eq!(session(cluster, "postgres").scalar("SELECT count(*) FROM t").expect("a number"), "59100");
}

fn slow_statements_are_for_those_who_may_see_them(cluster: &Cluster, root: &User) {
    let mut client = session(cluster, "postgres");
    client.run("SET loxo.log_min_duration = 0; SELECT count(*) AS slow_one FROM t").expect("a row");
    let known = |user: &User| {
        let slow = user.get("/api/slow").json()["slow"].as_array().expect("a list").clone();
        slow.into_iter().find(|one| one["text"].as_str().is_some_and(|text| text.contains("slow_one")))
    };
    let slow = known(root).expect("the statement");
    assert_eq!(slow["user"], "postgres");
    assert!(slow["plan"].as_str().is_some_and(|plan| plan.starts_with("Gather")), "{slow}");
    let page = cluster.pages()[0];
    let ann = User::login(page, "ann", "");
    assert!(known(&ann).is_none());
    ann.post("/api/logout", &json!({}));
    // Rights are those of now, not of the login.
    let ann = User::login(page, "ann", "");
    for right in ["pg_read_all_stats", "postgres"] {
        client.run(&format!("GRANT {right} TO ann")).expect("a right");
        assert!(known(&ann).is_some(), "{right}");
        client.run(&format!("REVOKE {right} FROM ann")).expect("no right");
        assert!(known(&ann).is_none(), "{right}");
    }
    ann.post("/api/logout", &json!({}));
}

/// A request whose answer nobody reads: the stream's end hangs up.
fn ask(port: u16, path: &str, headers: &[(&str, &str)], body: Option<&str>) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the page's port");
    stream.write_all(text_of(port, path, headers, body).as_bytes()).expect("a request");
    stream
}

fn ask_now_and_leave(port: u16, user: &User) {
    let headers = [("Cookie", user.cookie.as_str()), ("X-Loxo-Token", user.token.as_str())];
    drop(ask(port, "/api/now", &headers, None));
}

/// Questions without anybody who waits for them are few.
fn impatient_ones_are_refused(cluster: &Cluster) {
    let ann = User::login(cluster.pages()[0], "ann", "");
    until("a refusal", || {
        (0..12).for_each(|_| ask_now_and_leave(cluster.pages()[0], &ann));
        (ann.get("/api/slow").status == 429).then_some(())
    });
    until("an answer", || (ann.get("/api/slow").status == 200).then_some(()));
    (0..4).for_each(|_| ask_now_and_leave(cluster.pages()[0], &ann));
    assert_eq!(ann.post("/api/logout", &json!({})).status, 200);
    let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'loxo page' AND usename = 'ann'";
    until("no connection", || (session(cluster, "postgres").scalar(open).expect("a number") == "0").then_some(()));
    // Whoever tries roles and hangs up waits as others do.
    let body = r#"{"user":"nobody_here","password":"","database":"postgres"}"#;
    let page = cluster.pages()[0];
    // All places are taken, each for a second, if these four come first. Who hangs up before the request is read has tried nothing:
    // they stay a little longer each time.
    let mut stay = Duration::ZERO;
    until("a login that waits for another one's second", || {
        stay += Duration::from_millis(20);
        let ask = || ask(page, "/api/login", &[("Content-Type", "application/json")], Some(body));
        let asked: Vec<TcpStream> = (0..4).map(|_| ask()).collect();
        std::thread::sleep(stay);
        drop(asked);
        let began = Instant::now();
        assert_eq!(login(page, "nobody_here", "").status, 422);
        (began.elapsed() > Duration::from_millis(1500)).then_some(())
    });
}

/// Of the same browser, or of the same role if it has four.
fn a_new_login_ends_an_old_one(cluster: &Cluster, root: &User) {
    let page = cluster.pages()[0];
    let old = User::login(page, "ann", "");
    let body = r#"{"user":"ann","password":"","database":"postgres"}"#;
    let headers = [("Content-Type", "application/json"), ("Cookie", old.cookie.as_str())];
    assert_eq!(request(page, "/api/login", &headers, Some(body)).status, 200);
    assert_eq!(old.get("/api/slow").status, 401);
    let [used, unused] = [User::login(page, "ann", ""), User::login(page, "ann", "")];
    assert_eq!(used.get("/api/slow").status, 200);
    let more = [User::login(page, "ann", ""), User::login(page, "ann", ""), User::login(page, "ann", "")];
    assert_eq!((used.get("/api/slow").status, unused.get("/api/slow").status), (200, 401));
    let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'loxo page' AND usename = 'ann'";
    until("four connections", || (session(cluster, "postgres").scalar(open).expect("a number") == "4").then_some(()));
    for user in more.iter().chain([&used]) {
        assert_eq!(user.post("/api/logout", &json!({})).status, 200);
    }
    assert_eq!(root.get("/api/slow").status, 200);
}

fn nodes_and_buckets_are_shown(root: &User) {
    let names: Vec<Value> = root.rows("nodes").iter().map(|row| row["node_name"].clone()).collect();
    assert_eq!(names, ["dn1", "dn2", "coord1"]);
    let now = root.get("/api/now").json();
    assert_eq!(now["health"], json!({ "ok": true, "text": "ok" }));
    assert!(now["figures"].as_str().is_some_and(|text| text.contains("loxo_pool_connections{node=\"dn2\"")), "{now}");
    let map = root.get("/api/map").json();
    let nodes = map["maps"]["rows"][0]["nodes"].as_str().expect("a map");
    assert_eq!(nodes.split(',').count(), 4096);
    assert_eq!(map["ids"]["rows"], json!([{ "id": "0", "name": "dn1" }, { "id": "1", "name": "dn2" }]));
    assert!(map["skew"]["rows"].as_array().is_some_and(|rows| rows.len() == 1), "{map}");
}

/// The number of the second datanode's first process.
fn postmaster(cluster: &Cluster) -> String {
    let file = cluster.dir().join("dn2/postmaster.pid");
    let text = std::fs::read_to_string(file).expect("its process");
    text.lines().next().expect("a number").to_owned()
}

/// Processes that stand still until this is dropped.
struct Stopped(Vec<String>);

impl Stopped {
    fn with_children(pid: String) -> Self {
        let stopped = Self(vec![pid]);
        // It first, so that there are no new ones.
        stopped.signal("-STOP");
        let told = Command::new("ps").args(["-o", "pid=", "--ppid", &stopped.0[0]]).output().expect("ps");
        let children = String::from_utf8(told.stdout).expect("numbers");
        let all = Self(children.split_whitespace().map(str::to_owned).chain(stopped.0.clone()).collect());
        all.signal("-STOP");
        std::mem::forget(stopped);
        all
    }

    fn signal(&self, signal: &str) {
        Command::new("kill").arg(signal).args(&self.0).status().expect("a signal");
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.signal("-CONT");
    }
}

/// A question ends at its first statement that waits in vain, and a signal comes before its next one.
fn a_hanging_datanode_ends_nobody(cluster: &Cluster, root: &User) {
    let mut idler = session(cluster, "postgres");
    let ended = json!({ "pid": pid(&mut idler).parse::<i32>().expect("a number"), "ends": true });
    let stopped = Stopped::with_children(postmaster(cluster));
    let (now, signal) = std::thread::scope(|scope| {
        let now = scope.spawn(|| root.get("/api/now"));
        std::thread::sleep(Duration::from_millis(300));
        let signal = root.post("/api/signal", &ended);
        (now.join().expect("an answer"), signal)
    });
    assert_eq!((now.status, signal.json()), (200, json!({ "done": true })));
    let parts = now.json();
    assert_eq!((&parts["copies"]["error"]["code"], &parts["upkeep"]), (&json!("57014"), &parts["copies"]));
    assert!(parts["nodes"]["rows"].as_array().is_some_and(|rows| rows.len() == 3), "{parts}");
    drop(stopped);
    until("it goes on", || root.get("/api/now").json()["nodes"]["error"].is_null().then_some(()));
}

/// The other parts go on; the page reads its number in this warning.
fn a_dead_datanode_is_named(cluster: &Cluster, root: &User) {
    assert!(Command::new("kill").args(["-QUIT", &postmaster(cluster)]).status().expect("a signal").success());
    let now = until("a warning", || {
        let now = root.get("/api/now").json();
        let warned =
            now["sessions"]["notices"][0].as_str().is_some_and(|text| text.starts_with("datanode 1 is left out"));
        warned.then_some(now)
    });
    assert_eq!(now["nodes"]["error"]["code"], "08006");
    let known = now["nodes"]["rows"].as_array().expect("the nodes").iter().map(|row| &row["id"]);
    assert!(known.eq([&json!("0"), &json!("1"), &json!("1000")]), "{now}");
    cluster.up().expect("it starts again");
    until("it is back", || root.get("/api/now").json()["nodes"]["error"].is_null().then_some(()));
}

fn sessions_are_few_and_end(cluster: &Cluster, root: &User) {
    let page = cluster.pages()[0];
    let roles: Vec<String> = (1..=16).map(|at| format!("user{at}")).collect();
    for role in &roles {
        session(cluster, "postgres").run(&format!("CREATE ROLE {role} LOGIN")).expect("a role");
    }
    let statuses: Vec<u16> = roles.iter().map(|role| login(page, role, "").status).collect();
    assert_eq!(statuses.last(), Some(&503), "{statuses:?}");
    assert!(statuses.starts_with(&[200; 8]), "{statuses:?}");
    // Whoever ends its session on the coordinator ends the page's.
    let pages = "SELECT pid FROM pg_stat_activity WHERE application_name = 'loxo page'";
    let end = format!("SELECT count(pg_terminate_backend(pid)) FROM ({pages}) AS p");
    session(cluster, "postgres").run(&end).expect("they end");
    until("its end is noticed", || (root.get("/api/now").status == 401).then_some(()));
}

#[test]
fn clients_are_served_if_its_port_is_taken() {
    if testkit::self_test() {
        return;
    }
    let cluster = Cluster::start(1, 1).expect("a cluster");
    let status = cluster.loxo(&["status"]).expect("its state");
    assert!(status.contains(&format!("http://127.0.0.1:{}/", cluster.pages()[0])), "{status}");
    cluster.loxo(&["down"]).expect("it ends");
    let _other = std::net::TcpListener::bind(("127.0.0.1", cluster.pages()[0])).expect("the port");
    cluster.up().expect("it starts");
    assert_eq!(session(&cluster, "postgres").scalar("SELECT 1").expect("a row"), "1");
    let log = std::fs::read_to_string(cluster.dir().join("log/coord1.log")).expect("the log");
    assert!(log.contains("there is no live page on 127.0.0.1"), "{log}");
}

/// With `LOXO_PAGE_PICTURES` the pictures of docs/operate/watch.md are made, in that directory.
#[test]
fn a_browser_shows_it_and_its_buttons_work() {
    if testkit::self_test() {
        return;
    }
    let Some(mut browser) = Browser::start(1200, 1000) else {
        eprintln!("SKIPPED: there is no Chromium (Debian's package chromium-headless-shell)");
        return;
    };
    let cluster = with_table();
    browser.open(&format!("http://127.0.0.1:{}/", cluster.pages()[0]));
    browser.until("document.readyState === 'complete' && document.getElementById('login-form')");
    let log_in = |user: &str| {
        format!(
            "document.getElementById('user').value = '{user}'; document.querySelector('#login-form button').click()"
        )
    };
    browser.value(&log_in("nobody_here"));
    browser.until("document.getElementById('problem').textContent.includes('28')");
    // The browser itself reports the status of that answer.
    assert!(browser.said.iter().all(|said| said.contains("422")), "{:?}", browser.said);
    browser.said.clear();
    browser.value(&log_in("postgres"));
    browser.until("document.querySelectorAll('#rates polyline').length === 2");
    browser.until("document.querySelector('#rates polyline').getAttribute('points').split(' ').length > 2");
    browser.until("document.querySelectorAll('#map path').length === 2");
    browser.until("document.querySelectorAll('#nodes tbody tr').length === 3");
    assert_eq!(
        browser.value(
            "[...document.querySelectorAll('#live svg')].every((svg) => { \
        const box = svg.getBoundingClientRect(); return box.width > 5 && box.height > 5; })"
        ),
        json!(true)
    );

    let (mut holder, mut waiter, [holding, waiting]) = blocked(&cluster);
    browser.until(&format!("document.querySelector('#waits li li')?.textContent.includes('Session {waiting} ')"));
    browser.until(&format!("document.getElementById('waits').textContent.includes('Session {holding} ')"));
    nothing_of_a_text_is_html(&cluster, &mut browser);
    browser
        .value("document.getElementById('plan-text').value = 'SELECT v, count(*) FROM t GROUP BY v ORDER BY 2 DESC'");
    browser.value("document.querySelector('#plan-form button').click()");
    browser.until("document.querySelectorAll('#plan .tree .tree li').length > 3");
    if let Some(folder) = std::env::var_os("LOXO_PAGE_PICTURES") {
        take_pictures(&cluster, &mut browser, Path::new(&folder));
    }
    browser.value(&format!("document.querySelector('#running button[data-key=\"Cancel {waiting}\"]').click()"));
    is_cancelled(&mut waiter);
    browser.until("document.getElementById('waits').textContent === 'nobody'");
    circles_and_strangers_are_drawn(&mut browser);
    holder.run("ROLLBACK").expect("its end");
    browser.value("document.getElementById('logout').click()");
    browser.until("document.getElementById('live').hidden && !document.getElementById('login').hidden");
    assert!(browser.said.is_empty(), "{:?}", browser.said);
}

/// Sessions that wait for one another, a map of a node without a name, and a session that has gone.
fn circles_and_strangers_are_drawn(browser: &mut Browser) {
    browser.value("document.getElementById('pause').click()");
    browser.until("!state.asking");
    let row = |pid: u32, waits_for: u32| json!({ "pid": pid.to_string(), "usename": "u", "state": "active", "query": "q", "blocked_by": format!("{{{waits_for}}}") });
    let rows = json!([row(2_000_000_001, 2_000_000_002), row(2_000_000_002, 2_000_000_001)]);
    let none = json!({ "rows": [] });
    browser.value(&format!("sessions({{ sessions: {{ rows: {rows} }} }})"));
    browser.until("document.querySelectorAll('#waits li').length === 3");
    let maps = json!({ "rows": [{ "id": "1", "nodes": "0,7", "tables": "1" }] });
    let ids = json!({ "rows": [{ "id": "0", "name": "dn1" }] });
    browser.value(&format!("drawMap({{ ids: {ids}, maps: {maps}, rebalance: {none}, skew: {none} }})"));
    let colours = browser.value("[...document.querySelectorAll('#map path')].map((path) => path.getAttribute('fill'))");
    assert_eq!(colours, json!(["#3b82d6", "#9aa0a6"]));
    browser.value("document.querySelector('#running button[data-key=\"Cancel 2000000001\"]').click()");
    browser.until("document.getElementById('problem').textContent.includes('there is no such session any more')");
    browser.value("document.getElementById('pause').click()");
}

/// A text that would be an image, and a script.
fn nothing_of_a_text_is_html(cluster: &Cluster, browser: &mut Browser) {
    let mut client = session(cluster, "postgres");
    client
        .send_query("SELECT '<img src=x onerror=alert(1)>', '<script>alert(2)</script>', pg_sleep(30)")
        .expect("sent");
    browser.until("document.getElementById('running').textContent.includes('<img src=x onerror=alert(1)>')");
    assert_eq!(browser.value("document.querySelectorAll('main img, main script').length"), json!(0));
}

fn take_pictures(cluster: &Cluster, browser: &mut Browser, folder: &Path) {
    let mut loader = session(cluster, "postgres");
    loader.begin_copy("COPY t FROM STDIN").expect("a COPY");
    for step in 0..160_i64 {
        let many = 800 + 400 * ((step / 12 * 7) % 5) + 40 * (step * 13 % 7);
        let rows: Vec<String> = (0..many).map(|row| format!("{}\trow\n", 100_000 * (step + 1) + row)).collect();
        loader.send_copy(rows.concat().as_bytes()).expect("rows");
        session(cluster, "postgres").run("SELECT count(*) FROM t; SELECT v FROM t WHERE k = 5").expect("rows");
        std::thread::sleep(Duration::from_millis(250));
    }
    let height = "document.querySelector('[aria-labelledby=h-plan]').getBoundingClientRect().bottom + scrollY + 8";
    let height = browser.value(height);
    for scheme in ["light", "dark"] {
        let feature = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        browser.call("Emulation.setEmulatedMedia", json!({ "features": feature }));
        let part = json!({ "x": 0, "y": 0, "width": 1200, "height": height, "scale": 0.75 });
        let picture = browser.picture(part);
        write_base64(&picture, &folder.join(format!("page-{scheme}.png")));
    }
    loader.end_copy().expect("its end");
}

fn write_base64(text: &str, path: &Path) {
    let file = std::fs::File::create(path).expect("a file");
    let mut child = Command::new("base64").arg("-d").stdin(Stdio::piped()).stdout(file).spawn().expect("base64");
    child.stdin.take().expect("its input").write_all(text.as_bytes()).expect("written");
    assert!(child.wait().expect("its end").success());
}
