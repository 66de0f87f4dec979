// Knex: schema builder, query builder, transactions, migrations.
const { attempt, uri } = require('./shown.cjs');
const knex = require('knex')({ client: 'pg', connection: uri, pool: { min: 1, max: 4 } });

const migrations = [
  { name: 'one', up: (k) => k.schema.createTable('stock', (t) => { t.increments(); t.string('sku').notNullable(); t.integer('n').defaultTo(0); t.jsonb('info'); t.timestamps(true, true); }), down: (k) => k.schema.dropTable('stock') },
  { name: 'two', up: (k) => k.schema.alterTable('stock', (t) => { t.unique(['sku']); t.decimal('price', 10, 2).index(); }), down: (k) => k.schema.alterTable('stock', (t) => { t.dropUnique(['sku']); t.dropColumn('price'); }) },
  { name: 'three', up: (k) => k.schema.createTable('move', (t) => { t.bigIncrements(); t.integer('stock_id').references('stock.id').onDelete('CASCADE'); t.string('sku').references('stock.sku'); t.enu('kind', ['in', 'out']); t.integer('n'); }), down: (k) => k.schema.dropTable('move') },
];
const migrationSource = { getMigrations: async () => migrations, getMigrationName: (m) => m.name, getMigration: async (m) => m };

async function main() {
  await attempt('migrate', async () => (await knex.migrate.latest({ migrationSource }))[1]);
  await attempt('insert', () => knex('stock').insert([...Array(40).keys()].map((i) => ({ sku: `s${i}`, n: i, price: i / 4, info: { i } }))).returning(['id', 'sku']));
  await attempt('moves', async () => void (await knex.batchInsert('move', [...Array(100).keys()].map((i) => ({ stock_id: 1 + (i % 40), sku: `s${i % 40}`, kind: i % 3 ? 'in' : 'out', n: i })), 30)));
  await attempt('select', () => knex('stock').where('n', '>', 30).whereIn('sku', ['s31', 's35', 's2']).orderBy('id').select('id', 'sku', 'price'));
  await attempt('join', () => knex('stock as s').join('move as m', 'm.stock_id', 's.id').groupBy('s.sku').orderBy('s.sku').limit(5).select('s.sku').sum('m.n as total').count('* as c'));
  await attempt('cte', () => knex.with('big', knex('move').where('n', '>', 60).select('stock_id')).from('big').count('* as c').first());
  await attempt('json', () => knex('stock').whereJsonPath('info', '$.i', '=', 7).select('sku'));
  await attempt('upsert', () => knex('stock').insert({ sku: 's1', n: 500 }).onConflict('sku').merge(['n']).returning(['sku', 'n']));
  await attempt('ignore', () => knex('stock').insert({ sku: 's1', n: 5 }).onConflict('sku').ignore().returning('sku'));
  await attempt('window', () => knex('move').select('id', 'n').rank('r', 'n', 'kind').orderBy([{ column: 'id' }]).limit(4));
  await attempt('union', () => knex('stock').select('sku').where('n', '<', 2).union(knex('move').select('sku').where('n', 99)).orderBy('sku'));
  await attempt('transaction', () => knex.transaction(async (trx) => {
    await trx('stock').where({ sku: 's2' }).increment('n', 10);
    await trx.transaction(async (nested) => { await nested('stock').del(); throw new Error('no'); }).catch(() => {});
    return trx('stock').where({ sku: 's2' }).forUpdate().select('n');
  }));
  await attempt('unique', () => knex('stock').insert({ sku: 's1' }));
  await attempt('foreign', () => knex('move').insert({ sku: 'none' }));
  await attempt('delete', async () => [await knex('stock').where('id', '<', 4).del()]);
  await attempt('stream', async () => { const got = []; for await (const r of knex('move').select('id').orderBy('id').stream()) got.push(r.id); return [got.length, got[0]]; });
  await attempt('columns', async () => Object.entries(await knex('stock').columnInfo()).map(([n, c]) => [n, c.type, c.nullable]));
  await attempt('has', async () => [await knex.schema.hasTable('stock'), await knex.schema.hasColumn('stock', 'nope')]);
  await attempt('rollback', async () => (await knex.migrate.rollback({ migrationSource }, true))[1]);
  await knex.destroy();
}

main();
