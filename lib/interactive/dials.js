// Pairs of a query and a key as dials: what lib/interactive/dials.py draws first is
// drawn again when the reader moves something. No kernel, no other host.
(() => {
  const PAIRS = 6, PLACES = 100;
  const [LEFT, RIGHT, TOP, FLOOR] = [30, 332, 8, 112];
  const DEGREES = 180 / Math.PI;

  function wrap(degrees) {
    const rest = degrees % 360; // not ((x % 360) + 360) % 360, which rounds
    return rest < 0 ? rest + 360 : rest;
  }

  function read(content, base, trained, key, query) {
    const speeds = [...Array(PAIRS).keys()].map((pair) => base ** (-pair / PAIRS));
    const starts = Array.isArray(content) ? content : speeds.map((w) => -content * w);
    const score = (d) => speeds.reduce((sum, w, i) => sum + Math.cos(d * w + starts[i]), 0);
    const scores = [...Array(2 * PLACES - 1).keys()].map((i) => score(i + 1 - PLACES));
    const dials = speeds.map((speed, i) => {
      const [turn, rim] = [speed * DEGREES, starts[i] * DEGREES];
      const seen = Math.min(360, (trained - 1) * turn);
      const between = wrap((query - key) * turn);
      const angles = { key: key * turn, query: query * turn + rim, rim: key * turn + rim };
      return { speed: turn, ...angles, unseen: 360 - seen, new: between > seen };
    });
    return { dials, scores, score: scores[query - key + PLACES - 1] };
  }

  // As Python's .3g writes it.
  const written = (x) => String(+x.toPrecision(3));
  const minus = (text) => String(text).replace("-", "−");

  function say({ dials, score }, key, query) {
    const unseen = dials.flatMap((dial, pair) => (dial.new ? [pair] : []));
    const where = unseen.length
      ? `at unseen angles: pairs ${unseen.join(", ")}`
      : "no angle unseen";
    const at = `Query at ${query}, key at ${key}: ${minus(query - key)} apart.`;
    return `${at} Score ${minus(score.toFixed(2))}, ${where}.`;
  }

  const rotate = (part, degrees) =>
    part.setAttribute("transform", `rotate(${(-wrap(degrees)).toFixed(1)})`);

  function sweep(circle, start, length) {
    rotate(circle, start);
    circle.setAttribute("stroke-dasharray", `${length.toFixed(1)} 720`);
  }

  function drawDial(item, dial) {
    const between = wrap(dial.query - dial.key + 180) - 180;
    item.classList.toggle("new", dial.new);
    const [speed, apart] = item.querySelectorAll("small");
    speed.textContent = `${written(dial.speed)}° a token`;
    apart.textContent = `${Math.abs(between).toFixed(0)}° apart`;
    sweep(item.querySelector(".unseen"), dial.rim, dial.unseen);
    const first = between >= 0 ? dial.query : dial.key;
    sweep(item.querySelector(".between"), first, Math.abs(between));
    for (const hand of ["key", "query"]) rotate(item.querySelector(`g.${hand}`), dial[hand]);
  }

  function drawCurve(svg, { scores, score }, distance) {
    const round = (x) => Math.round(10 * x) / 10;
    const x = (d) =>
      round(LEFT + ((RIGHT - LEFT) * (d + PLACES - 1)) / (2 * PLACES - 2));
    const y = (s) => round((TOP + FLOOR) / 2 - (((FLOOR - TOP) / 2) * s) / PAIRS);
    const points = scores.map((s, i) => `${x(i + 1 - PLACES)},${y(s)}`);
    svg.querySelector("polyline").setAttribute("points", points.join(" "));
    const dot = svg.querySelector("circle");
    dot.setAttribute("cx", x(distance));
    dot.setAttribute("cy", y(score));
  }

  function start(box) {
    box.dataset.ready = "";
    const contents = JSON.parse(box.querySelector("[type='application/json']").textContent);
    const field = (name) => box.querySelector(`[name="${name}"]`);
    const places = { query: field("query"), key: field("key") };
    let before, waiting;
    box.read = (content, ...rest) => read(contents[content], ...rest);
    const draw = () => {
      const [key, query] = [+places.key.value, +places.query.value];
      before = { key, query };
      const [base, trained] = [+field("base").value, +field("trained on").value];
      const state = box.read(+field("content").value, base, trained, key, query);
      const items = box.querySelectorAll("li");
      state.dials.forEach((dial, pair) => drawDial(items[pair], dial));
      drawCurve(box.querySelector(".curve"), state, query - key);
      clearTimeout(waiting); // a screen reader hears it when the hand rests
      const text = say(state, key, query);
      waiting = setTimeout(() => (box.querySelector("p").textContent = text), 150);
    };
    // "move both": the other follows, and neither leaves the text.
    const follow = (moved, other) => {
      if (!field("both").checked) return;
      const apart = before[other] - before[moved];
      const low = Math.max(0, -apart), high = Math.min(PLACES - 1, PLACES - 1 - apart);
      const place = Math.min(high, Math.max(low, +places[moved].value));
      [places[moved].value, places[other].value] = [place, place + apart];
    };
    places.query.addEventListener("input", () => follow("query", "key"));
    places.key.addEventListener("input", () => follow("key", "query"));
    box.addEventListener("input", draw);
    box.querySelectorAll("label").forEach((label) => (label.hidden = false));
    draw();
  }

  document.querySelectorAll(".book-dials:not([data-ready])").forEach(start);
})();
