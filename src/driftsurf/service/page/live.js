// Keeps the page of a model up to date. One tab of a browser reads the events of a model and passes them on to the
// others, because a browser opens six connections to a server at most. Names and texts of users are inserted as text;
// HTML comes from the service alone, which has escaped it.
const one = (selector, within = document) => within.querySelector(selector);
const tag = (name, parent, text, css) => {
  const element = document.createElement(name);
  if (css) element.className = css;
  if (text !== undefined) element.textContent = text;
  if (parent) parent.append(element);
  return element;
};
// Errors of classes have fixed decimals and other numbers fixed digits, so that they do not jump as they change.
const number = (value, task) => {
  if (value === null || value === undefined) return "–";
  if (task !== "regression") return value.toFixed(3);
  const size = Math.abs(value);
  if (size && (size < 1e-3 || size >= 1e6)) return value.toExponential(3).replace("+", "");
  return size >= 9999.5 ? grouped(Math.round(value)) : value.toPrecision(4); // which would write 25851 as 2.585e+4
};
const plural = (count, what) => `${grouped(count)} ${what}${count === 1 ? "" : "s"}`;
const grouped = (value) => value.toLocaleString("en");
const ago = (seconds) => {
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s ago`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min ago` : `${Math.round(seconds / 3600)} h ago`;
};
const address = (name, what = "") => `/v1/models/${encodeURIComponent(name)}${what && `/${what}`}`;
const tools = one(".tools"), toolsAtFirst = tools.innerHTML;
let chosen = null, operable = [], leave = () => {}, known = null, shown = null, latest = null;

class Refused extends Error {}
const ask = async (path, options = {}) => {
  const answer = await fetch(path, options);
  if (answer.status === 401) {
    askForKey();
    throw new Refused("a key is needed");
  }
  const body = await answer.json();
  if (!answer.ok) throw new Refused(body.detail || body.title || `the service answered ${answer.status}`);
  return body;
};
const post = (path, value) =>
  ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(value) });
const show = (selector) => {
  for (const part of ["form.log-in", ".overview", ".model"]) one(part).hidden = part !== selector;
};
const link = (on, words) => {
  const state = one(".link");
  state.classList.toggle("on", on);
  if (state.textContent !== words) state.textContent = words;
};

// ---------------------------------------------------------------------- keys

const askForKey = () => {
  leave();
  show("form.log-in");
  link(false, "not logged in");
  one("#key").focus();
};
one("form.log-in").addEventListener("submit", async (event) => {
  event.preventDefault();
  const field = one("#key");
  const answer = await fetch("/v1/login", {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ key: field.value }),
  });
  field.value = "";
  one(".log-in .problem").textContent = answer.ok ? "" : (await answer.json()).detail;
  if (!answer.ok) return;
  one(".log-out").hidden = false;
  start();
});
one(".log-out").addEventListener("click", async () => {
  await post("/v1/logout", {});
  one(".log-out").hidden = true;
  askForKey();
});

// ---------------------------------------------------------------------- all models

const start = async () => {
  let found;
  try {
    found = await ask("/v1/models");
  } catch (error) {
    if (!(error instanceof Refused)) {
      link(false, "the service does not answer");
      setTimeout(start, 2000);
    }
    return;
  }
  operable = Object.keys(found.scopes).filter((name) => found.scopes[name].includes("operate"));
  const names = found.models.map((model) => model.name);
  const nav = one("nav");
  nav.replaceChildren();
  for (const name of names) tag("a", nav, name).href = `#${encodeURIComponent(name)}`;
  const asked = names.find((name) => `#${encodeURIComponent(name)}` === location.hash);
  for (const place of nav.children) {
    if (place.hash === location.hash) place.setAttribute("aria-current", "page");
  }
  leave();
  if (asked !== undefined) open(found.models[names.indexOf(asked)]);
  else if (names.length === 1) open(found.models[0]);
  else overview(found.models);
};
// What a person has to know first about a model: how bad it is, in words, a colour and a rank, the worst one first.
const state = (model) => {
  const { status } = model.verdict, drift = model.drifts.at(-1);
  if (model.phase === "failed") return { rank: 0, css: "trivial", words: `Read-only: ${model.failure}` };
  if (status === "drifting") return { rank: 1, css: "drifting", words: drift ? `Drifting since row ${grouped(drift.row)}` : "Drifting now" };
  if (status === "trivial") return { rank: 2, css: "trivial", words: "Hardly better than a rule without a model" };
  const bad = model.connections.find((one) => one.state !== "running");
  if (bad) return { rank: 3, css: "drifting", words: `${bad.name} is ${bad.state}` };
  if (model.phase !== "ready") return { rank: 4, css: "waiting", words: model.phase };
  if (!model.steps) return { rank: 5, css: "waiting", words: waits(model) };
  const count = model.drifts.length ? `${plural(model.drifts.length, "drift")}, none now` : "No drift";
  return { rank: 6, css: "fine", words: `${count}${model.pinned ? " · pinned" : ""}` };
};
const waits = (model) =>
  `${grouped(model.in_step)} of ${plural(model.batch_size, "labelled row")} until the model ${model.version ? "learns" : "begins"}`;
const overview = (models) => {
  show(".overview");
  link(true, "live");
  const box = one(".models");
  box.replaceChildren();
  const judged = models.map((model) => [model, state(model)]).sort(([, a], [, b]) => a.rank - b.rank);
  for (const [model, { css, words }] of judged) {
    const card = tag("a", box, undefined, css);
    card.href = `#${encodeURIComponent(model.name)}`;
    tag("b", card, model.name);
    tag("div", card, words, css === "fine" || css === "waiting" ? "" : "bad");
    const rare = model.rare_class; // the share of wrong rows says little where a class is rare
    if (rare && rare.average_precision !== null) {
      const found = `average precision of ${rare.label} ${number(rare.average_precision)}`;
      tag("div", card, `${found}, by chance ${number(rare.share)}`, "number");
    } else if (model.error !== null) {
      const rule = `rule without a model ${number(model.trivial_error, model.task)}`;
      const rows = `in the last ${plural(model.error_rows, "row")}`;
      tag("div", card, `error ${number(model.error, model.task)} ${rows}, ${rule}`, "number");
    }
    tag("div", card, `${plural(model.rows, "row")} learned`, "soft number");
  }
  if (!models.length) tag("p", box, "The service has no model that this key may read.");
  const timer = setTimeout(start, 5000);
  leave = () => clearTimeout(timer);
};
addEventListener("hashchange", start);

// ---------------------------------------------------------------------- one model

const open = (model) => {
  chosen = model.name;
  known = shown = null;
  one(".head").replaceChildren();
  delete one(".head").dataset.html;
  show(".model");
  document.title = `${chosen} · driftsurf`;
  one(".model h1").textContent = chosen;
  for (const what of ["report", "journal", "trace"]) one(`a.${what}`).href = address(chosen, what);
  for (const box of [".shown", ".sections", ".happened"]) one(box).replaceChildren();
  told = [];
  most = FEW_TOLD;
  tools.innerHTML = toolsAtFirst;
  one(".orders").hidden = !operable.includes(chosen);
  one(".orders .outcome").textContent = "";
  now(model);
  leave = follow(chosen);
  refresh();
};
const cards = (parent, values) => {
  parent.replaceChildren();
  for (const [word, value] of values) {
    const card = tag("div", parent, undefined, "card");
    tag("b", card, value);
    card.append(word);
  }
};
const now = (model) => {
  const label = model.last_label === null ? "no label yet" : `last label ${ago(Date.now() / 1000 - model.last_label)}`;
  const before = model.version - model.steps;
  const learned = `${plural(model.rows, "row")} in ${plural(model.steps, "step")}${before > 0 ? ` here, ${grouped(before)} before` : ""}`;
  const words = [`${model.model}, ${model.phase}`, model.pinned ? "pinned" : "", learned, label, model.failure];
  one(".status").textContent = words.filter(Boolean).join(" · ");
  latest = model;
  if (shown !== null && !known) waiting(model);
  cards(one(".cards.now"), [
    [model.error_rows ? `error in the last ${grouped(model.error_rows)} rows` : "error: no row was scored yet", number(model.error, model.task)],
    ["error of a rule without a model, on these rows", number(model.trivial_error, model.task)],
    ["labelled rows of the next step", `${grouped(model.in_step)} of ${grouped(model.batch_size)}`],
    ["rows without a label yet", grouped(model.labels.waiting)], ["rows and labels that came and wait to be learned", grouped(model.lag_rows)],
  ]);
  challengers(model.challengers, model.task);
  connections(model.connections);
  orders(model);
};
// Before a row was scored there is no verdict; this says what is missing.
const waiting = (model) => {
  const box = one(".head"), words = model.version && !model.steps ? `No row was scored here yet: ${waits(model)}.` : `Waiting: ${waits(model)}.`;
  const text = model.phase === "failed" ? `Read-only: ${model.failure}` : words;
  if (box.textContent === text) return;
  box.replaceChildren();
  delete box.dataset.html;
  tag("p", box, text, `verdict ${model.phase === "failed" ? "trivial" : "waiting"}`);
};
const challengers = (list, task) => {
  one(".challengers").hidden = !list.length;
  const table = one(".challengers table");
  table.replaceChildren();
  const head = tag("tr", table);
  for (const word of ["challenger", "error", "error of the model", "difference, 95 % interval", "steps"]) tag("th", head, word);
  for (const item of list) {
    const row = tag("tr", table);
    const known = item.low === null ? "not known yet" : `${number(item.low, task)} to ${number(item.high, task)}`;
    const interval = `${number(item.difference, task)} (${known})`;
    const cells = [item.name, number(item.error, task), number(item.leading_error, task), interval, grouped(item.steps)];
    for (const cell of cells) tag("td", row, cell);
    if (item.failed) tag("td", row, item.failed);
  }
};
const connections = (list) => {
  one(".connections").hidden = !list.length;
  const table = one(".connections table");
  table.replaceChildren();
  const head = tag("tr", table);
  for (const word of ["name", "what", "address", "state", "rows", "put aside", "behind by", "error"]) tag("th", head, word);
  for (const item of list) {
    const row = tag("tr", table), behind = item.lag === null ? "–" : grouped(item.lag);
    for (const cell of [item.name, `${item.direction}, ${item.kind}`, item.address]) tag("td", row, cell);
    tag("td", row, item.state, item.state === "running" ? "" : "bad");
    for (const cell of [grouped(item.rows), grouped(item.bad_rows), behind, item.error]) tag("td", row, cell);
  }
};

// ---------------------------------------------------------------------- events

// Asks for the content at most once a second; what is asked meanwhile is one more time.
let refreshing = false, again = false;
const refresh = async () => {
  if (refreshing) {
    again = true;
    return;
  }
  refreshing = true;
  const name = chosen;
  try {
    const content = await ask(address(name, "page"));
    if (name === chosen) {
      fill(content);
      shown = content.version;
      if (!content.data) waiting(latest);
    }
  } catch (error) {
    if (!(error instanceof Refused)) link(false, "the service does not answer");
  }
  setTimeout(() => {
    refreshing = false;
    if (again) {
      again = false;
      refresh();
    }
  }, 1000);
};
const follow = (name) => {
  const ended = new AbortController(), channel = new BroadcastChannel(`driftsurf ${name}`);
  let stream = null, last = 0;
  const take = (status) => {
    last = Date.now();
    link(true, "live");
    now(status);
    if (status.version !== shown) refresh(); // the service may have answered with content that was made before
    warn();
  };
  const pass = (event) => {
    const { status } = JSON.parse(event.data);
    if (!status) return;
    channel.postMessage(status);
    take(status);
  };
  const connect = () => {
    stream = new EventSource(address(name, "events"));
    stream.addEventListener("history", pass);
    stream.addEventListener("frame", pass);
    stream.addEventListener("error", () => {
      if (ended.signal.aborted) return;
      link(false, "the connection is lost; trying again");
      if (stream.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
      setTimeout(() => {
        if (ended.signal.aborted) return;
        ask("/v1/models").catch(() => {}); // the key may have expired
        connect();
      }, 2000);
    });
  };
  const read = () =>
    new Promise((done) => {
      connect();
      ended.signal.addEventListener("abort", done);
    });
  channel.addEventListener("message", (event) => take(event.data));
  if (navigator.locks) {
    navigator.locks.request(`driftsurf ${name}`, { signal: ended.signal }, read).catch(() => {});
  } else read(); // pages that are not served over HTTPS or from this machine have no locks
  const timer = setInterval(() => {
    if (last && Date.now() - last > 5000) link(false, "no news for some seconds");
  }, 1000);
  return () => {
    clearInterval(timer);
    ended.abort();
    channel.close();
    if (stream) stream.close();
    leave = () => {};
  };
};
let warned = 0;
const warn = async () => {
  if (Date.now() - warned < 5000) return;
  warned = Date.now();
  const { active } = await ask("/v1/alerts").catch(() => ({ active: [] }));
  // The verdict above says what a drift is by now; its notice says what was known when it began.
  const box = one(".alerts"), own = active.filter((alert) => alert.model === chosen && alert.rule !== "drift");
  const said = JSON.stringify(own.map((alert) => [alert.rule, alert.text]));
  if (box.dataset.said === said) return;
  box.dataset.said = said;
  box.replaceChildren();
  for (const alert of own) tag("p", box, alert.text, alert.severity === "info" ? "info" : "");
};

// ---------------------------------------------------------------------- figures and tables

const shape = (content) => JSON.stringify(content.sections.map(({ title, parts }) => [title, parts.map((part) => part.figure || 0)]));
const fill = (content) => {
  happened(content.data ? content.data.events : []);
  if (!content.data) return;
  const head = one(".head");
  if (head.dataset.html !== content.head) {
    head.innerHTML = content.head;
    head.dataset.html = content.head;
  }
  if (known && shape(known) === shape(content)) {
    content.sections.forEach((section, k) =>
      section.parts.forEach((part, j) => {
        if (part.figure || part.html === known.sections[k].parts[j].html) return;
        one(`[data-part="${k}-${j}"]`).innerHTML = part.html;
      }));
    document.dispatchEvent(new CustomEvent("driftsurf:run", { detail: content.data }));
  } else build(content);
  known = content;
};
// Makes all sections; the script of the report page then finds its data and figures, and draws them.
const build = (content) => {
  const unfolded = new Set([...document.querySelectorAll(".sections details[open] h2")].map((one) => one.textContent));
  for (const box of [".shown", ".sections"]) one(box).replaceChildren();
  tools.innerHTML = toolsAtFirst;
  content.sections.forEach(({ title, folded, parts }, k) => {
    const box = folded ? tag("details", one(".sections"), undefined, "more") : one(".shown");
    tag("h2", folded ? tag("summary", box) : box, title);
    if (folded) box.open = unfolded.has(title);
    parts.forEach((part, j) => {
      const place = tag("div", box);
      place.dataset.part = `${k}-${j}`;
      place.innerHTML = part.html;
    });
  });
  for (const old of document.querySelectorAll("#run, script.drawing")) old.remove();
  const values = tag("script", null, JSON.stringify(content.data));
  Object.assign(values, { id: "run", type: "application/json" }); // its type is known before it becomes part of the page
  const script = tag("script", null, undefined, "drawing");
  script.src = "/page.js";
  document.body.append(values, script);
};
const FEW_TOLD = 12, MOST_TOLD = 400;
let told = [], most = FEW_TOLD, events = [];
const happened = (found) => {
  events = found;
  const list = one(".happened"), texts = found.map((event) => JSON.stringify(event));
  // A rollback can take changes back. Otherwise only new ones are added, so that a screen reader reads those alone.
  const kept = texts.slice(0, told.length).join("\n") === told.join("\n");
  if (!kept || !told.length) list.replaceChildren();
  for (const { at, when, kind, text } of found.slice(kept ? told.length : 0).slice(-most)) {
    const item = document.createElement("li");
    tag("span", item, "", `kind ${kind}`);
    tag("span", item, when || `step ${grouped(Math.floor(at))}`, "when");
    item.append(text);
    list.prepend(item); // the newest on top
  }
  told = texts;
  while (list.children.length > most) list.lastChild.remove();
  if (!told.length) tag("li", list, "Nothing yet: no drift, no other model, no order.");
  const rest = Math.min(told.length, MOST_TOLD) - list.children.length, more = one(".earlier");
  more.hidden = rest <= 0;
  more.textContent = `show ${plural(rest, "earlier event")}`;
};
one(".earlier").addEventListener("click", () => {
  most = MOST_TOLD;
  told = [];
  happened(events);
});

// ---------------------------------------------------------------------- orders

const sure = (words) =>
  new Promise((answer) => {
    const box = one("dialog");
    one("p", box).textContent = words;
    box.returnValue = "no";
    box.addEventListener("close", () => answer(box.returnValue === "yes"), { once: true });
    box.showModal();
  });
const moment = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ") + " UTC";
let offered = "";
const orders = (model) => {
  const points = model.restore_points.map((point) => [point.position, point.version]);
  const what = JSON.stringify([model.name, model.pinned, points, model.challengers.map((item) => item.name)]);
  if (what === offered || one(".orders").hidden) return;
  offered = what;
  const mild = one(".orders .mild"), harsh = one(".orders .harsh"), name = model.name;
  for (const button of document.querySelectorAll(".orders .buttons button")) button.remove();
  const offer = (words, question, order, box = mild) => {
    const button = tag("button", box, words);
    button.type = "button";
    button.addEventListener("click", async () => {
      if (!(await sure(question))) return;
      const outcome = one(".orders .outcome");
      outcome.textContent = "…";
      try {
        outcome.textContent = (await post(address(name, "orders"), order)).text;
      } catch (error) {
        outcome.textContent = error.message;
      }
    });
  };
  if (model.pinned) offer("unpin", `Let ${name} learn again?`, { kind: "unpin" });
  else offer("pin", `Pin ${name}? It predicts and does not learn until it is unpinned.`, { kind: "pin" });
  for (const { position, time } of model.restore_points) {
    const back = time ? moment(time) : "the beginning"; // a challenger that was promoted counts steps of its own
    const question = `Take ${name} back to what it was at ${back}? It forgets what it has learned since.`;
    offer(`roll back to ${back}`, question, { kind: "rollback", to: position }, harsh);
  }
  const forget = `Reset ${name}? It forgets everything it has learned.`;
  offer("reset: forget everything", forget, { kind: "reset" }, harsh);
  for (const item of model.challengers) {
    offer(`promote ${item.name}`, `Let ${item.name} answer in place of the present model?`, { kind: "promote", model: item.name });
    offer(`dismiss ${item.name}`, `End the challenger ${item.name}? What it has learned is lost.`, { kind: "dismiss", model: item.name }, harsh);
  }
};

start();
