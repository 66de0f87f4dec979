// What all Node.js programs share: lines of results that do not depend on the server, and errors as lines.
const plain = (v) =>
  v instanceof Date ? v.toISOString() : Buffer.isBuffer(v) ? `\\x${v.toString('hex')}` : typeof v === 'bigint' ? `${v}n` : v;

const text = (v) => JSON.stringify(v, function (key, value) {
  return plain(this[key] instanceof Date ? this[key] : value);
});

function show(label, rows) {
  const list = Array.isArray(rows) ? rows : [rows];
  console.log(`${label}: ${list.length}`);
  for (const row of list) console.log(`    ${text(row)}`);
}

async function attempt(label, work) {
  try {
    const result = await work();
    if (result === undefined) console.log(`${label}: done`);
    else show(label, result);
  } catch (error) {
    let origin = error;
    while (!origin.severity && (origin.original || origin.driverError || origin.cause)) {
      origin = origin.original || origin.driverError || origin.cause;
    }
    console.log(`${label}: ERROR ${origin.code || origin.name} ${String(origin.message).split('\n')[0]}`);
    if (process.argv.includes('-v')) console.log(error.stack);
  }
}

module.exports = { attempt, show, uri: process.argv[process.argv.length - 1] };
