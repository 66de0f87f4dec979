//! The log of a server process: to stderr, as text or as one JSON object a line; how much can be changed while it runs, and a file
//! that stderr leads to can be moved away.

use std::fmt::{self, Debug, Write as _};
use std::path::{Path, PathBuf};

use cluster::{Log, LogFormat};
use pgerror::{PgError, Result, SqlState};
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{FmtSpan, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Says how much is logged, whatever the configuration says.
const VARIABLE: &str = "LOXO_LOG";

/// Changes how much is logged, and where.
pub struct Control {
    change: Box<Reload>,
    /// Where stderr led to at the start, if that is a file.
    file: Option<PathBuf>,
}

type Reload = dyn Fn(EnvFilter) -> std::result::Result<(), tracing_subscriber::reload::Error> + Send + Sync;

/// Begins to log.
pub fn to_stderr(options: &Log) -> Result<Control> {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(&options.level)?)
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(std::io::stderr)
        .with_ansi(false);
    let change: Box<Reload> = match options.format {
        LogFormat::Text => {
            let builder = builder.with_timer(Stamp).with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            Box::new(move |filter| handle.reload(filter))
        }
        LogFormat::Json => {
            let builder = builder.event_format(Json).with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            Box::new(move |filter| handle.reload(filter))
        }
    };
    let file = std::fs::read_link("/proc/self/fd/2").ok().filter(|path| path.is_file());
    Ok(Control { change, file })
}

impl Control {
    /// As much as this configuration says now.
    pub fn reload(&self, path: &Path) -> Result<()> {
        let filter = filter(&cluster::Config::load(path)?.log.level)?;
        (self.change)(filter).map_err(|error| PgError::internal(error.to_string()))
    }

    /// Goes on in a new file of the name that the old one had at the start. False if the log goes to no file.
    pub fn reopen(&self) -> Result<bool> {
        let Some(path) = &self.file else { return Ok(false) };
        cluster::redirect_output(path)?;
        Ok(true)
    }
}

fn filter(level: &str) -> Result<EnvFilter> {
    if let Ok(filter) = EnvFilter::try_from_env(VARIABLE) {
        return Ok(filter);
    }
    EnvFilter::try_new(level).map_err(|error| {
        PgError::new(SqlState::CONFIG_FILE_ERROR, format!("\"{level}\" does not say how much is to be logged: {error}"))
            .hint("Levels by module: \"info,coordinator=debug\".")
    })
}

/// Time, and in a session of a coordinator the id of the statement.
struct Stamp;

impl FormatTime for Stamp {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        SystemTime.format_time(writer)?;
        ::coordinator::query_id().map_or(Ok(()), |id| write!(writer, " {id}"))
    }
}

/// One object a line.
struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut line = Map::new();
        let mut put = |name: &str, value: String| line.insert(name.to_owned(), Value::String(value));
        put("time", time);
        put("level", event.metadata().level().to_string());
        put("target", event.metadata().target().to_owned());
        if let Some(id) = ::coordinator::query_id() {
            put("query_id", id);
        }
        let spans: Vec<&str> = context.event_scope().into_iter().flatten().map(|span| span.name()).collect();
        if !spans.is_empty() {
            put("within", spans.join("<"));
        }
        event.record(&mut Fields(&mut line));
        writeln!(writer, "{}", Value::Object(line))
    }
}

/// The fields of an event.
struct Fields<'l>(&'l mut Map<String, Value>);

impl Fields<'_> {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        // Writing into a String fails only if the value's own formatting does.
        let _ = write!(text, "{value:?}");
        self.put(field, text);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }
}
