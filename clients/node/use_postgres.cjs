// postgres.js: pipelined queries, tagged templates, cursors, COPY, nested transactions.
const { attempt, uri } = require('./shown.cjs');
const sql = require('postgres')(uri, { max: 4, onnotice: () => {} });

async function main() {
  await sql`CREATE TABLE city (id int PRIMARY KEY, name text, people int, spot point, flags int[])`;
  await attempt('insert', () => sql`INSERT INTO city ${sql([...Array(50).keys()].map((i) => ({ id: i, name: `c${i}`, people: i * 10, flags: [i, i + 1] })))} RETURNING id`.then((r) => [r.count]));
  await attempt('select', () => sql`SELECT * FROM city WHERE id IN ${sql([3, 1, 2])} ORDER BY id`);
  await attempt('pipelined', () => Promise.all([...Array(30).keys()].map((i) => sql`SELECT name, (SELECT count(*)::int FROM city WHERE people > ${i * 10}) AS n FROM city WHERE id = ${i}`.then((r) => r[0]))));
  await attempt('cursor', async () => { const got = []; for await (const rows of sql`SELECT id FROM city ORDER BY id`.cursor(9)) got.push(rows.map((r) => r.id)); return got; });
  await attempt('array', () => sql`SELECT id FROM city WHERE id = ANY(${[4, 5]}) ORDER BY 1`);
  await attempt('begin', () => sql.begin(async (tx) => {
    await tx`UPDATE city SET people = people + 1`;
    await tx.savepoint(async (s) => { await s`DELETE FROM city`; throw new Error('no'); }).catch(() => {});
    return tx`SELECT sum(people)::int AS s, count(*)::int AS n FROM city`;
  }));
  await attempt('error', () => sql`INSERT INTO city (id) VALUES (1)`);
  await attempt('described', () => sql`SELECT id, name, people FROM city WHERE id = ${1}`.describe().then((d) => [d.types, d.columns.map((c) => [c.name, c.type])]));
  await attempt('copy in', async () => {
    const out = await sql`COPY city (id, name) FROM STDIN`.writable();
    await new Promise((resolve, reject) => { out.on('error', reject); out.on('finish', resolve); for (let i = 100; i < 140; i++) out.write(`${i}\tnew ${i}\n`); out.end(); });
    return sql`SELECT count(*)::int AS n FROM city WHERE name LIKE 'new%'`;
  });
  await attempt('copy out', async () => { let text = ''; for await (const chunk of await sql`COPY (SELECT id, name FROM city WHERE id > 135 ORDER BY id) TO STDOUT`.readable()) text += chunk; return text.split('\n'); });
  await attempt('notify', async () => { let heard; const promise = new Promise((r) => (heard = r)); await sql.listen('ch', heard); await sql.notify('ch', 'hello'); return [await promise]; });
  await attempt('multiple', () => sql`SELECT 1 AS a; SELECT 2 AS b`.simple());
  await sql.end();
}

main();
