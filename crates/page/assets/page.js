// What the page knows, and what it asks for.

const POINTS = 180;
const state = { token: null, paused: false, timer: null, asking: false, round: 0, kept: 0, polls: null, last: null, rates: new Map(), plans: new Map(), copies: new Map() };
const by = (id) => document.getElementById(id);
const number = (text) => (text === null || text === undefined ? null : Number(text));

async function request(path, body, signal) {
  const { token } = state;
  const options = { headers: {}, credentials: "same-origin", cache: "no-store", signal };
  if (token) options.headers["x-loxo-token"] = token;
  if (body !== undefined) {
    options.method = "POST";
    options.headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const response = await fetch(path, options);
  const told = await response.json().catch(() => ({ error: { message: response.statusText } }));
  if (response.ok) return told;
  // An answer to a session before is none to this one.
  if (token === state.token && (response.status === 401 || (response.status === 403 && token))) leave();
  const { code, message, detail, hint } = told.error ?? {};
  throw new Error([code ? `${message} (${code})` : message, detail, hint].filter(Boolean).join("\n"));
}

// One that nobody could read before the next answer stays for some seconds.
function problem(error, seconds = 0) {
  state.kept = performance.now() + 1000 * seconds;
  by("problem").hidden = !error;
  by("problem").textContent = error ? error.message : "";
}

// Logging in and out. The token lives as long as the tab.
function enter(told) {
  Object.assign(state, { token: told.token, polls: new AbortController() });
  sessionStorage.setItem("loxo", JSON.stringify(told));
  by("who").textContent = `${told.user} in ${told.database}` + (told.sees_all ? "" : ", sees its own statements only");
  by("login").hidden = true;
  for (const id of ["live", "pause", "logout"]) by(id).hidden = false;
  problem(null);
  tick();
}

function leave() {
  state.token = null;
  sessionStorage.removeItem("loxo");
  Object.assign(state, { last: null, rates: new Map(), plans: new Map(), copies: new Map() });
  by("login").hidden = false;
  for (const id of ["live", "pause", "logout"]) by(id).hidden = true;
  by("who").textContent = by("health").textContent = "";
}

by("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = event.target.querySelector("button");
  button.disabled = true;
  try {
    enter(await request("/api/login", { user: by("user").value, password: by("password").value, database: by("database").value }));
    by("password").value = "";
  } catch (error) {
    problem(error);
  } finally {
    button.disabled = false;
  }
});

by("logout").addEventListener("click", async () => {
  const left = request("/api/logout", {});
  // Nothing else is asked, and no answer that is on its way is shown.
  state.token = null;
  state.polls.abort();
  try { await left; } catch (error) { problem(error); }
  leave();
});

by("pause").addEventListener("click", () => {
  state.paused = !state.paused;
  by("pause").textContent = state.paused ? "Go on" : "Pause";
  by("pause").setAttribute("aria-pressed", String(state.paused));
  tick();
});
document.addEventListener("visibilitychange", tick);
by("idle").addEventListener("change", () => state.last && sessions(state.last));

// Asks once a second while somebody looks, never twice at a time.
async function tick() {
  clearTimeout(state.timer);
  if (!state.token || state.paused || document.hidden || state.asking) return;
  state.asking = true;
  const begun = performance.now();
  try {
    const { signal } = state.polls;
    const now = await request("/api/now", undefined, signal);
    draw(now, begun);
    if (state.round++ % 5 === 0) {
      drawMap(await request("/api/map", undefined, signal));
      slow((await request("/api/slow", undefined, signal)).slow);
    }
    if (performance.now() > state.kept) problem(null);
  } catch (error) {
    if (error.name !== "AbortError") problem(error);
  } finally {
    state.asking = false;
  }
  state.timer = setTimeout(tick, Math.max(100, 1000 - (performance.now() - begun)));
}

// Figures are Prometheus' text: name{label="value"} number.
function figures(text, name, label) {
  const found = new Map();
  for (const line of text.split("\n")) {
    if (!line.startsWith(name) || !"{ ".includes(line[name.length])) continue;
    const of = label ? line.match(new RegExp(`${label}="([^"]*)"`))?.[1] : "";
    if (of !== undefined) found.set(of, (found.get(of) ?? 0) + Number(line.slice(line.lastIndexOf(" "))));
  }
  return found;
}

// A total that only grows, as one more point of its rate: over three seconds, for statistics and rows of a COPY come in batches.
function point(series, name, total, at) {
  const one = series.get(name) ?? { seen: [], values: [] };
  const before = one.seen.at(-1)?.total ?? null;
  const most = total === null ? before : Math.max(before ?? total, total);
  const from = one.seen[0];
  const rate = from && total !== null ? (most - from.total) / ((at - from.at) / 1000) : null;
  one.values = [...one.values, rate].slice(-POINTS);
  if (most !== null) one.seen = [...one.seen, { at, total: most }].slice(-3);
  series.set(name, one);
}

const drawn = (series) => [...series].map(([name, one]) => ({ name, values: one.values }));

function draw(now, at) {
  state.last = now;
  by("health").textContent = now.health.ok ? "serves" : now.health.text;
  by("health").className = now.health.ok ? "good" : "bad";
  const failed = ["nodes", "sessions", "copies", "upkeep"].filter((part) => now[part].error);
  if (failed.length) by("health").textContent += " – " + now[failed[0]].error.message;
  if (failed.length) by("health").className = "bad";
  if (now.nodes.rows) nodes(now, at);
  plans(now, at);
  if (now.sessions.rows) sessions(now);
  if (now.copies.rows) copies(now, at);
  if (now.upkeep.rows) upkeep(now.upkeep.rows);
  const errors = [...figures(now.figures, "loxo_errors_total", "sqlstate")].sort((a, b) => b[1] - a[1]).slice(0, 12);
  show("errors", table([["SQLSTATE", (row) => row[0]], ["errors", (row) => String(row[1]), "number"]], errors, "none"));
}

// Rows in the statistics, and those of COPYs that run, which come into the statistics when they have ended.
function nodes(now, at) {
  const datanodes = now.nodes.rows.filter((node) => node.node_type === "D");
  // The statistics fail as a whole if one does not answer; sessions come with a warning that says which.
  const silent = new Set((now.sessions.notices ?? []).map((text) => text.match(/^datanode (\d+) is left out/)?.[1]));
  const answers = (node) => !silent.has(node.id);
  const isKnown = !now.sessions.error;
  for (const node of datanodes) point(state.rates, node.node_name, node.written === null ? null : number(node.written) + number(node.copying), at);
  const names = new Set(datanodes.map((node) => node.node_name));
  for (const name of state.rates.keys()) if (!names.has(name)) state.rates.delete(name);
  show("rates", chart(drawn(state.rates), POINTS, "Rows written per second on each datanode"), legend([...state.rates.keys()]));
  const pool = (node) => {
    const line = (kind) => `loxo_pool_connections{node=${JSON.stringify(node.node_name)},state="${kind}"} `;
    const of = (kind) => now.figures.split("\n").find((text) => text.startsWith(line(kind)))?.slice(line(kind).length);
    return of("used") === undefined ? "" : `${of("used")} used, ${of("idle")} idle`;
  };
  const health = (node) => node.node_type !== "D" || !isKnown ? "" : make("span", answers(node) ? { className: "good", textContent: "answers" } : { className: "bad", textContent: "does not answer" });
  const rate = (node) => short(state.rates.get(node.node_name)?.values.at(-1));
  const columns = [["node", (node) => node.node_name], ["kind", (node) => node.node_type === "D" ? (node.nodeis_primary === "t" ? "datanode, primary" : "datanode") : "coordinator"],
    ["address", (node) => `${node.node_host}:${node.node_port}`], ["health", health], ["backends", (node) => node.backends, "number"],
    ["rows/s", rate, "number"], ["this coordinator's connections", pool, "number"]];
  show("nodes", table(columns, now.nodes.rows, "none"));
}

function plans(now, at) {
  for (const [plan, total] of figures(now.figures, "loxo_statements_total", "plan")) if (total > 0) point(state.plans, plan, total, at);
  show("statements", chart(drawn(state.plans), POINTS, "Statements per second by plan"), legend([...state.plans.keys()]));
}

const blockers = (row) => (row.blocked_by ?? "{}").slice(1, -1).split(",").filter(Boolean);

function buttons(row) {
  const button = (title, text, act) => {
    const made = make("button", { type: "button", className: "small", textContent: text, title });
    made.dataset.key = `${text} ${row.pid}`;
    made.addEventListener("click", act);
    return made;
  };
  const signal = (ends) => async () => {
    if (ends && !confirm(`End session ${row.pid} of ${row.usename}? Its transaction is rolled back.`)) return;
    try {
      const { done } = await request("/api/signal", { pid: Number(row.pid), ends });
      if (!done) throw new Error(`Session ${row.pid}: there is no such session any more`);
      problem(null);
    } catch (error) { problem(error, 10); }
  };
  const plan = () => { by("plan-text").value = row.query; by("plan-text").focus(); };
  const cell = make("span", {}, button("Cancel the statement", "Cancel", signal(false)), button("End the session", "End", signal(true)));
  if (row.query) cell.append(button("Put the text in the box below", "Plan", plan));
  return cell;
}

function sessions(now) {
  const all = now.sessions.rows;
  const running = all.filter((row) => by("idle").checked || row.state !== "idle");
  const columns = [["pid", (row) => row.pid, "number"], ["user", (row) => row.usename], ["database", (row) => row.datname], ["application", (row) => row.application_name],
    ["state", (row) => row.state], ["seconds", (row) => row.seconds, "number"], ["waits for", (row) => [row.wait_event_type, row.wait_event].filter(Boolean).join(": ")],
    ["statement", (row) => row.query, "text"], ["", buttons]];
  show("running", table(columns, running, "none"));
  const known = new Map(all.map((row) => [row.pid, row]));
  const waiting = all.filter((row) => blockers(row).length);
  const roots = new Set(waiting.flatMap(blockers).filter((pid) => !waiting.some((row) => row.pid === pid)));
  const lines = [];
  const shown = new Set();
  const line = (pid, depth, seen) => {
    shown.add(pid);
    const row = known.get(pid);
    const who = pid === "0" ? "Prepared transaction, or a session past the coordinators" : `Session ${pid}`;
    lines.push(" ".repeat(depth * 2) + (row ? `${who} ${row.usename} ${depth ? `waits ${row.seconds} s` : row.state ?? ""}: ${(row.query ?? "").replace(/\s+/g, " ").slice(0, 120)}` : who));
    if (seen.has(pid) || lines.length > 200) return;
    for (const next of waiting) if (blockers(next).includes(pid)) line(next.pid, depth + 1, new Set([...seen, pid]));
  };
  for (const pid of roots) line(pid, 0, new Set());
  // Those in a circle: each waits for another one.
  for (const row of waiting) if (!shown.has(row.pid)) line(row.pid, 0, new Set());
  show("waits", lines.length ? tree(lines) : make("p", { className: "none", textContent: "nobody" }));
}

function copies(now, at) {
  const rows = now.copies.rows;
  const keys = new Set(rows.map((row) => `${row.pid} ${row.relation}`));
  for (const key of state.copies.keys()) if (!keys.has(key)) state.copies.delete(key);
  for (const row of rows) point(state.copies, `${row.pid} ${row.relation}`, number(row.rows), at);
  const rate = (row) => short(state.copies.get(`${row.pid} ${row.relation}`)?.values.at(-1));
  const part = (row) => percent(row.bytes, row.bytes_total);
  const columns = [["pid", (row) => row.pid, "number"], ["command", (row) => row.command], ["table", (row) => row.relation], ["rows", (row) => short(number(row.rows)), "number"],
    ["rows/s", rate, "number"], ["MB", (row) => (number(row.bytes) / 1e6).toFixed(1), "number"], ["done", part, "number"], ["", (row) => buttons({ ...row, usename: "", query: null })]];
  show("copies", table(columns, rows, now.upkeep.rows?.length ? "" : "none"));
}

const percent = (done, total) => (number(total) > 0 ? `${Math.floor((100 * number(done)) / number(total))} %` : "");

function upkeep(rows) {
  const columns = [["pid", (row) => row.pid, "number"], ["command", (row) => row.command], ["table", (row) => row.relation], ["phase", (row) => row.phase],
    ["done", (row) => percent(row.done, row.total), "number"], ["", (row) => buttons({ ...row, usename: "", query: null })]];
  show("upkeep", rows.length ? table(columns, rows, "") : "");
}

function drawMap({ ids, maps, rebalance, skew }) {
  const names = (ids.rows ?? []).map((row) => row.name);
  const place = (id) => (ids.rows ?? []).findIndex((row) => row.id === id);
  const strips = (maps.rows ?? []).map((map) => {
    const nodes = map.nodes.split(",");
    const count = (row) => nodes.filter((id) => id === row.id).length;
    const each = (ids.rows ?? []).map((row) => `${row.name} ${count(row)}`).join(", ");
    return make("div", {}, make("p", { className: "none", textContent: `Map ${map.id}, of ${map.tables} tables: ${each}` }), grid(nodes, place));
  });
  show("map", ...strips, legend(names), moves(rebalance.rows ?? []), ...[ids, maps, rebalance].filter((part) => part.error).map((part) => part.error.message));
  const columns = [["table", (row) => `${row.schemaname}.${row.relname}`], ["datanodes", (row) => row.nodes, "number"], ["rows", (row) => short(number(row.live_rows)), "number"],
    ["fewest", (row) => short(number(row.fewest)), "number"], ["most", (row) => short(number(row.most)), "number"], ["skew", (row) => row.skew, "number"]];
  show("skew", skew.error ? skew.error.message : table(columns, skew.rows, "no tables"));
}

function moves(rows) {
  const columns = [["rebalance", (row) => row.state], ["buckets moved", (row) => `${row.buckets_done} of ${row.buckets_total}`, "number"], ["rows", (row) => short(number(row.rows_moved)), "number"],
    ["rows/s", (row) => short(number(row.rows_per_second)), "number"], ["time left", (row) => row.time_left, "number"], ["message", (row) => row.message]];
  return table(columns, rows, "no rebalance yet");
}

function slow(rows) {
  const plan = (row) => {
    if (!row.plan) return "";
    const details = make("details", {}, make("summary", { textContent: "plan" }));
    details.dataset.key = `${row.ended}`;
    details.open = state.open?.has(details.dataset.key) ?? false;
    details.append(tree(row.plan.split("\n")));
    details.addEventListener("toggle", () => (state.open ??= new Set())[details.open ? "add" : "delete"](details.dataset.key));
    return details;
  };
  const columns = [["ended", (row) => new Date(row.ended * 1000).toLocaleTimeString()], ["ms", (row) => row.duration_ms.toFixed(0), "number"], ["user", (row) => row.user], ["error", (row) => row.code],
    ["statement", (row) => row.text, "text"], ["", plan]];
  show("slow", table(columns, rows, "none. Statements are kept here that take longer than loxo.log_min_duration, if that is set"));
}

by("plan-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    by("plan").replaceChildren(tree((await request("/api/plan", { text: by("plan-text").value })).plan));
    problem(null);
  } catch (error) {
    by("plan").replaceChildren(make("p", { className: "error", textContent: error.message }));
  }
});

try {
  const told = JSON.parse(sessionStorage.getItem("loxo"));
  if (told) enter(told);
} catch { leave(); }
