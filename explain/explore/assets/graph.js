// Draws the graph: a card for each kernel with the ops that it computes, laid out in a worker.
"use strict";

const CARD = { width: 208, head: 22, row: 17, most: 12 };
const COLOURS = {
  convolution: "#4878cf", winograd: "#3a61b0", depthwise: "#6fa3e0", contraction: "#7b5ea7", attention: "#b04a8b",
  reduction: "#2f9e8f", elementwise: "#62a557", movement: "#a0865a", pooling: "#3f9fb5", "": "#9aa2aa",
};

function colourOf(kind) {
  if (COLOURS[kind] !== undefined) return COLOURS[kind];
  const hue = [...kind].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 360, 7);
  return `hsl(${hue} 38% 55%)`;
}

function heatColour(share) {
  return `color-mix(in oklab, var(--ground), #e8590c ${Math.round(Math.sqrt(share) * 85)}%)`;
}

function drawn(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Groups the ops into cards, one per kernel; an op without a kernel is a separate card.
function cardsOf(piece) {
  const cards = new Map(), cardOf = [];
  piece.graph.nodes.forEach((node, index) => {
    const calls = piece.assigned[index], key = calls.length ? `k${calls[0]}` : `n${index}`;
    if (!cards.has(key)) cards.set(key, { key, nodes: [], calls: new Set() });
    const card = cards.get(key);
    card.nodes.push(index);
    calls.forEach((call) => card.calls.add(call));
    cardOf.push(card);
  });
  const taken = new Set([...cards.values()].filter((card) => card.key[0] === "k").map((card) => +card.key.slice(1)));
  for (const card of cards.values()) {
    // Besides its own kernel, a card has those without a card: copies before and after it.
    card.calls = [...card.calls].filter((call) => card.key === `k${call}` || !taken.has(call));
    card.calls.forEach((call) => taken.add(call));
    card.kind = card.key[0] === "k" ? piece.kernels[+card.key.slice(1)].class : "";
    card.time = card.calls.reduce((sum, call) => sum + piece.time(call), 0);
    card.rows = Math.min(card.nodes.length, CARD.most) + (card.nodes.length > CARD.most ? 1 : 0);
    card.height = (card.kind ? CARD.head : 4) + card.rows * CARD.row + 5;
  }
  const edges = new Map();
  for (const [from, to] of piece.graph.edges) {
    const a = cardOf[from], b = cardOf[to];
    if (a !== b) edges.set(`${a.key}>${b.key}`, [a.key, b.key]);
  }
  return { cards: [...cards.values()], edges: [...edges.values()], cardOf };
}

// Layout takes seconds for many cards, so a worker does it. Its time grows faster than the graph, and its recursion with
// the depth: long graphs are laid out in parts, in the order of the program, one below the other.
function laidOut(cards, edges) {
  const work = `const MOST = 250;
  function part(cards, edges) {
    const graph = new dagre.graphlib.Graph();
    graph.setGraph({ nodesep: 22, ranksep: 30 });
    graph.setDefaultEdgeLabel(() => ({}));
    cards.forEach(([key, width, height]) => graph.setNode(key, { width, height }));
    edges.forEach(([from, to]) => graph.setEdge(from, to));
    dagre.layout(graph);
    return graph;
  }
  onmessage = ({ data: [cards, edges] }) => {
    const places = new Map(), paths = new Map(), partOf = new Map();
    cards.forEach(([key], index) => partOf.set(key, Math.floor(index / MOST)));
    const within = edges.map(([from, to]) => partOf.get(from) === partOf.get(to));
    for (let first = 0, top = 0; first < cards.length; first += MOST) {
      const here = first / MOST, some = cards.slice(first, first + MOST);
      const inner = edges.filter(([from], index) => within[index] && partOf.get(from) === here);
      const graph = part(some, inner);
      const entering = edges.filter(([from, to]) => partOf.get(to) === here && places.has(from));
      const gaps = entering.map(([from, to]) => places.get(from)[0] - graph.node(to).x);
      const left = gaps.length ? gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length : 0;
      some.forEach(([key, , height]) => {
        const { x, y } = graph.node(key);
        places.set(key, [x + left, y + top, height]);
      });
      inner.forEach(([from, to]) => paths.set(from + ">" + to, graph.edge(from, to).points.map(({ x, y }) => [x + left, y + top])));
      top += graph.graph().height + 40;
    }
    const between = ([from, to]) => {
      const [x0, y0, height0] = places.get(from), [x1, y1, height1] = places.get(to);
      return [[x0, y0 + height0 / 2], [x1, y1 - height1 / 2]];
    };
    postMessage([cards.map(([key]) => [key, ...places.get(key)]), edges.map((edge) => paths.get(edge.join(">")) ?? between(edge))]);
  };`;
  const url = URL.createObjectURL(new Blob([document.getElementById("layout").textContent, "\n", work]));
  const worker = new Worker(url);
  return new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => { resolve(data); worker.terminate(); URL.revokeObjectURL(url); };
    worker.onerror = (event) => reject(new Error(event.message));
    worker.postMessage([cards.map((card) => [card.key, CARD.width, card.height]), edges]);
  });
}

function pathOf(points) {
  let path = `M${points[0]}`;
  for (let i = 1; i < points.length; i++) {
    const [x0, y0] = points[i - 1], [x1, y1] = points[i], middle = (y0 + y1) / 2;
    path += `C${x0} ${middle} ${x1} ${middle} ${x1} ${y1}`;
  }
  return path;
}

// The whole graph in small, with the visible part marked; a click or a drag moves the view.
class Minimap {
  constructor(svg, onPlace) {
    this.svg = svg;
    this.view = drawn("rect", { class: "view" });
    const go = (event) => {
      const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      onPlace(place.x, place.y);
    };
    svg.addEventListener("pointerdown", (event) => { svg.setPointerCapture(event.pointerId); go(event); });
    svg.addEventListener("pointermove", (event) => { if (event.buttons) go(event); });
  }

  show(cards, box) {
    this.box = box;
    // The maximum size on the page; a long chain becomes a narrow strip.
    const width = box.right - box.left, height = box.bottom - box.top, scale = Math.min(150 / width, 190 / height);
    const size = [Math.max(width * scale, 34), Math.max(height * scale, 24)];
    this.svg.setAttribute("viewBox", `${box.left} ${box.top} ${width} ${height}`);
    this.svg.setAttribute("width", size[0]);
    this.svg.setAttribute("height", size[1]);
    const least = 1.5 / scale;
    this.cards = cards.map((card) => {
      const drawnHeight = Math.max(card.height, least);
      return drawn("rect", { x: card.x - CARD.width / 2, y: card.y - drawnHeight / 2, width: Math.max(CARD.width, least), height: drawnHeight, fill: colourOf(card.kind) });
    });
    this.svg.replaceChildren(...this.cards, this.view);
  }

  // Marks the visible part, in graph coordinates; the map is hidden if the whole graph is visible.
  look(left, top, width, height) {
    if (!this.box) return;
    const { box } = this;
    this.svg.toggleAttribute("hidden", left <= box.left && top <= box.top && left + width >= box.right && top + height >= box.bottom);
    for (const [name, value] of Object.entries({ x: left, y: top, width, height })) this.view.setAttribute(name, value);
  }

  choose(isChosen) {
    this.cards?.forEach((rect, index) => rect.classList.toggle("found", isChosen(index)));
  }

  hide() {
    this.box = undefined;
    this.svg.toggleAttribute("hidden", true);
  }
}

class GraphView {
  constructor(svg, onNode) {
    this.map = new Minimap(document.getElementById("minimap"), (x, y) => this.moveTo(x, y));
    this.svg = svg;
    this.onNode = onNode;
    this.world = drawn("g", {});
    svg.append(this.world);
    this.zoom = d3.zoom().scaleExtent([0.01, 4]).on("zoom", ({ transform }) => {
      this.world.setAttribute("transform", transform);
      this.world.classList.toggle("far", transform.k < 0.4);
      this.look();
    });
    new ResizeObserver(() => this.look()).observe(svg);
    d3.select(svg).call(this.zoom).on("dblclick.zoom", null);
  }

  async show(piece) {
    this.piece = piece;
    this.world.replaceChildren();
    this.map.hide();
    Object.assign(this, cardsOf(piece));
    const wait = document.getElementById("wait");
    wait.hidden = !this.cards.length;
    if (!this.cards.length) return;
    const [places, paths] = await laidOut(this.cards, this.edges);
    if (this.piece !== piece) return;
    wait.hidden = true;
    places.forEach(([, x, y], index) => Object.assign(this.cards[index], { x, y }));
    this.lines = paths.map((points, index) => {
      const line = drawn("path", { class: "edge", d: pathOf(points) });
      return { line, ends: this.edges[index] };
    });
    this.world.append(...this.lines.map(({ line }) => line), ...this.cards.map((card) => this.card(card)));
    this.colour(this.isHot);
    this.map.show(this.cards, this.bounds());
    this.fit(0);
  }

  bounds() {
    const half = CARD.width / 2 + 20, edge = (card, sign) => card.y + (sign * card.height) / 2;
    return {
      left: Math.min(...this.cards.map((card) => card.x)) - half, right: Math.max(...this.cards.map((card) => card.x)) + half,
      top: Math.min(...this.cards.map((card) => edge(card, -1))) - 20, bottom: Math.max(...this.cards.map((card) => edge(card, 1))) + 20,
    };
  }

  look() {
    const { x, y, k } = d3.zoomTransform(this.svg), { clientWidth: width, clientHeight: height } = this.svg;
    this.map.look(-x / k, -y / k, width / k, height / k);
  }

  moveTo(x, y) {
    const { k } = d3.zoomTransform(this.svg), { clientWidth: width, clientHeight: height } = this.svg;
    d3.select(this.svg).call(this.zoom.transform, d3.zoomIdentity.translate(width / 2 - x * k, height / 2 - y * k).scale(k));
  }

  card(card) {
    const left = card.x - CARD.width / 2, top = card.y - card.height / 2;
    const made = drawn("g", { class: "card", transform: `translate(${left} ${top})` });
    const head = card.kind ? CARD.head : 4;
    card.body = drawn("rect", { class: "body", width: CARD.width, height: card.height, rx: 5 });
    made.append(card.body, drawn("rect", { width: 4, height: card.height, rx: 2, fill: colourOf(card.kind) }));
    if (card.kind) {
      made.append(drawn("text", { class: "class", x: 12, y: 15 }, card.kind));
      made.append(drawn("text", { class: "time", x: CARD.width - 8, y: 15 }, duration(card.time)));
    }
    card.items = new Map();
    card.nodes.slice(0, CARD.most).forEach((index, row) => {
      const node = this.piece.graph.nodes[index], item = drawn("g", { class: "item", transform: `translate(4 ${head + row * CARD.row})` });
      const op = node.op.replace(/^stepwell\./, "");
      item.append(drawn("rect", { width: CARD.width - 5, height: CARD.row }), drawn("text", { x: 8, y: 12 }, op.slice(0, 30)));
      const room = 31 - Math.min(op.length, 30);
      if (room > 4 && node.name !== node.op) {
        const short = node.name.length > room ? "…" + node.name.slice(1 - room) : node.name;
        item.append(drawn("text", { class: "name", x: 16 + Math.min(op.length, 30) * 5.9, y: 12 }, short));
      }
      item.append(drawn("title", {}, `${node.name}\n${node.op}\n${node.types.join(", ")}`));
      item.addEventListener("click", (event) => { event.stopPropagation(); this.onNode([index]); });
      card.items.set(index, item);
      made.append(item);
    });
    if (card.nodes.length > CARD.most)
      made.append(drawn("text", { class: "name", x: 12, y: head + CARD.most * CARD.row + 12 }, `and ${card.nodes.length - CARD.most} more`));
    made.addEventListener("click", () => this.onNode(card.nodes));
    card.drawn = made;
    return made;
  }

  colour(isHot) {
    this.isHot = isHot;
    const most = Math.max(...this.cards.map((card) => card.time), 1e-12);
    for (const card of this.cards) if (card.body) card.body.style.fill = isHot ? heatColour(card.time / most) : "";
    this.map.cards?.forEach((rect, index) => (rect.style.fill = isHot ? heatColour(this.cards[index].time / most) : ""));
  }

  choose(nodes) {
    const wanted = new Set(nodes), keys = new Set(nodes.map((index) => this.cardOf[index].key));
    for (const card of this.cards) {
      card.drawn?.classList.toggle("chosen", keys.has(card.key));
      card.items?.forEach((item, index) => item.classList.toggle("chosen", wanted.has(index)));
    }
    this.map.choose((index) => keys.has(this.cards[index]?.key));
    this.lines?.forEach(({ line, ends }) => line.classList.toggle("near", keys.has(ends[0]) || keys.has(ends[1])));
  }

  dim(isFound) {
    for (const card of this.cards) card.drawn?.classList.toggle("dim", isFound !== null && !card.nodes.some(isFound));
  }

  center(node) {
    const card = this.cardOf[node];
    if (card?.x === undefined) return;
    const { clientWidth: width, clientHeight: height } = this.svg;
    const scale = Math.max(0.9, Math.min(1.4, d3.zoomTransform(this.svg).k));
    const there = d3.zoomIdentity.translate(width / 2 - card.x * scale, height / 2 - card.y * scale).scale(scale);
    d3.select(this.svg).transition().duration(350).call(this.zoom.transform, there);
  }

  fit(milliseconds = 350) {
    if (!this.cards?.length || this.cards[0].x === undefined) return;
    const xs = this.cards.map((card) => card.x), ys = this.cards.map((card) => card.y);
    const left = Math.min(...xs) - CARD.width, right = Math.max(...xs) + CARD.width;
    const top = Math.min(...ys) - 120, bottom = Math.max(...ys) + 120;
    const { clientWidth: width, clientHeight: height } = this.svg;
    const all = Math.min(width / (right - left), height / (bottom - top), 1.2);
    // A long chain would be illegibly thin as a whole: show its beginning.
    const scale = milliseconds ? all : Math.max(all, Math.min(0.75, width / (right - left)));
    const down = scale > all ? 20 - (top + 100) * scale : height / 2 - ((top + bottom) / 2) * scale;
    const there = d3.zoomIdentity.translate(width / 2 - ((left + right) / 2) * scale, down).scale(scale);
    d3.select(this.svg).transition().duration(milliseconds).call(this.zoom.transform, there);
  }
}
