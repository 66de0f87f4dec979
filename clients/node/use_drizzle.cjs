// Drizzle: queries, relations, prepared statements, transactions.
const { drizzle } = require('drizzle-orm/node-postgres');
const { relations, eq, gt, sql, desc, asc, count, inArray } = require('drizzle-orm');
const pg = require('drizzle-orm/pg-core');
const { Pool } = require('pg');
const { attempt, uri } = require('./shown.cjs');

const team = pg.pgTable('team', { id: pg.serial('id').primaryKey(), name: pg.text('name').notNull().unique(), founded: pg.date('founded') });
const player = pg.pgTable('player', { id: pg.integer('id').primaryKey(), team: pg.integer('team').references(() => team.id), name: pg.varchar('name', { length: 40 }), goals: pg.bigint('goals', { mode: 'number' }).default(0), stats: pg.jsonb('stats') });
const teamRelations = relations(team, ({ many }) => ({ players: many(player) }));
const playerRelations = relations(player, ({ one }) => ({ of: one(team, { fields: [player.team], references: [team.id] }) }));

async function main() {
  const pool = new Pool({ connectionString: uri, max: 3 });
  const db = drizzle(pool, { schema: { team, player, teamRelations, playerRelations } });
  await attempt('tables', async () => {
    await db.execute(sql`CREATE TABLE team (id serial PRIMARY KEY, name text NOT NULL, founded date)`);
    await db.execute(sql`CREATE TABLE player (id int PRIMARY KEY, team int, name varchar(40), goals bigint DEFAULT 0, stats jsonb)`);
    await db.execute(sql`ALTER TABLE team ADD CONSTRAINT team_name_unique UNIQUE (name)`);
    await db.execute(sql`ALTER TABLE player ADD CONSTRAINT player_team_fk FOREIGN KEY (team) REFERENCES team (id)`);
  });
  await attempt('insert', () => db.insert(team).values([...Array(8).keys()].map((i) => ({ name: `t${i}`, founded: '1990-01-01' }))).returning());
  await attempt('players', async () => void (await db.insert(player).values([...Array(60).keys()].map((i) => ({ id: i, team: 1 + (i % 8), name: `p${i}`, goals: i % 11, stats: { i } })))));
  await attempt('select', () => db.select().from(player).where(gt(player.goals, 8)).orderBy(asc(player.id)));
  await attempt('join', () => db.select({ team: team.name, goals: sql`sum(${player.goals})::int` }).from(player).innerJoin(team, eq(team.id, player.team)).groupBy(team.name).orderBy(desc(sql`2`), team.name));
  await attempt('relations', () => db.query.team.findMany({ with: { players: { columns: { name: true }, orderBy: (p, { asc }) => asc(p.id), limit: 2 } }, orderBy: (t, { asc }) => asc(t.id), limit: 3 }));
  await attempt('first', () => db.query.player.findFirst({ where: eq(player.id, 9), with: { of: true } }));
  await attempt('prepared', async () => { const p = db.select({ n: count() }).from(player).where(eq(player.team, sql.placeholder('t'))).prepare('by_team'); return [await p.execute({ t: 1 }), await p.execute({ t: 4 })]; });
  await attempt('upsert', () => db.insert(team).values({ name: 't1', founded: '2000-02-02' }).onConflictDoUpdate({ target: team.name, set: { founded: sql`excluded.founded` } }).returning());
  await attempt('update', () => db.update(player).set({ goals: sql`${player.goals} + 1` }).where(inArray(player.id, [1, 2, 3])).returning({ id: player.id, goals: player.goals }).then((r) => r.sort((a, b) => a.id - b.id)));
  await attempt('transaction', () => db.transaction(async (tx) => {
    await tx.delete(player).where(eq(player.team, 2));
    await tx.transaction(async (nested) => { await nested.delete(player); nested.rollback(); }).catch(() => {});
    return tx.select({ n: count() }).from(player);
  }, { isolationLevel: 'repeatable read' }));
  await attempt('with', () => { const best = db.$with('best').as(db.select({ t: player.team, m: sql`max(${player.goals})`.as('m') }).from(player).groupBy(player.team)); return db.with(best).select().from(best).orderBy(best.t); });
  await attempt('unique', () => db.insert(team).values({ name: 't1' }));
  await attempt('foreign', () => db.insert(player).values({ id: 1000, team: 99 }));
  await pool.end();
}

main();
