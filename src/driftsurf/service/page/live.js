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
const number = (value, digits = 4) => (value === null || value === undefined ? "–" : String(Number(value.toPrecision(digits))));
const grouped = (value) => value.toLocaleString("en");
const ago = (seconds) => {
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s ago`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min ago` : `${Math.round(seconds / 3600)} h ago`;
};
const address = (name, what = "") => `/v1/models/${encodeURIComponent(name)}${what && `/${what}`}`;
const tools = one(".tools"), toolsAtFirst = tools.innerHTML;
let chosen = null, operable = [], leave = () => {}, known = null, shown = null;

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
const overview = (models) => {
  show(".overview");
  link(true, "live");
  const box = one(".models");
  box.replaceChildren();
  for (const model of models) {
    const card = tag("a", box);
    card.href = `#${encodeURIComponent(model.name)}`;
    tag("b", card, model.name);
    tag("div", card, `error ${number(model.error)}, usually ${number(model.usual_error)}`);
    tag("div", card, `${grouped(model.rows)} rows learned`, "soft");
    tag("div", card, model.failure || model.phase, model.phase === "ready" ? "soft" : "bad");
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
  show(".model");
  document.title = `${chosen} · driftsurf`;
  one(".model h1").textContent = chosen;
  for (const what of ["report", "journal", "trace"]) one(`a.${what}`).href = address(chosen, what);
  one(".sections").replaceChildren();
  one(".happened").replaceChildren();
  told = [];
  one(".head").replaceChildren();
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
  const waits = model.last_label === null ? "" : ` · last label ${ago(Date.now() / 1000 - model.last_label)}`;
  const words = [`${model.model}, ${model.phase}`, model.pinned ? "pinned" : "", model.failure].filter(Boolean);
  one(".status").textContent = `${words.join(" · ")}${waits}`;
  const before = model.version - model.steps;
  cards(one(".cards.now"), [
    [`error in the last ${grouped(model.error_rows)} rows`, number(model.error)], ["error usually", number(model.usual_error)],
    ["error of the trivial rule", number(model.trivial_error)], [before > 0 ? `steps here, ${grouped(before)} before` : "steps learned", grouped(model.steps)],
    ["rows learned", grouped(model.rows)], ["rows to be learned", grouped(model.lag_rows)],
    ["rows without a label yet", grouped(model.labels.waiting)],
  ]);
  challengers(model.challengers);
  connections(model.connections);
  orders(model);
};
const challengers = (list) => {
  one(".challengers").hidden = !list.length;
  const table = one(".challengers table");
  table.replaceChildren();
  const head = tag("tr", table);
  for (const word of ["challenger", "error", "error of the model", "difference, 95 % interval", "steps"]) tag("th", head, word);
  for (const item of list) {
    const row = tag("tr", table), interval = `${number(item.difference)} (${number(item.low)} to ${number(item.high)})`;
    const cells = [item.name, number(item.error), number(item.leading_error), interval, grouped(item.steps)];
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
  const box = one(".alerts"), own = active.filter((alert) => alert.model === chosen);
  const said = JSON.stringify(own.map((alert) => [alert.rule, alert.text]));
  if (box.dataset.said === said) return;
  box.dataset.said = said;
  box.replaceChildren();
  for (const alert of own) tag("p", box, alert.text, alert.severity === "info" ? "info" : "");
};

// ---------------------------------------------------------------------- figures and tables

const shape = (content) => JSON.stringify(content.sections.map(({ title, parts }) => [title, parts.map((part) => part.figure || 0)]));
const fill = (content) => {
  const head = one(".head");
  if (head.dataset.html !== content.head) {
    head.innerHTML = content.head;
    head.dataset.html = content.head;
  }
  happened(content.data ? content.data.changes : []);
  if (!content.data) return;
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
  const box = one(".sections");
  box.replaceChildren();
  tools.innerHTML = toolsAtFirst;
  content.sections.forEach(({ title, parts }, k) => {
    tag("h2", box, title);
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
const MOST_TOLD = 200;
let told = [];
const happened = (changes) => {
  const list = one(".happened"), texts = changes.map((change) => change.text);
  // A rollback can take changes back. Otherwise only new ones are added, so that a screen reader reads those alone.
  const kept = texts.slice(0, told.length).join("\n") === told.join("\n");
  if (!kept || !told.length) list.replaceChildren();
  for (const text of texts.slice(kept ? told.length : 0).slice(-MOST_TOLD)) {
    const item = document.createElement("li");
    item.textContent = text;
    list.prepend(item); // the newest on top
  }
  told = texts;
  while (list.children.length > MOST_TOLD) list.lastChild.remove();
  if (!told.length) tag("li", list, "Nothing yet: the model has not changed its state.");
};

// ---------------------------------------------------------------------- orders

const sure = (words) =>
  new Promise((answer) => {
    const box = one("dialog");
    one("p", box).textContent = words;
    box.returnValue = "no";
    box.addEventListener("close", () => answer(box.returnValue === "yes"), { once: true });
    box.showModal();
  });
let offered = "";
const orders = (model) => {
  const points = model.restore_points.map((point) => [point.position, point.version]);
  const what = JSON.stringify([model.name, model.pinned, points, model.challengers.map((item) => item.name)]);
  if (what === offered || one(".orders").hidden) return;
  offered = what;
  const box = one(".orders .buttons"), name = model.name;
  box.replaceChildren();
  const offer = (words, question, order) => {
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
  offer("reset", `Reset ${name}? It forgets everything it has learned.`, { kind: "reset" });
  for (const { position, version } of model.restore_points) {
    const words = `roll back to step ${grouped(version)}`;
    offer(words, `Take ${name} back to what it was after step ${grouped(version)}?`, { kind: "rollback", to: position });
  }
  for (const item of model.challengers) {
    offer(`promote ${item.name}`, `Let ${item.name} answer in place of the present model?`, { kind: "promote", model: item.name });
    offer(`dismiss ${item.name}`, `End the challenger ${item.name}?`, { kind: "dismiss", model: item.name });
  }
};

start();
