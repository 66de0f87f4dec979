//! What is packaged fits the tree and the program: packaging/, `[package.metadata.deb]`, docs/operate/install.md. No server runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::TempDir;

const MANIFEST: &str = include_str!("../Cargo.toml");
const PAGE: &str = include_str!("../../../docs/operate/install.md");
const UPGRADE: &str = include_str!("../../../docs/operate/upgrade.md");
const COMPOSE: &str = include_str!("../../../packaging/container/compose.yaml");
const CONFIGURATION: &str = include_str!("../../../packaging/loxo.toml");
const IN_CONTAINERS: &str = include_str!("../../../packaging/container/loxo.toml");
const KUBERNETES: &str = include_str!("../../../packaging/kubernetes/loxo.yaml");

/// Where the package puts the configuration.
const INSTALLED: &str = "/etc/loxo/loxo.toml";

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// From where, to where, of the lines of `assets`.
fn assets() -> Vec<(&'static str, &'static str)> {
    let metadata = MANIFEST.split("[package.metadata.deb]").nth(1).expect("metadata of a package");
    let assets = metadata.split("assets = [").nth(1).expect("assets").lines().skip(1);
    let lines = assets.take_while(|line| !line.starts_with(']')).map(|line| line.split('"').collect::<Vec<_>>());
    lines.map(|parts| (parts[1], parts[3])).collect()
}

/// The files behind a path of the manifest, whose last part may be `*` and an ending.
fn files(path: &str) -> Vec<PathBuf> {
    let path = here().join(path);
    let (dir, name) = (path.parent().expect("a directory"), path.file_name().and_then(|name| name.to_str()));
    let name = name.expect("a name");
    let Some(ending) = name.strip_prefix('*') else { return vec![path] };
    let entries = std::fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let all = entries.map(|entry| entry.expect("an entry").path());
    all.filter(|file| file.to_str().is_some_and(|file| file.ends_with(ending))).collect()
}

/// The units, each with its `ExecStart=`.
fn units() -> Vec<(PathBuf, String)> {
    let start = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a unit");
        let start = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a program").to_owned();
        (path, start)
    };
    files("../../packaging/systemd/*.service").into_iter().map(start).collect()
}

/// A command line that the program understands, as far as a configuration file that is not there lets it.
#[track_caller]
fn is_understood(words: &[&str]) {
    let words: Vec<&str> =
        words.iter().map(|word| if *word == INSTALLED { "/nowhere/loxo.toml" } else { word }).collect();
    assert!(words.contains(&"/nowhere/loxo.toml"), "{words:?} has another configuration");
    let output = Command::new(env!("CARGO_BIN_EXE_loxo")).args(&words).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("could not read"), "{words:?}: {said}");
}

#[test]
fn the_package_has_what_it_names() {
    for (from, _) in assets().into_iter().filter(|(from, _)| !from.starts_with("target/")) {
        let found = files(from);
        assert!(!found.is_empty() && found.iter().all(|file| file.is_file()), "{from}: {found:?}");
    }
    let value = |key: &str| {
        let line = MANIFEST.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("no {key}"));
        line.split('"').nth(1).expect("a value")
    };
    assert!(here().join(value("license-file")).is_file());
    assert_eq!(value("conf-files"), INSTALLED);
    assert!(assets().contains(&("../../packaging/loxo.toml", "etc/loxo/")), "{:?}", assets());
    for script in ["postinst", "prerm", "postrm"] {
        let path = here().join(value("maintainer-scripts")).join(script);
        assert!(Command::new("sh").arg("-n").arg(&path).status().expect("a shell").success(), "{}", path.display());
    }
}

#[test]
fn units_containers_and_the_page_call_the_program_as_it_is() {
    let units = units();
    assert_eq!(units.len(), 2, "{units:?}");
    for (_, start) in &units {
        let arguments = start.strip_prefix("/usr/bin/loxo ").expect("the package's program").replace("%i", "coord1");
        is_understood(&arguments.split(' ').collect::<Vec<_>>());
    }

    let lists = COMPOSE.lines().filter_map(|line| line.trim().strip_prefix("command: [")?.strip_suffix(']'));
    let lists: Vec<Vec<&str>> = lists.map(|list| list.split(", ").collect()).collect();
    let lists: Vec<_> = lists.iter().filter(|words| words[0] != "postgres").collect();
    assert_eq!(lists.len(), 2, "{lists:?}");
    lists.into_iter().for_each(|words| is_understood(words));

    let fenced = PAGE.split("```").skip(1).step_by(2).flat_map(str::lines);
    let lines: Vec<&str> = fenced.chain(COMPOSE.lines()).filter(|line| line.contains("--config /etc")).collect();
    let calls: Vec<&str> = lines.iter().filter_map(|line| Some(line.rsplit_once("loxo ")?.1)).collect();
    assert_eq!(calls.len(), 4, "{lines:?}");
    calls.into_iter().for_each(|call| is_understood(&call.split(' ').collect::<Vec<_>>()));
}

/// The configuration in the manifests.
fn in_kubernetes() -> String {
    let block =
        KUBERNETES.lines().skip_while(|line| *line != "  loxo.toml: |").skip(1).take_while(|line| *line != "---");
    block.map(|line| line.trim_start().to_owned() + "\n").collect()
}

#[test]
fn the_manifests_call_the_program_as_it_is() {
    let config = in_kubernetes();
    for kind in ["coordinator", "datanode"] {
        let hosts = config.lines().filter(|line| line.contains(&format!("\"loxo-{kind}-"))).count();
        let set = KUBERNETES
            .split("\nkind: StatefulSet\n")
            .skip(1)
            .find(|set| set.contains(&format!("\n  name: loxo-{kind}\n")));
        let set = set.unwrap_or_else(|| panic!("no set of {kind}s"));
        assert!(set.contains(&format!("\n  replicas: {hosts}\n")), "{kind}: {set}");
    }
    is_understood(&["gtm", "--config", INSTALLED]);
    is_understood(&["coordinator", "--config", INSTALLED, "--name", "coord0"]);
    is_understood(&["init", "--config", INSTALLED]);
    for call in ["args: [gtm, --config, /etc/loxo/loxo.toml]", "loxo init --config /etc/loxo/loxo.toml"] {
        assert!(KUBERNETES.contains(call), "{call}");
    }
    assert!(KUBERNETES.contains("loxo coordinator --config /etc/loxo/loxo.toml --name \"coord${HOSTNAME##*-}\""));
}

#[test]
fn the_examples_are_configurations() {
    let with_certificates = |text: &str| text.replace("[gtm]", "tls_directory = \"tls\"\n[gtm]");
    let in_kubernetes = with_certificates(&in_kubernetes()).replace("coord0", "coord2");
    for text in [CONFIGURATION.to_owned(), with_certificates(IN_CONTAINERS), in_kubernetes] {
        let dir = TempDir::new("packaging").unwrap();
        let config = dir.write("loxo.toml", text.as_bytes()).unwrap();
        let mut loxo = Command::new(env!("CARGO_BIN_EXE_loxo"));
        let output = loxo.args(["init", "--certificates", "--config"]).arg(config).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for name in ["gtm", "coord1"] {
            assert!(dir.path().join("tls").join(name).with_extension("crt").is_file(), "{name}");
        }
    }
    // The services that the pages start and stop are units, and in the example.
    for command in ["stop", "start"] {
        let services = UPGRADE.lines().filter_map(|line| line.strip_prefix(&format!("systemctl {command} loxo-")));
        let mut services: Vec<&str> = services.collect();
        services.sort_unstable();
        assert_eq!(services, ["coordinator@coord1", "gtm@gtm"], "{command}");
    }
    let services: Vec<(&str, &str)> =
        PAGE.lines().filter_map(|line| line.strip_prefix("systemctl enable --now ")?.split_once('@')).collect();
    assert_eq!(services, [("loxo-gtm", "gtm"), ("loxo-coordinator", "coord1")]);
    for (unit, name) in services {
        assert!(units().iter().any(|(path, _)| path.ends_with(format!("{unit}@.service"))), "{unit}");
        assert!(CONFIGURATION.contains(&format!("systemctl enable --now {unit}@{name}\n")), "{name}");
    }
}
