//! sqlx: pools, typed rows, described queries, transactions, migrations' advisory locks, COPY, listeners.

use futures_util::TryStreamExt;
use sqlx::postgres::{PgListener, PgPoolOptions, PgRow};
use sqlx::{Column, Connection, Executor, FromRow, PgPool, Row, Statement, TypeInfo};

#[derive(Debug, FromRow)]
struct Fish {
    id: i64,
    name: String,
    weight: Option<f64>,
    tags: Option<Vec<String>>,
}

#[derive(Debug, sqlx::Type, Clone, Copy)]
#[sqlx(type_name = "water", rename_all = "lowercase")]
enum Water {
    Salt,
    Sweet,
}

fn report<T: std::fmt::Debug>(label: &str, result: Result<Vec<T>, sqlx::Error>) {
    match result {
        Ok(rows) => {
            println!("{label}: {}", rows.len());
            rows.iter().for_each(|row| println!("    {row:?}"));
        }
        Err(sqlx::Error::Database(error)) => println!("{label}: ERROR {} {}", error.code().unwrap_or_default(), error.message()),
        Err(error) => println!("{label}: ERROR {error}"),
    }
}

async fn change(pool: &PgPool, sql: &str) -> Result<Vec<u64>, sqlx::Error> {
    Ok(vec![sqlx::query(sql).execute(pool).await?.rows_affected()])
}

#[tokio::main]
async fn main() -> Result<(), sqlx::Error> {
    let uri = std::env::args().next_back().unwrap_or_default();
    let pool = PgPoolOptions::new().max_connections(4).connect(&uri).await?;
    pool.execute("CREATE TYPE water AS ENUM ('salt', 'sweet'); CREATE TABLE fish (id bigserial PRIMARY KEY, name text UNIQUE NOT NULL, weight float8, tags text[], lives_in water)").await?;
    pool.execute("CREATE TABLE catch (fish bigint REFERENCES fish, day date, n int, PRIMARY KEY (fish, day))").await?;
    for i in 0..30_i32 {
        let water = if i % 2 == 0 { Water::Salt } else { Water::Sweet };
        let insert = sqlx::query("INSERT INTO fish (name, weight, tags, lives_in) VALUES ($1, $2, $3, $4) RETURNING id");
        let row = insert.bind(format!("f{i}")).bind(f64::from(i) / 4.0).bind(vec![format!("t{}", i % 3)]).bind(water).fetch_one(&pool).await?;
        assert_eq!(row.get::<i64, _>(0), i64::from(i) + 1);
    }
    report("many", change(&pool, "INSERT INTO catch SELECT id, date '2024-01-01' + g, g FROM fish, generate_series(1, 3) g").await);
    let all = "SELECT id, name, weight, tags FROM fish WHERE lives_in = $1 AND weight > $2 ORDER BY id";
    report("rows", sqlx::query_as::<_, Fish>(all).bind(Water::Sweet).bind(5.0).fetch_all(&pool).await);
    report("waters", sqlx::query_as::<_, (Water, i64)>("SELECT lives_in, sum(n) FROM fish JOIN catch ON fish = id GROUP BY 1 ORDER BY 1").fetch_all(&pool).await);
    report("water list", sqlx::query_scalar::<_, Vec<Water>>("SELECT array_agg(lives_in ORDER BY id) FROM fish WHERE id < 5").fetch_all(&pool).await);
    report("unnest", sqlx::query_scalar::<_, i64>("INSERT INTO fish (name, weight) SELECT * FROM unnest($1::text[], $2::float8[]) RETURNING id").bind(vec!["u1", "u2"]).bind(vec![1.5, 2.5]).fetch_all(&pool).await);
    report("unique", change(&pool, "INSERT INTO fish (name) VALUES ('f1')").await);
    report("foreign", change(&pool, "INSERT INTO catch VALUES (1000, '2024-01-01', 1)").await);
    report("missing", sqlx::query("SELECT * FROM nosuch").fetch_all(&pool).await.map(|rows: Vec<PgRow>| vec![rows.len()]));
    report("none", sqlx::query_scalar::<_, i64>("SELECT id FROM fish WHERE id = -1").fetch_one(&pool).await.map(|id| vec![id]));
    let described = pool.describe("SELECT id, name, weight, lives_in, count(*) OVER () AS c FROM fish WHERE id = $1").await?;
    report("described", Ok(described.columns().iter().map(|c| (c.name().to_owned(), c.type_info().name().to_owned())).collect()));
    println!("nullable {:?}", (0..5).map(|i| described.nullable(i)).collect::<Vec<_>>());
    let statement = pool.prepare("SELECT $1::int + n FROM catch").await?;
    println!("parameters {:?}", statement.parameters().map(|of| format!("{of:?}").len() > 0));
    let mut transaction = pool.begin().await?;
    sqlx::query("UPDATE catch SET n = n + 1").execute(&mut *transaction).await?;
    let mut nested = transaction.begin().await?;
    sqlx::query("DELETE FROM catch").execute(&mut *nested).await?;
    nested.rollback().await?;
    report("in it", sqlx::query_scalar::<_, i64>("SELECT sum(n) FROM catch").fetch_all(&mut *transaction).await);
    transaction.commit().await?;
    let mut dropped = pool.begin().await?;
    sqlx::query("DELETE FROM catch").execute(&mut *dropped).await?;
    drop(dropped);
    report("after it", sqlx::query_scalar::<_, i64>("SELECT count(*) FROM catch").fetch_all(&pool).await);
    let mut connection = pool.acquire().await?;
    report("lock", sqlx::query_scalar::<_, bool>("SELECT pg_try_advisory_lock($1)").bind(77_i64).fetch_all(&mut *connection).await);
    report("locked", sqlx::query_scalar::<_, bool>("SELECT pg_try_advisory_lock($1)").bind(77_i64).fetch_all(&pool).await);
    report("unlock", sqlx::query_scalar::<_, bool>("SELECT pg_advisory_unlock($1)").bind(77_i64).fetch_all(&mut *connection).await);
    let mut copy = connection.copy_in_raw("COPY catch FROM STDIN (FORMAT csv)").await?;
    copy.send("1,2030-01-01,5\n2,2030-01-01,6\n".as_bytes()).await?;
    report("copy in", copy.finish().await.map(|n| vec![n]));
    let out: Vec<_> = connection.copy_out_raw("COPY (SELECT * FROM catch WHERE day > '2029-01-01' ORDER BY fish) TO STDOUT").await?.try_collect().await?;
    report("copy out", Ok(out.iter().map(|chunk| String::from_utf8_lossy(chunk).into_owned()).collect()));
    report("stream", sqlx::query_scalar::<_, i64>("SELECT id FROM fish ORDER BY id DESC").fetch(&pool).try_collect::<Vec<_>>().await.map(|ids| vec![ids.len()]));
    pool.execute("ALTER TABLE fish ADD COLUMN more int DEFAULT 3").await?;
    report("altered", sqlx::query("SELECT * FROM fish WHERE id = 1").fetch_all(&pool).await.map(|rows: Vec<PgRow>| vec![rows[0].len()]));
    let mut listener = PgListener::connect(&uri).await?;
    listener.listen("river").await?;
    sqlx::query("SELECT pg_notify('river', $1)").bind("flows").execute(&pool).await?;
    let heard = tokio::time::timeout(std::time::Duration::from_secs(5), listener.recv()).await;
    println!("heard {:?}", heard.map(|heard| heard.map(|n| n.payload().to_owned()).ok()));
    connection.ping().await
}
