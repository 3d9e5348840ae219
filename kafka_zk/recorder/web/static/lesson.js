// A scenario, or `kafka-zk lesson`, at the learner's pace: an action, a question about its effect, then the effect.

import { html, readable, replace } from "./dom.js";

const SIGNS = { command: "▶ ", note: "", told: "", held: "✓ as expected: ", failed: "✗ expected, but not so: ", violation: "✗ " };

const MOST_LINES = 6;

// `ask` asks the server; `windTo` shows the cluster after an entry.
export class LessonPanel {
  constructor(element, ask, windTo) {
    Object.assign(this, { element, ask, windTo, step: -1, question: null, chosen: null, right: 0, asked: 0 });
  }

  // `step`: the reader's place in the address, null at first.
  async begin(step) {
    this.lesson = await this.ask("lesson");
    this.element.hidden = !this.lesson.steps.length;
    if (this.element.hidden) return false;
    this.furthest = step ?? -1;
    if (step === null) this.draw();
    else await this.go(step);
    return true;
  }

  // One act at a time: a click meanwhile would act on what the reader has not seen yet.
  async alone(act) {
    if (this.busy) return;
    this.busy = true;
    try {
      await act();
    } finally {
      this.busy = false;
      this.draw();
    }
  }

  // The second click of a double click is for the button that was there before.
  pressed(act) {
    return (event) => { if (event.detail < 2) this.alone(act); };
  }

  // Fetch new steps: a lesson continues while its first steps are read.
  async refresh() {
    if (this.element.hidden || this.lesson.finished || this.busy) return;
    const before = this.atTheEnd();
    this.lesson = await this.ask("lesson");
    if (before && !this.busy) this.draw(); // enables its button
  }

  atTheEnd() { return this.step >= this.lesson.steps.length - 1; }

  // The first step of each chapter, or of each play of a scenario.
  parts() {
    const found = new Map();
    this.lesson.steps.forEach((each, index) => { if (!found.has(each.play)) found.set(each.play, index); });
    return found;
  }

  // A step with a question is shown before its effect first, then after it.
  async go(step) {
    this.skipped = false;
    this.step = Math.min(Math.max(step, -1), this.lesson.steps.length - 1);
    const forwards = step === this.step && step > (this.furthest ?? -1);
    this.furthest = Math.max(this.furthest ?? -1, this.step);
    this.chosen = null;
    this.question = forwards ? (await this.ask("question", { step: this.step })).question : null;
    const now = this.lesson.steps[this.step];
    this.began = now ? this.lesson.steps[this.parts().get(now.play)].from_seq : 1;
    await this.windTo(now ? (this.question ? now.from_seq : now.seq) : 1, this.began);
    this.draw();
  }

  // Where the reader is, for viewers who follow: whether the step's question is open or answered.
  place() {
    return { step: this.step, asks: Boolean(this.question), answer: this.chosen, is_skipped: Boolean(this.skipped) };
  }

  // Go to the presenter's place.
  async take({ step, asks, answer, is_skipped }) {
    const question = asks ? (await this.ask("question", { step })).question : null, now = this.lesson.steps[step];
    Object.assign(this, { step, question, chosen: answer, skipped: is_skipped, began: now ? this.lesson.steps[this.parts().get(now.play)].from_seq : 1 });
    this.furthest = Math.max(this.furthest ?? -1, step);
    const isOpen = question !== null && answer === null && !is_skipped;
    await this.windTo(now ? (isOpen ? now.from_seq : now.seq) : 1, this.began);
    this.draw();
  }

  async answer(option) {
    this.chosen = option;
    if (option !== null) { this.asked += 1; this.right += Number(option === this.question.answer); }
    await this.windTo(this.lesson.steps[this.step].seq, this.began);
  }

  draw() {
    const { title, said, steps } = this.lesson, now = steps[this.step];
    const open = this.question !== null && this.chosen === null && !this.skipped;
    const comes = this.atTheEnd() && !this.lesson.finished, over = this.atTheEnd() && this.lesson.finished;
    replace(this.element, html("div", {},
      html("h2", {}, title),
      now ? null : said.split("\n\n").map((text) => html("p", {}, text)),
      this.partChoice(now),
      now ? html("p", { class: "soft" }, `Step ${this.step + 1} of ${steps.length}${this.lesson.finished ? "" : " so far"} · ${now.play}${this.asked ? ` · ${this.right} of ${this.asked} right` : ""}`) : null,
      now ? html("p", { class: `step ${now.kind}` }, SIGNS[now.kind] + now.text) : null,
      open ? this.asking() : [this.answered(), this.happened(now)].filter(Boolean),
      html("p", { class: "buttons" },
        html("button", { "data-key": "lesson-back", id: "lesson-back", onclick: this.pressed(() => this.go(this.step - 1)) }, "◀ back"),
        html("button", { "data-key": "lesson-next", id: "lesson-next", disabled: !open && (comes || over),
          onclick: this.pressed(() => (open ? this.skip() : this.go(this.step + 1))) },
        open ? "show me" : over ? "the end" : comes ? "the cluster is working …" : now ? "next step ▶" : "begin ▶"))));
  }

  partChoice(now) {
    const parts = this.parts();
    if (parts.size < 2 || !now) return null;
    return html("select", { "aria-label": "Chapter", "data-key": "lesson-part", onchange: (event) => this.alone(() => this.go(Number(event.target.value))) },
      [...parts].map(([name, index]) => html("option", { value: index, selected: name === now.play ? "" : null }, name)));
  }

  async skip() {
    this.skipped = true;
    await this.windTo(this.lesson.steps[this.step].seq, this.began);
  }

  asking() {
    return html("div", { role: "group", "aria-label": this.question.text }, html("p", {}, html("b", {}, this.question.text)),
      html("div", { class: "choices" }, this.question.options.map((option) => html("button", { "data-choice": option, "data-key": `choice ${option}`,
        onclick: this.pressed(() => this.answer(option)) }, readable(option)))));
  }

  answered() {
    if (this.question === null || (this.chosen === null && !this.skipped)) return null;
    const { answer, why } = this.question, right = this.chosen === answer;
    const said = this.skipped ? `${this.question.text} ${readable(answer)}.` : right ? `✓ ${readable(answer)}, right.`
      : `✗ Not ${readable(this.chosen)}: ${readable(answer)}.`;
    return html("div", { role: "status" }, html("p", { class: this.skipped ? "" : right ? "right" : "bad" }, said), why ? html("p", {}, why) : null);
  }

  happened(now) {
    if (now?.picture?.length) return html("div", {}, this.lines(now), html("pre", { class: "picture", tabindex: 0, "aria-label": "picture" }, now.picture.join("\n")));
    return this.lines(now);
  }

  lines(now) {
    if (!now?.happened.length) return null;
    const lines = (some) => html("ul", {}, some.map((text) => html("li", {}, readable(text))));
    const more = now.happened.slice(MOST_LINES);
    return html("div", {}, lines(now.happened.slice(0, MOST_LINES)),
      more.length ? html("details", {}, html("summary", {}, `and ${more.length} more`), lines(more)) : null);
  }
}
