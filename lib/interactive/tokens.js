// Byte-level byte-pair encoding in the page: what is typed is cut as the tokenizer of
// the table beside it cuts it. No kernel, no other host.
(() => {
  // GPT-2's pattern, with Unicode's white space where JavaScript's \s differs.
  const WORDS =
    /'(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;
  const DIGIT = /(\p{N})/u; // each number by itself
  const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;
  const utf8 = new TextEncoder();
  const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

  function readTable(box) {
    const table = JSON.parse(box.querySelector(".settings").textContent);
    const packed = atob(box.querySelector(".merges").textContent);
    const number = (at) => packed.charCodeAt(at) + 256 * packed.charCodeAt(at + 1);
    table.pairs = [];
    table.ranks = new Map(); // left and right as one number → place in the list
    for (let at = 0; at < packed.length; at += 4) {
      const [left, right] = [number(at), number(at + 2)];
      table.ranks.set(left * 65536 + right, table.pairs.length);
      table.pairs.push([left, right]);
    }
    table.names = new Map(Object.entries(table.special).map(([k, id]) => [id, k]));
    const names = Object.keys(table.special).sort((a, b) => b.length - a.length);
    const escaped = names.map((name) => name.replace(/[^\w<>]/g, "\\$&"));
    table.split = names.length ? new RegExp(`(${escaped.join("|")})`) : /(?!)/;
    return table;
  }

  // The merge that was learned first goes first, wherever it stands; until none applies.
  function merge(ids, { pairs, ranks, first }) {
    for (;;) {
      let best = Infinity;
      for (let i = 0; i + 1 < ids.length; i++)
        best = Math.min(best, ranks.get(ids[i] * 65536 + ids[i + 1]) ?? Infinity);
      if (best === Infinity) return ids;
      const [left, right] = pairs[best];
      const joined = [];
      for (let i = 0; i < ids.length; i++) {
        const both = ids[i] === left && ids[i + 1] === right;
        joined.push(both ? first + best : ids[i]);
        i += both;
      }
      ids = joined;
    }
  }

  function encode(text, table) {
    const ids = [];
    for (const part of text.split(table.split)) {
      if (Object.hasOwn(table.special, part)) ids.push(table.special[part]);
      else
        for (const piece of part.split(DIGIT))
          for (const word of piece.match(WORDS) ?? []) {
            const bytes = [...utf8.encode(word)].map((byte) => table.bytes[byte]);
            const known = bytes.filter((id) => id >= 0); // others are dropped
            for (const id of merge(known, table)) ids.push(id);
          }
    }
    return ids;
  }

  function bytesOf(id, table) {
    if (id < table.first) return [table.bytes.indexOf(id)];
    return table.pairs[id - table.first].flatMap((part) => bytesOf(part, table));
  }

  // Whole characters as they are, other bytes as \x.., as lib.byte_pairs writes them.
  function readable(bytes) {
    let text = "";
    for (let at = 0; at < bytes.length; ) {
      let length = 4;
      for (; length; length--)
        try {
          const part = bytes.slice(at, at + length);
          const one = strict.decode(new Uint8Array(part));
          if ([...one].length !== 1) continue;
          text += one;
          break;
        } catch {} // no character ends here: try a shorter piece
      if (!length) text += "\\x" + bytes[at].toString(16).padStart(2, "0");
      at += length || 1;
    }
    const marks = text.replaceAll(" ", "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥");
    const code = (c) => c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    return marks.replace(UNSEEN, (character) => `U+${code(character)}`);
  }

  function drawToken(id, table) {
    const item = document.createElement("li");
    const text = document.createElement("span");
    const name = table.names.get(id);
    text.textContent = name ?? readable(bytesOf(id, table));
    const number = document.createElement("small");
    number.textContent = id;
    item.append(text, " ", number);
    return item;
  }

  function start(box) {
    box.dataset.ready = "";
    const table = readTable(box);
    const field = box.querySelector("textarea");
    const menu = box.querySelector("select");
    let waiting;
    box.encode = (text) => encode(text, table);
    box.readable = (id) => readable(bytesOf(id, table));
    const say = (ids) => {
      const count = (n, thing) => `${n} ${thing}${n === 1 ? "" : "s"}`;
      const bytes = utf8.encode(field.value).length;
      box.querySelector("[role=status]").textContent =
        `${count([...field.value].length, "character")}, ` +
        `${count(bytes, "byte")}, ${count(ids.length, "token")}.`;
    };
    const draw = () => {
      const ids = box.encode(field.value);
      const items = ids.map((id) => drawToken(id, table));
      box.querySelector("ol").replaceChildren(...items);
      clearTimeout(waiting); // a screen reader hears it when the typing rests
      waiting = setTimeout(say, 300, ids);
    };
    field.addEventListener("input", () => {
      menu.selectedIndex = 0;
      draw();
    });
    menu.addEventListener("change", () => {
      field.value = menu.value;
      draw();
    });
    field.closest("label").hidden = menu.closest("label").hidden = false;
  }

  document.querySelectorAll(".book-tokens:not([data-ready]) textarea").forEach((field) =>
    start(field.closest(".book-tokens")),
  );
})();
