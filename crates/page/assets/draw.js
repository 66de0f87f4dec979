// Elements, tables, charts and trees. Texts of others reach the page by textContent only.

function make(tag, properties, ...children) {
  const element = document.createElement(tag);
  Object.assign(element, properties);
  element.append(...children);
  return element;
}

function shape(tag, attributes, ...children) {
  const element = document.createElementNS("http" + "://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Light and dark grounds both show these; twelve, then again; grey is what nobody knows.
const COLOURS = ["#3b82d6", "#e0812b", "#3fa45b", "#d2504f", "#8f6fc9", "#a5744f", "#d777b5", "#7d8694", "#b0a72c", "#2aa9b8", "#5566dd", "#c0566b"];
const colour = (at) => (at < 0 ? "#9aa0a6" : COLOURS[at % COLOURS.length]);

// Columns: [title, of a row to text or element, class].
function table(columns, rows, none) {
  if (!rows.length) return make("p", { className: "none", textContent: none });
  const cell = (tag, kind, content) => make(tag, { className: kind || "" }, content ?? "");
  const head = make("tr", {}, ...columns.map(([title, , kind]) => cell("th", kind === "text" ? "" : kind, title)));
  const body = rows.map((row) => make("tr", {}, ...columns.map(([, content, kind]) =>
    cell("td", kind, kind === "text" ? make("div", { textContent: content(row) ?? "" }) : content(row)))));
  return make("div", { className: "scroll" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
}

// Puts something new in a place, unless someone selects a text there, or is about to press a button, which must not move away.
function show(id, ...content) {
  const place = document.getElementById(id);
  const selection = document.getSelection();
  const isRead = selection && !selection.isCollapsed && place.contains(selection.anchorNode);
  const isAimedAt = matchMedia("(hover: hover)").matches && place.querySelector("button:hover, summary:hover");
  if (isRead || isAimedAt) return;
  const held = place.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  place.replaceChildren(...content);
  if (held) [...place.querySelectorAll("[data-key]")].find((element) => element.dataset.key === held)?.focus();
}

function short(number) {
  if (number === null || number === undefined || Number.isNaN(number)) return "";
  const steps = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];
  for (const [size, letter] of steps) if (number >= size) return (number / size).toFixed(number >= 10 * size ? 0 : 1) + letter;
  return number >= 10 || Number.isInteger(number) ? number.toFixed(0) : number.toFixed(1);
}

// Lines over the last minutes: series are { name, values }, null where nothing is known.
function chart(series, points, label) {
  const [width, height, left, bottom] = [640, 180, 44, 18];
  const most = Math.max(1, ...series.flatMap((one) => one.values.filter((value) => value !== null)));
  const x = (at) => left + (at / Math.max(1, points - 1)) * (width - left - 6);
  const y = (value) => 8 + (1 - value / most) * (height - bottom - 8);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const part of [0, 0.5, 1]) {
    svg.append(shape("line", { class: "axis", x1: left, x2: width, y1: y(part * most), y2: y(part * most) }));
    svg.append(shape("text", { x: left - 5, y: y(part * most) + 4, "text-anchor": "end" }, short(part * most)));
  }
  svg.append(shape("text", { x: left, y: height - 4 }, `${points} s ago`));
  svg.append(shape("text", { x: width - 6, y: height - 4, "text-anchor": "end" }, "now"));
  series.forEach((one, at) => {
    const known = one.values.map((value, place) => [points - one.values.length + place, value]).filter(([, value]) => value !== null);
    const line = known.map(([place, value]) => `${x(place).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
    svg.append(shape("polyline", { class: "series", points: line, stroke: colour(at) }));
  });
  return svg;
}

function swatch(at) {
  return shape("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, shape("rect", { width: 10, height: 10, rx: 2, fill: colour(at) }));
}

function legend(names) {
  return make("ul", { className: "legend" }, ...names.map((name, at) => make("li", {}, swatch(at), name)));
}

// A bucket map as a grid, a cell for each bucket, 256 in a line; one path a node.
function grid(nodes, place) {
  const paths = new Map();
  nodes.forEach((node, at) => {
    const cell = `M${at % 256} ${Math.floor(at / 256)}h.9v.9h-.9z`;
    paths.set(node, (paths.get(node) ?? "") + cell);
  });
  const svg = shape("svg", { viewBox: `0 0 256 ${Math.ceil(nodes.length / 256)}`, role: "img", "aria-label": "Which datanode holds which bucket", class: "grid" });
  for (const [node, path] of paths) svg.append(shape("path", { d: path, fill: colour(place(node)) }));
  return svg;
}

// Lines by their indentation, as boxes within boxes. PostgreSQL's arrows are part of the indentation.
function tree(lines) {
  const root = make("ul", { className: "tree" });
  const open = [[-1, root]];
  for (const line of lines) {
    const indent = line.search(/[^ ]/);
    if (indent < 0) continue;
    while (open.length > 1 && open.at(-1)[0] >= indent) open.pop();
    const [, parent] = open.at(-1);
    const text = line.trim().replace(/^-> +/, "");
    const [, name, rest] = text.match(/^([A-Z][A-Za-z_]*(?: [A-Z][A-Za-z]*)*)?(.*)$/s);
    const item = make("li", {}, make("div", {}, make("b", { textContent: name ?? "" }), rest));
    const below = make("ul", { className: "tree" });
    item.append(below);
    parent.append(item);
    open.push([indent, below]);
  }
  root.querySelectorAll("ul:empty").forEach((empty) => empty.remove());
  return root;
}
