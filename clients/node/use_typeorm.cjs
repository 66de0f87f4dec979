// TypeORM: entities by schema, synchronize, repositories, relations, query builder, transactions, migrations.
require('reflect-metadata');
const { DataSource, EntitySchema, In, MoreThan } = require('typeorm');
const { attempt, uri } = require('./shown.cjs');

const Author = new EntitySchema({ name: 'Author', columns: { id: { type: Number, primary: true, generated: true }, name: { type: 'varchar', length: 50, unique: true }, born: { type: 'date', nullable: true }, kind: { type: 'enum', enum: ['poet', 'critic'], default: 'poet' }, made: { type: 'timestamptz', createDate: true }, version: { type: Number, version: true } }, relations: { books: { type: 'one-to-many', target: 'Book', inverseSide: 'author' } } });
const Book = new EntitySchema({ name: 'Book', columns: { id: { type: 'uuid', primary: true, generated: 'uuid' }, title: { type: 'text' }, price: { type: 'numeric', precision: 8, scale: 2, default: 0 }, meta: { type: 'jsonb', nullable: true }, tags: { type: 'text', array: true, default: () => "'{}'" } }, relations: { author: { type: 'many-to-one', target: 'Author', onDelete: 'CASCADE', inverseSide: 'books' }, shops: { type: 'many-to-many', target: 'Shop', joinTable: true } }, indices: [{ columns: ['title'] }], uniques: [{ columns: ['title', 'author'] }] });
const Shop = new EntitySchema({ name: 'Shop', columns: { code: { type: 'varchar', primary: true }, parent: { type: 'varchar', nullable: true } } });

async function main() {
  const db = new DataSource({ type: 'postgres', url: uri, entities: [Author, Book, Shop], logging: process.argv.includes('-v'), installExtensions: false, uuidExtension: 'pgcrypto' });
  await attempt('initialize', async () => void (await db.initialize()));
  await attempt('synchronize', async () => void (await db.synchronize(true)));
  await attempt('again', async () => (await db.driver.createSchemaBuilder().log()).upQueries.map((q) => q.query));
  const [authors, books, shops] = [Author, Book, Shop].map((e) => db.getRepository(e));
  await attempt('save', async () => (await authors.save([...Array(20).keys()].map((i) => ({ name: `a${i}`, born: '1980-01-0' + (1 + (i % 9)) })))).map((a) => [a.id, a.name, a.version]));
  await attempt('shops', async () => void (await shops.save([{ code: 'x' }, { code: 'y', parent: 'x' }])));
  await attempt('books', async () => (await books.save([...Array(30).keys()].map((i) => ({ title: `b${i}`, price: i / 2, author: { id: 1 + (i % 20) }, shops: i % 3 ? [{ code: 'x' }] : [], meta: { i }, tags: ['q'] })))).length);
  await attempt('find', async () => (await authors.find({ where: { id: In([1, 2, 3]) }, relations: { books: true }, order: { id: 'ASC', books: { title: 'ASC' } } })).map((a) => [a.name, a.kind, a.books.map((b) => [b.title, b.price])]));
  await attempt('take', async () => (await books.findAndCount({ where: { price: MoreThan(5) }, relations: { author: true, shops: true }, order: { title: 'ASC' }, take: 3, skip: 1 })).map((x) => (Array.isArray(x) ? x.map((b) => [b.title, b.author.name, b.shops.length]) : x)));
  await attempt('builder', () => db.createQueryBuilder(Book, 'b').innerJoin('b.author', 'a').select('a.name', 'name').addSelect('sum(b.price)', 'total').groupBy('a.name').orderBy('total', 'DESC').addOrderBy('a.name').limit(5).getRawMany());
  await attempt('subquery', () => db.createQueryBuilder(Author, 'a').where((q) => 'a.id IN ' + q.subQuery().select('b.authorId').from(Book, 'b').where('b.price > :p', { p: 10 }).getQuery()).orderBy('a.id').getMany().then((l) => l.map((a) => a.name)));
  await attempt('update', async () => { const a = await authors.findOneBy({ name: 'a3' }); a.kind = 'critic'; const s = await authors.save(a); return [s.kind, s.version]; });
  await attempt('upsert', async () => void (await authors.upsert([{ name: 'a4', kind: 'critic' }, { name: 'new' }], ['name'])));
  await attempt('duplicate', () => authors.insert({ name: 'a1' }));
  await attempt('transaction', () => db.transaction(async (m) => {
    await m.increment(Book, { title: 'b1' }, 'price', 5);
    const locked = await m.findOne(Author, { where: { id: 2 }, lock: { mode: 'pessimistic_write' } });
    await m.delete(Author, { name: 'a9' });
    return [locked.name, await m.count(Book)];
  }));
  await attempt('rollback', () => db.transaction('SERIALIZABLE', async (m) => { await m.clear(Book).catch((e) => { throw e; }); throw new Error('back'); }));
  await attempt('count', async () => [await books.count(), await authors.count(), await books.sum('price'), await books.average('price')]);
  await attempt('tree', () => db.query('WITH RECURSIVE t AS (SELECT code, 1 AS d FROM shop WHERE parent IS NULL UNION ALL SELECT s.code, d + 1 FROM shop s JOIN t ON s.parent = t.code) SELECT * FROM t ORDER BY d'));
  await attempt('stream', async () => { const stream = await db.createQueryBuilder(Book, 'b').select('b.title').orderBy('b.title').stream(); const got = []; for await (const r of stream) got.push(r.b_title); return [got.length, got[0]]; });
  await attempt('tables', async () => { const r = db.createQueryRunner(); const t = await r.getTables(['author', 'book', 'shop', 'book_shops_shop']); await r.release(); return t.map((x) => [x.name, x.columns.map((c) => [c.name, c.type, c.isNullable, c.isPrimary, c.isGenerated].join(' ')).sort(), x.uniques.length, x.indices.length, x.foreignKeys.length]).sort(); });
  await attempt('drop', async () => void (await db.dropDatabase()));
  await db.destroy();
}

main();
