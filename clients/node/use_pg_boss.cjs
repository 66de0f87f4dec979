// pg-boss: its schema with partitions, queues, fetching, completing, failing, schedules.
const PgBoss = require('pg-boss');
const { attempt, uri } = require('./shown.cjs');

async function main() {
  const boss = new PgBoss({ connectionString: uri, supervise: false, schedule: false, max: 3 });
  boss.on('error', (error) => console.log(`event: ${error.message}`));
  await attempt('start', async () => void (await boss.start()));
  await attempt('queues', async () => {
    await boss.createQueue('mail');
    await boss.createQueue('short', { name: 'short', policy: 'short' });
    await boss.createQueue('dead');
    await boss.createQueue('tries', { name: 'tries', retryLimit: 1, deadLetter: 'dead' });
    return (await boss.getQueues()).map((q) => [q.name, q.policy]).sort();
  });
  await attempt('send', async () => { for (let i = 0; i < 12; i++) await boss.send('mail', { i }, { priority: i % 3 }); return [await boss.getQueueSize('mail')]; });
  await attempt('short', async () => [(await boss.send('short', {})) !== null, await boss.send('short', {})]);
  await attempt('singleton', async () => [(await boss.send('mail', {}, { singletonKey: 'one', singletonSeconds: 60 })) !== null, await boss.send('mail', {}, { singletonKey: 'one', singletonSeconds: 60 })]);
  await attempt('insert', async () => void (await boss.insert([{ name: 'mail', data: { many: 1 } }, { name: 'mail', data: { many: 2 } }])));
  await attempt('fetch', async () => { const jobs = await boss.fetch('mail', { batchSize: 4, includeMetadata: true }); await boss.complete('mail', jobs.map((j) => j.id)); return jobs.map((j) => JSON.stringify([j.data, j.priority, j.state])).sort(); });
  await attempt('fail', async () => { await boss.send('tries', { bad: true }); for (let i = 0; i < 2; i++) { const [job] = await boss.fetch('tries'); await boss.fail('tries', job.id, { because: 'so' }); } const [dead] = await boss.fetch('dead'); return [dead.data]; });
  await attempt('work', () => new Promise((resolve, reject) => { const seen = []; boss.work('mail', { batchSize: 20, pollingIntervalSeconds: 0.5 }, async (jobs) => { seen.push(...jobs.map((j) => JSON.stringify(j.data))); resolve(seen.sort()); }).catch(reject); setTimeout(() => reject(new Error('no job came')), 20000); }));
  await attempt('cancel', async () => { const id = await boss.send('mail', { c: 1 }); await boss.cancel('mail', id); const a = (await boss.getJobById('mail', id)).state; await boss.resume('mail', id); return [a, (await boss.getJobById('mail', id)).state]; });
  await attempt('schedule', async () => { await boss.schedule('mail', '0 3 * * *', { nightly: 1 }); return (await boss.getSchedules()).map((s) => [s.name, s.cron]); });
  await attempt('publish', async () => { await boss.subscribe('event', 'dead'); await boss.publish('event', { e: 1 }); return [await boss.getQueueSize('dead')]; });
  await attempt('maintain', async () => void (await boss.maintain()));
  await attempt('delete', async () => { await boss.purgeQueue('mail'); await boss.deleteQueue('short'); return (await boss.getQueues()).length; });
  await attempt('stop', async () => void (await boss.stop({ graceful: false, wait: true })));
  process.exit(0);
}

main();
