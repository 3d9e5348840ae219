// The page's state and its changes. All data come from `data`; this only asks and draws.

import { BreakPanel } from "./break.js";
import { clusterView } from "./cluster.js";
import { ConfigsPanel } from "./configs.js";
import { source } from "./data.js";
import { detailsView, znodeView } from "./details.js";
import { clock, dated, html, knowGroups, knowNames, replace, size } from "./dom.js";
import { lanesQuery, topicsQuery } from "./folds.js";
import { happenedView } from "./happened.js";
import { helpView } from "./help.js";
import { lagView } from "./lag.js";
import { LessonPanel } from "./lesson.js";
import { timelineLegend } from "./legend.js";
import { MessagesPanel } from "./messages.js";
import { partOf } from "./play_part.js";
import { presented, showPresented } from "./presented.js";
import { batchesView, recordsView } from "./records.js";
import { ResetDialog } from "./reset.js";
import { sharing } from "./sharing.js";
import { silence } from "./silence.js";
import { SlowMotion } from "./slow_motion.js";
import { strategiesView } from "./strategies.js";
import { isDetail, timelinePicture } from "./timeline.js";
import { treeView } from "./tree.js";
import { notice } from "./zookeeper.js";

const FLOW_MS = 1500, FLOW_COUNT = 30, REFRESH_MS = 300, HELD_MS = 5000, HAPPENED_MS = 2000, HOLD_MS = 2500, STRATEGIES_MARGIN = 50;
const NOT_IN_XML = /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu; // but in znodes
const id = (name) => document.getElementById(name);
const hash = new URLSearchParams(location.hash.slice(1));
const data = source(), ask = data.ask;
const VIEWS = ["cluster", "tree", "lag", "configs", "messages", "strategies", "help"];

const page = {
  recording: null,
  seq: Number(hash.get("seq")) || null, // null: live
  at: null, // the slider's time, after the entry: hearts and numbers change between two entries
  moment: 0,
  view: hash.get("view") ?? "cluster",
  chosen: null,
  episode: null, // the one that was chosen or played last
  related: {}, // the cause of the chosen event, and its first effect
  below: "",
  scrolledTo: null,
  znode: null, // path of the chosen znode
  told: null, // the episodes; `toldAt`: when the page asked for them
  toldAt: 0,
  begun: null, // a promise: the lesson, if there is one, and the first drawing
  sharing: null, // the presenter's or a viewer's part, if the page is shared
  breaking: null, // the panel for faults, if the cluster allows them
  configs: new ConfigsPanel(ask),
  messages: null, // the panel for records, if the reader may see them
  reset: null, // the dialog for offsets, if the reader may change them
  inLesson: false,
  lesson: null, // its panel
  slowly: null, // the panel for slow motion
  began_ms: 0, // when its chapter began: each has a cluster of its own
  playing: false,
  drawing: false,
  timeline: null, // the last drawing
  held: false, // True while a button is pressed: a redraw would replace the button before it is released
  again: null, // for whom to draw when the drawing or the press is over: "reader" or "news"
  waiting: false, // True if news came while the reader selected text, which a redraw would lose
  silent: false, // True while the recorder does not answer
};

// --- drawing ---

const draw = () => drawFor("reader");

// News wait while the reader selects text.
async function drawFor(whom) {
  if (page.drawing || page.held) return drawLater(whom);
  if (whom === "news" && isSelecting()) { page.waiting = true; return; }
  page.drawing = true;
  page.waiting = false;
  try {
    await drawOnce(whom);
    if (!page.silent) say(page.recording.problem);
  } catch (error) {
    if (!page.silent) say(String(error.message ?? error));
  }
  page.drawing = false;
  drawAgain();
}

function drawLater(whom) {
  page.again = page.again === "reader" ? "reader" : whom;
}

function drawAgain() {
  const whom = page.again;
  page.again = null;
  if (whom) drawFor(whom);
}

// Asks first, then draws everything at once, unless the reader has begun to press or to select meanwhile.
async function drawOnce(whom) {
  if (!page.recording.count) {
    id("view").replaceChildren(html("p", { class: "soft" }, "Nothing is recorded yet."));
    return;
  }
  const live = page.seq === null;
  const seq = live ? page.recording.count : page.seq;
  const here = live ? null : await ask("step", { seq: seq - 1, by: 1 });
  page.moment = live ? page.recording.now_ms : Math.max(here.time_ms, page.at ?? 0);
  const range = shownRange();
  const flowFrom = page.moment - FLOW_MS;
  const told = await whatHappened();
  const path = page.znode;
  const [drawTimeline, recent, view, health, znode] = await Promise.all([
    timelineOf(range, told), ask("entries", { from_ms: flowFrom, to_ms: page.moment }), viewOf(seq, here),
    ask("health", { time_ms: page.moment }), path === null ? null : ask("znode", { seq, path }).catch(() => null),
  ]);
  if (page.held) return drawLater(whom);
  if (whom === "news" && isSelecting()) { page.waiting = true; return; }
  const spans = drawTimeline();
  const flow = (recent.entries ?? []).filter((each) => each.seq <= seq).slice(-FLOW_COUNT);
  replace(id("view"), view(flow, brokersUntil(page.moment, spans), health.zookeeper));
  showChosenZnode(seq);
  if (path !== null && path === page.znode) showZnode(path, znode);
  showHappened(told);
  page.breaking?.happened(told.episodes);
  const saving = data.savingAddress(range);
  id("export").hidden = saving === null || page.recording.shared === "viewer"; // viewers may only read
  if (saving !== null) id("export").href = saving;
  controls();
}

// Returns a function that draws the timeline if its content changed, else only moves its moment, and returns the spans.
async function timelineOf(range, told) {
  const width = Math.max(600, id("timeline").clientWidth - 16);
  const every = id("every").checked, { count, live, now_ms, last_ms } = page.recording;
  const key = JSON.stringify([range, lanesQuery(), count, width, every, page.chosen, live ? now_ms : 0, told.episodes]);
  const changed = page.timeline?.key !== key;
  const [held, entries, samples] = changed
    ? await Promise.all([ask("spans", { ...range, ...lanesQuery() }), ask("entries", range), ask("samples", range)]) : [];
  return () => {
    if (changed) {
      const drawn = timelinePicture(width, range, told.episodes, held, { ...samples, until_ms: live ? now_ms : last_ms }, entries, page.moment,
        page.chosen, every, choose, draw);
      replace(id("timeline"), drawn.picture);
      page.timeline = { key, wind: drawn.wind, spans: held.spans };
    }
    page.timeline.wind(page.moment);
    return page.timeline.spans;
  };
}

// The episodes of the whole recording, cached because there may be many.
async function whatHappened() {
  if (page.told === null || performance.now() - page.toldAt > HAPPENED_MS) {
    const { first_ms, last_ms, now_ms, live } = page.recording;
    page.told = await ask("episodes", { from_ms: first_ms, to_ms: Math.max(last_ms, live ? now_ms : 0) });
    page.toldAt = performance.now();
    if (live) setTimeout(drawNews, HAPPENED_MS + 1);
  }
  if (!page.inLesson) return page.told;
  const over = page.told.episodes.filter((each) => each.from_ms >= page.began_ms && each.to_ms <= page.moment); // no answers beforehand
  return { episodes: over, count: over.length };
}

// Redraws the list only if it changed, to keep the keyboard's focus.
function showHappened(told) {
  const chosen = page.chosen !== null || page.znode !== null, slowly = page.slowly.isOpen;
  id("happened").hidden = chosen || slowly;
  id("break").hidden = chosen || slowly || !page.breaking;
  id("chosen").hidden = !chosen || slowly;
  const key = JSON.stringify(told.episodes);
  if (id("happened").dataset.key === key) return;
  id("happened").dataset.key = key;
  id("happened").replaceChildren(happenedView(told, choose));
}

function back() {
  page.chosen = null;
  page.znode = null;
  draw();
}

async function viewOf(seq, here) {
  const filter = id("filter").value.trim();
  if (page.view === "help") return () => helpView();
  if (page.view === "strategies") {
    const told = await ask("strategies");
    return () => strategiesView(told, document.body.clientWidth - STRATEGIES_MARGIN, draw);
  }
  if (page.view === "lag" && data.hasLag) {
    const told = await ask("lag", { time_ms: page.moment, name: filter });
    return () => lagView(told, page.moment, filter, page.seq === null && page.reset && ((group, topics) => page.reset.open(group, topics)));
  }
  if (page.view === "messages" && page.messages) return () => page.messages.view();
  if (page.view === "configs" && page.recording.can_ask) return () => page.configs.view();
  if (page.view === "tree") {
    const tree = await ask("tree", { seq, path: page.below, name: filter });
    const at = here?.path ?? "";
    return (flow, known, zookeeper) => html("div", {}, ...notice(zookeeper),
      treeView(tree, changedNow(here ? [...flow, here] : flow), at, filter, openZnode, enterZnode, draw));
  }
  const [{ cluster, measured, age_ms, batches }, { plays }] = await Promise.all([
    ask("state", { seq, time_ms: page.moment, name: filter, ...topicsQuery() }), ask("records", { seq, time_ms: page.moment })]);
  return (flow, known, zookeeper) => {
    if (knowGroups(cluster.groups.map((group) => group.name))) { page.timeline = null; drawLater("news"); } // names became shorter
    return clusterView(cluster, { ...page.recording, known_brokers: known, age_ms, zookeeper }, flow, measured, filter, draw, recordsView(plays), plays.length ? null : batchesView(batches, age_ms));
  };
}

// Scrolls to the chosen znode only once for each moment, so that the reader can scroll away.
function showChosenZnode(seq) {
  if (page.view !== "tree" || page.scrolledTo === seq) return;
  page.scrolledTo = seq;
  if (page.seq !== null) document.querySelector("#view tr.chosen")?.scrollIntoView({ block: "center" });
}

// Brokers of the live cluster, or of the recording's shown time.
const brokersUntil = (moment, spans) => [...new Set([...page.recording.known_brokers, ...spans
  .filter(([kind, , , , from_ms]) => kind === "broker" && from_ms <= moment).map(([, lane]) => Number(lane.split(" ")[1]))])];

const changedNow = (entries) => new Map(entries.filter((each) => ["created", "changed", "deleted"].includes(each.kind))
  .map((each) => [each.path, each.kind]));

function openZnode(path) {
  page.chosen = null;
  relate({});
  page.znode = path;
  draw();
}

// Show only the znodes below this one.
function enterZnode(path) {
  page.below = path;
  draw();
}

function showZnode(path, told) {
  replace(id("details"), told ? znodeView(told, choose) : html("p", {}, `${path} does not exist at this moment`));
}

function shownRange() {
  const near = page.slowly.range();
  if (near) return near;
  const seconds = Number(id("window").value);
  const { last_ms, now_ms } = page.recording, first_ms = Math.max(page.recording.first_ms, page.inLesson ? page.began_ms : 0);
  const end = page.inLesson ? page.moment : Math.max(last_ms, page.recording.live ? now_ms : 0); // no answers beforehand
  if (!seconds) return { from_ms: first_ms, to_ms: end };
  const to = page.seq === null ? end : Math.min(end, page.moment + (seconds * 1000) / 2);
  return { from_ms: Math.max(first_ms, to - seconds * 1000), to_ms: page.inLesson ? Math.max(to, first_ms + 1) : Math.max(to, first_ms + 1000) };
}

function controls() {
  const live = page.seq === null;
  id("live").setAttribute("aria-pressed", live);
  id("live").disabled = !page.recording.live;
  id("play").textContent = page.playing ? "❚❚ pause" : "▶ play";
  id("moment").textContent = `${dated(page.moment)} · ${live ? page.recording.count : page.seq} of ${page.recording.count}`;
  id("window").disabled = page.slowly.isOpen; // it shows the milliseconds around a step
  const slider = id("slider");
  slider.min = page.recording.first_ms;
  slider.max = Math.max(page.recording.last_ms, page.recording.live ? page.recording.now_ms : 0);
  if (document.activeElement !== slider || live) slider.value = page.moment;
  slider.setAttribute("aria-valuetext", dated(page.moment));
  for (const name of VIEWS) id(`view-${name}`).setAttribute("aria-pressed", page.view === name);
  const kept = new URLSearchParams({ view: page.view, ...data.kept });
  if (!live && !page.lesson) kept.set("seq", page.seq);
  if (page.lesson?.step >= 0) kept.set("step", page.lesson.step + 1);
  history.replaceState(null, "", `#${kept}`);
  page.sharing?.drawn(() => presented(page));
}

function say(problem) {
  id("problem").hidden = !problem;
  id("problem").textContent = problem;
}

// --- actions of the reader ---

// `episode`: the episode that begins with this event; in a lesson, only its part up to the shown moment.
async function choose(seq, episode = null) {
  page.slowly.close();
  const until_ms = page.inLesson ? page.moment : Infinity; // read before the draw changes the moment
  page.chosen = seq;
  page.episode = episode;
  page.znode = null;
  page.playing = false;
  page.seq = seq;
  page.at = null;
  const [entry, within] = await Promise.all([ask("entry", { seq }), episode ? ask("entries", { from_ms: episode.from_ms, to_ms: Math.min(episode.to_ms, until_ms) }) : {}]);
  const meanwhile = (within.entries ?? []).filter((each) => !isDetail(each));
  relate({ cause: entry.cause, effect: entry.effects[0]?.seq });
  id("details").replaceChildren(detailsView(entry, episode && { ...episode, meanwhile }, choose, data.codeAddress, () => playSlowly(episode, until_ms)));
  draw();
}

// In a lesson, only steps of its chapter. `until_ms`: the shown moment, so that no step reveals an answer early.
async function playSlowly(episode, until_ms) {
  const { subject, seq, from_ms, to_ms } = episode, before = { seq: page.seq, at: page.at, chosen: page.chosen };
  let told;
  try {
    told = partOf(await ask("play", { subject, seq, from_ms, to_ms }), page.began_ms, until_ms);
  } catch (error) {
    return say(String(error.message ?? error));
  }
  if (page.chosen !== before.chosen || page.seq !== before.seq) return; // the reader went on meanwhile
  page.playing = false;
  page.episode = episode;
  page.slowly.open({ ...told, since_ms: page.began_ms, until_ms, text: episode.text }, () => {
    Object.assign(page, before);
    draw().then(() => id("details").querySelector("[data-key=slowly]")?.focus());
  });
}

async function step(by) {
  const from = page.seq ?? page.recording.count;
  await choose((await ask("step", { seq: from, by })).seq);
}

// Set the targets of the buttons for cause and effect; a znode has none.
function relate(related) {
  page.related = related;
  for (const name of ["cause", "effect"]) id(name).disabled = !related[name];
}

// To the cause of the chosen event, or to its first effect.
function follow(name) {
  if (page.chosen !== null && page.related[name]) choose(page.related[name]);
}

async function windTo(time_ms) {
  page.slowly.close();
  page.playing = false;
  page.seq = Math.max(1, (await ask("at", { time_ms })).seq);
  page.at = time_ms;
  draw();
}

async function play() {
  page.slowly.close();
  page.playing = !page.playing;
  page.at = null;
  if (page.seq === null) page.seq = page.recording.count;
  controls();
  while (page.playing && page.seq < page.recording.count) {
    const now = await ask("step", { seq: page.seq - 1, by: 1 });
    const next = await ask("step", { seq: page.seq, by: 1 });
    const wait = Math.min(HELD_MS, Math.max(0, next.time_ms - now.time_ms) / Number(id("speed").value));
    await new Promise((done) => setTimeout(done, wait));
    if (!page.playing) return;
    page.seq = next.seq;
    await draw();
  }
  page.playing = false;
  controls();
}

function goLive() {
  page.slowly.close();
  page.playing = false;
  page.seq = null;
  page.at = null;
  back();
}

function show(view) {
  page.view = view;
  draw();
}

function savePicture() {
  const picture = id("timeline").querySelector("svg");
  if (!picture) return;
  const copy = picture.cloneNode(true);
  const style = document.createElementNS("http://www.w3.org/2000/svg", "style");
  style.textContent = "text{font:12px sans-serif}.silence{fill:url(#vacant)}.under{fill:#fff}.stripe{fill:#c4221b}"
    + ".episode-mark{fill:#0b62a4}.many{fill:#ddd}.axis{stroke:#ddd}.now{stroke:#c4221b}.sparkline path{stroke:#0b62a4}";
  copy.prepend(style);
  const text = new XMLSerializer().serializeToString(copy).replace(NOT_IN_XML, "\ufffd");
  const link = html("a", { href: URL.createObjectURL(new Blob([text], { type: "image/svg+xml" })),
    download: `kafka-zk-${page.recording.first_ms}.svg` });
  link.click();
  URL.revokeObjectURL(link.href);
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return; // the browser's own, such as copy
  if (event.target.matches("input, select, textarea")) return;
  if (page.slowly.isOpen && page.slowly.pressed(event)) return page.sharing?.letGo();
  const bound = { ArrowLeft: () => step(-1), ArrowRight: () => step(1), w: () => follow("cause"), e: () => follow("effect"), l: goLive, c: () => show("cluster"),
    z: () => show("tree"), "/": () => { event.preventDefault(); id("filter").focus(); }, Escape: back };
  if (event.key === " " && !event.target.matches("button")) bound[" "] = () => { event.preventDefault(); play(); };
  if (!bound[event.key]) return;
  page.sharing?.letGo();
  bound[event.key]();
}

// The episode that the presenter has chosen; null if it is not in the list any more.
async function episodeOf({ seq, subject }) {
  const find = () => page.told?.episodes.find((each) => each.seq === seq && each.subject === subject);
  if (!find()) page.told = null; // what is kept may be older than the episode
  await whatHappened();
  return find() ?? null;
}

function release() {
  page.held = false;
  drawAgain();
}

function begin() {
  page.slowly = new SlowMotion(id("slowly"), (seq) => {
    Object.assign(page, { seq, at: null, chosen: seq, znode: null });
    return draw();
  }, () => HOLD_MS / Number(id("speed").value));
  id("live").addEventListener("click", goLive);
  id("previous").addEventListener("click", () => step(-1));
  id("next").addEventListener("click", () => step(1));
  id("play").addEventListener("click", play);
  id("back").addEventListener("click", back);
  for (const name of ["cause", "effect"]) id(name).addEventListener("click", () => follow(name));
  id("picture").addEventListener("click", savePicture);
  id("window").addEventListener("change", draw);
  id("every").addEventListener("change", draw);
  id("filter").addEventListener("input", draw);
  id("legend").replaceChildren(timelineLegend());
  id("slider").addEventListener("input", (event) => windTo(Number(event.target.value)));
  for (const name of VIEWS) id(`view-${name}`).addEventListener("click", () => show(name));
  document.addEventListener("keydown", keys);
  document.addEventListener("pointerdown", () => { page.held = true; });
  for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, () => setTimeout(release, 0));
  for (const secret of ["break", "values"]) hash.delete(secret);
  history.replaceState(null, "", `#${hash}`);
  if (data.missing) return say(data.missing);
  let due = null;
  data.follow((recording) => {
    const first = page.recording === null, silent = page.silent;
    page.recording = recording;
    page.silent = false;
    if (silent) say(recording.problem);
    knowNames(recording.names);
    const { source, misses, used_bytes, kept } = page.recording;
    id("source").textContent = `${size(used_bytes)} ${kept ? `${kept} · recorded from` : "·"} ${source}${misses ? `; may have missed: ${misses}` : ""}`;
    id("source").title = id("source").textContent;
    if (!page.recording.live && page.seq === null) page.seq = page.recording.count;
    page.sharing ??= sharing(recording, id("sharing"), data.present, (shown, isFollowing) => showPresented(shown, page, { choose, playSlowly, episodeOf, draw }, isFollowing), say);
    page.begun ??= beginLesson().then(draw, async (error) => {
      page.begun = page.lesson = null; // begun again with the next news
      await draw();
      say(String(error.message ?? error));
    });
    page.begun.then(() => page.sharing?.heard(recording));
    if (first) return;
    if (page.seq === null) due ??= setTimeout(() => { due = null; drawNews(); }, REFRESH_MS);
    else controls();
    page.lesson?.refresh();
  }, (why) => { page.silent = true; say(why || silence(page.recording, page.moment, data.isViewers)); });
  document.addEventListener("selectionchange", () => { if (page.waiting && !isSelecting()) drawFor("news"); });
}

const isSelecting = () => getSelection().type === "Range";

// Draw the present, if it is shown.
function drawNews() {
  if (page.seq === null) drawFor("news");
}

// A scenario starts at its first event, not at its last.
async function beginLesson() {
  id("view-lag").hidden = !data.hasLag;
  id("view-configs").hidden = !page.recording.can_ask;
  if (page.recording.shows_values && data.askPrivately) page.messages = new MessagesPanel(data.askPrivately);
  id("view-messages").hidden = !page.messages;
  if (page.recording.can_act && data.post) {
    page.reset = new ResetDialog(data.post);
    page.configs.allowChanges(data.post);
  }
  if (page.recording.can_break && data.post) page.breaking = new BreakPanel(id("break"), data.post, page.recording.known_brokers);
  if (page.recording.live) return;
  const panel = new LessonPanel(id("lesson"), ask, async (seq, began) => {
    page.slowly.close();
    page.playing = false;
    page.inLesson = true;
    page.seq = Math.max(1, seq);
    page.began_ms = (await ask("step", { seq: began - 1, by: 1 })).time_ms;
    page.at = page.chosen = null;
    await draw();
  });
  page.lesson = panel;
  const place = hash.has("step") ? Number(hash.get("step")) - 1 : null;
  if (!await panel.begin(Number.isInteger(place) ? place : null)) { page.lesson = null; return; }
  page.inLesson = true;
  if (place === null) page.seq = 1;
}

begin();
