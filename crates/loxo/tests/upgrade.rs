//! Metadata as an earlier version made them become those of this one.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use testkit::wire::Client;
use testkit::{Server, ServerOptions, TempDir, pg_program};

const PAGE: &str = include_str!("../../../docs/operate/upgrade.md");
/// Where the page has the configuration.
const INSTALLED: &str = "/etc/loxo/loxo.toml";

/// What layout 6 was made by, without rows.
const LAYOUT_6: [&str; 2] = [include_str!("upgrade/metadata_6.sql"), include_str!("upgrade/schema_6.sql")];

/// Longest wait for processes to start, and for rows to move.
const DONE_MAX: Duration = Duration::from_secs(60);

/// Two datanodes, and the file that names them.
struct Hosts {
    servers: [Server; 2],
    dir: TempDir,
}

/// The gtm and the coordinator of a file. They end as they are dropped.
struct Daemons(Vec<Child>);

impl Drop for Daemons {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Hosts {
    fn server() -> Server {
        let settings = vec![("max_prepared_transactions".to_owned(), "10".to_owned())];
        Server::start(&ServerOptions { settings, ..ServerOptions::default() }).unwrap()
    }

    fn new() -> Self {
        let hosts = Self { servers: [Self::server(), Self::server()], dir: TempDir::new("upgrade").unwrap() };
        let mut text = "[cluster]\nname = \"test\"\n[gtm]\nhost = \"127.0.0.1\"\nport = 1\n".to_owned();
        for (i, server) in hosts.servers.iter().enumerate() {
            text += &format!("[[datanode]]\nname = \"dn{i}\"\nhost = \"127.0.0.1\"\nport = {}\n", server.port());
        }
        std::fs::write(hosts.dir.path().join("loxo.toml"), text).unwrap();
        hosts
    }

    /// Status and everything that was printed.
    fn init(&self, arguments: &[&str]) -> (Option<i32>, String) {
        self.loxo(&[&["init"], arguments].concat())
    }

    fn loxo(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut loxo = Command::new(env!("CARGO_BIN_EXE_loxo"));
        loxo.args(arguments).arg("--config").arg(self.dir.path().join("loxo.toml"));
        let output = loxo.output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    }

    /// By the page's call of this command, with the file of these hosts.
    fn called_by_the_page(&self, command: &str) -> (Option<i32>, String) {
        let start = format!("runuser -u loxo -- loxo {command} ");
        let line = PAGE.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("no {start}"));
        let config = self.dir.path().join("loxo.toml");
        let words =
            line.split(' ').skip(5).map(|word| if word == INSTALLED { config.as_os_str() } else { word.as_ref() });
        let output = Command::new(env!("CARGO_BIN_EXE_loxo")).args(words).output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    }

    fn of_layout_6() -> Self {
        let hosts = Self::new();
        for (id, server) in hosts.servers.iter().enumerate() {
            let rows = format!(
                "INSERT INTO loxo.node (id, name, type, host, port, is_primary) VALUES (0, 'dn0', 'D', 'h', 1, true), (1, 'dn1', 'D', 'h', 2, false);
                 INSERT INTO loxo.bucket_map SELECT 1, array_agg((b % 2)::int2 ORDER BY b) FROM generate_series(0, 4095) AS b;
                 INSERT INTO loxo.catalog_version (version) VALUES (1);
                 INSERT INTO loxo.seal (inner_key, outer_key) VALUES (sha512('inner'), sha512('outer'));
                 INSERT INTO loxo.capture_token (token) VALUES ('01234567-89ab-cdef-0123-456789abcdef');
                 INSERT INTO loxo.identity SELECT {id}, '00000000-0000-0000-0000-000000000001', 6, system_identifier FROM pg_control_system()"
            );
            let [metadata, schema] = LAYOUT_6;
            server.connect().unwrap().run(&format!("BEGIN; {metadata}; {schema}; {rows}; COMMIT")).unwrap();
        }
        hosts
    }

    /// Starts a gtm and a coordinator, and connects.
    fn serve(&self) -> (Daemons, Client) {
        let port = testkit::free_ports(&[0, 1]).unwrap();
        let file = self.dir.path().join("loxo.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        let listen = format!("[[coordinator]]\nname = \"coord1\"\nlisten = \"127.0.0.1:{port}\"\nauth = \"trust\"\n");
        std::fs::write(&file, text.replace("port = 1\n", &format!("port = {}\n{listen}", port + 1))).unwrap();
        let daemon =
            |what| Command::new(env!("CARGO_BIN_EXE_loxo")).arg(what).arg("--config").arg(&file).spawn().unwrap();
        let daemons = Daemons(vec![daemon("gtm"), daemon("coordinator")]);
        let deadline = Instant::now() + DONE_MAX;
        loop {
            if let Ok(client) = Client::connect(port) {
                return (daemons, client);
            }
            assert!(Instant::now() < deadline, "no coordinator");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// All of schema `loxo` and of what lies in pg_catalog.
    fn objects(&self, server: usize) -> String {
        let port = self.servers[server].port().to_string();
        let mut dump = Command::new(pg_program("pg_dump").unwrap());
        dump.args(["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "--schema-only", "--schema=loxo", "postgres"]);
        let output = dump.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // Newer versions of pg_dump put a random word into these.
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with("\\restrict") && !line.starts_with("\\unrestrict"));
        let views = "SELECT string_agg(concat_ws(' ', c.relname, pg_get_viewdef(c.oid), c.relacl, p.initprivs), ';' ORDER BY c.relname) \
                     FROM pg_class AS c LEFT JOIN pg_init_privs AS p ON p.objoid = c.oid \
                     WHERE c.relname LIKE 'pgxc%'";
        let views = self.servers[server].connect().unwrap().strings(views).unwrap();
        format!("{}\n{views:?}", lines.collect::<Vec<_>>().join("\n"))
    }
}

#[test]
fn metadata_of_an_earlier_version_become_as_if_made_by_this_one() {
    let (old, new) = (Hosts::of_layout_6(), Hosts::new());
    assert_eq!(new.init(&[]).0, Some(0));
    assert_ne!(old.objects(0), new.objects(0), "there is nothing to upgrade");
    let (status, text) = old.called_by_the_page("init");
    assert_eq!((status, text.contains("layout 6 were upgraded")), (Some(0), true), "{text}");
    // Nothing of the cluster runs here, which it says, and nothing else.
    let (_, text) = old.called_by_the_page("check");
    assert!(text.contains("gtm") && !text.contains("metadata"), "{text}");
    for server in 0..2 {
        similar(&old.objects(server), &new.objects(server));
        let mut client = old.servers[server].connect().unwrap();
        assert_eq!(client.strings("SELECT id FROM loxo.next_datanode").unwrap(), [["2"]]);
        assert_eq!(client.strings("SELECT count(*) FROM pg_prepared_xacts").unwrap(), [["0"]]);
    }
    let (status, text) = old.init(&["--upgrade"]);
    assert_eq!((status, text.as_str()), (Some(0), "the metadata are up to date\n"));
}

/// Tables with rows, as the version of layout 6 had placed them: by hash, in copies, and wherever they came.
#[test]
fn a_cluster_of_an_earlier_version_is_taken_over_and_grows() {
    let hosts = Hosts::of_layout_6();
    for (id, server) in hosts.servers.iter().enumerate() {
        let rows = "SELECT k, 'row ' || k FROM generate_series(1, 3000) AS k";
        let tables = format!(
            "CREATE TABLE h (k int PRIMARY KEY, v text); CREATE TABLE r (k int PRIMARY KEY, v text); CREATE TABLE n (k int, v text);
             INSERT INTO loxo.class (relid, locator, key_columns, map_id) VALUES ('h'::regclass, 'H', '{{1}}', 1);
             INSERT INTO loxo.class (relid, locator, nodes) VALUES ('r'::regclass, 'R', '{{0,1}}'), ('n'::regclass, 'N', '{{0,1}}');
             INSERT INTO h {rows} WHERE (hashint8extended(k, 0) & 4095) % 2 = {id};
             INSERT INTO r {rows}; INSERT INTO n {rows} WHERE k % 2 = {id};"
        );
        server.connect().unwrap().run(&format!("BEGIN; {tables} COMMIT")).unwrap();
    }
    let (status, text) = hosts.init(&["--upgrade"]);
    assert_eq!(status, Some(0), "{text}");
    let (_daemons, mut client) = hosts.serve();
    let sums = "SELECT count(*), sum(k), md5(string_agg(v, ',' ORDER BY k)) FROM ";
    let mut all = || ["h", "r", "n"].map(|table| client.strings(&format!("{sums}{table}")).unwrap().concat());
    let before = all();
    assert!(before.iter().all(|sums| sums == &before[0] && sums[0] == "3000"), "{before:?}");

    let third = Hosts::server();
    let (status, text) = hosts.loxo(&[
        "node",
        "add",
        "--name",
        "dn2",
        "--host",
        "127.0.0.1",
        "--port",
        &third.port().to_string(),
        "--rebalance",
    ]);
    assert_eq!(status, Some(0), "{text}");
    assert_eq!(all(), before);
    let moved: u32 = third.connect().unwrap().scalar("SELECT count(*) FROM h").unwrap().parse().unwrap();
    assert!((800..1200).contains(&moved), "{moved} of 3000 rows are on the third of three datanodes");
    let (status, text) = hosts.loxo(&["check", "--data"]);
    assert_eq!(status, Some(0), "{text}");
    client.run("UPDATE h SET v = v || '!' WHERE k = 17; DELETE FROM r WHERE k = 17").unwrap();
    assert_eq!(client.scalar("SELECT count(*) FROM h JOIN r USING (k)").unwrap(), "2999");
}

#[test]
fn what_is_newer_or_in_use_is_left_alone() {
    let hosts = Hosts::of_layout_6();
    let mut coordinator = hosts.servers[1].connect().unwrap();
    coordinator.run("SET application_name = 'loxo'").unwrap();
    let (status, text) = hosts.init(&["--upgrade"]);
    assert_eq!((status, text.contains("coordinators or gtms of the cluster run")), (Some(1), true), "{text}");
    assert_eq!(coordinator.strings("SELECT layout FROM loxo.identity").unwrap(), [["6"]]);
    coordinator.run("UPDATE loxo.identity SET layout = 1000").unwrap();
    let (status, text) = hosts.init(&["--upgrade"]);
    assert_eq!((status, text.contains("newer")), (Some(1), true), "{text}");
}

/// Says where they differ, if they do.
#[track_caller]
fn similar(a: &str, b: &str) {
    for (a, b) in a.lines().zip(b.lines()) {
        assert_eq!(a, b);
    }
    assert_eq!(a.lines().count(), b.lines().count());
}
