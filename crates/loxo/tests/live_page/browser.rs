//! Headless Chromium, told what to do by the DevTools protocol over a pair of pipes.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::TempDir;

/// For one answer; a first start of the browser takes seconds.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Debian's names, and others'.
fn program() -> Option<PathBuf> {
    let names = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).flat_map(|dir| names.map(|name| dir.join(name))).find(|file| file.exists())
}

/// A browser with one tab. It ends when the pipes do, so with this process at the latest.
pub struct Browser {
    child: Child,
    orders: File,
    answers: Receiver<Value>,
    last: u64,
    session: Option<String>,
    /// What its console said.
    pub said: Vec<String>,
    _dir: TempDir,
}

impl Browser {
    /// `None` where there is no browser.
    pub fn start(width: u32, height: u32) -> Option<Self> {
        let program = program()?;
        let dir = TempDir::new("browser").expect("a directory");
        let pipe = |name: &str| pipe(&dir.path().join(name));
        let (orders, heard) = (pipe("orders"), pipe("answers"));
        let child = Command::new("/bin/sh")
            .args(["-c", r#"cd "$0" && exec "$@" 3<orders 4>answers"#])
            .arg(dir.path())
            .arg(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"])
            .arg(format!("--window-size={width},{height}"))
            .arg(format!("--user-data-dir={}", dir.path().join("profile").display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a browser");
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let texts = BufReader::new(heard).split(0).map_while(Result::ok);
            // Ends with the process: the pipe is open at both ends here.
            let _ = texts.filter_map(|text| serde_json::from_slice(&text).ok()).try_for_each(|told| sender.send(told));
        });
        let mut browser = Self { child, orders, answers, last: 0, session: None, said: Vec::new(), _dir: dir };
        browser.open_tab();
        Some(browser)
    }

    fn open_tab(&mut self) {
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call("Target.attachToTarget", attached);
        self.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            self.call(domain, json!({}));
        }
    }

    /// One method of the protocol.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut order = json!({ "id": self.last, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            order["sessionId"] = json!(session);
        }
        self.orders.write_all(format!("{order}\0").as_bytes()).expect("the browser lives");
        loop {
            let mut told = self.answers.recv_timeout(ANSWER_MAX).unwrap_or_else(|error| panic!("{method}: {error}"));
            if told["id"] == self.last {
                assert!(told["error"].is_null(), "{method}: {told}");
                return told["result"].take();
            }
            let event = told["method"].as_str().unwrap_or_default();
            if ["Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"].contains(&event) {
                self.said.push(told.to_string());
            }
        }
    }

    pub fn open(&mut self, address: &str) {
        self.call("Page.navigate", json!({ "url": address }));
    }

    /// What an expression is in the tab.
    pub fn value(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut told = self.call("Runtime.evaluate", asked);
        assert!(told["exceptionDetails"].is_null(), "{expression}: {told}");
        told["result"]["value"].take()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub fn until(&mut self, expression: &str) {
        let began = Instant::now();
        while self.value(&format!("Boolean({expression})")) != json!(true) {
            let page = self.value("document.body.innerText");
            assert!(began.elapsed() < ANSWER_MAX, "{expression}: {page}; {:?}", self.said);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A picture of one part of the page, in base64.
    pub fn picture(&mut self, part: Value) -> String {
        let asked = json!({ "format": "png", "captureBeyondViewport": true, "clip": part });
        self.call("Page.captureScreenshot", asked)["data"].as_str().expect("a picture").to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Opened for both ways, so that neither side waits for the other one to open it.
fn pipe(path: &Path) -> File {
    let made = Command::new("mkfifo").arg(path).status().expect("mkfifo");
    assert!(made.success(), "{}", path.display());
    OpenOptions::new().read(true).write(true).open(path).expect("a pipe")
}
