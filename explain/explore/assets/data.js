// The record and queries on it: the functions after each pass, their lines, and the model's nodes of each line.
"use strict";

async function readRecord() {
  const packed = Uint8Array.from(atob(document.getElementById("record").textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

class Piece {
  constructor(data) {
    Object.assign(this, data);
    this.steps = [{ phase: "input", pass: "as read", seconds: 0, ops: 1, state: this.first }, ...this.steps];
    let state = this.first;
    for (const step of this.steps) {
      step.changes = step.state !== undefined;
      state = step.state = step.state ?? state;
    }
    this.lineCache = new Map();
    this.assigned = this.assign();
  }

  lines(chunk) {
    let known = this.lineCache.get(chunk);
    if (!known) {
      const { text, runs } = this.chunks[chunk];
      const lines = text.split("\n"), locations = new Uint32Array(lines.length);
      for (let i = 0, at = 0; i < runs.length; i += 2) locations.fill(runs[i + 1], at, (at += runs[i]));
      known = { lines, locations };
      this.lineCache.set(chunk, known);
      if (this.lineCache.size > 600) this.lineCache.delete(this.lineCache.keys().next().value);
    }
    return known;
  }

  symbol(chunk) {
    return this.chunks[chunk].symbol;
  }

  label(chunk) {
    return this.symbol(chunk) ? "@" + this.symbol(chunk) : this.chunks[chunk].text.split("\n", 1)[0].slice(0, 40);
  }

  // Kernels get their final names after they are formed.
  sameSymbol(chunk) {
    const symbol = this.symbol(chunk);
    return this.renamed[symbol] ?? symbol;
  }

  // For each location, whether it contains some of the given places.
  hits(places) {
    const wanted = new Set(places);
    return this.locations.map((location) => location.some((place) => wanted.has(place)));
  }

  // The kernel calls that compute each node of the graph, the slowest one first.
  assign() {
    const ofPlace = new Map();
    const order = this.kernels.map((_, index) => index).sort((a, b) => this.time(b) - this.time(a));
    for (const index of order)
      for (const place of this.kernels[index].places) ofPlace.set(place, [...(ofPlace.get(place) ?? []), index]);
    const nodes = this.graph.nodes.map((node) => {
      const calls = [...new Set(node.places.flatMap((place) => ofPlace.get(place) ?? []))];
      return calls.sort((a, b) => this.time(this.kernels[b]) - this.time(this.kernels[a]));
    });
    return this.inherited(nodes);
  }

  // A node that was merged into its readers is part of their kernel, although its name does not occur there.
  inherited(nodes) {
    const fates = new Map((this.report?.ops ?? []).map((op) => [op.name, op]));
    const gone = ["view", "constant", "shared", "removed"];
    const readers = nodes.map(() => []);
    for (const [from, to] of this.graph.edges) readers[from].push(to);
    const byName = new Map(this.graph.nodes.map((node, index) => [node.name, index]));
    this.heirs = nodes.map(() => []);
    for (let index = nodes.length - 1; index >= 0; index--) {
      const node = this.graph.nodes[index];
      node.fate = fates.get(node.name);
      const into = [node.fate?.into ?? []].flat().map((name) => byName.get(name));
      if (nodes[index].length || (gone.includes(node.fate?.fate) && !into.length)) continue;
      const heir = [...into, ...readers[index]].find((reader) => nodes[reader]?.length);
      if (heir === undefined) continue;
      nodes[index] = nodes[heir].slice(0, 1);
      this.heirs[index] = [heir, ...this.heirs[heir]];
    }
    return nodes;
  }

  time(kernel) {
    const call = typeof kernel === "number" ? this.kernels[kernel] : kernel;
    return call.seconds ?? call.estimate;
  }

  get isMeasured() {
    return this.kernels.some((kernel) => kernel.seconds !== undefined);
  }

  // The last state of each phase.
  levels() {
    const found = new Map();
    this.steps.forEach((step) => found.set(step.phase, step));
    return [...found.values()];
  }
}

// Three digits without an exponent; numbers from 999.5 on are rounded to integers.
function digits(number) {
  if (number === 0) return "0";
  return Math.abs(number) >= 999.5 ? grouped(Math.round(number)) : String(+number.toPrecision(3));
}

const grouped = (whole) => String(whole).replace(/\B(?=(\d{3})+$)/g, "\u202f");

function duration(seconds) {
  const steps = [[1, "s"], [1e3, "ms"], [1e6, "µs"], [1e9, "ns"]];
  const [factor, unit] = steps.find(([size]) => seconds * size >= 1) ?? steps[3];
  return `${digits(seconds * factor)} ${unit}`;
}

function amount(number, unit) {
  const step = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([size]) => number >= 0.9995 * size);
  return step ? `${digits(number / step[0])} ${step[1]}${unit}` : `${digits(number)} ${unit}`;
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;

// Integers are exact, in groups of three digits; fractions have three digits, small ones an exponent.
function plainNumber(number) {
  if (Number.isInteger(number)) return number < 0 ? `-${grouped(-number)}` : grouped(number);
  return Math.abs(number) < 1e-3 ? number.toExponential(2) : digits(number);
}

// Creates an element with attributes and children; strings become text, never markup.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
