// Kysely: typed queries, settings by set_config() beside other expressions, migrations, introspection, streaming.
const { Kysely, PostgresDialect, sql, Migrator } = require('kysely');
const { Pool } = require('pg');
const Cursor = require('pg-cursor');
const { attempt, uri } = require('./shown.cjs');

async function main() {
  const db = new Kysely({ dialect: new PostgresDialect({ pool: new Pool({ connectionString: uri, max: 3 }), cursor: Cursor }) });
  const provider = { getMigrations: async () => ({
    a: { up: (k) => k.schema.createTable('person').addColumn('id', 'serial', (c) => c.primaryKey()).addColumn('first', 'varchar(50)', (c) => c.notNull()).addColumn('age', 'int4').addColumn('tenant', 'text').execute() },
    b: { up: async (k) => {
      await k.schema.createTable('pet').addColumn('id', 'int8', (c) => c.generatedAlwaysAsIdentity().primaryKey()).addColumn('owner', 'int4', (c) => c.references('person.id').onDelete('cascade')).addColumn('name', 'text', (c) => c.unique()).execute();
      await k.schema.createIndex('pet_owner').on('pet').column('owner').execute();
    } },
    c: { up: (k) => k.schema.alterTable('person').addUniqueConstraint('first_tenant', ['first', 'tenant']).execute() },
  }) };
  await attempt('migrate', async () => {
    const { error, results } = await new Migrator({ db, provider }).migrateToLatest();
    if (error) throw error;
    return results.map((r) => [r.migrationName, r.status]);
  });
  await attempt('insert', () => db.insertInto('person').values([...Array(30).keys()].map((i) => ({ first: `f${i}`, age: i, tenant: `t${i % 3}` }))).returningAll().execute());
  await attempt('pets', async () => void (await db.insertInto('pet').values([...Array(50).keys()].map((i) => ({ owner: 1 + (i % 30), name: `p${i}` }))).execute()));
  await attempt('join', () => db.selectFrom('person').innerJoin('pet', 'pet.owner', 'person.id').select(['first', 'name']).where('age', '>', 25).orderBy('name').execute());
  await attempt('group', () => db.selectFrom('person').leftJoin('pet', 'pet.owner', 'person.id').select((e) => ['tenant', e.fn.count('pet.id').as('n'), e.fn.max('age').as('oldest')]).groupBy('tenant').orderBy('tenant').execute());
  await attempt('lateral', () => db.selectFrom('person').select((e) => ['first', e.selectFrom('pet').select((x) => x.fn.countAll().as('c')).whereRef('pet.owner', '=', 'person.id').as('pets')]).orderBy('id').limit(4).execute());
  await attempt('settings', () => sql`select set_config('app.tenant', ${'t1'}, false) as a, set_config('app.user', ${'7'}, false) as b, ${1}::int as c`.execute(db).then((r) => r.rows));
  await attempt('settings in a transaction', () => db.transaction().execute(async (trx) => {
    await sql`select set_config('app.tenant', ${'t2'}, true), 'x' || ${'y'}::text as more`.execute(trx);
    return trx.selectFrom('person').select('first').where('tenant', '=', sql`current_setting('app.tenant')`).orderBy('id').limit(3).execute();
  }));
  await attempt('setting of a row', () => sql`select first, set_config('app.first', first, true) as s from person where id = ${3}`.execute(db).then((r) => r.rows));
  await attempt('upsert', () => db.insertInto('person').values({ first: 'f1', tenant: 't1', age: 99 }).onConflict((c) => c.columns(['first', 'tenant']).doUpdateSet((e) => ({ age: e.ref('excluded.age') }))).returning(['first', 'age']).execute());
  await attempt('update from', () => db.updateTable('pet').from('person').set({ name: sql`pet.name || '-' || person.first` }).whereRef('pet.owner', '=', 'person.id').where('age', '<', 2).returning(['pet.id', 'name']).execute().then((r) => r.sort((a, b) => a.id - b.id)));
  await attempt('delete using', () => db.deleteFrom('pet').using('person').whereRef('pet.owner', '=', 'person.id').where('age', '=', 29).executeTakeFirst().then((r) => [r.numDeletedRows]));
  await attempt('merge', () => db.mergeInto('person').using('pet', 'pet.owner', 'person.id').whenMatchedAnd('pet.id', '=', 5).thenUpdateSet({ age: 0 }).executeTakeFirst().then((r) => [r.numChangedRows]));
  await attempt('with', () => db.with('old', (q) => q.selectFrom('person').where('age', '>', 20).select('id')).with('gone', (q) => q.deleteFrom('pet').where('owner', 'in', q.selectFrom('old').select('id')).returning('pet.id')).selectFrom('gone').select((e) => e.fn.countAll().as('n')).execute());
  await attempt('stream', async () => { const got = []; for await (const r of db.selectFrom('pet').select('id').orderBy('id').stream(5)) got.push(r.id); return [got.length]; });
  await attempt('unique', () => db.insertInto('pet').values({ name: 'p3' }).execute());
  await attempt('tables', async () => (await db.introspection.getTables()).filter((t) => t.schema === 'public').map((t) => [t.name, t.isView, t.columns.map((c) => [c.name, c.dataType, c.isNullable, c.hasDefaultValue])]).sort());
  await attempt('savepoint', async () => {
    const trx = await db.startTransaction().execute();
    await trx.deleteFrom('pet').execute();
    const sp = await trx.savepoint('s').execute();
    await sp.deleteFrom('person').execute();
    await sp.rollbackToSavepoint('s').execute();
    const n = await trx.selectFrom('person').select((e) => e.fn.countAll().as('n')).execute();
    await trx.rollback().execute();
    return n;
  });
  await db.destroy();
}

main();
