// graphile-worker: its migrations, jobs with keys, queues and retries, a worker that runs them all.
const { makeWorkerUtils, runOnce, runMigrations } = require('graphile-worker');
const { Pool } = require('pg');
const { attempt, uri } = require('./shown.cjs');
const quiet = new (require('graphile-worker').Logger)(() => () => {});

async function main() {
  const pool = new Pool({ connectionString: uri, max: 6 });
  pool.on('error', () => {});
  const rows = async (sql) => (await pool.query(sql)).rows;
  await attempt('migrate', async () => void (await runMigrations({ pgPool: pool, logger: quiet })));
  const utils = await makeWorkerUtils({ pgPool: pool, logger: quiet });
  const done = [];
  await attempt('add', async () => {
    for (let i = 0; i < 10; i++) await utils.addJob('plain', { i });
    await utils.addJob('plain', { keyed: 1 }, { jobKey: 'k' });
    await utils.addJob('plain', { keyed: 2 }, { jobKey: 'k' });
    for (let i = 0; i < 4; i++) await utils.addJob('queued', { i }, { queueName: 'q' });
    await utils.addJob('fails', {}, { maxAttempts: 1 });
    await utils.addJob('later', {}, { runAt: new Date(Date.now() + 3600e3) });
  });
  await attempt('many', async () => (await utils.addJobs([{ identifier: 'plain', payload: { batch: 1 } }, { identifier: 'plain', payload: { batch: 2 }, priority: -5 }])).length);
  await attempt('by SQL', async () => (await rows("SELECT (graphile_worker.add_job('plain', json_build_object('sql', 1))).attempts")).length);
  await attempt('waiting', () => rows('SELECT task_identifier, count(*)::int, sum(attempts)::int AS a FROM graphile_worker.jobs GROUP BY 1 ORDER BY 1'));
  await attempt('run', async () => void (await runOnce({ pgPool: pool, logger: quiet, concurrency: 2, taskList: {
    plain: async (payload) => void done.push(`plain ${JSON.stringify(payload)}`),
    queued: async (payload) => void done.push(`queued ${payload.i}`),
    fails: async () => { throw new Error('on purpose'); },
    later: async () => void done.push('later'),
  } })));
  await attempt('done', () => done.sort());
  await attempt('left', () => rows('SELECT task_identifier, attempts, last_error LIKE \'%on purpose%\' AS failed FROM graphile_worker.jobs ORDER BY 1'));
  await attempt('remove', () => rows("SELECT count(*)::int FROM (SELECT graphile_worker.add_job('plain', '{}', job_key => 'gone')) a"));
  await attempt('removed', () => rows("SELECT (graphile_worker.remove_job('gone')).key"));
  await attempt('complete', async () => (await utils.completeJobs((await rows("SELECT id::text FROM graphile_worker.jobs WHERE task_identifier = 'later'")).map((r) => r.id))).length);
  await attempt('reschedule', async () => (await utils.rescheduleJobs((await rows("SELECT id::text FROM graphile_worker.jobs WHERE task_identifier = 'fails'")).map((r) => r.id), { attempts: 0, maxAttempts: 2 })).length);
  await attempt('clean', async () => void (await utils.cleanup()));
  await utils.release();
  await pool.end();
}

main();
