//! What a coordinator counts, and the page of it.

use std::sync::Arc;

use metrics::{ByLabel, Counter, Page, Source};

use super::Shared;

pub(crate) static LOGINS: Counter = Counter::new();
pub(crate) static REFUSED_LOGINS: ByLabel = ByLabel::new();
pub(crate) static ERRORS: ByLabel = ByLabel::new();
pub(crate) static KNOWN_TEXTS: Counter = Counter::new();
pub(crate) static NEW_TEXTS: Counter = Counter::new();

/// The figures of a coordinator and its health.
pub struct Figures(pub(crate) Arc<Shared>);

impl Source for Figures {
    fn page(&self) -> String {
        let (shared, mut page) = (&self.0, Page::default());
        page.gauge("loxo_clients", "Clients that are connected.", shared.admission().clients());
        page.counter("loxo_logins_total", "Clients that were let in.", LOGINS.get());
        page.by_label("loxo_logins_refused_total", "Clients that were not.", "sqlstate", &REFUSED_LOGINS);
        let held = "Logins that were delayed or refused since others had failed.";
        page.by_label("loxo_logins_held_total", held, "how", &super::failed_logins::HELD_LOGINS);
        page.by_label("loxo_errors_total", "Errors that clients were told.", "sqlstate", &ERRORS);
        let texts = [("hit", KNOWN_TEXTS.get()), ("miss", NEW_TEXTS.get())];
        page.counters("loxo_texts_total", "Texts of statements, parsed before or not.", "cache", texts);
        shared.context().figures(&mut page);
        txn::figures::of_coordinator(&mut page);
        page.text()
    }

    fn health(&self) -> Result<String, String> {
        match (*self.0.stopping().borrow(), self.0.context().has_gtm()) {
            (true, _) => Err("stopping".to_owned()),
            (false, false) => Err("the gtm is not heard of".to_owned()),
            (false, true) => Ok("ok".to_owned()),
        }
    }
}
