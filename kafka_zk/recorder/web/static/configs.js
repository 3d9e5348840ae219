// The configuration of topics, asked of the live cluster when the reader chooses a topic, not at each redraw.

import { ActDialog } from "./act_dialog.js";
import { html, when } from "./dom.js";
import { sendRecord } from "./send_record.js";

const OF_TOPIC = "DYNAMIC_TOPIC_CONFIG";
const SOURCES = { [OF_TOPIC]: "this topic", DYNAMIC_BROKER_CONFIG: "the broker, while it runs",
  DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers, while they run", STATIC_BROKER_CONFIG: "the broker's file", DEFAULT_CONFIG: "default" };

// `ask` sends a question; it throws an Error with the cluster's reason.
export class ConfigsPanel {
  constructor(ask) {
    Object.assign(this, { ask, told: null, loading: false, dialog: null });
    this.topic = html("select", { id: "configs-topic", onchange: () => this.load() });
    this.own = html("input", { type: "checkbox", id: "configs-own", onchange: () => this.show() });
    this.state = html("p", { class: "soft", role: "status" });
    this.rows = html("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Configuration of the topic" });
    this.element = html("div", { class: "configs" }, html("h2", {}, "Configuration of a topic"),
      html("p", { class: "choices" }, html("label", {}, "topic ", this.topic),
        html("label", {}, this.own, " only what is set for this topic"), html("button", { id: "configs-again", onclick: () => this.load() }, "ask again")),
      this.state, this.rows);
  }

  // `post` sends commands.
  allowChanges(post) {
    this.dialog = new ActDialog("config", post);
    this.record = new ActDialog("record", post);
    this.element.querySelector(".choices").append(html("button", { id: "configs-send", onclick: () => sendRecord(this.record, this.topic.value) }, "send a record…"));
  }

  // The same element each time, so that a redraw of the page loses neither focus nor choice.
  view() {
    if (!this.loading && this.told === null) this.load();
    return this.element;
  }

  async load() {
    const turn = this.turn = (this.turn ?? 0) + 1; // an answer about an earlier choice is dropped
    this.loading = true;
    this.state.textContent = "Asking the brokers …";
    try {
      let told = await this.ask("configs", { topic: this.topic.value });
      if (turn !== this.turn) return;
      const before = this.topic.value, names = told.topics;
      this.topic.replaceChildren(...names.map((name) => html("option", { value: name }, name)));
      this.topic.value = names.includes(before) ? before : names[0] ?? "";
      if (this.topic.value !== before) told = await this.ask("configs", { topic: this.topic.value });
      if (turn !== this.turn) return;
      this.told = told;
      this.state.className = "soft";
      this.state.textContent = names.length ? `Asked as ${this.told.principal}, at ${when(this.told.asked_ms)}.` : `There is no topic that ${this.told.principal} may see.`;
      this.show();
    } catch (error) {
      if (turn !== this.turn) return;
      this.told = { topic: "", topics: [], configs: [] };
      this.rows.replaceChildren();
      this.state.className = "bad";
      this.state.textContent = String(error.message ?? error);
    }
    this.loading = false;
  }

  show() {
    const { topic, configs } = this.told, found = configs.filter((each) => !this.own.checked || each.source === OF_TOPIC);
    const heads = ["key", "value", "set by", ...(this.dialog ? [""] : [])];
    const rows = found.map((each) => html("tr", { "data-config": each.name }, html("td", { class: "mono" }, each.name), html("td", { class: "mono" }, value(each)),
      html("td", { class: each.source === OF_TOPIC ? "" : "soft" }, SOURCES[each.source] ?? each.source),
      this.dialog ? html("td", {}, each.is_read_only ? "" : html("button", { "aria-label": `change ${each.name}`, onclick: () => this.change(topic, each) }, "change…")) : null));
    this.rows.replaceChildren(found.length ? html("table", {}, html("tr", {}, heads.map((each) => html(each ? "th" : "td", {}, each))), rows)
      : html("p", { class: "soft" }, topic ? "Nothing is set for this topic: it has the brokers' values." : ""));
  }

  change(topic, { name, value: current, source }) {
    const field = html("input", { name: "value", class: "mono", value: current ?? "" }), reset = html("input", { type: "checkbox", name: "reset" });
    reset.addEventListener("change", () => { field.disabled = reset.checked; });
    const request = () => ({ action: "plan-config", topic, key: name, ...(reset.checked ? {} : { value: field.value }) });
    this.dialog.open(`Change ${name} of topic ${topic}`, [html("label", {}, "value ", field),
      source === OF_TOPIC ? html("label", {}, reset, " remove it, so that the brokers' value applies") : ""],
    { request, action: "set-config", done: (told) => { this.load(); return `${name} was changed, as ${told.principal}.`; },
      planned: (told) => ({ label: `change it as ${told.principal}`, shown: [html("p", {}, `${name}: now `, html("b", {}, value(told.current)), ", then ",
        html("b", {}, told.new ?? "the brokers' value"), ". Nothing has been changed yet; the brokers check the value when it is changed.")] }) });
  }
}

const value = (each) => (each.is_sensitive ? "[hidden]" : each.value === "" ? "(empty)" : each.value ?? "(none)");
