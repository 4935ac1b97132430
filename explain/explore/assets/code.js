// Coloured text, with elements only for the visible lines, and the comparison of two texts.
"use strict";

const ROW = 18;

hljs.registerLanguage("mlir", () => ({
  contains: [
    { scope: "string", begin: /"/, end: /"/, contains: [{ begin: /\\./ }] },
    { scope: "comment", begin: /\/\//, end: /$/ },
    { scope: "variable", begin: /%[\w.$#-]+/ },
    { scope: "symbol", begin: /@[\w.$-]+/ },
    { scope: "type", begin: /!?\b(tensor|memref|vector|index|none|[su]?i\d+|b?f\d+\w*|!\w+(\.\w+)*)\b/ },
    { scope: "keyword", begin: /\b[a-z_]\w*(\.[a-z_]\w*)+\b|\b(func|return|call|module|to|step|iter_args|ins|outs)\b/ },
    { scope: "meta", begin: /#\w+|\^\w+/ },
    { scope: "number", begin: /-?\b\d+(\.\d+)?(e[+-]?\d+)?\b|\b0x[0-9A-Fa-f]+\b/i },
  ],
}));
hljs.registerLanguage("machine", () => ({
  contains: [
    { scope: "symbol", begin: /^[.\w$]+:/ },
    { scope: "keyword", begin: /^\s+[a-z][\w.]*/ },
    { scope: "meta", begin: /^\s+\.\w+/ },
    { scope: "variable", begin: /%\w+/ },
    { scope: "number", begin: /\$?-?\b(0x[0-9a-f]+|\d+)\b/ },
    { scope: "symbol", begin: /\.L\w+/ },
  ],
}));

// Rows are {n, text, kind, places, language}; elements exist only for the visible ones.
class CodeView {
  constructor(parent, onPlaces) {
    this.box = element("div", { class: "code", tabindex: "0" });
    this.size = element("div", { class: "size" });
    this.box.append(this.size);
    parent.append(this.box);
    this.rows = [];
    this.box.addEventListener("scroll", () => this.draw());
    this.box.addEventListener("click", (event) => {
      const row = event.target.closest(".row[data-places]");
      if (row) onPlaces(JSON.parse(row.dataset.places));
    });
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  show(rows, top = 0) {
    this.rows = rows;
    const longest = rows.reduce((most, row) => Math.max(most, row.text?.length ?? 0), 0);
    this.size.style.height = `${rows.length * ROW}px`;
    this.size.style.width = `${Math.min(longest, 4000) * 7.3 + 80}px`;
    this.box.scrollTop = top;
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / ROW) - 10);
    const last = Math.min(this.rows.length, first + Math.ceil(this.box.clientHeight / ROW) + 20);
    const made = [];
    for (let index = first; index < last; index++) made.push(this.row(this.rows[index], index));
    this.size.replaceChildren(...made);
  }

  row({ n, text, kind, places, language }, index) {
    const made = element("div", { class: `row ${kind ?? ""}`, style: `top:${index * ROW}px` });
    if (places?.length) made.dataset.places = JSON.stringify(places);
    if (kind === "fold") made.append(text);
    if (kind === "fold" || text === undefined) return made;
    const shown = element("span");
    // The library escapes the text.
    shown.innerHTML = hljs.highlight(text.slice(0, 4000), { language: language ?? "mlir" }).value;
    made.append(element("span", { class: "n" }, String(n)), shown);
    return made;
  }

  firstHit() {
    const index = this.rows.findIndex((row) => row.kind?.includes("hit"));
    return index < 0 ? undefined : Math.max(0, (index - 4) * ROW);
  }
}

// Numbers of values shift with every added or removed op: lines that differ only in these are equal.
const masked = (line, renamed) => line.replace(/%\w+(#\d+)?/g, "%").replace(/\^bb\d+/g, "^")
  .replace(/@(\w+)/g, (all, name) => `@${renamed[name] ?? name}`);

// The rows of one function before and after, side by side; a side is null if the function does not exist.
function compared(piece, before, after, hits) {
  const old = before === null ? { lines: [], locations: [] } : piece.lines(before);
  const now = after === null ? { lines: [], locations: [] } : piece.lines(after);
  const plain = (side) => side.lines.map((line) => masked(line, piece.renamed));
  const parts = Diff.diffArrays(plain(old), plain(now), { timeout: 2000 })
    ?? [{ removed: true, count: old.lines.length }, { added: true, count: now.lines.length }];
  const left = [], right = [];
  let i = 0, j = 0;
  const row = (side, at, kind) => ({
    n: at + 1, text: side.lines[at], places: piece.locations[side.locations[at]],
    kind: `${kind} ${hits[side.locations[at]] ? "hit" : ""}`,
  });
  const even = () => {
    while (left.length < right.length) left.push({ kind: "pad" });
    while (right.length < left.length) right.push({ kind: "pad" });
  };
  for (const [index, part] of parts.entries()) {
    if (part.removed) for (let k = 0; k < part.count; k++) left.push(row(old, i++, "del"));
    else if (part.added) for (let k = 0; k < part.count; k++) right.push(row(now, j++, "add"));
    else {
      even();
      const ends = [index === 0 ? 0 : 3, index === parts.length - 1 ? 0 : 3];
      const hidden = part.count - ends[0] - ends[1];
      for (let k = 0; k < part.count; k++) {
        if (hidden > 4 && k === ends[0]) {
          const fold = { kind: "fold", text: `${hidden} lines as before` };
          left.push(fold); right.push(fold);
        }
        const isHidden = hidden > 4 && k >= ends[0] && k < ends[0] + hidden;
        if (!isHidden) { left.push(row(old, i, "")); right.push(row(now, j, "")); }
        i++; j++;
      }
    }
  }
  even();
  return [left, right];
}
