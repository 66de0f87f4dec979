//! tokio-postgres: typed parameters, pipelined queries, portals, COPY both ways, types of the user's own, notices.

use futures_util::{SinkExt, StreamExt, TryStreamExt, future};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, NoTls, Row, SimpleQueryMessage};

fn report<T: std::fmt::Debug>(label: &str, result: Result<Vec<T>, Error>) {
    match result {
        Ok(rows) => {
            println!("{label}: {}", rows.len());
            rows.iter().for_each(|row| println!("    {row:?}"));
        }
        Err(error) => match error.as_db_error() {
            Some(of) => println!("{label}: ERROR {} {}", of.code().code(), of.message()),
            None => println!("{label}: ERROR {error}"),
        },
    }
}

fn pair(row: &Row) -> (i32, Option<String>) {
    (row.get(0), row.get(1))
}

async fn pairs(client: &Client, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<(i32, Option<String>)>, Error> {
    Ok(client.query(sql, values).await?.iter().map(pair).collect())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let uri = std::env::args().next_back().unwrap_or_default();
    let (mut client, connection) = tokio_postgres::connect(&uri, NoTls).await?;
    tokio::spawn(connection);
    client
        .batch_execute(
            "CREATE TYPE shade AS ENUM ('light', 'dark'); CREATE DOMAIN small AS int CHECK (VALUE < 100);
             CREATE TYPE spot AS (x int, s shade);
             CREATE TABLE wood (id int PRIMARY KEY, name text, shade shade, n small, spots spot[]);
             CREATE TABLE plank (id int PRIMARY KEY, wood int REFERENCES wood, cm int8)",
        )
        .await?;
    let insert = client.prepare("INSERT INTO wood (id, name, n) VALUES ($1, $2, $3::int)").await?;
    println!("types {:?}", insert.params().iter().map(Type::name).collect::<Vec<_>>());
    for id in 0..40_i32 {
        client.execute(&insert, &[&id, &format!("w{id}"), &id]).await?;
    }
    report("update", client.execute("UPDATE wood SET shade = 'dark', spots = ARRAY[ROW(id, 'light')::spot] WHERE id < 10", &[]).await.map(|n| vec![n]));
    let planks = client.prepare_typed("INSERT INTO plank VALUES ($1, $2, $3)", &[Type::INT4, Type::INT4, Type::INT8]).await?;
    let rows: Vec<(i32, i32, i64)> = (0..100).map(|id| (id, id % 40, i64::from(id) * 3)).collect();
    let sent = rows.iter().map(async |(id, wood, cm)| client.execute(&planks, &[id, wood, cm]).await);
    report("pipelined", future::try_join_all(sent).await.map(|done| vec![done.len()]));
    report("rows", pairs(&client, "SELECT id, name FROM wood WHERE id = ANY ($1) ORDER BY id", &[&vec![3, 1, 2]]).await);
    let join = "SELECT count(*)::int, w.name FROM wood w JOIN plank p ON p.wood = w.id GROUP BY w.name HAVING sum(cm) > $1::int8 ORDER BY sum(cm) DESC, 2 LIMIT 5";
    report("join", pairs(&client, join, &[&100_i64]).await);
    report("enum", pairs(&client, "SELECT id, shade::text FROM wood WHERE shade = $1::text::shade ORDER BY id", &[&"dark"]).await);
    let described = client.prepare("SELECT id, shade, n, spots, sum(n) OVER () FROM wood").await;
    report("described", described.map(|statement| statement.columns().iter().map(|c| format!("{} {}", c.name(), c.type_())).collect()));
    report("unique", client.execute("INSERT INTO wood (id) VALUES (1)", &[]).await.map(|n| vec![n]));
    report("foreign", client.execute("INSERT INTO plank VALUES (500, 500, 1)", &[]).await.map(|n| vec![n]));
    report("check", client.execute("INSERT INTO wood (id, n) VALUES (500, 500)", &[]).await.map(|n| vec![n]));
    report("syntax", pairs(&client, "SELEC", &[]).await);
    let simple = client.simple_query("SELECT 1 AS a; SELECT count(*) FROM plank; DELETE FROM plank WHERE id = 99").await;
    report("simple", simple.map(|messages| {
        let shown = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("NULL").to_owned()),
            SimpleQueryMessage::CommandComplete(n) => Some(format!("{n} rows")),
            _ => None,
        });
        shown.collect()
    }));
    let transaction = client.transaction().await?;
    let portal = transaction.bind("SELECT id, name FROM wood ORDER BY id DESC", &[]).await?;
    let other = transaction.bind("SELECT p.id, w.name FROM wood w JOIN plank p ON p.wood = w.id ORDER BY p.id", &[]).await?;
    for _ in 0..3 {
        report("portal", transaction.query_portal(&portal, 2).await.map(|rows| rows.iter().map(pair).collect()));
        report("other portal", transaction.query_portal(&other, 3).await.map(|rows| rows.iter().map(pair).collect()));
        transaction.execute("UPDATE plank SET cm = cm + 1 WHERE id = 5", &[]).await?;
    }
    transaction.rollback().await?;
    let mut transaction = client.transaction().await?;
    let nested = transaction.savepoint("inner").await?;
    nested.execute("DELETE FROM plank", &[]).await?;
    nested.rollback().await?;
    report("nested", pairs(transaction.client(), "SELECT count(*)::int, max(name) FROM plank JOIN wood ON wood = wood.id", &[]).await);
    transaction.commit().await?;
    let sink = client.copy_in::<_, &[u8]>("COPY plank FROM STDIN").await?;
    futures_util::pin_mut!(sink);
    for chunk in ["200\t1\t7\n201\t2", "\t8\n202\t3\t9\n"] {
        sink.send(chunk.as_bytes()).await?;
    }
    report("copy in", sink.finish().await.map(|n| vec![n]));
    let out = client.copy_out("COPY (SELECT * FROM plank WHERE id >= 200 ORDER BY id) TO STDOUT").await?;
    let chunks: Vec<_> = out.try_collect().await?;
    report("copy out", Ok(chunks.iter().map(|chunk| String::from_utf8_lossy(chunk).into_owned()).collect()));
    let wrong = client.copy_in::<_, &[u8]>("COPY plank FROM STDIN").await?;
    futures_util::pin_mut!(wrong);
    wrong.send(b"x\t1\t7\n".as_slice()).await?;
    report("wrong copy", wrong.finish().await.map(|n| vec![n]));
    let stream = client.query_raw("SELECT id, name FROM wood WHERE id > $1 ORDER BY id", [35_i32]).await?;
    let mut stream = std::pin::pin!(stream);
    while let Some(row) = stream.next().await {
        println!("stream {:?}", pair(&row?));
    }
    let token = client.cancel_token();
    let (slept, cancelled) = tokio::join!(client.execute("SELECT pg_sleep(20)", &[]), async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        token.cancel_query(NoTls).await
    });
    report("cancelled", slept.map(|n| vec![n]));
    println!("cancel {}", cancelled.is_ok());
    Ok(())
}
