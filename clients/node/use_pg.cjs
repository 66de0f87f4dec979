// node-postgres: parameters, prepared statements, cursors, streams, pools, transactions.
const { Client, Pool } = require('pg');
const Cursor = require('pg-cursor');
const QueryStream = require('pg-query-stream');
const { attempt, uri } = require('./shown.cjs');

async function main() {
  const client = new Client({ connectionString: uri });
  await client.connect();
  const rows = async (sql, values) => (await client.query(sql, values)).rows;
  await client.query('CREATE TABLE account (id serial PRIMARY KEY, owner text NOT NULL, cents bigint, meta jsonb, at timestamptz DEFAULT now(), tags text[])');
  await client.query('CREATE TABLE entry (id int PRIMARY KEY, account int REFERENCES account, cents int)');
  await attempt('insert', async () => {
    for (let i = 0; i < 40; i++) await client.query('INSERT INTO account (owner, cents, meta, tags) VALUES ($1, $2, $3, $4)', [`o${i}`, i * 100, { i }, [`t${i}`, null]]);
    for (let i = 0; i < 120; i++) await client.query({ name: 'entry', text: 'INSERT INTO entry VALUES ($1, $2, $3)', values: [i, 1 + (i % 40), i] });
  });
  await attempt('rows', () => rows('SELECT id, owner, cents, meta, tags FROM account WHERE id = ANY($1) ORDER BY id', [[1, 2, 30]]));
  await attempt('arrays', async () => (await client.query({ text: 'SELECT owner, cents FROM account ORDER BY id LIMIT 3', rowMode: 'array' })).rows);
  await attempt('join', () => rows('SELECT owner, sum(e.cents) FROM account a JOIN entry e ON e.account = a.id GROUP BY 1 HAVING sum(e.cents) > $1 ORDER BY 2 DESC, 1 LIMIT 4', [100]));
  await attempt('fields', async () => (await client.query('SELECT a.id, b.cents AS c, a.meta FROM account a JOIN entry b ON b.id = a.id LIMIT 0')).fields.map((f) => [f.name, f.dataTypeID]));
  await attempt('several', async () => (await client.query('SELECT 1 AS a; SELECT count(*) FROM entry; UPDATE entry SET cents = cents')).map((r) => [r.command, r.rowCount]));
  await attempt('unique', () => rows('INSERT INTO entry VALUES (1, 1, 1)'));
  await attempt('foreign', () => rows('INSERT INTO entry VALUES (1000, 1000, 1)'));
  await attempt('not null', () => rows('INSERT INTO account (owner) VALUES ($1)', [null]));
  await attempt('type', () => rows('SELECT * FROM entry WHERE id = $1', ['x']));
  await attempt('transaction', async () => {
    await client.query('BEGIN');
    await client.query('UPDATE account SET cents = cents - 5 WHERE id = 1');
    await client.query('SAVEPOINT s');
    await client.query('UPDATE account SET cents = cents / 0').catch((e) => e);
    await client.query('ROLLBACK TO s');
    await client.query('UPDATE account SET cents = cents + 5 WHERE id = 2');
    await client.query('COMMIT');
    return rows('SELECT id, cents FROM account WHERE id < 4 ORDER BY id');
  });
  await attempt('cursor', async () => {
    const cursor = client.query(new Cursor('SELECT id, account FROM entry WHERE id >= $1 ORDER BY id', [5]));
    const got = [...(await cursor.read(3)), ...(await cursor.read(4))];
    await cursor.close();
    return got;
  });
  await attempt('cursor in a transaction', async () => {
    await client.query('BEGIN');
    const cursor = client.query(new Cursor('SELECT a.owner, e.id FROM account a JOIN entry e ON a.id = e.account ORDER BY e.id DESC'));
    const got = [...(await cursor.read(2)), ...(await cursor.read(200))].length;
    await cursor.close();
    await client.query('COMMIT');
    return [got];
  });
  await attempt('stream', async () => {
    const got = [];
    for await (const row of client.query(new QueryStream('SELECT id FROM entry ORDER BY id DESC', [], { batchSize: 7 }))) got.push(row.id);
    return [got];
  });
  await attempt('listen', async () => {
    const heard = new Promise((resolve) => client.once('notification', (m) => resolve([m.channel, m.payload])));
    await client.query('LISTEN news');
    const other = new Client({ connectionString: uri });
    await other.connect();
    await other.query("SELECT pg_notify('news', 'now')");
    await other.end();
    return heard;
  });
  await attempt('pool', async () => {
    const pool = new Pool({ connectionString: uri, max: 5 });
    const sums = await Promise.all([...Array(20).keys()].map(async (i) => (await pool.query('UPDATE entry SET cents = cents + 1 WHERE account = $1 RETURNING id', [i])).rowCount));
    await pool.end();
    return [sums];
  });
  await client.end();
}

main();
