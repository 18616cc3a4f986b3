/* Neighbours, analogies and maps of words, computed by the page that shows them.

   The page holds a table of words and one row of whole numbers from -127 to 127 for
   each (`lib.word_page` packs it). Only directions count here, so a row needs no scale:
   every vector is brought to length 1 first. The answers are those of `lib.geometry`
   on the same rows, in the same order; the tests compare them.

   In this order: numbers, words, the table, the drawing, the controls. */
(() => {
  "use strict";

  const ANSWERS = 8; // rows of a table of answers
  const COMPLETIONS = 8; // words that are offered while one is typed
  const ON_MAP = 60; // points that a map may hold
  const COMMAS = 4; // pieces of a list that may be one word, such as 1,000,000
  const MINUS = "\u2212";

  // ---- Numbers ------------------------------------------------------------------

  function dot(x, y) {
    let sum = 0;
    for (let i = 0; i < x.length; i++) sum += x[i] * y[i];
    return sum;
  }

  /** Scale a vector to length 1; zeros stay as they are. */
  function unit(x) {
    const length = Math.sqrt(dot(x, x));
    return Float64Array.from(x, (value) => (length ? value / length : 0));
  }

  /** Add vectors, each times its weight: combine([1, -1, 1], [b, a, c]) is b - a + c. */
  function combine(weights, vectors) {
    const sum = new Float64Array(vectors[0].length);
    vectors.forEach((x, n) => x.forEach((value, i) => (sum[i] += weights[n] * value)));
    return sum;
  }

  /** List the k rows of the largest scores, the lower row first where two are equal. */
  function best(scores, k, leftOut) {
    const rows = Array.from(scores.keys()).filter((row) => !leftOut.has(row));
    return rows.sort((i, j) => scores[j] - scores[i] || i - j).slice(0, k);
  }

  /** Count at which place a row comes: after all that share its score. */
  function rankOf(row, scores, leftOut) {
    let rank = 0;
    scores.forEach((score, i) => {
      if (score >= scores[row] && !leftOut.has(i)) rank += 1;
    });
    return rank;
  }

  /** Find the eigenvectors of a symmetric matrix by Jacobi's rotations. */
  function eigenvectors(matrix) {
    const n = matrix.length;
    const a = matrix.map((row) => [...row]);
    const v = a.map((_, i) => a.map((_, j) => Number(i === j)));
    const turn = (m, p, q, c, s) => {
      [m[p], m[q]] = [c * m[p] - s * m[q], s * m[p] + c * m[q]];
    };
    const largest = Math.max(...a.flat().map(Math.abs));
    for (let sweep = 0; sweep < 50; sweep++) {
      let moved = false;
      for (let p = 0; p < n; p++) {
        for (let q = p + 1; q < n; q++) {
          if (Math.abs(a[p][q]) <= 1e-15 * largest) continue;
          moved = true;
          const angle = 0.5 * Math.atan2(2 * a[p][q], a[q][q] - a[p][p]);
          const [c, s] = [Math.cos(angle), Math.sin(angle)];
          for (const row of a) turn(row, p, q, c, s);
          for (let i = 0; i < n; i++) {
            [a[p][i], a[q][i]] = [c * a[p][i] - s * a[q][i], s * a[p][i] + c * a[q][i]];
          }
          for (const row of v) turn(row, p, q, c, s);
        }
      }
      if (!moved) break;
    }
    const found = a.map((_, i) => ({ value: a[i][i], vector: v.map((row) => row[i]) }));
    return found.sort((x, y) => y.value - x.value);
  }

  /** Project points onto the two directions in which they vary most.

      Of each direction the sign is taken that makes its largest entry positive, as in
      `lib.geometry.pca`. `shown` is the share of the variance that the plane holds. */
  function principalPlane(points) {
    const equal = points.map(() => 1 / points.length);
    const mean = combine(equal, points);
    const centred = points.map((x) => combine([1, -1], [x, mean]));
    const products = centred.map((x) => centred.map((y) => dot(x, y)));
    const all = products.reduce((sum, row, i) => sum + row[i], 0);
    const spread = eigenvectors(products).slice(0, 2);
    const columns = spread.map(({ value, vector }) => {
      if (value <= 1e-12 * all || !all) return points.map(() => 0);
      const axis = combine(vector, centred);
      const peak = axis.reduce((x, y) => (Math.abs(y) > Math.abs(x) ? y : x));
      return vector.map((share) => share * Math.sign(peak) * Math.sqrt(value));
    });
    if (columns.length < 2) columns.push(points.map(() => 0));
    const shown = all ? spread.reduce((sum, { value }) => sum + value, 0) / all : 1;
    return { places: points.map((_, i) => columns.map((column) => column[i])), shown };
  }

  // ---- Words --------------------------------------------------------------------

  const fold = (text) => text.normalize("NFC").toLowerCase();

  /** Give a word as it can be seen: one that is all space shows that it is there. */
  function visible(word) {
    if (word === "") return "(empty)";
    return word.trim() ? word : "␣".repeat(word.length);
  }

  /** Say how alike two spellings are, from 0 to 1: twice the length of their longest
      common subsequence, divided by both lengths. */
  function likeness(x, y) {
    let above = new Array(y.length + 1).fill(0);
    for (const letter of x) {
      const row = [0];
      for (let j = 0; j < y.length; j++) {
        const longer = Math.max(above[j + 1], row[j]);
        row.push(letter === y[j] ? Math.max(above[j] + 1, longer) : longer);
      }
      above = row;
    }
    return (2 * above[y.length]) / (x.length + y.length);
  }

  const twoDigits = (x) =>
    x
      .toFixed(2)
      .replace(/^-0\.00$/, "0.00")
      .replace("-", MINUS);
  const count = (n) => n.toLocaleString("en");
  const percent = (share) => `${Math.round(100 * share)} %`;

  // ---- The table ----------------------------------------------------------------

  function bytesOf(base64) {
    const text = atob(base64);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes;
  }

  class Table {
    constructor(packed) {
      const { width, words, rows, examples } = JSON.parse(packed);
      this.words = JSON.parse(new TextDecoder().decode(bytesOf(words)));
      this.width = width;
      this.numbers = new Int8Array(bytesOf(rows).buffer); // [V · d]
      this.examples = examples; // rows [a, b, c, expected]
      this.folded = this.words.map(fold);
      this.rows = new Map();
      for (const names of [this.folded, this.words]) {
        for (let row = names.length - 1; row >= 0; row--)
          this.rows.set(names[row], row);
      }
      this.lengths = Float64Array.from(this.words, (_, row) =>
        Math.sqrt(dot(this.row(row), this.row(row))),
      );
    }

    row(number) {
      return this.numbers.subarray(number * this.width, (number + 1) * this.width);
    }

    unit(row) {
      return unit(this.row(row));
    }

    /** Find the row of what was typed: as it stands, trimmed, or in other capitals. */
    find(text) {
      const tries = [text, text.trim(), fold(text.trim())];
      return tries.map((one) => this.rows.get(one)).find((row) => row !== undefined);
    }

    /** Take the cosine of every row with a vector; one without direction gets 0.

        They are cut to twelve digits: what algebra says is equal, such as the cosines
        of b and of c with b + c, is equal here too, and the lower row comes first. */
    cosines(vector) {
      const query = unit(vector);
      return this.lengths.map((length, row) => {
        if (!length) return 0;
        return Math.round((1e12 * dot(query, this.row(row))) / length) / 1e12;
      });
    }

    /** The mean cosine of two different rows: what a cosine is to be held against. */
    meanCosine() {
      const n = this.words.length;
      const sum = new Float64Array(this.width);
      let own = 0; // rows that have a direction
      for (let row = 0; row < n; row++) {
        if (!this.lengths[row]) continue;
        own += 1;
        const numbers = this.row(row);
        for (let i = 0; i < sum.length; i++) sum[i] += numbers[i] / this.lengths[row];
      }
      return n > 1 ? (dot(sum, sum) - own) / (n * (n - 1)) : 0;
    }

    beginningWith(text) {
      const start = fold(text.trimStart());
      if (!start) return [];
      const exact = this.find(text);
      const found = exact === undefined ? [] : [exact];
      for (let row = 0; row < this.words.length && found.length < COMPLETIONS; row++) {
        if (row !== exact && this.folded[row].startsWith(start)) found.push(row);
      }
      return found;
    }

    nearestSpellings(text) {
      const typed = [...fold(text.trim())];
      const scored = [];
      this.folded.forEach((word, row) => {
        const most = 2 * Math.min(word.length, typed.length);
        if (most < 0.6 * (word.length + typed.length)) return;
        const score = likeness(typed, [...word]);
        if (score >= 0.6) scored.push({ row, score });
      });
      return scored.sort((x, y) => y.score - x.score || x.row - y.row).slice(0, 3);
    }
  }

  // ---- The drawing --------------------------------------------------------------

  const SVG = "http://www.w3.org/2000/svg";

  /** Make an element; text is set as text, so no word can become markup. */
  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    return fill(made, attributes, children);
  }

  function drawn(name, attributes = {}, ...children) {
    const made = document.createElementNS(SVG, name);
    return fill(made, attributes, children);
  }

  function fill(made, attributes, children) {
    for (const [key, value] of Object.entries(attributes))
      made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  /** A word in its own direction of writing, whatever stands around it. */
  const named = (word, kind = "wm-word") =>
    element("bdi", { class: kind }, visible(word));

  const SIDES = [
    [1, 0],
    [-1, 0],
    [0, -1],
    [0, 1],
    [1, -1],
    [-1, -1],
    [1, 1],
    [-1, 1],
  ];
  const DOT = 4;

  function overlap(x, y) {
    const wide = Math.min(x.right, y.right) - Math.max(x.left, y.left);
    const high = Math.min(x.bottom, y.bottom) - Math.max(x.top, y.top);
    return Math.max(0, wide) * Math.max(0, high);
  }

  function boxAround(x, y, wide, high) {
    return {
      left: x - wide / 2,
      right: x + wide / 2,
      top: y - high / 2,
      bottom: y + high / 2,
    };
  }

  /** Put each label beside its dot where it covers least, the first ones first. */
  function placeLabels(dots, widths, tall, arrows, wide, high) {
    const taken = dots.map(([x, y]) => boxAround(x, y, 3 * DOT, 3 * DOT));
    for (const [from, to] of arrows) {
      for (let t = 0.1; t < 1; t += 0.1) {
        const at = [0, 1].map(
          (axis) => dots[from][axis] * (1 - t) + dots[to][axis] * t,
        );
        taken.push(boxAround(...at, 2 * DOT, 2 * DOT));
      }
    }
    return dots.map(([x, y], n) => {
      let chosen = null;
      for (const ring of [0, 14, 28, 42, 60, 80]) {
        for (const [dx, dy] of SIDES) {
          const at = [
            x + dx * (widths[n] / 2 + (dy ? 2 : DOT + 5) + ring),
            y + dy * (tall / 2 + (dx ? 2 : DOT + 3) + ring),
          ];
          const box = boxAround(...at, widths[n], tall);
          const inside = overlap(box, { left: 0, right: wide, top: 0, bottom: high });
          const hidden = widths[n] * tall - inside;
          const covered = taken.reduce((sum, other) => sum + overlap(box, other), 0);
          const cost = covered + 20 * hidden + ring;
          if (!chosen || cost < chosen.cost) chosen = { at, box, cost, ring };
        }
        if (chosen.cost <= ring) break;
      }
      taken.push(chosen.box);
      return chosen;
    });
  }

  function arrow(from, to) {
    const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
    const length = Math.hypot(dx, dy);
    if (length < 4 * DOT) return drawn("g");
    const [ux, uy] = [dx / length, dy / length];
    const end = [to[0] - ux * (DOT + 3), to[1] - uy * (DOT + 3)];
    const back = [end[0] - ux * 9, end[1] - uy * 9];
    const head = [
      end,
      [back[0] - uy * 4, back[1] + ux * 4],
      [back[0] + uy * 4, back[1] - ux * 4],
    ];
    return drawn(
      "g",
      { class: "wm-arrow" },
      drawn("line", { x1: from[0], y1: from[1], x2: back[0], y2: back[1] }),
      drawn("polygon", { points: head.map((p) => p.join()).join(" ") }),
    );
  }

  function measure(text, font) {
    measure.context ??= document.createElement("canvas").getContext("2d");
    measure.context.font = font;
    return measure.context.measureText(text).width;
  }

  const short = (word) => {
    const letters = [...visible(word)];
    const cut = letters.length > 22;
    return cut ? `${letters.slice(0, 21).join("")}…` : letters.join("");
  };

  /** Draw points {name, kind} at places [n][2], to one scale both ways. */
  function drawMap(points, places, arrows, wide, label) {
    const [xs, ys] = [0, 1].map((axis) => places.map((place) => place[axis]));
    const size = (values) => Math.max(...values) - Math.min(...values);
    const margin = [Math.min(80, wide / 6), 34];
    const least = Math.max(size(xs), size(ys), 1e-9);
    const tall = Math.max(220, Math.min(440, wide));
    const scale = Math.min(
      (wide - 2 * margin[0]) / Math.max(size(xs), 0.25 * least),
      (tall - 2 * margin[1]) / Math.max(size(ys), 0.1 * least),
    );
    const high = Math.max(180, size(ys) * scale + 2 * margin[1]);
    const middle = (values) => (Math.max(...values) + Math.min(...values)) / 2;
    const dots = places.map(([x, y]) => [
      wide / 2 + (x - middle(xs)) * scale,
      high / 2 - (y - middle(ys)) * scale,
    ]);
    const letters = wide < 420 ? 12 : 14; // pixels
    const font = `600 ${letters}px system-ui, sans-serif`;
    const widths = points.map((point) => measure(short(point.name), font) + 6);
    const labels = placeLabels(dots, widths, letters + 4, arrows, wide, high);
    const svg = drawn("svg", {
      viewBox: `0 0 ${wide} ${Math.round(high)}`,
      role: "img",
      "aria-label": label,
      style: `font-size: ${letters}px`,
    });
    svg.append(...arrows.map(([from, to]) => arrow(dots[from], dots[to])));
    points.forEach((point, n) => svg.append(...drawPoint(point, dots[n], labels[n])));
    return svg;
  }

  function drawPoint({ name, kind }, [x, y], { at, ring }) {
    const parts = [];
    if (ring)
      parts.push(
        drawn("line", { class: "wm-lead", x1: x, y1: y, x2: at[0], y2: at[1] }),
      );
    const cross = `M${x - 5},${y - 5}l10,10m0,-10l-10,10`;
    parts.push(
      kind === "wm-sum"
        ? drawn("path", { class: kind, d: cross })
        : drawn("circle", { class: kind, cx: x, cy: y, r: DOT }),
      drawn("text", { class: kind, x: at[0], y: at[1], dy: "0.35em" }, short(name)),
    );
    return parts;
  }

  // ---- The controls -------------------------------------------------------------

  class Problem extends Error {
    constructor(input, parts, spellings = []) {
      super("a question that cannot be answered");
      Object.assign(this, { input, parts, spellings });
    }
  }

  /** Offer words under a text field while one is typed: an editable combobox. */
  function complete(input, table, id, accept) {
    const list = element("ul", {
      role: "listbox",
      id,
      "aria-label": "words that begin so",
    });
    const several = input.closest("[data-field]").dataset.field === "words";
    let active = -1;
    list.hidden = true;
    input.after(list);
    fill(
      input,
      {
        role: "combobox",
        "aria-autocomplete": "list",
        "aria-controls": id,
        "aria-expanded": "false",
        autocomplete: "off",
        autocapitalize: "off",
        spellcheck: "false",
        dir: "auto",
      },
      [],
    );

    const close = () => {
      list.hidden = true;
      active = -1;
      input.setAttribute("aria-expanded", "false");
      input.removeAttribute("aria-activedescendant");
    };
    const take = (word) => {
      const before = several ? input.value.replace(/[^,]*$/, "") : "";
      input.value = before + (before && " ") + word;
      close();
      if (!several) accept();
    };
    const open = () => {
      const typed = several ? input.value.split(",").pop() : input.value;
      const done = several && table.find(typed) !== undefined; // nothing in its way
      const rows = done ? [] : table.beginningWith(typed);
      list.replaceChildren(
        ...rows.map((row, n) => {
          const option = element("li", {
            role: "option",
            id: `${id}-${n}`,
            "aria-selected": "false",
          });
          option.append(named(table.words[row]));
          option.addEventListener("pointerdown", (event) => {
            event.preventDefault(); // the field keeps the focus
            take(table.words[row]);
          });
          option.dataset.word = table.words[row];
          return option;
        }),
      );
      close();
      list.hidden = !rows.length;
      input.setAttribute("aria-expanded", String(rows.length > 0));
    };
    const move = (step) => {
      if (list.hidden) open();
      const options = [...list.children];
      if (!options.length) return;
      active =
        (active + step + options.length + (active < 0 && step < 0)) % options.length;
      options.forEach((option, n) =>
        option.setAttribute("aria-selected", String(n === active)),
      );
      options[active].scrollIntoView({ block: "nearest" });
      input.setAttribute("aria-activedescendant", options[active].id);
    };
    input.addEventListener("input", open);
    input.addEventListener("blur", close);
    input.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      const chosen = list.children[active];
      const keys = {
        ArrowDown: () => move(1),
        ArrowUp: () => move(-1),
        Escape: close,
        // JupyterLab keeps Enter from the form, so it is asked here.
        Enter: () => (chosen ? take(chosen.dataset.word) : input.form.requestSubmit()),
      };
      if (!keys[event.key] || (event.key === "Escape" && list.hidden)) return;
      event.preventDefault();
      keys[event.key]();
    });
    return close;
  }

  /** Name this machine as no other on the page; each brings a program of its own. */
  function freeName() {
    let number = 1;
    while (document.getElementById(`word-machine-${number}`)) number += 1;
    return `word-machine-${number}`;
  }

  function mount(box) {
    const id = freeName();
    const table = new Table(box.querySelector(".wm-table").textContent);
    const $ = (selector) => box.querySelector(selector);
    const form = (mode) => $(`form[data-mode="${mode}"]`);
    const field = (name) => $(`[data-field="${name}"] input`);
    const everyday = table.meanCosine();
    const closers = [];
    let map = null;

    // -- What was asked

    function unknown(input, text) {
      const size = `${count(table.words.length)} words of this page`;
      const parts = [
        element("q", {}, named(text.trim())),
        ` is not among the ${size}.`,
      ];
      return new Problem(input, parts, table.nearestSpellings(text));
    }

    function rowIn(name) {
      const input = field(name);
      const row = table.find(input.value);
      if (row !== undefined) return row;
      if (!input.value.trim()) {
        const label = input.closest("[data-field]").querySelector("label").textContent;
        throw new Problem(input, [`Please type a word for “${label.trim()}”.`]);
      }
      throw unknown(input, input.value);
    }

    /** Read a list of words, some of which may hold a comma themselves: 1,000. */
    function rowsInList() {
      const input = field("words");
      const parts = input.value.split(",");
      const rows = new Set();
      for (let n = 0; n < parts.length; n++) {
        if (!parts[n].trim()) continue;
        let end = Math.min(n + COMMAS, parts.length);
        let row;
        for (; end > n && row === undefined; end--)
          row = table.find(parts.slice(n, end).join(","));
        if (row === undefined) throw unknown(input, parts[n]);
        rows.add(row);
        n = end;
      }
      if (rows.size) return [...rows];
      const ask = "Please type the words of the map, with commas between.";
      throw new Problem(input, [ask]);
    }

    // -- What is answered

    function sheet(caption, heads, rows, foot = []) {
      const line = (cells) => element("tr", {}, ...cells);
      return element(
        "div",
        { class: "wm-scroll" },
        element(
          "table",
          {},
          element("caption", {}, ...caption),
          element(
            "thead",
            {},
            line(heads.map((head) => element("th", { scope: "col" }, ...head))),
          ),
          element("tbody", {}, ...rows.map(line)),
          element("tfoot", {}, ...foot.map(line)),
        ),
      );
    }

    const words = (...parts) =>
      parts.map((part) => (typeof part === "number" ? named(table.words[part]) : part));

    function sentence(...parts) {
      $(".wm-answer").replaceChildren(...words(...parts));
    }

    function answerAnalogy() {
      const [a, b, c] = ["a", "b", "c"].map(rowIn);
      const example = table.examples.findIndex(
        (rows) => rows.slice(0, 3).join() === [a, b, c].join(),
      );
      $(".wm-example select").value = String(example);
      const expected = field("expected").value.trim() ? rowIn("expected") : undefined;
      const kept = form("analogy").querySelector('[value="kept"]').checked;
      const leftOut = new Set(kept ? [] : [a, b, c]);
      const [ua, ub, uc] = [a, b, c].map((row) => table.unit(row));
      const sum = combine([1, -1, 1], [ub, ua, uc]);
      const ways = [
        { name: [b, ` ${MINUS} `, a, " + ", c], vector: sum },
        { name: [c, " alone"], vector: uc },
        { name: [b, " + ", c], vector: combine([1, 1], [ub, uc]) },
      ];
      for (const way of ways) {
        way.cosines = table.cosines(way.vector);
        way.rows = best(way.cosines, ANSWERS, leftOut);
      }
      showAnalogy(ways, { a, b, c, expected, kept, leftOut });
      const near = ways[0].rows.slice(0, 4);
      const rows = [a, b, c, ...(expected === undefined ? [] : [expected]), ...near];
      const points = pointsOf([...new Set(rows)], new Set([a, b, c]), expected);
      const target = { name: "the sum", kind: "wm-sum", vector: sum };
      points.splice(new Set([a, b, c]).size, 0, target);
      const at = (row) => points.findIndex((point) => point.row === row);
      showMap(
        points,
        [
          [at(a), at(b)],
          [at(c), points.indexOf(target)],
        ],
        " The arrows are the same step twice.",
      );
    }

    function showAnalogy(ways, { a, b, c, expected, kept, leftOut }) {
      const inputs = new Set([a, b, c]);
      const cell = (way, n) => {
        const row = way.rows[n];
        const made = element("td");
        if (row === undefined) return made;
        made.append(
          named(table.words[row]),
          " ",
          element("span", { class: "wm-cosine" }, twoDigits(way.cosines[row])),
        );
        if (inputs.has(row)) made.append(" ", element("small", {}, "input"));
        if (row === expected) {
          made.className = "wm-expected";
          made.append(" ", element("small", {}, "guess"));
        }
        return made;
      };
      const rows = ways[0].rows.map((_, n) => [
        element("th", { scope: "row" }, String(n + 1)),
        ...ways.map((way) => cell(way, n)),
      ]);
      const ranks = ways.map(({ cosines }) => {
        if (leftOut.has(expected)) return "left out";
        return `at rank ${count(rankOf(expected, cosines, leftOut))}`;
      });
      const ranked = (rank) => element("td", {}, ...words(expected, ` ${rank}`));
      const foot = expected === undefined ? [] : [[element("td"), ...ranks.map(ranked)]];
      const caption =
        "Nearest words and their cosines, with the offset and without; " +
        `the inputs are ${kept ? "kept" : "left out"}.`;
      const heads = [
        [element("span", { class: "wm-unseen" }, "place")],
        ...ways.map((way) => words(...way.name)),
      ];
      $(".wm-results").replaceChildren(sheet([caption], heads, rows, foot));
      sayAnalogy(ways, expected, ranks);
    }

    function sayAnalogy(ways, expected, ranks) {
      const [sum, alone, both] = ways;
      const first = (way) =>
        way.rows.length
          ? [way.rows[0], ` (${twoDigits(way.cosines[way.rows[0]])})`]
          : ["no other word"];
      const guess = [
        " Your guess ",
        expected,
        `: ${ranks[0]} with the offset, ${ranks[1]} and ${ranks[2]} without.`,
      ];
      sentence(
        "Nearest to ",
        ...sum.name,
        ": ",
        ...first(sum),
        ". Without the offset: nearest to ",
        ...alone.name,
        " is ",
        ...first(alone),
        ", nearest to ",
        ...both.name,
        " is ",
        ...first(both),
        ".",
        ...(expected === undefined ? [] : guess),
      );
    }

    function answerNeighbours() {
      const row = rowIn("word");
      const cosines = table.cosines(table.unit(row));
      const near = best(cosines, ANSWERS + 2, new Set([row]));
      const bar = (cosine) => Math.max(0, cosine).toFixed(4);
      const rows = near.map((other, n) => [
        element("th", { scope: "row" }, String(n + 1)),
        element(
          "td",
          {},
          element(
            "button",
            { type: "button", class: "wm-go", "data-row": other },
            named(table.words[other]),
          ),
        ),
        element(
          "td",
          {
            class: "wm-bar",
            style: `--cosine: ${bar(cosines[other])}; --everyday: ${bar(everyday)}`,
          },
          twoDigits(cosines[other]),
        ),
      ]);
      const caption = words(
        "Nearest to ",
        row,
        "; the mark on each bar is the mean cosine of two words. ",
        "A word leads to its own neighbours.",
      );
      const heads = [
        [element("span", { class: "wm-unseen" }, "place")],
        ["word"],
        ["cosine"],
      ];
      $(".wm-results").replaceChildren(sheet(caption, heads, rows));
      $(".wm-results table").className = "wm-neighbours";
      if (!table.lengths[row])
        sentence(
          row,
          " is a row of zeros: it has no direction, its cosine with every word is 0.",
        );
      else if (near.length)
        sentence(
          "Nearest to ",
          row,
          ": ",
          near[0],
          ` (${twoDigits(cosines[near[0]])}), `,
          `against ${twoDigits(everyday)} for two words on average.`,
        );
      else sentence("There is no word beside ", row, ".");
      showMap(pointsOf([row, ...near], new Set([row])), []);
    }

    function answerMap() {
      const chosen = rowsInList();
      const each = Number(form("map").querySelector("select").value);
      const rows = [...chosen];
      for (const row of chosen) {
        if (each)
          rows.push(...best(table.cosines(table.unit(row)), each, new Set([row])));
      }
      const all = [...new Set(rows)];
      $(".wm-results").replaceChildren();
      const cut = all.length > ON_MAP ? ` The first ${ON_MAP} are drawn.` : "";
      sentence(
        `A map of ${count(all.length)} words: ${count(chosen.length)} chosen, `,
        `${count(all.length - chosen.length)} of their neighbours.${cut}`,
      );
      showMap(pointsOf(all.slice(0, ON_MAP), new Set(chosen)), []);
    }

    // -- The map

    function pointsOf(rows, inputs, expected) {
      return rows.map((row) => ({
        row,
        name: table.words[row],
        kind: inputs.has(row) ? "wm-chosen" : row === expected ? "wm-guess" : "wm-near",
        vector: table.unit(row),
      }));
    }

    function showMap(points, arrows, remark = "") {
      const { places, shown } = principalPlane(points.map((point) => point.vector));
      map = { points, places, arrows, wide: 0 };
      const hidden =
        shown < 1
          ? `shows ${percent(shown)} of their variance and hides the rest`
          : "shows all of their variance";
      $(".wm-map figcaption").textContent =
        `The plane in which these ${points.length} points vary most ${hidden}; ` +
        `near on the map need not be near in space.${remark}`;
      const lines = points.map((point, n) => [
        element("th", { scope: "row" }, named(point.name)),
        ...places[n].map((x) => element("td", {}, x.toFixed(3).replace("-", MINUS))),
      ]);
      $(".wm-map details div").replaceChildren(
        sheet(["Places on the map"], [["word"], ["across"], ["up"]], lines),
      );
      redraw();
    }

    function redraw() {
      const wide = $(".wm-plot").clientWidth;
      if (!map || !wide || wide === map.wide) return;
      map.wide = wide;
      const names = map.points.map((point) => visible(point.name)).join(", ");
      const label = `Map of ${names}. Their places stand in the table below.`;
      $(".wm-plot").replaceChildren(
        drawMap(map.points, map.places, map.arrows, wide, label),
      );
    }

    // -- The reader

    const modes = {
      analogy: answerAnalogy,
      neighbours: answerNeighbours,
      map: answerMap,
    };
    const mode = () => $(".wm-modes :checked").value;

    function complain({ input, parts, spellings }) {
      const problem = $(".wm-problem");
      problem.replaceChildren(element("span", {}, ...parts));
      if (spellings.length) problem.append(" Spelt much like it: ");
      for (const { row } of spellings) {
        const offer = element("button", { type: "button" }, named(table.words[row]));
        offer.addEventListener("click", () => {
          const wrong = problem.querySelector("q").textContent;
          const listed = input === field("words");
          input.value = listed
            ? input.value
                .split(",")
                .map((part) => (part.trim() === wrong ? ` ${table.words[row]}` : part))
                .join(",")
                .trim()
            : table.words[row];
          input.focus();
          answer();
        });
        problem.append(offer, " ");
      }
      fill(input, { "aria-invalid": "true", "aria-describedby": problem.id }, []);
    }

    function answerIfFilled() {
      const fields = form(mode()).querySelectorAll("[data-field]");
      const needed = [...fields].filter((each) => each.dataset.field !== "expected");
      if (needed.every((each) => each.querySelector("input").value.trim())) answer();
    }

    function answer() {
      closers.forEach((close) => close());
      $(".wm-problem").replaceChildren();
      for (const input of box.querySelectorAll("[aria-invalid]")) {
        input.removeAttribute("aria-invalid");
        input.removeAttribute("aria-describedby");
      }
      let found = true;
      try {
        modes[mode()]();
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        complain(error);
        sentence();
        $(".wm-results").replaceChildren();
        found = false;
      }
      $(".wm-map").hidden = !found;
      if (found) redraw();
    }

    function turnTo(name) {
      $(`.wm-modes [value="${name}"]`).checked = true;
      for (const each of box.querySelectorAll("form"))
        each.hidden = each.dataset.mode !== name;
      answer();
    }

    function take(example) {
      ["a", "b", "c", "expected"].forEach((name, n) => {
        field(name).value = table.words[example[n]] ?? "";
      });
    }

    function connect() {
      box.id = id;
      $(".wm-problem").id = `${id}-problem`;
      box.querySelectorAll("form label + :is(input, select)").forEach((control, n) => {
        control.id = `${id}-control-${n}`;
        control.previousElementSibling.htmlFor = control.id;
      });
      box.querySelectorAll("[data-field] input").forEach((input, n) => {
        closers.push(complete(input, table, `${id}-list-${n}`, answerIfFilled));
      });
      for (const group of [".wm-modes", ".wm-inputs"]) {
        box
          .querySelectorAll(`${group} input`)
          .forEach((input) => (input.name = id + group));
      }
      $(".wm-modes").addEventListener("change", () => turnTo(mode()));
      $(".wm-inputs").addEventListener("change", answer);
      form("map").querySelector("select").addEventListener("change", answer);
      for (const each of box.querySelectorAll("form")) {
        each.addEventListener("submit", (event) => {
          event.preventDefault();
          answer();
        });
      }
      $(".wm-results").addEventListener("click", (event) => {
        const go = event.target.closest(".wm-go");
        if (!go) return;
        field("word").value = table.words[Number(go.dataset.row)];
        answer();
        field("word").focus();
      });
    }

    function begin() {
      const select = $(".wm-example select");
      table.examples.forEach((rows, n) => {
        const [a, b, c] = rows.map((row) => visible(table.words[row]));
        select.append(
          element("option", { value: n }, `${a} is to ${b} as ${c} is to …`),
        );
      });
      select.append(element("option", { value: -1 }, "your own words"));
      select.addEventListener("change", () => {
        take(table.examples[Number(select.value)] ?? []);
        answerIfFilled();
        if (select.value === "-1") field("a").focus();
      });
      $(".wm-example").hidden = !table.examples.length;
      const start = table.examples[0] ?? [];
      take(start);
      const some = start.length ? start : [Math.min(100, table.words.length - 1)];
      field("word").value = table.words[some.at(-1)];
      field("words").value = some.map((row) => table.words[row]).join(", ");
      const { length } = table.words;
      $(".wm-note").textContent =
        `${count(length)} words of width ${table.width}, rounded to 8 bits a number. ` +
        `Two different words have a mean cosine of ${twoDigits(everyday)} here.`;
      $(".wm-asleep").remove();
      $(".wm-body").hidden = false;
      turnTo(start.length ? "analogy" : "neighbours");
      new ResizeObserver(redraw).observe($(".wm-plot"));
    }

    connect();
    begin();
  }

  for (const box of document.querySelectorAll(".word-machine:not([data-awake])")) {
    box.dataset.awake = "";
    mount(box);
  }
})();
