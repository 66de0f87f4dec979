//! Parquet files among the sources: which columns their rows are for.

use parquet_rows::Column;
use pgerror::{PgError, Result, SqlState};
use pgproto::Connection;

use crate::files::input::Source;
use crate::options::{Copy, LoadOptions, literal};
use crate::server::sql::{identifier, text};

/// The columns of the files; `None` if they are no Parquet files.
pub(crate) fn columns(sources: &[Source], copy: &Copy) -> Result<Option<Vec<Column>>> {
    let Some(first) = sources.iter().find_map(|source| source.group.as_ref()) else { return Ok(None) };
    if *copy != Copy::default() {
        return Err(PgError::unsupported("an option of COPY with Parquet files")
            .hint("A Parquet file says itself what it holds; --columns names other columns for it."));
    }
    let names = |columns: &[Column]| columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>();
    let expected = names(&first.columns);
    for source in sources {
        match &source.group {
            None => {
                let message = "Parquet files and others in one load";
                return Err(PgError::unsupported(message).hint(format!("Load \"{}\" separately.", source.name)));
            }
            Some(group) if names(&group.columns) != expected => {
                let message = format!("\"{}\" has other columns than the files before it", source.name);
                return Err(PgError::new(SqlState::INVALID_PARAMETER_VALUE, message).hint("Load it separately."));
            }
            Some(_) => {}
        }
    }
    Ok(Some(first.columns.to_vec()))
}

/// The table's columns of these names, quoted; where there is none of the very name, the one in small letters.
pub(crate) async fn named(
    connection: &mut Connection,
    options: &LoadOptions,
    columns: &[Column],
) -> Result<Vec<String>> {
    let sql = format!(
        "SELECT attname FROM pg_catalog.pg_attribute \
         WHERE attrelid OPERATOR(pg_catalog.=) {}::pg_catalog.regclass AND attnum OPERATOR(pg_catalog.>) 0 AND NOT attisdropped",
        literal(&options.table)
    );
    let rows = connection.query_rows(&sql).await?;
    let of_table: Vec<String> = rows.iter().map(|row| text(row, 0)).collect::<Result<_>>()?;
    let one = |column: &Column| {
        let folded = column.name.to_lowercase();
        let found = [&column.name, &folded].into_iter().find(|name| of_table.contains(name));
        found.map(|name| identifier(name)).ok_or_else(|| {
            let message = format!("column \"{}\" of the Parquet file is not one of \"{}\"", column.name, options.table);
            PgError::new(SqlState::UNDEFINED_COLUMN, message)
                .hint("--columns names the columns for those of the file, in its order.")
        })
    };
    columns.iter().map(one).collect()
}
