"use strict";
// Makes the figures of a run's page interactive: zoom, read values, hide curves. The data come from the element "run" and
// are inserted as text, never as markup. Without this script the page shows the same figures as still drawings.
// A live page replaces the data: it sends the event "driftsurf:run" with new data as its detail.
(() => {
  let run = JSON.parse(document.getElementById("run").textContent);
  const RIGHT = 16, TOP = 22, BOTTOM = 40, HEIGHT = 300, ROW = 20, NARROW = 560;
  const DAY = 86400;
  let WIDTH = 960, LEFT = 72; // as wide as the page is: one unit of a drawing is one pixel
  const MOST_MARKS = 400, NEAR = 26;
  let last = Math.max(run.steps - 1, 1), least = Math.min(4, last);
  const hidden = new Set();
  const readout = document.querySelector(".readout");
  const toolbar = document.querySelector(".toolbar");
  const shown = { found: true, drifts: true, orders: true, reactions: false };
  const figures = [];
  // What the horizontal axis is proportional to. Times are known to the second: steps that take less would coincide.
  let axis = run.times.length && run.times.at(-1) - run.times[0] >= run.steps ? "time" : "step";
  let view = [0, last], cursor = null, active = null, waiting = false;

  const svg = (name, attributes, parent, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    if (parent) parent.append(element);
    return element;
  };
  const tag = (name, css, parent, text) => {
    const element = document.createElement(name);
    if (css) element.className = css;
    if (text !== undefined) element.textContent = text;
    if (parent) parent.append(element);
    return element;
  };
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const significant = (value, digits = 4) => {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (size && (size < 1e-4 || size >= 1e6)) {
      const [mantissa, power] = value.toExponential(digits - 1).split("e");
      return `${Number(mantissa)}e${Number(power)}`;
    }
    return size >= 10 ** digits - 0.5 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(digits)));
  };
  const grouped = (value) => value.toLocaleString("en");
  const level = (value) => {
    const size = Math.abs(value);
    if (size >= 1e6 && size < 1e9) return `${significant(value / 1e6)}M`;
    return size >= 1e4 && size < 1e6 ? `${significant(value / 1e3)}k` : significant(value);
  };
  // Places are numbers of steps, with a fraction, in all data. Only here they become rows or times, and pixels.
  const knots = () => ({ row: run.firstRows, time: run.times })[axis];
  // The number of a step: the first ones of a long run may be missing.
  const numbered = (step) => step + (run.first || 0);
  // Rows and times are known for every step, or in a long run for one step in run.stride.
  const between = (known, step) => {
    const place = step / run.stride;
    const k = clamp(Math.floor(place), 0, known.length - 1), next = known[Math.min(k + 1, known.length - 1)];
    return known[k] + (next - known[k]) * clamp(place - k, 0, 1);
  };
  const amount = (step) => {
    const known = knots();
    return known ? between(known, step) : step;
  };
  const stepOf = (value) => {
    const known = knots();
    if (!known) return value;
    const k = Math.max(firstFrom({ at: known, values: known }, value + 1e-9) - 1, 0);
    const wide = k + 1 < known.length ? known[k + 1] - known[k] : 0;
    return (k + (wide > 0 ? clamp((value - known[k]) / wide, 0, 1) : 0)) * run.stride;
  };
  const extent = () => {
    const [low, high] = view.map(amount);
    return [low, high > low ? high : low + 1];
  };
  const x = (step) => {
    const [low, high] = extent();
    return LEFT + ((WIDTH - LEFT - RIGHT) * (amount(step) - low)) / (high - low);
  };
  const stepAt = (place) => {
    const [low, high] = extent();
    return stepOf(low + ((place - LEFT) / (WIDTH - LEFT - RIGHT)) * (high - low));
  };
  const timeOf = (step) => Math.round(between(run.times, step));
  const inView = (step) => step >= view[0] && step <= view[1];

  // ------------------------------------------------------------------ numbers

  const ticks = (low, high, whole, count = 6) => {
    const raw = Math.max((high - low) / count, 1e-300);
    const power = 10 ** Math.floor(Math.log10(raw));
    let step = [1, 2, 5, 10].map((m) => m * power).find((m) => m >= raw * 0.999);
    if (whole) step = Math.max(1, Math.round(step));
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step || 0);
    return found;
  };
  const two = (number) => String(number).padStart(2, "0");
  const date = (seconds, wide) => {
    const when = new Date(seconds * 1000);
    const day = `${when.getUTCFullYear()}-${two(when.getUTCMonth() + 1)}-${two(when.getUTCDate())}`;
    const clock = `${two(when.getUTCHours())}:${two(when.getUTCMinutes())}`;
    if (wide === undefined) return `${day} ${clock}${seconds % 60 ? `:${two(seconds % 60)}` : ""}`;
    if (wide >= 300 * DAY) return day.slice(0, 4);
    if (wide >= 25 * DAY) return day.slice(0, 7);
    if (wide >= DAY) return day;
    return wide >= 60 ? (seconds % DAY ? clock : day.slice(5)) : `${clock}:${two(seconds % 60)}`;
  };
  // Returns times at round dates, and how far apart they are.
  const dates = (low, high, count) => {
    const raw = (high - low) / count;
    const plain = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, DAY, 2 * DAY, 7 * DAY, 14 * DAY];
    const found = [], wide = plain.find((one) => one >= raw);
    if (wide) {
      for (let k = Math.ceil(low / wide); k * wide <= high; k++) found.push(k * wide);
      return [found, wide];
    }
    const months = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200].find((one) => one * 30 * DAY >= raw) || 6000;
    const first = new Date(low * 1000);
    const begin = Math.floor((first.getUTCFullYear() * 12 + first.getUTCMonth()) / months) * months;
    for (let k = begin; ; k += months) {
      const when = Date.UTC(Math.floor(k / 12), k % 12, 1) / 1000;
      if (when > high) return [found, months * 30 * DAY];
      if (when >= low) found.push(when);
    }
  };
  const firstFrom = (series, step) => {
    let low = 0, high = series.values.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((series.at ? series.at[middle] : middle) < step) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const span = (series) => [
    Math.max(firstFrom(series, view[0]) - 1, 0),
    Math.min(firstFrom(series, view[1] + 1e-9) + 1, series.values.length),
  ];
  const nearest = (series, step) => {
    const at = (k) => (series.at ? series.at[k] : k);
    const k = firstFrom(series, step);
    if (k === 0) return 0;
    if (k === series.values.length) return k - 1;
    return step - at(k - 1) <= at(k) - step ? k - 1 : k;
  };
  const path = (series, y) => {
    if (run.steps === 1 && series.values.length === 1 && series.values[0] !== null) { // over the whole width
      return `M${x(0).toFixed(1)} ${y(series.values[0]).toFixed(1)}L${x(1).toFixed(1)} ${y(series.values[0]).toFixed(1)}`;
    }
    const [first, stop] = span(series);
    const dense = stop - first > 2 * WIDTH;
    const parts = [];
    let pen = false, pixel = null, low = null, high = null;
    const flush = () => {
      if (pixel !== null) parts.push(`${pen ? "L" : "M"}${pixel} ${y(low).toFixed(1)}L${pixel} ${y(high).toFixed(1)}`);
      if (pixel !== null) pen = true;
      pixel = null;
    };
    for (let k = first; k < stop; k++) {
      const value = series.values[k];
      const place = x(series.at ? series.at[k] : k);
      if (value === null) {
        flush();
        pen = false;
      } else if (!dense && !pen && (series.values[k + 1] ?? null) === null) {
        parts.push(`M${(place - 3).toFixed(1)} ${y(value).toFixed(1)}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0`); // a lone point
      } else if (!dense) {
        parts.push(`${pen ? "L" : "M"}${place.toFixed(1)} ${y(value).toFixed(1)}`);
        pen = true;
      } else if (Math.round(place) === pixel) {
        low = Math.min(low, value);
        high = Math.max(high, value);
      } else {
        flush();
        pixel = Math.round(place);
        low = high = value;
      }
    }
    flush();
    return parts.join("");
  };

  // ------------------------------------------------------------------ drawing

  const scaleOf = (figure) => {
    const whole = view[0] === 0 && view[1] === last;
    let top = 0, low = 0;
    for (const series of figure.series) {
      if (hidden.has(figure.id + series.name)) continue;
      const [first, stop] = span(series);
      for (let k = first; k < stop; k++) {
        if (series.values[k] > top) top = series.values[k];
        if (series.values[k] < low) low = series.values[k];
      }
    }
    const bottom = figure.bottom || 0;
    top = top > 0 || low < 0 ? top * 1.08 : figure.top;
    low = bottom < 0 ? low * 1.08 : 0;
    if (whole) [low, top] = [Math.max(low, bottom), Math.min(top, figure.top)];
    const base = HEIGHT - BOTTOM;
    return { low, top, y: (value) => base - (base - TOP) * clamp((value - low) / (top - low), 0, 1) };
  };
  const steps = (parent, base) => {
    const [low, high] = extent(), count = clamp(Math.floor((WIDTH - LEFT) / (axis === "time" ? 90 : 60)), 3, 7);
    const [found, wide] = axis === "time" ? dates(low, high, count) : [ticks(low, high, true, count), 0];
    for (const value of found) {
      const place = LEFT + ((WIDTH - LEFT - RIGHT) * (value - low)) / (high - low);
      svg("line", { class: "axis", x1: place, x2: place, y1: base, y2: base + 5 }, parent);
      const words = axis === "time" ? date(value, wide) : grouped(axis === "step" ? numbered(value) : value);
      const inside = clamp(place, LEFT, WIDTH - 4 - 3.4 * words.length);
      svg("text", { class: "tick", x: inside, y: base + 18, "text-anchor": "middle" }, parent, words);
    }
    svg("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: base, y2: base }, parent);
  };
  const background = (parent, top, base, labels) => {
    const band = ([start, stop, words], css) => {
      if (stop < view[0] || start > view[1]) return;
      const a = x(Math.max(start, view[0])), b = x(Math.min(stop, view[1]));
      const box = { class: css, x: a, y: top, width: Math.max(b - a, 1.5), height: base - top };
      svg("title", {}, svg("rect", box, parent), words);
    };
    if (shown.reactions) for (const one of run.reactive) band(one, "reactive");
    if (shown.orders) for (const one of run.orders) {
      const [start, stop, words] = one;
      if (stop > start) {
        band(one, "pinned");
        const a = Math.max(start, view[0]), b = Math.min(stop, view[1]);
        const wide = 3.4 * words.length, place = clamp(x((a + b) / 2), LEFT + wide, Math.max(WIDTH - wide - 4, LEFT + wide));
        if (labels && a < b) svg("text", { class: "rule-label pin", x: place, y: top - 7 }, parent, words);
      } else if (inView(start)) {
        const line = svg("line", { class: "order", x1: x(start), x2: x(start), y1: top, y2: base }, parent);
        svg("title", {}, line, words);
      }
    }
    const rule = (start, css, words) => {
      if (!inView(start)) return;
      svg("title", {}, svg("line", { class: css, x1: x(start), x2: x(start), y1: top, y2: base }, parent), words);
    };
    for (const one of shown.drifts ? run.drifts : []) {
      const [start, stop, words] = one;
      if (stop > start) band(one, "drifting");
      else rule(start, "drift", words);
    }
    let labelled = -Infinity;
    for (const one of shown.found ? run.found : []) {
      const [start, stop, words, name] = one;
      band(one, "found");
      rule(start, "begins", words);
      const place = clamp(x(Math.max(start, view[0])), LEFT + 20, WIDTH - RIGHT - 20);
      if (labels && stop >= view[0] && start <= view[1] && place - labelled > 50) {
        svg("text", { class: "rule-label", x: place, y: top - 7 }, parent, name);
        labelled = place;
      }
    }
  };
  const marks = (figure, parent, y) => {
    const series = figure.series.find((one) => one.marked);
    if (!shown.reactions || !series || hidden.has(figure.id + series.name)) return;
    const all = run.changes.filter((change) => inView(change.at));
    const seen = [true, false].flatMap((small) => all.filter((change) => (change.kind === "greedy") === small));
    if (seen.length > MOST_MARKS) return;
    for (const change of seen) {
      const value = series.values[nearest(series, change.at)];
      if (value === null || value === undefined) continue;
      const size = change.kind === "greedy" ? 3 : 5;
      const dot = { class: `mark ${change.kind}`, cx: x(change.at), cy: y(value), r: size };
      svg("title", {}, svg("circle", dot, parent), change.text);
    }
  };
  const drawCurves = (figure) => {
    const base = HEIGHT - BOTTOM;
    const { low, top, y } = scaleOf(figure);
    figure.y = y;
    for (const value of ticks(low, top)) {
      svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }, figure.plot);
      svg("text", { class: "tick", x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, figure.plot, level(value));
    }
    background(figure.plot, TOP, base, true);
    steps(figure.plot, base);
    const middle = (TOP + base) / 2;
    const turned = { class: "name", transform: `translate(14 ${middle}) rotate(-90)`, "text-anchor": "middle" };
    svg("text", turned, figure.plot, figure.unit);
    const place = { class: "name", x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" };
    svg("text", place, figure.plot, axis);
    const clipped = svg("g", { "clip-path": "url(#inside)" }, figure.plot);
    for (const series of figure.series) {
      if (!hidden.has(figure.id + series.name)) svg("path", { class: series.css, d: path(series, y) }, clipped);
    }
    marks(figure, figure.plot, y);
  };
  const drawBars = (figure) => {
    const base = ROW * figure.bars.length + 8;
    background(figure.plot, 4, base, false);
    figure.bars.forEach((bar, place) => {
      const middle = ROW * place + 4 + ROW / 2;
      svg("text", { class: "tick", x: LEFT - 8, y: middle + 4, "text-anchor": "end" }, figure.plot, bar.name);
      const draw = (start, stop, css, thick) => {
        const a = Math.max(start - 0.5, view[0]), b = Math.min(stop + 0.5, view[1]);
        if (b <= a) return;
        const box = { class: css, x: x(a), y: middle - thick / 2, width: Math.max(x(b) - x(a), 1.5), height: thick };
        svg("title", {}, svg("rect", box, figure.plot), bar.text);
      };
      draw(bar.from, bar.to, "life", 4);
      for (const [start, stop] of bar.strong) draw(start, stop, "strong", 12);
    });
    steps(figure.plot, base);
  };
  const draw = () => {
    waiting = false;
    for (const figure of figures) {
      figure.plot.replaceChildren();
      (figure.bars ? drawBars : drawCurves)(figure);
    }
    const [first, stop] = [Math.ceil(view[0]), Math.min(Math.floor(view[1]), run.steps - 1)];
    const until = run.times.length ? ` · ${date(timeOf(first))} to ${date(timeOf(stop))}` : "";
    const seen = `steps ${grouped(numbered(first))} to ${grouped(numbered(stop))} of ${grouped(numbered(run.steps))}${until}`;
    toolbar.querySelector(".view").textContent = seen;
    point();
  };
  const soon = () => {
    if (!waiting) requestAnimationFrame(draw);
    waiting = true;
  };

  // ------------------------------------------------------------------ reading values

  const jumps = () => [...run.events, ...(shown.reactions ? run.changes : [])];
  const reading = (figure) => {
    const step = cursor;
    const here = (spans) => spans.filter(([from, to]) => step >= from && step <= to);
    const reacting = shown.reactions && here(run.reactive).length ? ["a new model is tested"] : [];
    const state = [...here(run.found).map((one) => one[3]), ...reacting].join(", ");
    const [from, next] = [step, step + 1].map((one) => Math.round(between(run.firstRows, one)));
    const rows = run.firstRows.length ? ` · rows ${grouped(from)} to ${grouped(next - 1)}` : "";
    const time = run.times.length ? ` · ${date(timeOf(step))}` : "";
    const lines = [];
    if (figure.bars) {
      for (const bar of figure.bars) {
        if (bar.strong.some(([start, stop]) => step >= start && step <= stop)) lines.push(["strong", bar.text, ""]);
      }
    } else {
      for (const series of figure.series) {
        if (!hidden.has(figure.id + series.name)) {
          lines.push([series.css, series.name, significant(series.values[nearest(series, step)])]);
        }
      }
    }
    const changes = jumps().filter((one) => Math.round(one.at) === step).map((one) => one.text);
    return { head: `step ${grouped(numbered(step))}${rows}${time}`, state, lines, changes };
  };
  const swatch = (css, parent) => {
    const box = svg("svg", { viewBox: "0 0 20 12", class: "swatch", "aria-hidden": "true" }, parent);
    svg("line", { class: css, x1: 0, x2: 20, y1: 6, y2: 6 }, box);
  };
  const point = () => {
    const figure = active;
    for (const one of figures) {
      one.cross.replaceChildren();
      one.tip.hidden = true;
      if (cursor === null || !inView(cursor)) continue;
      const bottom = one.bars ? ROW * one.bars.length + 8 : HEIGHT - BOTTOM;
      const place = x(cursor);
      svg("line", { class: "cursor", x1: place, x2: place, y1: one.bars ? 4 : TOP, y2: bottom }, one.cross);
      for (const series of one.series || []) {
        const value = series.values[nearest(series, cursor)];
        if (value === null || value === undefined || hidden.has(one.id + series.name)) continue;
        svg("circle", { class: `at ${series.css}`, cx: place, cy: one.y(value), r: 4 }, one.cross);
      }
    }
    if (!figure || cursor === null || !inView(cursor)) return;
    const { head, state, lines, changes } = reading(figure);
    const tip = figure.tip;
    tip.replaceChildren();
    tag("b", "", tip, head);
    if (state) tag("div", "soft", tip, state);
    for (const [css, name, value] of lines) {
      const line = tag("div", "line", tip);
      swatch(css, line);
      tag("span", "", line, name);
      tag("span", "number", line, value);
    }
    for (const text of changes) tag("div", "why", tip, text);
    tip.hidden = false;
    const width = figure.box.clientWidth, at = (x(cursor) / WIDTH) * figure.canvas.clientWidth - figure.box.scrollLeft;
    const left = at > width / 2 ? at - tip.offsetWidth - NEAR / 2 : at + NEAR / 2;
    tip.style.left = `${clamp(left, 0, Math.max(width - tip.offsetWidth, 0)) + figure.box.scrollLeft}px`;
    const values = lines.map(([, name, value]) => `${name} ${value}`.trim());
    readout.textContent = [state ? `${head}, ${state}` : head, ...values, ...changes].join("; ");
  };
  const setCursor = (step, figure) => {
    cursor = step === null ? null : clamp(Math.round(step), 0, run.steps - 1);
    active = figure;
    point();
  };

  // ------------------------------------------------------------------ moving

  const setView = (low, high) => {
    const width = clamp(high - low, least, last);
    const start = clamp(low, 0, last - width);
    view = [start, start + width];
    soon();
  };
  const zoom = (factor, around) => {
    const middle = around === null || !inView(around) ? (view[0] + view[1]) / 2 : around;
    setView(middle - (middle - view[0]) * factor, middle + (view[1] - middle) * factor);
  };
  const reveal = (step) => {
    if (inView(step)) return;
    const half = (view[1] - view[0]) / 2;
    setView(step - half, step + half);
    draw();
  };
  const walk = (figure, step) => {
    reveal(clamp(Math.round(step), 0, run.steps - 1));
    setCursor(step, figure);
  };
  const toChange = (figure, forward) => {
    const places = [...new Set(jumps().map((one) => Math.round(one.at)))].sort((a, b) => a - b);
    const here = cursor === null ? (forward ? -1 : Infinity) : cursor;
    const found = forward ? places.find((place) => place > here) : places.findLast((place) => place < here);
    if (found !== undefined) walk(figure, found);
  };
  const acts = {
    in: () => zoom(0.5, cursor), out: () => zoom(2, cursor), all: () => setView(0, last),
    next: (figure) => toChange(figure, true), previous: (figure) => toChange(figure, false),
  };
  const onKey = (figure, event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const here = cursor === null ? Math.round(view[0]) - 1 : cursor;
    const far = event.shiftKey ? Math.max(2, Math.round((view[1] - view[0]) / 10)) : 1;
    const keys = {
      ArrowRight: () => walk(figure, here + far),
      ArrowLeft: () => walk(figure, (cursor === null ? Math.round(view[1]) + 1 : cursor) - far),
      Home: () => walk(figure, 0), End: () => walk(figure, run.steps - 1),
      "+": acts.in, "=": acts.in, "-": acts.out, 0: acts.all,
      n: () => acts.next(figure), p: () => acts.previous(figure),
      Escape: () => setCursor(null, null),
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  };
  const listen = (figure) => {
    const canvas = figure.canvas;
    const where = (event) => {
      const box = canvas.getBoundingClientRect();
      return ((event.clientX - box.left) / box.width) * WIDTH;
    };
    let from = null;
    canvas.addEventListener("pointerdown", (event) => (from = event.button === 0 ? where(event) : null));
    canvas.addEventListener("pointermove", (event) => {
      const place = clamp(where(event), LEFT, WIDTH - RIGHT);
      setCursor(clamp(stepAt(place), Math.ceil(view[0]), Math.floor(view[1])), figure);
      if (from === null || Math.abs(place - from) < 6) return;
      const [a, b] = [Math.min(from, place), Math.max(from, place)];
      const bottom = figure.bars ? ROW * figure.bars.length + 8 : HEIGHT - BOTTOM;
      svg("rect", { class: "chosen", x: a, y: 4, width: b - a, height: bottom - 4 }, figure.cross);
    });
    addEventListener("pointerup", (event) => {
      if (from === null) return;
      const [a, b] = [from, clamp(where(event), LEFT, WIDTH - RIGHT)].sort((p, q) => p - q);
      from = null;
      if (b - a > 8) setView(stepAt(Math.max(a, LEFT)), stepAt(b));
    });
    canvas.addEventListener("pointerleave", () => {
      if (from === null && document.activeElement !== canvas) setCursor(null, null);
    });
    canvas.addEventListener("dblclick", () => acts.all());
    const onWheel = (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, stepAt(where(event)));
    };
    canvas.addEventListener("wheel", onWheel, { passive: false });
    canvas.addEventListener("keydown", (event) => onKey(figure, event));
    canvas.addEventListener("blur", () => setCursor(null, null));
  };

  // ------------------------------------------------------------------ setting up

  const toggle = (parent, words, css, flip, on = true) => {
    const button = tag("button", "toggle", parent);
    button.type = "button";
    if (css) swatch(css, button);
    tag("span", "", button, words);
    button.setAttribute("aria-pressed", String(on));
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      flip(on);
      soon();
    });
    return button;
  };
  const lasts = ([start, stop]) => stop > start;
  const explain = (legend) => {
    const entry = (shape, attributes, words) => {
      const line = tag("span", "means", legend);
      svg(shape, attributes, svg("svg", { viewBox: "0 0 20 12", class: "swatch", "aria-hidden": "true" }, line));
      tag("span", "", line, words);
    };
    const kinds = new Set(shown.reactions ? run.changes.map((change) => change.kind) : []);
    for (const kind of Object.keys(run.legend).filter((name) => kinds.has(name))) {
      entry("circle", { class: `mark ${kind}`, cx: 10, cy: 6, r: kind === "greedy" ? 3 : 5 }, run.legend[kind]);
    }
    const box = (css) => entry("rect", { class: css, width: 20, height: 12 }, run.legend[css]);
    const line = (css) => entry("line", { class: css, x1: 10, x2: 10, y1: 0, y2: 12 }, run.legend[css]);
    if (run.found.length) box("found");
    if (shown.reactions && run.reactive.length) box("reactive");
    if (run.orders.some(lasts)) box("pinned");
    if (run.orders.some((one) => !lasts(one))) line("order");
    if (run.drifts.some((one) => !lasts(one))) line("drift");
    if (run.drifts.some(lasts)) box("drifting");
  };
  const setUp = (figure) => {
    const box = [...document.querySelectorAll("[data-figure]")].find((one) => one.dataset.figure === figure.id);
    if (!box) return;
    const canvas = svg("svg", { tabindex: 0, role: "group" });
    canvas.setAttribute("aria-label", `${figure.about}; arrow keys read each step, n and p jump to changes`);
    const clip = svg("rect", { y: TOP - 3, height: HEIGHT - TOP - BOTTOM + 6 },
      svg("clipPath", { id: "inside" }, svg("defs", {}, canvas)));
    box.replaceChildren(canvas);
    const layers = { plot: svg("g", {}, canvas), cross: svg("g", { "pointer-events": "none" }, canvas) };
    Object.assign(figure, { box, canvas, clip, ...layers, tip: tag("div", "tip", box) });
    figure.tip.hidden = true;
    if (figure.series) {
      const legend = box.nextElementSibling;
      legend.replaceChildren();
      legend.className = "legend";
      naming(figure);
    }
    figures.push(figure);
    listen(figure);
  };
  const naming = (figure) => {
    const legend = figure.box.nextElementSibling;
    const marked = figure.series.some((one) => one.marked);
    const kinds = [...new Set(run.changes.map((change) => change.kind))];
    const marks = [shown.reactions, kinds, run.found.length > 0, run.reactive.length > 0, run.orders.map(lasts).join(), run.drifts.map(lasts).join()];
    const named = JSON.stringify([figure.series.map((one) => [one.name, one.css]), marked ? marks : []]);
    if (figure.named === named) return; // buttons that a reader may be about to press stay
    figure.named = named;
    legend.replaceChildren();
    for (const series of marked ? [...figure.series].reverse() : figure.series) {
      const key = figure.id + series.name;
      const flip = (on) => hidden[on ? "delete" : "add"](key);
      toggle(legend, series.name, series.css, flip, !hidden.has(key));
    }
    if (marked) explain(legend);
  };
  const fit = () => {
    WIDTH = Math.max(figures[0].box.clientWidth, 240);
    LEFT = WIDTH < NARROW ? 56 : 72;
    for (const { bars, canvas, clip } of figures) {
      canvas.setAttribute("viewBox", `0 0 ${WIDTH} ${bars ? ROW * bars.length + 32 : HEIGHT}`);
      clip.setAttribute("x", LEFT);
      clip.setAttribute("width", WIDTH - LEFT - RIGHT);
    }
  };
  const choose = (name) => {
    axis = name;
    for (const button of toolbar.querySelectorAll("[data-axis]")) {
      button.setAttribute("aria-pressed", String(button.dataset.axis === axis));
    }
  };
  run.figures.forEach(setUp);
  if (!figures.length) return;
  fit();
  for (const button of toolbar.querySelectorAll("[data-axis]")) {
    if (button.dataset.axis === "time" && !run.times.length) button.remove();
    button.addEventListener("click", () => {
      choose(button.dataset.axis);
      soon();
    });
  }
  choose(axis);
  new ResizeObserver(() => {
    if (figures[0].box.clientWidth === WIDTH) return;
    fit();
    soon();
  }).observe(figures[0].box);
  const offerLayers = () => {
    const names = { found: "drifts", drifts: "true drifts", orders: "orders", reactions: "reactions of the model" };
    const layers = toolbar.querySelector(".layers"), some = { ...run, reactions: [...run.reactive, ...run.changes] };
    for (const [name, words] of Object.entries(names)) {
      if (!some[name].length || layers.querySelector(`[data-layer=${name}]`)) continue;
      const flip = (on) => {
        shown[name] = on;
        for (const figure of figures) if (figure.series) naming(figure);
      };
      toggle(layers, words, "", flip, shown[name]).dataset.layer = name;
    }
  };
  offerLayers();
  for (const button of toolbar.querySelectorAll("[data-act]")) {
    button.addEventListener("click", () => acts[button.dataset.act](figures[0]));
  }
  for (const button of document.querySelectorAll(".go")) {
    button.addEventListener("click", () => {
      const step = Math.floor(Number(button.dataset.step));
      setView(step - 10, step + 10);
      draw();
      figures[0].box.scrollIntoView({ block: "center" });
      figures[0].canvas.focus({ preventScroll: true });
      setCursor(step, figures[0]);
    });
  }
  // A view of the end of the run moves with it, any other one stays.
  const adopt = (next) => {
    if (!figures[0].box.isConnected) return; // a newer script draws other figures
    const [width, whole, atEnd] = [view[1] - view[0], view[0] === 0 && view[1] === last, view[1] === last];
    run = next;
    last = Math.max(run.steps - 1, 1);
    least = Math.min(4, last);
    view = whole ? [0, last] : atEnd ? [Math.max(last - width, 0), last] : view;
    for (const figure of figures) {
      const { series, bars, top, bottom } = run.figures.find((one) => one.id === figure.id) || figure;
      Object.assign(figure, { series, bars, top, bottom });
      if (series) naming(figure);
    }
    offerLayers();
    fit();
    draw();
  };
  document.addEventListener("driftsurf:run", (event) => adopt(event.detail));
  toolbar.hidden = false;
  document.documentElement.classList.add("live");
  draw();
})();
