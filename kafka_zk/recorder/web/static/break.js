// Break it: faults for a cluster of `kafka-zk up`, the expected effect of each, and what happened after it.

import { html, readable } from "./dom.js";

const REFRESH_MS = 3000, MOST_LINES = 4, WATCHED_MS = 60000;
const PROCESS = { kill: "kill", restart: "restart", pause: "pause", resume: "resume", expire: "expire session" };
const NETWORK = { cut: "cut", delay: "delay", mend: "mend" };
const DISK = { "fill-disk": "full", "free-disk": "free" };

// `post` sends a request to the server; it throws an Error with the reason if the server refuses.
export class BreakPanel {
  constructor(element, post, brokers) {
    Object.assign(this, { element, post, brokers, broker: brokers[0], since: null, expected: {} });
    this.state = html("span", { class: "soft" });
    this.toast = html("p", { class: "toast", role: "status" });
    this.came = html("ul", { class: "came", "aria-label": "Effects" });
    this.running = html("ul", { class: "running", "aria-label": "Running members and producers" });
    element.hidden = false;
    element.replaceChildren(html("details", {}, html("summary", {}, html("h2", {}, "Break it "),
      html("small", { class: "soft" }, "kill, cut off, slow down, add members")), ...this.rows()));
    this.refresh();
    setInterval(() => { if (!document.hidden) this.refresh(); }, REFRESH_MS);
  }

  rows() {
    const links = ["zookeeper", "brokers"].map((name) => html("input", { type: "checkbox", checked: "", value: name }));
    const delay = field("ms", "500", "number");
    const group = field("group", "board"), topic = field("topic", "flights"), rate = field("records a second", "10", "number");
    const kind = html("select", { "aria-label": "who coordinates the group" },
      html("option", { value: "zookeeper" }, "in ZooKeeper"), html("option", { value: "broker" }, "in the broker"));
    const from = () => links.filter((each) => each.checked).map((each) => each.value);
    const onBroker = (name) => ({ action: name, broker: this.broker, ...(name === "cut" ? { from: from() } : {}),
      ...(name === "delay" ? { from: from(), ms: Number(delay.value) } : {}) });
    const buttons = (named) => Object.entries(named).map(([name, label]) => this.button(name, label, () => onBroker(name)));
    const row = (label, ...parts) => html("div", { class: "row", role: "group", "aria-label": label }, html("span", { class: "what" }, label), ...parts);
    this.chosen = this.brokers.map((id) => html("button", { "data-broker": id, "aria-pressed": String(id === this.broker),
      onclick: () => this.choose(id) }, String(id)));
    return [
      row("broker", ...this.chosen, this.state), row("process", ...buttons(PROCESS)),
      row("network", ...[["ZooKeeper", links[0]], ["brokers", links[1]]].map(([name, box]) => html("label", {}, box, ` ${name} `)), delay, " ms ", ...buttons(NETWORK)),
      row("disk", ...buttons(DISK)),
      row("group", group, kind, " reads ", topic, this.button("join", "add member",
        () => ({ action: "join", group: group.value, topic: topic.value, type: kind.value }))),
      row("producer", rate, " records/s ", this.button("produce", "set",
        () => ({ action: "produce", topic: topic.value, rate: Number(rate.value) }))),
      this.running, this.toast, this.came,
    ];
  }

  choose(id) {
    this.broker = id;
    for (const each of this.chosen) each.setAttribute("aria-pressed", String(each.dataset.broker === String(id)));
    this.showState();
  }

  button(name, label, request) {
    const element = html("button", { "data-break": name, onclick: () => this.act(request()) }, label);
    element.addEventListener("pointerenter", () => { element.title = this.expected[name] ?? ""; });
    return element;
  }

  async act(request) {
    const target = request.member ?? request.group ?? request.topic ?? `broker ${request.broker}`;
    const began = Date.now();
    this.toast.textContent = `${target}: ${request.action} …`;
    try {
      const told = await this.post(request);
      this.since = began;
      this.toast.textContent = `${told.member ?? target}: ${request.action}. Expect: ${told.expected ?? ""}`;
      this.came.replaceChildren();
    } catch (error) {
      this.toast.textContent = String(error.message ?? error);
    }
    await this.refresh();
  }

  async refresh() {
    try {
      this.told = await this.post({ action: "describe" });
    } catch {
      return; // `act` shows the error if a button is pressed
    }
    this.expected = this.told.expected ?? {};
    this.showState();
    const members = this.told.members.map((each) => [each.member, `${each.member} reads ${each.topic}`, each, [
      this.button("leave", "leave", () => ({ action: "leave", member: each.member })),
      this.button("crash", "crash", () => ({ action: "crash", member: each.member }))]]);
    const producers = this.told.producers.map((each) => [each.topic, `${each.rate} records/s to ${each.topic}`, each, [
      this.button("produce", "stop", () => ({ action: "produce", topic: each.topic, rate: 0 }))]]);
    const key = JSON.stringify([this.told.members, this.told.producers]);
    if (this.running.dataset.key === key) return; // keep the keyboard's focus
    this.running.dataset.key = key;
    this.running.replaceChildren(...[...members, ...producers].map(([name, text, each, buttons]) =>
      html("li", { "data-runs": name }, text, each.state === "running" ? " " : html("span", { class: "bad", title: each.why ?? "" }, ` ${each.state} `), ...buttons)));
  }

  showState() {
    const now = this.told?.brokers.find((each) => each.id === this.broker);
    if (!now) return;
    const delays = Object.entries(now.delay_ms ?? {}).map(([link, ms]) => `${link} delayed by ${ms} ms`);
    this.state.textContent = [now.state, ...(now.cut ?? []).map((link) => `cut from ${link}`), ...delays,
      now.disk_full ? "disk full" : ""].filter(Boolean).join(", ");
  }

  // Show the episodes that began after the last action.
  happened(episodes) {
    if (this.since === null) return;
    const came = episodes.filter((each) => each.subject !== "you" && each.from_ms >= this.since && each.from_ms < this.since + WATCHED_MS);
    const lines = came.slice(0, MOST_LINES).map((each) => `${((each.from_ms - this.since) / 1000).toFixed(1)} s later: ${readable(`${each.subject}: ${each.text}`)}`);
    this.came.replaceChildren(...lines.map((line) => html("li", {}, line)));
  }
}

const field = (label, value, type = "text") => html("input", { value, type, "aria-label": label, class: type, min: type === "number" ? 0 : null });
