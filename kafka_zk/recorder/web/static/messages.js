// Records of a topic, asked of the live cluster when the reader wants them. Nothing of them is recorded.

import { html, when } from "./dom.js";

const FORMATS = ["string", "json", "integer", "long", "float", "double", "bytes"];

// `ask` sends a question with the token for records; it throws an Error with the reason.
export class MessagesPanel {
  constructor(ask) {
    Object.assign(this, { ask, told: null, loading: false });
    this.topic = html("select", { id: "messages-topic", onchange: () => { this.partition.value = this.from.value = ""; this.load(); } });
    this.partition = html("input", { id: "messages-partition", type: "number", min: 0, placeholder: "all" });
    this.from = html("input", { id: "messages-from", type: "number", min: 0, placeholder: "the last ones" });
    this.key = formats("messages-key", () => this.load());
    this.value = formats("messages-value", () => this.load());
    this.state = html("p", { class: "soft", role: "status" });
    this.rows = html("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Records" });
    this.element = html("div", { class: "messages" }, html("h2", {}, "Records of a topic"),
      html("form", { class: "choices", onsubmit: (event) => { event.preventDefault(); this.load(); } },
        html("label", {}, "topic ", this.topic), html("label", {}, "partition ", this.partition), html("label", {}, "from offset ", this.from),
        html("label", {}, "keys as ", this.key), html("label", {}, "values as ", this.value), html("button", { id: "messages-again" }, "ask")),
      this.state, this.rows);
  }

  // The same element each time, so that a redraw of the page loses neither focus nor choice.
  view() {
    if (!this.loading && this.told === null) this.load();
    return this.element;
  }

  query() {
    return { topic: this.topic.value, partition: this.partition.value, from: this.from.value, key_format: this.key.value, value_format: this.value.value };
  }

  async load() {
    const turn = this.turn = (this.turn ?? 0) + 1; // an answer about an earlier choice is dropped
    this.loading = true;
    this.state.className = "soft";
    this.state.textContent = "Asking the brokers …";
    try {
      let told = await this.ask("messages", this.query());
      if (turn !== this.turn) return;
      const before = this.topic.value, names = told.topics;
      this.topic.replaceChildren(...names.map((name) => html("option", { value: name }, name)));
      this.topic.value = names.includes(before) ? before : names[0] ?? "";
      if (this.topic.value !== before) told = await this.ask("messages", this.query());
      if (turn !== this.turn) return;
      this.told = told;
      this.state.textContent = [names.length ? `Asked as ${this.told.principal}, at ${when(this.told.asked_ms)}.` : `There is no topic that ${this.told.principal} may see.`, ...this.told.notes].join(" ");
      this.show();
    } catch (error) {
      if (turn !== this.turn) return;
      this.told = { records: [] };
      this.rows.replaceChildren();
      this.state.className = "bad";
      this.state.textContent = String(error.message ?? error);
    }
    this.loading = false;
  }

  show() {
    const rows = this.told.records.map((each) => html("tr", { "data-record": `${each.partition}-${each.offset}` }, html("td", { class: "number" }, each.partition), html("td", { class: "number" }, each.offset),
      html("td", {}, when(each.timestamp_ms)), html("td", { class: "mono" }, shown(each.key, this.key.value)), html("td", { class: "mono" }, shown(each.value, this.value.value)),
      html("td", { class: "mono" }, each.headers.map(([name, text]) => html("div", {}, `${name}: `, shown(text, "string"))),
        each.header_count > each.headers.length ? html("small", { class: "soft" }, `${each.header_count - each.headers.length} more headers`) : "")));
    this.rows.replaceChildren(rows.length ? html("table", {}, html("tr", {}, ["partition", "offset", "time", "key", "value", "headers"].map((each) => html("th", {}, each))), rows)
      : html("p", { class: "soft" }, "There are no records."));
  }
}

const formats = (id, onchange) => html("select", { id, onchange }, FORMATS.map((each) => html("option", { value: each }, each)));

function shown(content, wanted) {
  if (content === null) return html("em", { class: "soft" }, "null");
  const notes = [content.format === wanted ? "" : `not a ${wanted}`, content.is_cut ? `${content.size_bytes} bytes, cut` : ""].filter(Boolean).join("; ");
  return [content.text, notes ? html("small", { class: "soft" }, ` (${notes})`) : ""];
}
