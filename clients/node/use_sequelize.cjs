// Sequelize: models with associations, CRUD, eager loading, upserts, transactions, introspection, sync({ alter }).
const { Sequelize, DataTypes, Op, QueryTypes } = require('sequelize');
const { attempt, uri } = require('./shown.cjs');

async function main() {
  const db = new Sequelize(uri, { logging: process.argv.includes('-v') ? console.log : false, pool: { max: 3 } });
  const user = db.define('User', {
    name: { type: DataTypes.STRING(40), allowNull: false, unique: true },
    mood: DataTypes.ENUM('happy', 'sad'),
    data: DataTypes.JSONB,
    tags: DataTypes.ARRAY(DataTypes.TEXT),
  }, { timestamps: true, paranoid: true });
  const post = db.define('Post', { title: DataTypes.TEXT, score: DataTypes.INTEGER, code: { type: DataTypes.UUID, defaultValue: DataTypes.UUIDV4 } }, { timestamps: false, indexes: [{ fields: ['score'] }, { unique: true, fields: ['title', 'UserId'] }] });
  const tag = db.define('Tag', { word: { type: DataTypes.STRING, primaryKey: true } }, { timestamps: false });
  user.hasMany(post);
  post.belongsTo(user);
  post.belongsToMany(tag, { through: 'PostTag', timestamps: false });
  tag.belongsToMany(post, { through: 'PostTag', timestamps: false });
  const bare = (list, ...names) => list.map((row) => names.map((n) => row.get(n)));

  await attempt('sync', async () => void (await db.sync({ force: true })));
  await attempt('create', async () => {
    const u = await user.create({ name: 'ann', mood: 'happy', data: { a: 1 }, tags: ['x', 'y'] });
    return [u.id, u.name, u.tags];
  });
  await attempt('bulk', async () => bare(await user.bulkCreate([...Array(30).keys()].map((i) => ({ name: `u${i}`, mood: i % 2 ? 'sad' : 'happy' }))), 'id', 'name'));
  await attempt('posts', async () => (await post.bulkCreate([...Array(60).keys()].map((i) => ({ title: `t${i}`, score: i % 7, UserId: 1 + (i % 20) })))).length);
  await attempt('duplicate', () => user.create({ name: 'ann' }));
  await attempt('find', async () => bare(await user.findAll({ where: { name: { [Op.like]: 'u1%' }, mood: 'sad' }, order: ['id'] }), 'id', 'name'));
  await attempt('include', async () => (await user.findAll({ include: [{ model: post, where: { score: { [Op.gt]: 4 } }, required: false }], where: { id: { [Op.lt]: 6 } }, order: ['id', [post, 'id']] })).map((u) => [u.name, u.Posts.map((p) => p.title)]));
  await attempt('count', async () => user.findAndCountAll({ limit: 3, offset: 2, order: ['name'], include: [post], distinct: true }).then((r) => [r.count, r.rows.map((u) => u.name)]));
  await attempt('group', async () => post.findAll({ attributes: ['score', [db.fn('count', db.col('id')), 'n']], group: 'score', order: ['score'], raw: true }));
  await attempt('find or create', async () => {
    const [u, made] = await user.findOrCreate({ where: { name: 'bob' }, defaults: { mood: 'sad' } });
    const [v, again] = await user.findOrCreate({ where: { name: 'bob' } });
    return [made, again, u.id === v.id];
  });
  await attempt('find or create in a transaction', async () => db.transaction(async (transaction) => {
    const [, made] = await user.findOrCreate({ where: { name: 'carl' }, transaction });
    return [made];
  }));
  await attempt('upsert', async () => {
    const [u] = await user.upsert({ name: 'ann', mood: 'sad' }, { conflictFields: ['name'] });
    return [u.name, u.mood];
  });
  await attempt('increment', async () => bare((await post.findOne({ where: { title: 't1' } }).then(async (p) => [await (await p.increment('score', { by: 3 })).reload()])), 'score'));
  await attempt('update', async () => [(await post.update({ score: 100 }, { where: { UserId: 3 }, returning: true }))[0]]);
  await attempt('destroy', async () => [await user.destroy({ where: { id: 5 } }), await user.count(), await user.count({ paranoid: false })]);
  await attempt('restore', async () => void (await user.restore({ where: { id: 5 } })));
  await attempt('tags', async () => {
    await tag.bulkCreate([{ word: 'red' }, { word: 'blue' }]);
    const p = await post.findOne({ where: { title: 't2' } });
    await p.addTags(['red', 'blue']);
    await p.removeTag('red');
    return (await p.getTags()).map((t) => t.word);
  });
  await attempt('transaction', async () => db.transaction(async (transaction) => {
    const all = await post.findAll({ where: { score: { [Op.gte]: 0 } }, order: [['score', 'DESC'], 'id'], limit: 3, transaction, lock: transaction.LOCK.UPDATE });
    await post.update({ score: 0 }, { where: { UserId: 2 }, transaction });
    await user.create({ name: 'tx' }, { transaction });
    return all.map((p) => p.title);
  }));
  await attempt('rollback', () => db.transaction(async (transaction) => {
    await user.create({ name: 'never' }, { transaction });
    throw new Error('taken back');
  }));
  await attempt('raw', () => db.query('SELECT "mood", count(*)::int AS n FROM "Users" WHERE id > :low GROUP BY 1 ORDER BY 1', { replacements: { low: 3 }, type: QueryTypes.SELECT }));
  await attempt('bound', () => db.query('SELECT count(*)::int AS n FROM "Posts" p JOIN "Users" u ON u.id = p."UserId" WHERE u.name <> $1', { bind: ['ann'], type: QueryTypes.SELECT }));
  await attempt('tables', async () => (await db.getQueryInterface().showAllTables()).map((t) => t.tableName || t).sort());
  await attempt('described', async () => Object.entries(await db.getQueryInterface().describeTable('Users')).map(([n, c]) => [n, c.type, c.allowNull, c.special]));
  await attempt('indexes', async () => (await db.getQueryInterface().showIndex('Posts')).map((i) => [i.name, i.unique, i.fields.map((f) => f.attribute)]));
  await attempt('alter', async () => {
    db.define('User2', { name: DataTypes.STRING(80), email: { type: DataTypes.STRING, unique: true } }, { tableName: 'Users', timestamps: false });
    await db.getQueryInterface().addColumn('Posts', 'slug', { type: DataTypes.STRING, unique: true });
    await db.getQueryInterface().changeColumn('Posts', 'title', { type: DataTypes.STRING(200) });
    await db.getQueryInterface().renameColumn('Posts', 'score', 'points');
    return (await db.query('SELECT sum(points)::int AS s FROM "Posts"', { type: QueryTypes.SELECT }));
  });
  await attempt('altered', async () => void (await db.sync({ alter: true })));
  await attempt('dropped', async () => void (await db.drop()));
  await db.close();
}

main();
