// Shows the server's events. Everything that comes from the server becomes text nodes and attribute
// values, never markup; the response headers make browsers refuse anything else (Trusted Types).
"use strict";

const POINTS = 120; // events that a graph shows
const MAX_SHOWN = 100000; // characters of an answer that are shown
const MAX_ELEMENTS = 64; // elements of an example that the form fills in
// the signature that TensorFlow Serving lists in a model's metadata, though no request may name it
const INIT_OP = "__saved_model_init_op";
const MAX_PIXELS = 512; // width and height of an image for an input that takes any size
const SVG = "http://www.w3.org/2000/svg";

const byId = (id) => document.getElementById(id);

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

// Puts the nodes into their order, and moves only those that are elsewhere, so that focus stays.
function arrange(parent, nodes) {
  nodes.forEach((node, i) => {
    if (parent.children[i] !== node) parent.insertBefore(node, parent.children[i] || null);
  });
}

// ---- numbers ----

function count(n) {
  if (!Number.isFinite(n)) return "–";
  return n >= 100 || Number.isInteger(n) ? Math.round(n).toLocaleString("en") : n.toPrecision(2);
}

// A number of things, such as "1 request" or "2 requests".
function counted(n, name) {
  return `${n} ${name}${n === 1 ? "" : "s"}`;
}

/* The requests of a version: those that were answered and those that failed. */
function requests(of) {
  return of.answered + of.failed;
}

function bytes(n) {
  let unit = 0;
  for (; n >= 1024 && unit < 4; unit++) n /= 1024;
  return (unit && n < 100 ? n.toFixed(1) : Math.round(n)) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][unit];
}

function duration(us) {
  if (!Number.isFinite(us)) return "–";
  if (us < 1000) return Math.round(us) + " µs";
  return us < 1e6 ? (us / 1000).toPrecision(3) + " ms" : (us / 1e6).toPrecision(3) + " s";
}

// A time that may be less than a microsecond.
function microseconds(us) {
  return us < 10 ? us.toPrecision(2) + " µs" : duration(us);
}

// The difference of two arrays of counts that may have different lengths.
function difference(now, before) {
  return now.map((n, i) => n - (before[i] || 0));
}

function sum(a, b) {
  return Array.from({ length: Math.max(a.length, b.length) }, (_, i) => (a[i] || 0) + (b[i] || 0));
}

// The q-quantile of a histogram whose bounds are first * factor^i, interpolated in its bucket.
function quantile(counts, [first, factor], q) {
  const total = counts.reduce((a, b) => a + b, 0);
  let below = 0;
  for (let i = 0; i < counts.length && total; i++) {
    if (counts[i] && below + counts[i] >= q * total) {
      const low = i ? first * factor ** (i - 1) : 0;
      const high = first * factor ** i;
      return low + (high - low) * ((q * total - below) / counts[i]);
    }
    below += counts[i];
  }
  return NaN;
}

// ---- tiles with graphs ----

class Tile {
  constructor(name, format) {
    this.name = name;
    this.format = format;
    this.values = [];
    const node = make("div", "tile");
    node.append(make("p", "quiet", name));
    this.value = make("p", "value", "–");
    this.value.id = "value-" + name.toLowerCase().replace(/[^a-z0-9]+/g, "-");
    this.svg = document.createElementNS(SVG, "svg");
    this.svg.setAttribute("viewBox", `0 0 ${POINTS - 1} 40`);
    this.svg.setAttribute("preserveAspectRatio", "none");
    this.svg.setAttribute("role", "img");
    this.line = document.createElementNS(SVG, "polyline");
    this.svg.append(this.line);
    node.append(this.value, this.svg);
    byId("live").append(node);
  }

  add(value) {
    this.values.push(value);
    if (this.values.length > POINTS) this.values.shift();
    const known = this.values.filter(Number.isFinite);
    const most = Math.max(...known, 0);
    const start = POINTS - this.values.length;
    const points = this.values.map((v, i) =>
      `${start + i},${(38 - (most && Number.isFinite(v) ? v / most : 0) * 36).toFixed(1)}`);
    this.line.setAttribute("points", points.join(" "));
    setText(this.value, this.format(value));
    this.svg.setAttribute("aria-label", `${this.name}: now ${this.format(value)}, at most ${this.format(most)}` +
      ` in the last ${this.values.length} seconds`);
  }
}

const tiles = {
  requests: new Tile("Requests per second", count),
  errors: new Tile("Errors per second", count),
  p50: new Tile("Latency p50", duration),
  p99: new Tile("Latency p99", duration),
  batch: new Tile("Rows per batch", count),
  queue: new Tile("Queued requests", count),
  flight: new Tile("Requests in flight", count),
  held: new Tile("Bytes of requests", bytes),
  cores: new Tile("Cores in use", count),
  memory: new Tile("Memory", bytes),
};

// ---- models ----

// The figures of a version: each a label, and its text. The figures are those of an event (`now`), those since the
// event before (`seconds`, `requests`, `failed`, `rows`, `runs`), and `quantile`, a function of the recent latencies.
const FIGURES = [
  ["Device", (f) => f.now.device],
  ["Precision", (f) => f.now.precision],
  ["Weights", (f) => bytes(f.now.weight_bytes)],
  ["Held in memory", (f) => bytes(f.now.held_bytes)],
  ["Idle memory", (f) => bytes(f.now.idle_bytes)],
  ["Queued", (f) => count(f.now.queued)],
  ["Requests/s", (f) => count(f.requests / f.seconds)],
  ["Errors/s", (f) => count(f.failed / f.seconds)],
  ["Requests", (f) => count(requests(f.now))],
  ["Errors", (f) => count(f.now.failed)],
  ["p50", (f) => duration(f.quantile(0.5))],
  ["p99", (f) => duration(f.quantile(0.99))],
  ["Rows per batch", (f) => count(f.rows / f.runs)],
];

class Figures {
  constructor() {
    this.list = make("dl");
    this.values = FIGURES.map(([label]) => {
      const pair = make("div");
      const value = make("dd", "", "–");
      pair.append(make("dt", "", label), value);
      this.list.append(pair);
      return value;
    });
  }

  show(figures) {
    FIGURES.forEach(([, text], i) => setText(this.values[i], text(figures)));
  }
}

class Version {
  constructor(name) {
    this.node = make("div", "version");
    this.title = make("h4");
    this.state = make("span", "state");
    this.title.append(make("span", "", name ? `Version ${name} ` : "No version "), this.state);
    this.message = make("p", "message");
    this.figures = new Figures();
    this.node.append(this.title, this.message, this.figures.list);
  }

  show(now, before, seconds, scale) {
    setText(this.state, now.state);
    this.state.className = "state " + now.state + (now.message && now.state !== "AVAILABLE" ? " bad" : "");
    setText(this.message, now.message);
    this.message.hidden = !now.message;
    this.figures.list.hidden = !now.device;
    if (!now.device) return;
    const same = before && before.device && before.answered <= now.answered ? before : now;
    const latency = difference(now.latency, same.latency);
    this.figures.show({ now, seconds, requests: requests(now) - requests(same), failed: now.failed - same.failed,
      rows: now.rows - same.rows, runs: difference(now.batches, same.batches).reduce((a, b) => a + b, 0),
      quantile: (q) => quantile(latency, scale, q) });
  }
}

class Model {
  constructor(name, index) {
    this.versions = new Map();
    this.node = make("section", "model");
    const title = make("h3", "", name);
    title.id = `model-${index}`;
    this.node.setAttribute("aria-labelledby", title.id);
    this.list = make("div");
    this.errors = new LastErrors(name, "Last errors of any request for the model");
    this.form = new TryIt(name, index);
    this.profile = new Profile(name, () => this.form.plan && this.form.plan.again());
    this.node.append(title, this.list, this.errors.node, this.profile.node, this.form.node);
  }

  show(rows, before, seconds, scale) {
    const gone = new Set(this.versions.keys());
    for (const row of rows) {
      gone.delete(row.version);
      let version = this.versions.get(row.version);
      if (!version) {
        version = new Version(row.version);
        this.versions.set(row.version, version);
      }
      version.show(row, before.get(keyOf(row)), seconds, scale);
    }
    for (const name of gone) {
      this.versions.get(name).node.remove();
      this.versions.delete(name);
    }
    arrange(this.list, rows.map((row) => this.versions.get(row.version).node));
    const serving = rows.find((row) => row.state === "AVAILABLE");
    this.form.node.hidden = this.profile.node.hidden = !serving;
    this.errors.show(serving && serving.errors);
  }
}

// ---- the last errors ----

// The errors of a model, or, with the name "", those of requests that belong to no model.
class LastErrors {
  constructor(model, title) {
    this.path = "/page/errors/" + encodeURIComponent(model);
    this.node = make("details", "errors");
    this.list = make("ul");
    this.summary = make("summary", "", title);
    this.node.append(this.summary, this.list);
    this.node.addEventListener("toggle", () => this.load());
  }

  // The server counts the errors; they are read when the list is open and the count has changed.
  show(count) {
    this.node.hidden = !count;
    if (count === this.count) return;
    this.count = count;
    this.load();
  }

  async load() {
    if (!this.node.open || this.node.hidden || this.loaded === this.count) return;
    this.loaded = this.count;
    try {
      const answer = await ask(this.path);
      if (!answer.ok) throw failure(answer);
      this.list.replaceChildren(...JSON.parse(answer.text).errors.map((e) => {
        const item = make("li");
        const at = make("time", "", new Date(e.at_ms).toLocaleTimeString() + " ");
        at.dateTime = new Date(e.at_ms).toISOString();
        item.append(at, make("span", "bad", e.code), ` ${e.api}${e.version && ", version " + e.version}: ${e.text}`);
        return item;
      }));
    } catch (error) {
      this.loaded = null; // the next change of the count asks again
      this.list.replaceChildren(make("li", "refused", `The errors cannot be read: ${error.message}`));
    }
  }
}

// ---- profiles ----

const PROFILED = 50; // requests of a profile
const OTHER_TIME = "between phases and sending"; // the time of a request that no phase has

class Profile {
  // Calls onEnd when a profile that runs has ended.
  constructor(model, onEnd) {
    this.onEnd = onEnd;
    this.path = "/page/profile/" + encodeURIComponent(model);
    this.node = make("details", "profile");
    this.button = make("button", "", `Profile the next ${PROFILED} requests`);
    this.button.type = "button";
    this.button.addEventListener("click", () => this.read(`${this.path}/${PROFILED}`, ""));
    this.state = make("p", "quiet", "A profile ends after a minute at the latest.");
    this.state.setAttribute("role", "status");
    this.body = make("div");
    this.node.append(make("summary", "", "Profile"), this.button, this.state, this.body);
    this.node.addEventListener("toggle", () => this.node.open && this.read(this.path));
  }

  // With a body, which is empty, the request begins a profile.
  async read(path, body) {
    clearTimeout(this.timer);
    try {
      const answer = await ask(path, body);
      if (!answer.ok) throw failure(answer);
      const { running, phases, requests } = JSON.parse(answer.text);
      this.state.className = "quiet";
      if (running || requests.length)
        setText(this.state, `${counted(requests.length, "request")}${running ? "; waiting for more" : ""}.`);
      if (this.button.disabled && !running) this.onEnd();
      this.button.disabled = running;
      this.draw(requests, phases);
      // A page that nobody sees asks again when it is seen.
      if (running && this.node.open) this.timer = setTimeout(() => this.again(), 1000);
    } catch (error) {
      this.state.className = "refused";
      setText(this.state, `There is no profile: ${error.message}`);
    }
  }

  again() {
    if (document.hidden) this.timer = setTimeout(() => this.again(), 1000);
    else this.read(this.path);
  }

  // `phases` has the names of the phases, in the order of `phases` of a request.
  draw(requests, phases) {
    if (!requests.length) return this.body.replaceChildren();
    requests.sort((a, b) => a.begin_us - b.begin_us);
    const end = Math.max(...requests.map((r) => r.end_us), 1);
    const [width, height] = [1000, 12];
    const at = (us) => us / end * width;
    const svg = makeSvg("svg", { class: "timeline", role: "img", viewBox: `0 0 ${width} ${requests.length * height}`,
      preserveAspectRatio: "none", height: requests.length * height,
      "aria-label": `Timeline of ${counted(requests.length, "request")} in ${duration(end)}; the list below says the same` });
    const list = make("ol", "nodes");
    list.tabIndex = 0;
    list.setAttribute("aria-label", "Requests of the profile");
    requests.forEach((r, i) => {
      const rest = r.phases.reduce((us, p) => us - (p ? p[1] - p[0] : 0), r.end_us - r.begin_us);
      const times = [...r.phases.map((p, k) => p && `${phases[k]} ${duration(p[1] - p[0])}`).filter(Boolean),
        `${OTHER_TIME} ${duration(Math.max(rest, 0))}`].join(", ");
      const text = `${r.entry} ${r.api}${r.version && ", version " + r.version}, ${r.code}, rows: ${r.rows}, ` +
        `at ${duration(r.begin_us)}: ${duration(r.end_us - r.begin_us)} (${times})`;
      const group = makeSvg("g", {});
      group.append(makeSvg("title", {}, text),
        makeSvg("rect", { class: "all", x: at(r.begin_us), y: i * height + 4, width: at(r.end_us - r.begin_us), height: 3 }));
      r.phases.forEach((p, k) => p && group.append(makeSvg("rect", { class: phases[k], x: at(p[0]), y: i * height + 1,
        width: Math.max(at(p[1] - p[0]), 0.5), height: height - 3 })));
      svg.append(group);
      list.append(make("li", "", text));
    });
    const legend = make("p", "legend");
    legend.append(...phases.map((phase) => make("span", phase, phase)), make("span", "rest", OTHER_TIME));
    this.body.replaceChildren(make("p", "quiet", `From the first request to the end of the last: ${duration(end)}`), legend, svg, list);
  }
}

// ---- plans ----

const BOX = { width: 150, height: 40, right: 24, below: 30 };

function makeSvg(tag, attributes, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function shorten(text, most) {
  return text.length > most ? text.slice(0, most - 1) + "…" : text;
}

function titleOf(node) {
  return node.op + (node.fused && ` [${node.fused}]`);
}

function flops(n) {
  return n < 1e5 ? `${n} FLOP` : n < 1e8 ? `${(n / 1e6).toPrecision(3)} MFLOP` : `${(n / 1e9).toPrecision(3)} GFLOP`;
}

// What a node is, runs on and costs, as one sentence. Measured times stand before the estimates.
function sentenceOf(node, all, measured) {
  const parts = [`${titleOf(node)} ${node.name}`, node.runs ? node.kernel || "no kernel chosen yet" : "runs no code"];
  if (node.why) parts.push(node.why);
  if (measured && node.us) parts.push(`${microseconds(node.us)} (${(100 * node.us / measured).toPrecision(2)} % of the time)`);
  if (node.flops) parts.push(`${flops(node.flops)} (${(100 * node.flops / all).toPrecision(2)} %)`);
  if (node.packed_bytes) parts.push(`packed weights ${bytes(node.packed_bytes)}`);
  if (node.scratch_bytes) parts.push(`scratch ${bytes(node.scratch_bytes)}`);
  if (node.on_gpu) parts.push("on the GPU");
  parts.push(`from ${node.in.map(([, type]) => type).join(", ") || "nothing"}`, `to ${node.out.join(", ") || "nothing"}`);
  return parts.join("; ");
}

// Sets the row and the column of each node: a node is below all that it reads. A name means the last
// node before it that has this name, because loops and branches have names of their own.
function place(nodes) {
  const last = new Map();
  const widths = [];
  for (const node of nodes) {
    node.reads = [];
    for (const [from] of node.in) {
      const giver = last.get(from) || last.get(from.replace(/:\d+$/, ""));
      if (giver && !node.reads.includes(giver)) node.reads.push(giver);
    }
    node.row = node.reads.reduce((row, giver) => Math.max(row, giver.row + 1), 0);
    node.column = widths[node.row] || 0;
    widths[node.row] = node.column + 1;
    last.set(node.name, node);
  }
  const columns = Math.max(1, ...widths);
  for (const node of nodes) {
    node.x = (node.column + (columns - widths[node.row]) / 2) * (BOX.width + BOX.right);
    node.y = node.row * (BOX.height + BOX.below);
  }
  return { width: columns * (BOX.width + BOX.right), height: widths.length * (BOX.height + BOX.below) };
}

class Plan {
  constructor(model) {
    this.path = "/page/plan/" + encodeURIComponent(model) + "/";
    this.node = make("details", "plan");
    this.body = make("div");
    this.node.append(make("summary", "", "Plan"), this.body);
    this.node.addEventListener("toggle", () => this.load());
  }

  choose(signature) {
    this.signature = signature;
    this.again();
  }

  again() {
    this.shown = null;
    this.load();
  }

  async load() {
    if (!this.node.open || this.shown === this.signature) return;
    const wanted = this.shown = this.signature;
    this.body.replaceChildren(make("p", "quiet", "Waiting for the plan."));
    try {
      const answer = await ask(this.path + encodeURIComponent(wanted));
      if (wanted !== this.shown) return; // another signature was chosen meanwhile
      if (!answer.ok) throw failure(answer);
      this.show(JSON.parse(answer.text));
    } catch (error) {
      this.shown = null;
      this.body.replaceChildren(make("p", "refused", `The plan cannot be read: ${error.message}`));
    }
  }

  show(plan) {
    const all = plan.nodes.reduce((sum, node) => sum + node.flops, 0);
    const list = make("ol", "nodes");
    list.tabIndex = 0;
    list.setAttribute("aria-label", "Nodes of the plan");
    const measured = plan.profiled_runs ? plan.profiled_us : 0;
    list.append(...plan.nodes.map((node) => make("li", "", sentenceOf(node, all, measured))));
    const { figure, buttons } = this.draw(plan.nodes, all, measured);
    const legend = measured
      ? `The bars are measured: the time of each node in ${plan.profiled_runs} runs of the last profile, on average ` +
        `${duration(measured)} in all. The clock is read for each node, which takes time too.`
      : "The bars are estimates: the FLOP of each node. After a profile of the model's requests they are measured times.";
    this.body.replaceChildren(
      make("p", "quiet", `Version ${plan.version}: ${plan.nodes.filter((n) => n.runs).length} of ${plan.nodes.length} nodes ` +
        `run, ${counted(plan.segments, "compiled segment")}, activations ${bytes(plan.activation_bytes)}, ${flops(all)}` +
        (plan.left_off ? `; ${plan.left_off} more nodes are not shown` : "")), make("p", "costs", legend), buttons, figure, list);
  }

  draw(nodes, all, measured) {
    const size = place(nodes);
    const costOf = (node) => (measured ? node.us || 0 : node.flops);
    const most = Math.max(...nodes.map(costOf)) || 1;
    const svg = makeSvg("svg", { role: "img", "aria-label": "Graph of the plan; the list below says the same", class: "graph" });
    for (const node of nodes)
      for (const giver of node.reads) {
        const [x, y] = [giver.x + BOX.width / 2, giver.y + BOX.height];
        const far = node.row - giver.row > 1 ? BOX.width * 0.7 : 0; // passes beside the boxes between
        svg.append(makeSvg("path", { d: `M${x} ${y}C${x + far} ${y + BOX.below} ${node.x + BOX.width / 2 + far} ` +
          `${node.y - BOX.below} ${node.x + BOX.width / 2} ${node.y}` }));
      }
    for (const node of nodes) {
      const group = makeSvg("g", { class: node.runs ? "runs" : "rests", transform: `translate(${node.x} ${node.y})` });
      group.append(makeSvg("title", {}, sentenceOf(node, all, measured)), makeSvg("rect", { width: BOX.width, height: BOX.height, rx: 5 }),
        makeSvg("rect", { class: "cost", width: BOX.width * costOf(node) / most, height: 5, y: BOX.height - 5 }),
        makeSvg("text", { x: 6, y: 15 }, shorten(titleOf(node), 23)),
        makeSvg("text", { x: 6, y: 30, class: "quiet" }, shorten(node.kernel || node.name, 23)));
      svg.append(group);
    }
    return this.zoomable(svg, size);
  }

  // Zooms by buttons, and scrolls as all else on the page does.
  zoomable(svg, size) {
    const figure = make("div", "figure");
    const buttons = make("p");
    let scale = 1;
    const zoom = (factor) => {
      scale = Math.min(4, Math.max(0.05, factor));
      svg.setAttribute("width", size.width * scale);
      svg.setAttribute("height", size.height * scale);
    };
    svg.setAttribute("viewBox", `0 0 ${size.width} ${size.height}`);
    for (const [text, act] of [["Zoom in", () => zoom(scale * 1.5)], ["Zoom out", () => zoom(scale / 1.5)],
      ["Whole graph", () => zoom(Math.min(1, figure.clientWidth / size.width))]]) {
      const button = make("button", "", text);
      button.type = "button";
      button.addEventListener("click", act);
      buttons.append(button, " ");
    }
    zoom(1);
    figure.tabIndex = 0;
    figure.setAttribute("role", "group");
    figure.setAttribute("aria-label", "Graph of the plan");
    figure.append(svg);
    return { figure, buttons };
  }
}

// ---- try a signature ----

function isText(dtype) {
  return dtype === "DT_STRING";
}

// An example of an input: zeros, or empty texts, with 1 in place of unknown sizes.
function example(info) {
  const shape = info.tensor_shape || {};
  const sizes = shape.unknown_rank ? [] : (shape.dim || []).map((d) => Math.max(Number(d.size), 1));
  if (sizes.reduce((a, b) => a * b, 1) > MAX_ELEMENTS) return [];
  const zero = isText(info.dtype) ? "" : info.dtype === "DT_BOOL" ? false : 0;
  return sizes.reduceRight((inner, size) => Array.from({ length: size }, () => inner), zero);
}

function describe(name, info) {
  const shape = info.tensor_shape || {};
  const sizes = shape.unknown_rank ? "any shape"
    : "[" + (shape.dim || []).map((d) => (Number(d.size) < 0 ? "?" : d.size)).join(", ") + "]";
  return `${name}: ${String(info.dtype).replace(/^DT_/, "").toLowerCase()} ${sizes}`;
}

// ---- images ----

// The pixels' ranges, by the factor and the summand that make them of bytes.
const RANGES = { "0 to 255": [1, 0], "0 to 1": [1 / 255, 0], "-1 to 1": [2 / 255, -1] };

// Returns the first input that an image fits: texts are its bytes, numbers its pixels.
function findImageInput(inputs) {
  for (const [name, info] of Object.entries(inputs)) {
    const shape = info.tensor_shape || {};
    const sizes = shape.unknown_rank ? null : (shape.dim || []).map((d) => Number(d.size));
    if (isText(info.dtype) && (!sizes || sizes.length <= 1)) return { name, isText: true, rank: sizes ? sizes.length : 1 };
    if (!/^DT_(FLOAT|HALF|BFLOAT16|DOUBLE|U?INT(8|16|32|64))$/.test(info.dtype) || !sizes) continue;
    const [height, width, channels] = sizes.slice(-3);
    if ((sizes.length === 3 || (sizes.length === 4 && sizes[0] <= 1)) && [-1, 1, 3, 4].includes(channels))
      return { name, rank: sizes.length, height, width, channels: channels < 0 ? 3 : channels, isWhole: /INT/.test(info.dtype) };
  }
  return null;
}

async function textOfImage(file) {
  const content = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let i = 0; i < content.length; i += 0x8000) text += String.fromCharCode(...content.subarray(i, i + 0x8000));
  return { b64: btoa(text) };
}

// Returns rows of pixels, each with its channels, in the size that the input wants.
async function pixelsOfImage(file, want, [factor, summand]) {
  const bitmap = await createImageBitmap(file);
  const shrink = Math.min(1, MAX_PIXELS / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  canvas.width = want.width > 0 ? want.width : Math.max(1, Math.round(bitmap.width * shrink));
  canvas.height = want.height > 0 ? want.height : Math.max(1, Math.round(bitmap.height * shrink));
  if (canvas.width * canvas.height > 16 * MAX_PIXELS ** 2) throw new Error("the input is too large for the form");
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
  const scaled = (byte) => (want.isWhole ? Math.round(byte * factor + summand) : Number((byte * factor + summand).toFixed(4)));
  return Array.from({ length: canvas.height }, (_, y) => Array.from({ length: canvas.width }, (_, x) => {
    const [r, g, b, a] = data.subarray(4 * (y * canvas.width + x), 4 * (y * canvas.width + x) + 4);
    return want.channels === 1 ? [scaled(0.299 * r + 0.587 * g + 0.114 * b)] : [r, g, b, a].slice(0, want.channels).map(scaled);
  }));
}

// Lets an image be chosen, or dropped on the form, as the value of an input.
class ImageField {
  constructor(labelled, text, verdict) {
    this.text = text;
    this.verdict = verdict;
    this.node = make("div", "image");
    const [label, file] = labelled("input", "Image, which may also be dropped here");
    const [rangeLabel, range] = labelled("select", "Pixels from");
    file.type = "file";
    file.accept = "image/*";
    this.label = label;
    this.range = range;
    this.numbers = make("div");
    this.numbers.append(rangeLabel, range);
    range.append(...Object.keys(RANGES).map((name) => make("option", "", name)));
    file.addEventListener("change", () => file.files.length && this.take(file.files[0]));
    this.node.append(label, file, this.numbers);
  }

  choose(inputs) {
    this.want = findImageInput(inputs);
    this.node.hidden = !this.want;
    if (!this.want) return;
    this.numbers.hidden = Boolean(this.want.isText);
    this.range.value = this.want.isWhole ? "0 to 255" : "0 to 1";
  }

  acceptDrops(form) {
    form.addEventListener("dragover", (event) => this.want && event.preventDefault());
    form.addEventListener("drop", (event) => {
      if (!this.want || !event.dataTransfer.files.length) return;
      event.preventDefault();
      this.take(event.dataTransfer.files[0]);
    });
  }

  async take(file) {
    const want = this.want;
    this.verdict.className = "";
    try {
      const inner = want.isText ? await textOfImage(file) : await pixelsOfImage(file, want, RANGES[this.range.value]);
      const isBatch = want.isText ? want.rank === 1 : want.rank === 4;
      const inputs = JSON.parse(this.text.value || "{}");
      inputs[want.name] = isBatch ? [inner] : inner;
      this.text.value = JSON.stringify(inputs);
      setText(this.verdict, `The image is the value of ${want.name}.`);
    } catch (error) {
      this.verdict.className = "refused";
      setText(this.verdict, `The image cannot be used: ${error.message}`);
    }
  }
}

// Returns the inputs as JSON. Plain numbers, such as "1, 2 5", are the value of a single input.
function jsonOfInputs(text, inputs) {
  const names = Object.keys(inputs);
  if (names.length !== 1 || !/^[-+.,\deE\s]+$/.test(text) || !/\d/.test(text)) return text;
  return `{${JSON.stringify(names[0])}:[${text.match(/[^,\s]+/g).join(",")}]}`;
}

async function ask(path, body) {
  const answer = await fetch(path, body === undefined ? {} : { method: "POST", body });
  return { ok: answer.ok, status: answer.status, text: await answer.text() };
}

// The error of an answer, whose text is JSON unless something between browser and server has answered.
function failure(answer) {
  try {
    return new Error(JSON.parse(answer.text).error || answer.text);
  } catch {
    return new Error(answer.text);
  }
}

class TryIt {
  constructor(model, index) {
    this.path = "/v1/models/" + encodeURIComponent(model);
    this.index = index;
    this.model = model;
    this.node = make("details", "try");
    this.node.append(make("summary", "", "Signatures, plans, and try one"));
    this.node.addEventListener("toggle", () => this.node.open && this.load());
  }

  async load() {
    if (this.body) this.body.remove();
    this.body = make("div");
    this.node.append(this.body);
    try {
      const answer = await ask(this.path + "/metadata");
      if (!answer.ok) throw failure(answer);
      this.signatures = JSON.parse(answer.text).metadata.signature_def.signature_def;
      this.fill();
    } catch (error) {
      this.body.append(make("p", "refused", `The signatures cannot be read: ${error.message}`));
    }
  }

  labelled(tag, text) {
    const field = make(tag);
    field.id = `${text.split(/\W/)[0].toLowerCase()}-${this.index}`;
    const label = make("label", "", text);
    label.htmlFor = field.id;
    return [label, field];
  }

  fill() {
    const form = make("form");
    const [selectLabel, select] = this.labelled("select", "Signature");
    const [inputLabel, input] = this.labelled("textarea", "Inputs as JSON, or the numbers of a single input");
    const tensors = make("ul");
    const result = make("pre");
    const verdict = make("p");
    verdict.setAttribute("role", "status");
    result.tabIndex = 0;
    result.hidden = true;
    result.setAttribute("aria-label", "Answer");
    input.spellcheck = false;
    for (const name of Object.keys(this.signatures).filter((n) => n !== INIT_OP).sort()) {
      const option = make("option", "", name);
      option.value = name; // without it, the value would be the text with its blanks collapsed
      select.append(option);
    }
    select.value = Object.hasOwn(this.signatures, "serving_default") ? "serving_default" : select.value;
    const plan = this.plan = new Plan(this.model);
    const image = new ImageField((tag, text) => this.labelled(tag, text), input, verdict);
    image.acceptDrops(form);
    const choose = () => {
      plan.choose(select.value);
      const { inputs = {}, outputs = {} } = this.signatures[select.value] || {};
      tensors.replaceChildren(
        ...Object.entries(inputs).map(([name, info]) => make("li", "", "input " + describe(name, info))),
        ...Object.entries(outputs).map(([name, info]) => make("li", "", "output " + describe(name, info))));
      input.value = JSON.stringify(
        Object.fromEntries(Object.entries(inputs).map(([name, info]) => [name, example(info)])));
      image.choose(inputs);
    };
    select.addEventListener("change", choose);
    choose();
    form.append(selectLabel, select, tensors, inputLabel, input, image.node, make("button", "", "Predict"), verdict, result);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const { inputs = {} } = this.signatures[select.value] || {};
      this.predict(select.value, jsonOfInputs(input.value, inputs), verdict, result);
    });
    this.body.append(form, plan.node);
  }

  async predict(signature, inputs, verdict, result) {
    result.hidden = true;
    verdict.className = "";
    setText(verdict, "Waiting for the answer.");
    try {
      JSON.parse(inputs);
      const start = performance.now();
      // The text of the inputs is sent as it is, because numbers may have more digits than JavaScript's.
      const answer = await ask(this.path + ":predict",
        `{"signature_name":${JSON.stringify(signature)},"inputs":${inputs}}`);
      verdict.className = answer.ok ? "" : "refused";
      setText(verdict, `${answer.ok ? "Answered" : "Refused"} with ${answer.status} after ` +
        duration((performance.now() - start) * 1000) + ".");
      const more = answer.text.length - MAX_SHOWN;
      setText(result, answer.text.slice(0, MAX_SHOWN) + (more > 0 ? `\n… ${more} more characters` : ""));
      result.hidden = false;
    } catch (error) {
      verdict.className = "refused";
      setText(verdict, error.message);
    }
  }
}

// ---- events ----

const models = new Map();
const noModelErrors = new LastErrors("", "Last errors of requests that belong to no model");
byId("no-model-errors").append(noModelErrors.node);
let nModels = 0;
let last = null;

const keyOf = (row) => JSON.stringify([row.model, row.version]);

function showModels(rows, before, seconds, scale) {
  const byModel = new Map();
  for (const row of rows) {
    if (!byModel.has(row.model)) byModel.set(row.model, []);
    byModel.get(row.model).push(row);
  }
  for (const [name, model] of models) {
    if (byModel.has(name)) continue;
    model.node.remove();
    models.delete(name);
  }
  for (const [name, list] of byModel) {
    let model = models.get(name);
    if (!model) {
      model = new Model(name, nModels++);
      models.set(name, model);
    }
    model.show(list, before, seconds, scale);
  }
  arrange(byId("models"), [...byModel.keys()].map((name) => models.get(name).node));
  byId("no-models").hidden = rows.length > 0;
}

// The counts of all versions that both events have, each as the difference of the two.
function totalOf(rows, before) {
  const total = { answered: 0, failed: 0, rows: 0, queued: 0, latency: [], batches: [] };
  for (const row of rows.filter((r) => r.device)) {
    const old = before.get(keyOf(row));
    total.queued += row.queued;
    if (!old || !old.device || old.answered > row.answered) continue;
    for (const name of ["answered", "failed", "rows"]) total[name] += row[name] - old[name];
    for (const name of ["latency", "batches"]) total[name] = sum(total[name], difference(row[name], old[name]));
  }
  return total;
}

function showLive(now, before, seconds) {
  const total = totalOf(now.versions, before);
  const runs = total.batches.reduce((a, b) => a + b, 0);
  // The count falls when the counters of a model that is gone are freed.
  const refused = Math.max(0, now.refused - last.refused);
  tiles.requests.add((requests(total) + refused) / seconds);
  tiles.errors.add((total.failed + refused) / seconds);
  tiles.p50.add(quantile(total.latency, now.latency_scale_us, 0.5));
  tiles.p99.add(quantile(total.latency, now.latency_scale_us, 0.99));
  tiles.batch.add(total.rows / runs);
  tiles.queue.add(total.queued);
  tiles.flight.add(now.requests_in_flight);
  tiles.held.add(now.bytes_in_flight);
  tiles.cores.add((now.cpu_ms - last.cpu_ms) / 1000 / seconds);
  tiles.memory.add(now.resident_bytes);
}

// The problems of the configuration, such as a file that is ignored. A text that stays is not announced again.
function showTroubles(texts) {
  const node = byId("troubles");
  while (node.children.length > texts.length) node.lastChild.remove();
  while (node.children.length < texts.length) node.append(make("p", "message bad"));
  texts.forEach((text, i) => setText(node.children[i], text));
}

function show(now) {
  if (last && now.time_ms <= last.time_ms) last = null; // another server answers now
  const before = new Map(last ? last.versions.map((row) => [keyOf(row), row]) : []);
  const seconds = last ? (now.time_ms - last.time_ms) / 1000 : 1;
  setText(byId("server"), now.server);
  setText(byId("connection"), now.ready ? "Connected; the server is ready." : "Connected; the server is not ready.");
  byId("connection").className = "";
  if (last) showLive(now, before, seconds);
  showModels(now.versions, before, seconds, now.latency_scale_us);
  byId("left-off").hidden = !now.left_off;
  noModelErrors.show(now.errors);
  showTroubles(now.troubles);
  setText(byId("left-off"), `${now.left_off} more versions are not shown.`);
  last = now;
}

// An event stream has one event; the browser asks for the next one by itself. It gives up when the
// server refuses or cannot be reached, and is then told to try again. A page that nobody sees asks
// for nothing.
let source = null;
let timer = 0;

function watch() {
  source = new EventSource("/page/events");
  source.onmessage = (event) => show(JSON.parse(event.data));
  source.onerror = () => {
    if (source.readyState !== EventSource.CLOSED) return;
    lose();
    timer = setTimeout(watch, 5000);
  };
}

function lookAgain() {
  clearTimeout(timer);
  if (source) source.close();
  last = null;
  if (!document.hidden) watch();
}

let seen = 0;
function lose() {
  byId("connection").className = "lost";
  setText(byId("connection"), "The server does not answer, or has too many viewers.");
}

lookAgain();
document.addEventListener("visibilitychange", lookAgain);
setInterval(() => {
  if (last && last.time_ms === seen) lose();
  seen = last ? last.time_ms : 0;
}, 5000);
