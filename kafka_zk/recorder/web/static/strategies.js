// The same change of a group's members under each assignment strategy, one above the other. The simulator computed it (strategies.py).

import { html, paletteColour, svg } from "./dom.js";

const ROW = 7, LANE = 13, WAITING = 44, TOP = 20, GAP = 8, LABEL = 62, RIGHT = 8, TEXT = 310, NARROW = 760, SECOND = 1000;
const chosen = { change: "join", hidden: new Set() };

// `width`: of the view. `again` redraws.
export function strategiesView(told, width, again) {
  const change = told.changes.find((each) => each.name === chosen.change);
  const names = [...new Set(change.plays.flatMap((play) => play.lanes.map((lane) => lane.member)))].sort();
  const shown = change.plays.filter((play) => !chosen.hidden.has(nameOf(play)));
  const most = Math.max(1, ...change.plays.map((play) => play.most_waiting));
  const chart = { told, change, names, most, width: width < NARROW ? width : width - TEXT };
  return html("div", { class: "strategies" },
    html("h2", {}, "The same change under each assignment strategy"),
    html("p", { class: "choices", role: "group", "aria-label": "The change" }, told.changes.map((each) => changeButton(each, again))),
    html("p", { class: "choices", role: "group", "aria-label": "The strategies" }, change.plays.map((play) => strategyBox(play, again))),
    html("p", { class: "headline" }, change.conclusion),
    shown.map((play) => html("section", { class: "strategy", "data-strategy": nameOf(play), "aria-label": nameOf(play) }, about(play), picture(play, chart))),
    legend(names),
    html("p", { class: "soft" }, `${told.said} kafka-zk's own brokers and members did this in its simulator, where every run gives the same result; `
      + `it was not measured on the recorded cluster. kafka-zk replay --strategies ${change.name} plays it again.`));
}

const nameOf = (play) => `${play.strategy}, ${play.kind}`;

const changeButton = (each, again) => html("button", { "data-change": each.name, "data-key": `change ${each.name}`,
  "aria-pressed": String(each.name === chosen.change), onclick: () => { chosen.change = each.name; again(); } }, each.title);

function strategyBox(play, again) {
  const name = nameOf(play), isShown = !chosen.hidden.has(name);
  const toggled = () => { if (isShown) chosen.hidden.add(name); else chosen.hidden.delete(name); again(); };
  return html("label", {}, html("input", { type: "checkbox", "data-key": `strategy ${name}`, checked: isShown, onchange: toggled }), ` ${name}`);
}

function about(play) {
  return html("div", {}, html("h3", {}, play.strategy, " ", html("small", {}, `${play.kind}, ${play.assignor}`)),
    html("p", { class: "soft" }, play.how), html("p", {}, play.said));
}

function legend(names) {
  return html("p", { class: "legend" }, names.map((name) => html("span", {}, mark({ fill: memberColour(names, name) }), ` ${name} may read the partition`)),
    html("span", {}, mark({ class: "unread" }), " no member reads it"), html("span", {}, mark({ class: "quiet" }), " a member is silent: it receives nothing although records wait"),
    html("span", {}, mark({ class: "busy" }), " it is busy with one record"), html("span", {}, mark({ class: "waiting" }), " records that wait"));
}

const mark = (attributes) => svg("svg", { width: 22, height: 10, "aria-hidden": "true" }, svg("rect", { width: 22, height: 10, ...attributes }));
const memberColour = (names, name) => paletteColour(names.indexOf(name));

function picture(play, { told, change, names, most, width }) {
  const partitions = TOP + told.partition_count * ROW + GAP, lanes = partitions + names.length * LANE + GAP, bottom = lanes + WAITING + 4, height = bottom + 14;
  const x = (ms) => LABEL + ((ms - told.from_ms) / (told.to_ms - told.from_ms)) * (width - LABEL - RIGHT);
  const bar = (from_ms, to_ms, y, tall, attributes, title) =>
    svg("rect", { x: x(from_ms), width: Math.max(1, x(to_ms) - x(from_ms)), y, height: tall, ...attributes }, svg("title", {}, title));
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `${change.title}. ${play.said}` });
  drawing.append(...axis(told, x, bottom, width), svg("text", { x: 0, y: TOP + 10 }, "partitions"));
  for (let number = 0; number < told.partition_count; number += 1) {
    drawing.append(svg("rect", { class: "unread", x: x(told.from_ms), width: x(told.to_ms) - x(told.from_ms), y: TOP + number * ROW, height: ROW - 1 }));
  }
  for (const [partition, member, from_ms, to_ms] of play.owned) {
    drawing.append(bar(from_ms, to_ms, TOP + partition * ROW, ROW - 1, { fill: memberColour(names, member) }, `partition ${partition}: ${member}, ${seconds(from_ms)} to ${seconds(to_ms)}`));
  }
  for (const lane of play.lanes) {
    const y = partitions + names.indexOf(lane.member) * LANE;
    drawing.append(svg("text", { x: 0, y: y + 10 }, lane.member), bar(lane.from_ms, lane.to_ms, y, LANE - 3, { fill: memberColour(names, lane.member) }, lane.member));
    for (const [from_ms, to_ms] of lane.busy) drawing.append(bar(from_ms, to_ms, y, LANE - 3, { class: "busy" }, `${lane.member} is busy with one record for ${lasting(to_ms - from_ms)}`));
    for (const [from_ms, to_ms] of lane.silences) drawing.append(bar(from_ms, to_ms, y, LANE - 3, { class: "quiet" }, `${lane.member} is silent for ${lasting(to_ms - from_ms)}`));
  }
  drawing.append(svg("text", { x: 0, y: lanes + 12 }, "waiting"), svg("text", { x: 0, y: lanes + 26, class: "soft" }, `up to ${play.most_waiting}`),
    svg("path", { class: "waiting", d: area(play.waiting, told, x, lanes, most) }), changeLine(x(0), bottom, change.begins));
  return drawing;
}

function axis(told, x, bottom, width) {
  const ticks = [], named = width < NARROW / 2 ? 4 * SECOND : 2 * SECOND;
  for (let ms = Math.ceil(told.from_ms / SECOND) * SECOND; ms <= told.to_ms; ms += SECOND) {
    ticks.push(svg("line", { class: "axis", x1: x(ms), x2: x(ms), y1: TOP, y2: bottom }));
    if (ms % named === 0 && ms !== told.from_ms) ticks.push(svg("text", { class: "soft", x: x(ms), y: bottom + 12, "text-anchor": "middle" }, seconds(ms)));
  }
  return ticks;
}

const changeLine = (at, bottom, title) => svg("g", {}, svg("line", { class: "now", x1: at, x2: at, y1: 4, y2: bottom }), svg("text", { x: at + 4, y: 13 }, title));

function area(counts, told, x, top, most) {
  const y = (count) => top + WAITING * (1 - count / most), base = top + WAITING;
  const points = counts.map((count, index) => `L${x(told.from_ms + index * told.count_every_ms).toFixed(1)} ${y(count).toFixed(1)}`);
  return `M${x(told.from_ms)} ${base}${points.join("")}L${x(told.from_ms + (counts.length - 1) * told.count_every_ms).toFixed(1)} ${base}z`;
}

const seconds = (ms) => ms === 0 ? "0 s" : `${ms < 0 ? "−" : "+"}${Math.abs(ms / SECOND).toFixed(ms % SECOND ? 1 : 0)} s`;
const lasting = (ms) => (ms < SECOND ? `${ms} ms` : `${(ms / SECOND).toFixed(1)} s`);
