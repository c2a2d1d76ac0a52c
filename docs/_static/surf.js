// Algorithm 1 on a small stream, drawn as the reader changes it. No library, no network.
"use strict";

const STEPS = 80, DRIFT = 40, ROWS = 400, RATE = 0.02, PENALTY = 1e-3;

function randomNumbers(seed) {
  let state = seed >>> 0;
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let word = Math.imul(state ^ (state >>> 15), state | 1);
    word ^= word + Math.imul(word ^ (word >>> 7), word | 61);
    return ((word ^ (word >>> 14)) >>> 0) / 4294967296;
  };
  const normal = () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  return { uniform, normal };
}

function makeBatch(step, options, random) {
  const done = Math.min(1, Math.max(0, (step - DRIFT + 1) / options.width));
  const angle = (done * options.drift * Math.PI) / 180;
  return Array.from({ length: ROWS }, () => {
    const a = random.normal(), b = random.normal();
    const above = a * Math.cos(angle) + b * Math.sin(angle) > 0;
    return [a, b, above !== random.uniform() < options.noise ? 1 : -1];
  });
}

const freshModel = (random) => ({ w: [random.uniform(), random.uniform(), random.uniform()], rows: [], best: Infinity });

const score = (model, row) => model.w[0] * row[0] + model.w[1] * row[1] + model.w[2];

function risk(model, rows) {
  const loss = rows.reduce((sum, row) => sum + Math.log1p(Math.exp(-row[2] * score(model, row))), 0);
  return loss / rows.length + (PENALTY / 2) * model.w.reduce((sum, value) => sum + value * value, 0);
}

// Two gradients for each new row: one at the row itself, one at a row of the whole sample set.
function update(model, batch, random) {
  for (const row of batch) {
    model.rows.push(row);
    for (const one of [row, model.rows[Math.floor(random.uniform() * model.rows.length)]]) {
      const slope = -one[2] / (1 + Math.exp(one[2] * score(model, one)));
      model.w = [one[0], one[1], 1].map((x, k) => model.w[k] - RATE * (slope * x + PENALTY * model.w[k]));
    }
  }
}

function entering(now, best, stable, delta, stableDelta) {
  if (now > best + delta) return 1;
  return now > stable + stableDelta ? 2 : 0; // false where there is no stable model: NaN
}

function simulate(options) {
  const random = randomNumbers(options.seed), steps = [];
  let w = freshModel(random), reactive = null, stable = null, trial = [], predictor = w;
  for (let t = 0; t < STEPS; t++) {
    const batch = makeBatch(t, options, random);
    const record = { step: t, risk: risk(w, batch), stable: stable ? risk(stable, batch) : NaN, condition: 0, event: "" };
    record.error = batch.filter((row) => score(predictor, row) * row[2] <= 0).length / ROWS;
    w.best = Math.min(w.best, record.risk);
    record.best = w.best;
    if (!reactive) record.condition = entering(record.risk, w.best, record.stable, options.delta, options.delta / 2);
    if (record.condition) {
      [reactive, stable, trial] = [freshModel(random), null, []];
      record.event = "entered";
    } else if (reactive) {
      record.challenger = risk(reactive, batch);
      reactive.best = Math.min(reactive.best, record.challenger);
    }
    record.state = reactive ? "reactive" : "stable";
    update(w, batch, random);
    if (stable) update(stable, batch, random);
    if (reactive) {
      update(reactive, batch, random);
      trial.push(...batch);
      predictor = risk(reactive, batch) < risk(w, batch) ? reactive : w;
      if (trial.length === options.r * ROWS) {
        const better = risk(reactive, trial) < risk(w, trial);
        record.event = better ? "switched" : "kept";
        if (better) w = reactive;
        [reactive, stable, predictor] = [null, freshModel(random), w];
      }
    }
    steps.push(record);
  }
  return steps;
}

// The reactive states that answer the drift, with their ends: from the one that is open when it begins, or the next,
// to the first that ends with a switch.
function answersTo(entered, ends) {
  const states = entered.map((start) => ({ start, end: ends.find((one) => one.step >= start.step) }));
  const open = states.filter(({ end }) => !end || end.step >= DRIFT);
  const last = open.findIndex(({ end }) => end && end.event === "switched");
  return last < 0 ? open.slice(0, 1) : open.slice(0, last + 1);
}

function toldAnswer({ start, end }, place) {
  const by = `at step ${start.step} by condition ${start.condition}`;
  const first = start.step < DRIFT ? `At the drift from step ${DRIFT}, DriftSurf is already reacting, since step ${start.step}.`
    : place === 0 ? `The drift from step ${DRIFT} is detected ${by}.` : `It reacts again ${by}.`;
  if (!end) return first;
  return `${first} ${end.event === "switched" ? `The new model takes over at step ${end.step}.` : `At step ${end.step} the old model is kept.`}`;
}

function told(steps, drift, width = 1) {
  const entered = steps.filter((one) => one.condition), ends = steps.filter((one) => ["switched", "kept"].includes(one.event));
  const error = steps.slice(1).reduce((sum, one) => sum + one.error, 0) / (STEPS - 1);
  if (drift === 0) return `Nothing drifts. False reactions: ${entered.length}. Mean error ${error.toFixed(3)}.`;
  const answers = answersTo(entered, ends);
  const first = answers.map(toldAnswer).join(" ") || `No reaction to the drift from step ${DRIFT}.`;
  // A reaction while the boundary still turns has a cause.
  const others = entered.filter((one) => !answers.some(({ start }) => start === one));
  const early = others.filter((one) => one.step < DRIFT).length;
  const late = others.filter((one) => one.step >= DRIFT + width).length;
  return `${first} False reactions: ${early} before the drift, ${late} after it. Mean error ${error.toFixed(3)}.`;
}

function draw(steps, delta) {
  const width = 760, height = 300, left = 44, bottom = 32, top = 12;
  const highest = Math.max(1, ...steps.slice(1).map((one) => Math.min(one.risk, 3)));
  const x = (step) => left + ((width - left - 8) * step) / (STEPS - 1);
  const y = (value) => height - bottom - ((height - bottom - top) * Math.min(value, highest)) / highest;
  const line = (name, value) => {
    let text = "", pen = false;
    for (const one of steps) {
      const now = value(one);
      if (Number.isFinite(now)) text += `${pen ? "L" : "M"}${x(one.step).toFixed(1)} ${y(now).toFixed(1)}`;
      pen = Number.isFinite(now);
    }
    return `<path class="${name}" d="${text}"/>`;
  };
  const bands = steps.filter((one) => one.state === "reactive")
    .map((one) => `<rect class="surf-band" x="${x(one.step - 0.5)}" y="${top}" width="${x(1) - x(0) + 0.5}" height="${height - bottom - top}"/>`);
  const ticks = [0, 20, 40, 60, 79].map((step) => `<text class="surf-text" text-anchor="middle" x="${x(step)}" y="${height - 12}">${step}</text>`);
  const levels = [0, 0.5, 1, 2, 3].filter((value) => value <= highest)
    .map((value) => `<text class="surf-text" text-anchor="end" x="${left - 6}" y="${y(value) + 4}">${value}</text><line class="surf-grid" x1="${left}" x2="${width - 8}" y1="${y(value)}" y2="${y(value)}"/>`);
  const marks = steps.filter((one) => one.event)
    .map((one) => `<circle class="surf-${one.event}" cx="${x(one.step)}" cy="${y(one.risk)}" r="5"/>`);
  return `<svg viewBox="0 0 ${width} ${height}" aria-hidden="true">${bands.join("")}${levels.join("")}${ticks.join("")}
    <line class="surf-drift" x1="${x(DRIFT)}" x2="${x(DRIFT)}" y1="${top}" y2="${height - bottom}"/>
    ${line("surf-first", (one) => one.best + delta)}${line("surf-second", (one) => one.stable + delta / 2)}
    ${line("surf-risk", (one) => one.risk)}${marks.join("")}</svg>`;
}

const SLIDERS = [
  ["noise", "Wrong labels", 0, 0.4, 0.01, 0.1, (value) => `${Math.round(value * 100)} %`],
  ["drift", "Size of the drift", 0, 180, 5, 120, (value) => `${value}°`],
  ["width", "Steps that it takes", 1, 40, 1, 1, (value) => `${value}`],
  ["delta", "Threshold δ (δ′ = δ/2)", 0.01, 0.6, 0.01, 0.1, (value) => value.toFixed(2)],
  ["r", "Length of the reactive state r", 1, 10, 1, 4, (value) => `${value} steps`],
];

function start(place) {
  const controls = SLIDERS.map(([name, label, least, most, by, first]) =>
    `<label>${label} <output id="surf-${name}-value"></output>
     <input type="range" id="surf-${name}" min="${least}" max="${most}" step="${by}" value="${first}"></label>`);
  place.innerHTML = `<div class="surf-controls">${controls.join("")}<button type="button" id="surf-again">Other rows</button></div>
    <div class="surf-figure"></div>
    <p class="surf-legend"><span class="of-risk">risk of w</span><span class="of-first">R_b + δ</span><span class="of-second">risk of w″ + δ′</span>
    <span class="of-band">reactive state</span><span class="of-entered">entered</span><span class="of-switched">switched</span><span class="of-kept">kept</span></p>
    <p class="surf-told" role="status"></p>`;
  let seed = 1;
  const show = () => {
    const options = { seed };
    for (const [name, , , , , , shown] of SLIDERS) {
      options[name] = Number(document.getElementById(`surf-${name}`).value);
      document.getElementById(`surf-${name}-value`).textContent = shown(options[name]);
    }
    const steps = simulate(options);
    place.querySelector(".surf-figure").innerHTML = draw(steps, options.delta);
    place.querySelector(".surf-told").textContent = told(steps, options.drift, options.width);
  };
  place.addEventListener("input", show);
  document.getElementById("surf-again").addEventListener("click", () => { seed += 1; show(); });
  show();
}

if (typeof document !== "undefined") document.addEventListener("DOMContentLoaded", () => start(document.getElementById("surf")));
if (typeof module !== "undefined") module.exports = { simulate, told };
