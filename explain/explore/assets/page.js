// The page: the selection, and its views.
"use strict";

const get = (id) => document.getElementById(id);
let record, piece, graph, panes = [], step = 0, isDiff = true, chosen = [], hits = [], ownHits = [], allHits = [];

async function main() {
  record = await readRecord();
  record.pieces = record.pieces.map((data) => new Piece(data));
  get("model").textContent = record.model;
  graph = new GraphView(get("graph"), (nodes) => choose(nodes, true));
  get("piece").replaceChildren(...record.pieces.map((each, index) => element("option", { value: index }, each.name)));
  get("piece").hidden = record.pieces.length < 2;
  listen();
  const failed = record.pieces.findIndex((each) => each.failure);
  showPiece(Math.max(0, failed));
  document.body.dataset.ready = "true";
}

function showPiece(index) {
  piece = record.pieces[index];
  get("piece").value = index;
  choose([], false);
  const changed = piece.steps.filter((each) => each.changes).length;
  const facts = [record.target, `${piece.graph.nodes.length} ops`, `${piece.kernels.length} kernel calls`,
    `${piece.steps.length - 1} passes, ${changed - 1} of which changed something`, duration(record.seconds)];
  get("facts").textContent = facts.filter(Boolean).join(" · ");
  showFailure();
  showLegend();
  showKernels();
  showMemory();
  const failing = piece.steps.findIndex((each) => each.failed);
  const first = piece.steps.findIndex((each, at) => at > 0 && each.changes);
  showStep(failing >= 0 ? failing : Math.max(first, 0));
  graph.show(piece).then(() => document.body.dataset.graph = "true");
}

function showFailure() {
  const failure = piece.failure ?? (record.error ? { message: record.error, pass: "", places: [] } : null);
  get("failure").hidden = !failure;
  if (!failure) return;
  const where = failure.pass ? ` at ${failure.pass}${failure.phase ? `, on the way to ${failure.phase}` : ""}` : "";
  const nodes = (failure.places ?? []).map((place) => piece.places[place]).join(", ");
  get("failure").replaceChildren(element("b", {}, `Failed${where}${nodes ? `, for ${nodes}` : ""}`), `\n${failure.message}`);
}

function showLegend() {
  if (get("heat").getAttribute("aria-pressed") === "true") {
    const ramp = element("i", { class: "ramp", style: `background:linear-gradient(90deg, ${heatColour(0)}, ${heatColour(0.25)}, ${heatColour(1)})` });
    get("legend").replaceChildren(element("span", {}, ramp, `time per call, ${piece.isMeasured ? "measured" : "estimated from flops and bytes"}`));
    return;
  }
  const kinds = [...new Set(piece.kernels.map((kernel) => kernel.class))].sort();
  get("legend").replaceChildren(...kinds.map((kind) => element("span", {}, element("i", { style: `background:${colourOf(kind)}` }), kind)));
}

function visibleSteps() {
  const all = get("all").checked;
  return piece.steps.map((_, index) => index).filter((index) => all || piece.steps[index].changes || piece.steps[index].failed);
}

function showSteps() {
  const made = [];
  let phase = "";
  for (const index of visibleSteps()) {
    const each = piece.steps[index];
    if (each.phase !== phase) made.push(element("h3", {}, (phase = each.phase)));
    const kind = each.failed ? "failed" : each.changes ? "" : "same";
    const row = element("div", { class: kind, role: "option", "data-step": index, "aria-selected": index === step, title: each.pass },
      element("span", {}, each.pass.replace(/^stepwell-/, "")), element("small", {}, index ? duration(each.seconds) : ""));
    made.push(row);
  }
  get("steps").replaceChildren(...made);
  get("steps").querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  const same = piece.steps.filter((each) => !each.changes).length;
  get("hidden").textContent = `show ${same} passes that changed nothing`;
}

function showStep(index) {
  step = index;
  const before = Math.max(0, index - 1);
  const options = piece.steps.slice(0, index).map((each, at) => [each, at]).filter(([each]) => each.changes);
  get("from").replaceChildren(...options.map(([each, at]) => element("option", { value: at }, `${each.phase}: ${each.pass}`)));
  const last = options.filter(([, at]) => at <= before).pop();
  if (last) get("from").value = last[1];
  showSteps();
  showFunctions();
}

function functionsNow() {
  const now = piece.steps[step].state, base = isDiff ? piece.steps[+get("from").value || 0].state : now;
  const old = new Map(base.map((chunk, at) => [piece.sameSymbol(chunk) || `#${piece.label(chunk)}`, chunk]));
  const pairs = now.map((chunk) => {
    const key = piece.sameSymbol(chunk) || `#${piece.label(chunk)}`, before = old.get(key) ?? null;
    old.delete(key);
    return { key, before, after: chunk };
  });
  old.forEach((before, key) => pairs.push({ key, before, after: null }));
  return pairs.filter((pair) => pair.key !== "#}");
}

function showFunctions() {
  setHits(piece.steps[step].state);
  const pairs = functionsNow(), wanted = get("function").value;
  const differ = pairs.filter(differs);
  const listed = isDiff ? [...differ, ...pairs.filter((pair) => !differ.includes(pair))] : pairs;
  const small = (isDiff ? differ : pairs).reduce((sum, pair) => sum + piece.chunks[pair.after ?? pair.before].text.length, 0) < 400000;
  const options = listed.map((pair) => {
    const has = hasHit(pair.after ?? pair.before), mark = isDiff && differ.includes(pair) ? " •" : "";
    return element("option", { value: pair.key }, `${piece.label(pair.after ?? pair.before)}${mark}${has ? " ◂" : ""}`);
  });
  if (small) options.unshift(element("option", { value: "" }, isDiff ? `all that changed (${differ.length})` : "all"));
  get("function").replaceChildren(...options);
  const keys = options.map((option) => option.value);
  const hit = listed.find((pair) => (!isDiff || differ.includes(pair)) && hasHit(pair.after ?? pair.before));
  get("function").value = keys.includes(wanted) && wanted ? wanted : small ? "" : hit?.key ?? keys[0] ?? "";
  if (chosen.length && hit && !hasHitKey(listed, get("function").value)) get("function").value = hit.key;
  showCode(pairs);
}

// Returns whether a function has changed, apart from the numbers of values and the names of kernels.
function differs({ before, after }) {
  if (before === after || before === null || after === null) return before !== after;
  const [old, now] = [before, after].map((chunk) => piece.lines(chunk).lines);
  return old.length !== now.length || old.some((line, at) => masked(line, piece.renamed) !== masked(now[at], piece.renamed));
}

const hasHitKey = (pairs, key) => key === "" || pairs.some((pair) => pair.key === key && hasHit(pair.after ?? pair.before));

function hasHit(chunk) {
  if (!chosen.length) return false;
  const { runs } = piece.chunks[chunk];
  for (let i = 1; i < runs.length; i += 2) if (hits[runs[i]]) return true;
  return false;
}

function showCode(pairs = functionsNow()) {
  const wanted = get("function").value;
  const shown = pairs.filter((pair) => (wanted ? pair.key === wanted : !isDiff || differs(pair)));
  get("code").replaceChildren();
  panes = (isDiff ? ["before", "after"] : ["text"]).map(() => new CodeView(get("code"), choosePlaces));
  if (!isDiff) panes[0].show(shown.flatMap((pair) => rowsOf(pair.after)));
  if (isDiff) {
    const left = [], right = [];
    for (const pair of shown) {
      const [a, b] = pair.before === pair.after && !wanted ? [[], []] : compared(piece, pair.before, pair.after, hits);
      for (const row of a) left.push(row);
      for (const row of b) right.push(row);
    }
    if (!left.length) { left.push({ kind: "fold", text: "nothing changed" }); right.push({ kind: "fold", text: "" }); }
    panes[0].show(left);
    panes[1].show(right);
    tie(panes[0].box, panes[1].box);
  }
  const count = panes[panes.length - 1].rows.filter((row) => /add|del/.test(row.kind)).length;
  get("count").textContent = isDiff ? `${panes[0].rows.filter((row) => /del/.test(row.kind)).length} removed, ${count} added` : `${panes[0].rows.length} lines`;
  const top = chosen.length ? panes[panes.length - 1].firstHit() : undefined;
  panes.forEach((pane) => (pane.box.scrollTop = top ?? 0));
}

function rowsOf(chunk, onlyHits = false, language = "mlir") {
  const { lines, locations } = piece.lines(chunk), rows = [];
  let skipped = 0;
  lines.forEach((text, at) => {
    const isHit = hits[locations[at]];
    if (onlyHits && !isHit && at > 0) { skipped++; return; }
    if (skipped) rows.push({ kind: "fold", text: `${skipped} lines for other ops` });
    skipped = 0;
    rows.push({ n: at + 1, text, places: piece.locations[locations[at]], kind: isHit && !onlyHits ? "hit" : "", language });
  });
  return rows;
}

function tie(one, other) {
  const follow = (from, to) => from.addEventListener("scroll", () => {
    if (to.scrollTop !== from.scrollTop) to.scrollTop = from.scrollTop;
    if (to.scrollLeft !== from.scrollLeft) to.scrollLeft = from.scrollLeft;
  });
  follow(one, other);
  follow(other, one);
}

function choosePlaces(places) {
  const wanted = new Set(places);
  choose(piece.graph.nodes.map((_, index) => index).filter((index) => piece.graph.nodes[index].places.some((place) => wanted.has(place))), false);
}

function choose(nodes, opens) {
  chosen = nodes;
  const placesOf = (some) => some.flatMap((index) => piece.graph.nodes[index].places);
  ownHits = piece.hits(placesOf(nodes));
  allHits = piece.hits(placesOf([...nodes, ...nodes.flatMap((index) => piece.heirs[index])]));
  if (graph.cards) { graph.choose(nodes.filter((index) => graph.cardOf[index])); }
  showOp();
  if (piece.steps[step]?.state) showFunctions();
  if (opens && nodes.length) showTab("op");
}

// If the chosen ops are no longer named, the ops that they were merged into are marked.
function setHits(chunks) {
  hits = ownHits;
  if (!chunks.some(hasHit)) hits = allHits;
}

function showOp() {
  const box = get("op");
  if (!chosen.length) {
    box.replaceChildren(element("p", { class: "quiet" }, "Click an op in the graph, or a line of IR, to see its lines at every level."));
    return;
  }
  const nodes = chosen.map((index) => piece.graph.nodes[index]);
  const parts = [element("h2", {}, nodes.map((node) => node.name).join(", "))];
  const list = element("dl");
  const fact = (name, value, kind = "") => list.append(element("dt", {}, name), element("dd", { class: kind }, value));
  fact("op", nodes.map((node) => node.op).join(", "));
  fact("results", nodes.flatMap((node) => node.types).join(", "), "mono");
  if (nodes.length === 1) onnxOf(nodes[0], fact);
  const calls = [...new Set(chosen.flatMap((index) => piece.assigned[index]))].map((index) => piece.kernels[index]);
  for (const call of calls) {
    const time = call.seconds === undefined ? `about ${duration(call.estimate)} (estimated)` : `${duration(call.seconds)} (measured)`;
    fact("kernel", `${call.class} @${call.symbol}: ${amount(call.flops, "FLOP")}, ${amount(call.bytes, "B")}, ${time}`);
    const names = call.places.map((place) => piece.places[place]);
    if (names.length > 1) fact("with", names.join(", "));
    reportOf(call.symbol).forEach(([name, value]) => fact(name, value));
    const schedule = scheduleOf(call.symbol);
    if (schedule) fact("schedule", schedule, "mono");
  }
  for (const { fate } of nodes.filter((node) => node.fate)) {
    const into = fate.into?.length ? ` into ${[fate.into].flat().join(", ")}` : "";
    fact("became", `${fate.fate}${into}${fate.by ? `, by ${fate.by}` : ""}`);
    for (const each of [...(fate.apart ?? []), ...(fate.refused ?? [])]) fact("not fused", Object.values(each).flat().join(": "));
  }
  for (const value of memoryOf(nodes)) {
    fact("for the backward pass", `${value.is_repeated ? "computed again" : "kept"}: ${value.why}; ${amount(value.bytes, "B")}, about ${duration(value.seconds)} to compute`);
  }
  if (!calls.length && piece.kernels.length && !nodes.some((node) => node.fate)) fact("kernel", "none: it was folded, or is a view of another tensor");
  parts.push(list);
  box.replaceChildren(...parts);
  for (const level of piece.levels()) levelOf(box, level.phase, level.pass, level.state);
  const code = calls.map((call) => piece.assembly[call.symbol]).filter((chunk) => chunk !== undefined);
  levelOf(box, "machine code", "", [...new Set(code)], "machine");
}

function levelOf(box, title, pass, chunks, language = "mlir") {
  setHits(chunks);
  const rows = chunks.filter(hasHit).flatMap((chunk) => [
    ...(language === "machine" ? [{ kind: "fold", text: piece.label(chunk) }] : []), ...rowsOf(chunk, true, language)]);
  if (!rows.length) return;
  const lines = rows.filter((row) => row.kind !== "fold").length;
  box.append(element("h3", {}, title, element("small", {}, `${lines} lines${pass ? `, after ${pass}` : ""}`)));
  const view = new CodeView(box, choosePlaces);
  view.box.style.height = `${Math.min(rows.length, 16) * ROW + 18}px`;
  view.show(rows);
}

// The entries of the report on a kernel that are not shown elsewhere.
function reportOf(symbol) {
  const row = piece.report?.kernels.find((kernel) => kernel.name === symbol) ?? {};
  const shown = ["name", "class", "calls", "ops", "flops", "bytes", "schedule"];
  const isPresent = (value) => value !== null && value !== "" && !(typeof value === "object" && !Object.keys(value).length);
  return Object.entries(row).filter(([name, value]) => !shown.includes(name) && isPresent(value)).map(([name, value]) => [titleOf(name), valueOf(name, value)]);
}

const UNITS = { seconds: duration, bytes: (value) => amount(value, "B"), flops: (value) => amount(value, "FLOP"), share: percent, bits: (value) => `${value} bits` };
const TITLES = { predicted_seconds: "estimated time", intensity: "FLOP per byte", library_calls: "calls of libraries", scalar_share: "share of scalar code" };

const unitOf = (name) => Object.keys(UNITS).find((unit) => name === unit || name.endsWith(`_${unit}`));

function titleOf(name) {
  const unit = unitOf(name);
  return TITLES[name] ?? (unit && name !== unit ? name.slice(0, -unit.length - 1) : name).replaceAll("_", " ");
}

// Formats a value of the report: in its unit, shapes as 4x8, operands by type and shape.
function valueOf(name, value) {
  const unit = unitOf(name);
  if (typeof value === "number") return unit ? UNITS[unit](value) : plainNumber(value);
  if (Array.isArray(value)) return value.map((each) => valueOf(name, each)).join(value.some((each) => each?.dtype) ? "; " : ", ");
  if (value === null || typeof value !== "object") return String(value);
  const { dtype, shape, ...rest } = value;
  const type = dtype === undefined ? "" : `${dtype}[${(shape ?? []).join("x")}]`;
  const others = Object.entries(dtype === undefined ? value : rest).filter(([, each]) => each !== null && each !== "" && each !== false && each?.length !== 0);
  return [type, ...others.map(([key, each]) => (each === true ? titleOf(key) : `${titleOf(key)} ${valueOf(key, each)}`))].filter(Boolean).join(", ");
}

// Shows a node as written in the model's file.
function onnxOf(node, fact) {
  const written = record.nodes?.[node.name];
  if (!written) return;
  fact("ONNX operator", written.operator);
  for (const [name, value] of Object.entries(written.attributes)) fact(`attribute ${name}`, value, "mono");
  fact("reads", written.inputs.map((name) => name || "(left out)").join(", "), "mono");
  fact("writes", written.outputs.map((name) => name || "(left out)").join(", "), "mono");
}

function scheduleOf(symbol) {
  const tiled = piece.levels().find((level) => level.phase === "tiled");
  const chunk = tiled?.state.find((each) => piece.symbol(each) === symbol);
  if (chunk === undefined) return "";
  const found = /stepwell\.schedule = (\{.*?\})\} \{$/.exec(piece.lines(chunk).lines[0]);
  return found ? found[1] : "";
}

function showKernels() {
  const total = piece.kernels.reduce((sum, kernel) => sum + piece.time(kernel), 0) || 1;
  const order = piece.kernels.map((_, index) => index).sort((a, b) => piece.time(b) - piece.time(a));
  const heads = [["class"], ["kernel"], ["ops"], ["FLOP", 1], ["bytes", 1], [piece.isMeasured ? "measured" : "estimated", 1], ["share", 1]];
  const head = element("tr", {}, ...heads.map(([name, number]) => element("th", number ? { class: "number" } : {}, name)));
  const rows = order.map((index) => {
    const kernel = piece.kernels[index], names = kernel.places.map((place) => piece.places[place]).join(", ");
    const cell = (text, kind = "") => element("td", kind ? { class: kind } : {}, text);
    const row = element("tr", { tabindex: "0" }, element("td", {}, element("i", { class: "dot", style: `background:${colourOf(kernel.class)}` }), kernel.class),
      element("td", { class: "mono", title: kernel.symbol }, kernel.symbol.slice(0, 15)), element("td", { title: names, class: "names" }, names), cell(amount(kernel.flops, "").trim(), "number"), cell(amount(kernel.bytes, "B"), "number"),
      cell(duration(piece.time(kernel)), "number"), cell(percent(piece.time(kernel) / total), "number"));
    row.addEventListener("click", () => { choosePlaces(kernel.places); if (chosen.length) { graph.center(chosen[0]); showTab("op"); } });
    return row;
  });
  get("kernels").replaceChildren(rows.length ? element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows))
    : element("p", { class: "quiet" }, "No kernels were formed."));
}

// Shows what a training step within a budget of memory keeps and computes again.
function showMemory() {
  const plan = piece.report?.recomputation;
  document.querySelector('[data-tab="memory"]').hidden = !plan;
  if (!plan) { get("memory").replaceChildren(); return; }
  const heads = [["value"], ["op"], ["bytes", 1], ["to compute", 1], ["why"]];
  const head = element("tr", {}, ...heads.map(([name, number]) => element("th", number ? { class: "number" } : {}, name)));
  const order = [...plan.values].sort((a, b) => b.is_repeated - a.is_repeated || b.bytes - a.bytes);
  const rows = order.map((value) => {
    const cell = (text, kind = "") => element("td", kind ? { class: kind } : {}, text);
    const row = element("tr", { tabindex: "0" }, cell(value.is_repeated ? "again" : "kept"), cell(value.node, "names"),
      cell(amount(value.bytes, "B"), "number"), cell(duration(value.seconds), "number"), cell(value.why));
    row.addEventListener("click", () => chooseNamed(value.node));
    return row;
  });
  const summary = `${amount(plan.peak, "B")} at most, ${amount(plan.budget, "B")} allowed; ${amount(plan.without, "B")} if nothing were computed again. About ${duration(plan.seconds)} to compute again.`;
  get("memory").replaceChildren(element("p", { class: "quiet" }, summary), element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
}

function chooseNamed(name) {
  const found = piece.graph.nodes.map((_, index) => index).filter((index) => [name, `${name}.again`].includes(piece.graph.nodes[index].name));
  choose(found, true);
  if (found.length) graph.center(found[0]);
}

// What a training step does with the values of some ops.
function memoryOf(nodes) {
  const names = nodes.map((node) => node.name.replace(/\.again$/, ""));
  return (piece.report?.recomputation?.values ?? []).filter((value) => names.includes(value.node));
}

function showTab(name) {
  document.querySelectorAll("nav button").forEach((button) => button.setAttribute("aria-selected", button.dataset.tab === name));
  document.querySelectorAll(".tab").forEach((tab) => (tab.hidden = tab.id !== name));
  if (name === "levels") panes.forEach((pane) => pane.draw());
}

function search() {
  const wanted = get("search").value.trim().toLowerCase(), list = get("found");
  if (!wanted) { list.hidden = true; graph.dim(null); return; }
  const text = (index) => {
    const node = piece.graph.nodes[index], calls = piece.assigned[index].map((call) => piece.kernels[call]);
    return [node.name, node.op, ...calls.map((call) => `${call.class} ${call.symbol}`)].join(" ").toLowerCase();
  };
  const found = piece.graph.nodes.map((_, index) => index).filter((index) => text(index).includes(wanted));
  const kept = new Set(found);
  graph.dim((index) => kept.has(index));
  list.replaceChildren(...found.slice(0, 60).map((index, at) => {
    const node = piece.graph.nodes[index];
    return element("li", { role: "option", "data-node": index, "aria-selected": at === 0 }, node.name, element("small", {}, node.op));
  }));
  if (!found.length) list.append(element("li", {}, element("small", {}, "no match")));
  list.hidden = false;
}

function take(index) {
  get("found").hidden = true;
  choose([index], true);
  graph.center(index);
}

function setDiff(value) {
  isDiff = value;
  get("show-diff").setAttribute("aria-pressed", value);
  get("show-text").setAttribute("aria-pressed", !value);
  document.querySelector(".from").hidden = !value;
  showFunctions();
}

function toggleHeat() {
  const now = get("heat").getAttribute("aria-pressed") !== "true";
  get("heat").setAttribute("aria-pressed", now);
  graph.colour(now);
  showLegend();
}

function move(by) {
  const order = visibleSteps(), at = order.indexOf(step) + by;
  if (order[at] !== undefined) { showTab("levels"); showStep(order[at]); }
}

function listen() {
  get("piece").addEventListener("change", (event) => showPiece(+event.target.value));
  get("search").addEventListener("input", search);
  get("found").addEventListener("click", (event) => { const item = event.target.closest("[data-node]"); if (item) take(+item.dataset.node); });
  get("heat").addEventListener("click", toggleHeat);
  get("fit").addEventListener("click", () => graph.fit());
  get("all").addEventListener("change", showSteps);
  get("steps").addEventListener("click", (event) => { const row = event.target.closest("[data-step]"); if (row) showStep(+row.dataset.step); });
  get("from").addEventListener("change", showFunctions);
  get("function").addEventListener("change", () => showCode());
  get("show-diff").addEventListener("click", () => setDiff(true));
  get("show-text").addEventListener("click", () => setDiff(false));
  get("failure").addEventListener("click", () => { if (piece.failure?.places?.length) choosePlaces(piece.failure.places); showTab("levels"); });
  document.querySelectorAll("nav button").forEach((button) => button.addEventListener("click", () => showTab(button.dataset.tab)));
  get("divider").addEventListener("pointerdown", (event) => {
    event.target.setPointerCapture(event.pointerId);
    const drag = (moved) => (get("picture").style.width = `${moved.clientX}px`);
    event.target.addEventListener("pointermove", drag);
    event.target.addEventListener("pointerup", () => event.target.removeEventListener("pointermove", drag), { once: true });
  });
  document.addEventListener("keydown", keyed);
}

function keyed(event) {
  if (event.target.id === "search") return searchKeyed(event);
  if (event.ctrlKey || event.metaKey || event.altKey || /SELECT|INPUT/.test(event.target.tagName)) return undefined;
  if (event.key === "Enter" && event.target.tagName === "TR") event.target.click();
  const tabs = { 1: "levels", 2: "op", 3: "kernels", ...(piece.report?.recomputation ? { 4: "memory" } : {}) };
  const actions = {
    "/": () => get("search").focus(), j: () => move(1), k: () => move(-1), d: () => setDiff(!isDiff), h: toggleHeat,
    f: () => graph.fit(), Escape: () => choose([], false),
  };
  const action = tabs[event.key] ? () => showTab(tabs[event.key]) : actions[event.key];
  if (action) { event.preventDefault(); action(); }
  return undefined;
}

function searchKeyed(event) {
  const items = [...get("found").querySelectorAll("[data-node]")], at = items.findIndex((item) => item.getAttribute("aria-selected") === "true");
  if (event.key === "Escape") { event.target.value = ""; search(); event.target.blur(); }
  if (event.key === "Enter" && items[at]) take(+items[at].dataset.node);
  const next = { ArrowDown: at + 1, ArrowUp: at - 1 }[event.key];
  if (next === undefined || !items[next]) return;
  event.preventDefault();
  items[at]?.setAttribute("aria-selected", "false");
  items[next].setAttribute("aria-selected", "true");
  items[next].scrollIntoView({ block: "nearest" });
}

main();
