// The page of the query service: asks queries, draws answers, and shows every two seconds how the service is.
"use strict";

const at = (id) => document.getElementById(id);
const LEFT = 72, TOP = 10, BOTTOM = 24; // room for the numbers at the chart's axes [px]
const CLIENTS = 4, SECONDS = 5; // who ask known queries, and for how long
let answer = null; // what is drawn
let days = 0;
let known = []; // expressions of queries that were answered

function number(value, options = { maximumFractionDigits: 2 }) {
  if (value === null) return "no finite number";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e15)) return Number(value.toPrecision(4)).toExponential();
  return value.toLocaleString("en", options);
}

function time(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  return seconds < 1 ? `${number(1e3 * seconds, { maximumSignificantDigits: 3 })} ms` : `${seconds.toFixed(2)} s`;
}

async function ask(path, body) {
  const asked = body && { method: "POST", body: JSON.stringify(body) };
  const response = await fetch(path, asked);
  const said = await response.json();
  if (!response.ok) throw new Error(said.error);
  return said;
}

async function busy(button, action, problem) { // once at a time; the button keeps the focus
  if (button.ariaBusy) return;
  button.ariaBusy = "true";
  try {
    await action();
  } catch (error) {
    problem.textContent = error.message;
  }
  button.ariaBusy = null;
  show();
}

// -- a query and its answer

at("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  at("problem").textContent = "";
  busy(at("send"), async () => {
    const expression = at("expression").value;
    answer = await ask("query", { expression });
    history.replaceState(null, "", `#${new URLSearchParams({ expression })}`); // an address that can be passed on
    at("answer").hidden = false;
    at("asked").querySelector("code").textContent = expression;
    at("sum").textContent = number(answer.sum);
    const how = answer.new ? "compiled for this answer" : "known already";
    at("took").textContent = `${number(answer.rows)} rows in ${time(answer.seconds)}, ${how}`;
    draw();
    fill("sums", ["Days", "*Sum"], answer.sums.map((sum, period) => [span(period), number(sum)]));
  }, at("problem"));
});

function span(period) {
  const begin = (number) => Math.ceil((number * days) / answer.sums.length);
  return `${begin(period)} to ${begin(period + 1) - 1}`;
}

// -- the chart

function draw() {
  const chart = at("chart"), { width, height } = chart.getBoundingClientRect();
  if (!answer || !width) return;
  chart.replaceChildren();
  const add = (name, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text) element.append(text);
    return chart.appendChild(element);
  };
  const finite = answer.sums.filter((sum) => sum !== null);
  const least = Math.min(0, ...finite), most = Math.max(0, ...finite);
  const step = round(most / 4 - least / 4) || 1;
  const first = Math.floor(least / step), last = Math.max(first + 1, Math.ceil(most / step));
  const y = (value) => TOP + ((last - value / step) / (last - first)) * (height - TOP - BOTTOM);
  for (let line = first; line <= last; line++) {
    const value = line * step;
    add("line", { x1: LEFT, x2: width, y1: y(value), y2: y(value), class: line ? "" : "zero" });
    const words = number(value, { notation: "compact", maximumSignificantDigits: 3 });
    add("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, words);
  }
  const each = (width - LEFT) / answer.sums.length;
  answer.sums.forEach((sum, period) => {
    const [top, bottom] = sum === null ? [TOP, height - BOTTOM] : [y(Math.max(sum, 0)), y(Math.min(sum, 0))];
    const place = { x: LEFT + period * each + 1, width: Math.max(1, each - 2), y: top, height: bottom - top };
    const bar = add("rect", { ...place, class: sum === null ? "none" : "" });
    const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
    title.textContent = `days ${span(period)}: ${number(sum)}`;
    bar.append(title);
  });
  for (let day = 0; day < days; day += 365) {
    const x = LEFT + (day / days) * (width - LEFT);
    add("text", { x, y: height - 6 }, String(day));
  }
}

function round(value) { // up, to 1, 2 or 5 times a power of ten
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= value);
}

new ResizeObserver(draw).observe(at("chart"));

// -- how the service is

function fill(id, titles, rows) { // a * before a title: a column of numbers
  const cells = (kind, values) => {
    const row = document.createElement("tr");
    values.forEach((value, column) => {
      const cell = row.appendChild(document.createElement(kind));
      if (titles[column].startsWith("*")) cell.className = "number";
      cell.append(kind === "th" ? value.replace("*", "") : value);
    });
    return row;
  };
  at(id).replaceChildren(cells("th", titles), ...rows.map((row) => cells("td", row)));
}

async function show() {
  try {
    const status = await ask("status");
    days = status.days;
    known = status.queries.map((query) => query.expression);
    at("hint").textContent = `Columns: ${status.columns.join(", ")}. Functions: ${status.functions.join(", ")}.`;
    const workers = status.processes.slice(1), well = workers.filter((each) => each.answers).length;
    health(well === workers.length, `${well} of ${workers.length} workers answer`);
    at("rate").textContent = number(status.queries_a_second, { maximumFractionDigits: 1 });
    at("first").textContent = time(status.first_answer);
    at("later").textContent = time(status.later_answer);
    fill("queries", ["Query", "*Answers", "*First answer", "*Latest"], status.queries.map((query) => {
      const code = document.createElement("code");
      code.append(query.expression);
      return [code, number(query.answered), time(query.first), time(query.latest)];
    }));
    fill("processes", ["Process", "Numba", "*Processor time", "*Memory"], status.processes.map((each) => {
      if (!each.answers) return [`${each.process} doesn't answer`, "–", "–", "–"];
      const memory = number(each.memory / 2 ** 20, { maximumFractionDigits: 0 });
      return [each.process, each.numba ? "yes" : "no", `${each.processor.toFixed(2)} s`, `${memory} MiB`];
    }));
  } catch {
    health(false, "the service doesn't answer");
  }
}

function health(good, words) {
  if (at("health").textContent !== words) at("health").textContent = words; // said again only when it changes
  at("health").className = good ? "health good" : "health bad";
}

at("load").addEventListener("click", () => {
  at("loaded").textContent = "asking …";
  busy(at("load"), async () => {
    const asked = known.length ? known : [at("expression").value], until = performance.now() + 1e3 * SECONDS;
    let answered = 0;
    await Promise.all(Array.from({ length: CLIENTS }, async (_, client) => {
      for (let turn = client; performance.now() < until; turn++, answered++) {
        await ask("query", { expression: asked[turn % asked.length] });
      }
    }));
    at("loaded").textContent = `${number(answered)} answers: ${number(answered / SECONDS)} a second`;
  }, at("loaded"));
});

(async () => {
  await show();
  const asked = new URLSearchParams(location.hash.slice(1)).get("expression");
  if (asked) {
    at("expression").value = asked;
    at("ask").requestSubmit();
  }
  for (;;) {
    if (!document.hidden) await show();
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
})();
