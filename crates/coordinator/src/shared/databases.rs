//! The databases of the cluster that clients of this coordinator use: what is known of each, from the first session in it until it is
//! dropped, or was not used for a while: each costs some connections to the datanodes and one to the gtm. Whether there is one of a
//! name is asked of the first database, which is always there, and only when none is known.
//!
//! A coordinator that could not be told of a drop, and meets another database of the same name, finds that its nodes are not those it
//! knows; it forgets what it knew, and the next session begins with the new one.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use executor::Context;
use pgerror::{PgError, Result, SqlState};
use tokio::task::JoinHandle;
use txn::Database;

/// A database without sessions at two looks in a row is left.
const UNUSED_LOOK: Duration = Duration::from_secs(150);

/// See the module's page.
pub(crate) struct Databases {
    coordinator: Arc<str>,
    first: Arc<Context>,
    others: Mutex<HashMap<String, Served>>,
    /// One at a time asks for a database that is not known.
    asking: tokio::sync::Mutex<()>,
}

struct Served {
    database: Database,
    context: Arc<Context>,
    rebalance: JoinHandle<()>,
}

impl Served {
    /// Has no session: sessions hold the context, as its place in here and the work on a rebalance do.
    fn is_unused(&self) -> bool {
        Arc::strong_count(&self.context) <= 2
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.rebalance.abort();
    }
}

impl Databases {
    pub(super) fn new(coordinator: Arc<str>, first: Arc<Context>) -> Arc<Self> {
        let this = Arc::new(Self { coordinator, first, others: Mutex::default(), asking: Default::default() });
        let databases = Arc::downgrade(&this);
        this.first.on_leave(move |name| databases.upgrade().into_iter().for_each(|databases| databases.leave(name)));
        this
    }

    pub(crate) fn first(&self) -> &Arc<Context> {
        &self.first
    }

    /// The context of the database of this name.
    ///
    /// # Errors
    /// 3D000 if there is none, 55000 if it is a template.
    pub(crate) async fn of_name(&self, name: &str) -> Result<Arc<Context>> {
        if name == self.first.service().database {
            return Ok(self.first.clone());
        }
        if let Some(context) = self.known(name) {
            return Ok(context);
        }
        let _one_at_a_time = self.asking.lock().await;
        if let Some(context) = self.known(name) {
            return Ok(context);
        }
        let Some(database) = self.first.find_database(name).await? else {
            return Err(self.refusal(name).await?);
        };
        let context = Arc::new(Context::in_database(&self.first, &self.coordinator, &database));
        let rebalance = tokio::spawn(executor::rebalance_when_wanted(context.clone()));
        let served = Served { database: database.clone(), context: context.clone(), rebalance };
        self.others().insert(name.to_owned(), served);
        // Somebody may have asked everyone to leave it since.
        if self.first.find_database(name).await? != Some(database) {
            self.leave(name);
            return Err(none(name));
        }
        Ok(context)
    }

    /// Why it is not served. Templates are on the datanodes alone.
    async fn refusal(&self, name: &str) -> Result<PgError> {
        let sql = format!(
            "SELECT 1 FROM pg_catalog.pg_database WHERE datname = {} AND (datistemplate OR NOT datallowconn)",
            catalog::quote_literal(name)
        );
        let found = self.first.query_as_service(self.first.home(), &sql).await?;
        Ok(match found.is_empty() {
            true => none(name),
            false => executor::closed_to_clients(name),
        })
    }

    /// Is what is known by this name not what there is?
    pub(crate) async fn has_changed(&self, name: &str) -> Result<bool> {
        let known = self.others().get(name).map(|served| served.database.clone());
        Ok(name != self.first.service().database && self.first.find_database(name).await? != known)
    }

    /// Leaves those that nobody uses, for ever.
    pub(crate) async fn leave_unused(self: Arc<Self>) {
        let mut before = HashSet::new();
        loop {
            tokio::time::sleep(UNUSED_LOOK).await;
            let mut others = self.others();
            let unused = others.iter().filter(|(_, served)| served.is_unused()).map(|(name, _)| name.clone());
            let mut unused: HashSet<String> = unused.collect();
            for name in unused.extract_if(|name| before.contains(name)) {
                if let Some(served) = others.remove(&name) {
                    self.first.leave(&served.database);
                }
            }
            before = unused;
        }
    }

    /// Sessions that use it go on for as long as they can.
    pub(crate) fn leave(&self, name: &str) {
        if let Some(served) = self.others().remove(name) {
            self.first.leave(&served.database);
        }
    }

    fn known(&self, name: &str) -> Option<Arc<Context>> {
        self.others().get(name).map(|served| served.context.clone())
    }

    fn others(&self) -> MutexGuard<'_, HashMap<String, Served>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn none(name: &str) -> PgError {
    PgError::fatal(SqlState::INVALID_CATALOG_NAME, format!("database \"{name}\" does not exist"))
}
