// A dialog for an act on the cluster: choose, see the plan (nothing changes yet), then carry out exactly that plan.

import { html } from "./dom.js";

// `post` sends a command; it throws an Error with the reason if the server, a broker or ZooKeeper refuses.
export class ActDialog {
  constructor(id, post) {
    Object.assign(this, { id, post });
    this.element = html("dialog", { id, class: "act", "aria-labelledby": `${id}-title`, onkeydown: (event) => event.stopPropagation() });
    document.body.append(this.element);
  }

  // `planned(told)`: the elements that show a plan, and the label of the button that carries it out. `done(told)`: a sentence.
  open(title, fields, { request, action, planned, done }) {
    Object.assign(this, { action, planned, done, acting: false });
    this.told = html("div", { role: "status" });
    this.element.replaceChildren(html("h2", { id: `${this.id}-title` }, title),
      html("form", { onsubmit: (event) => { event.preventDefault(); this.plan(request()); }, oninput: () => this.forget() }, fields,
        html("p", { class: "buttons" }, html("button", { "data-act": "plan" }, "show the plan"),
          html("button", { type: "button", "data-act": "close", onclick: () => this.element.close() }, "close"))), this.told);
    this.element.showModal();
  }

  // A plan belongs to what was chosen; one that is still being made does not appear later. The outcome of an act does.
  forget() {
    if (this.acting) return;
    const before = this.told;
    before.replaceWith(this.told = html("div", { role: "status" }));
  }

  plan(request) {
    if (this.acting) return null;
    this.forget();
    return this.ask("Asking the brokers …", request, (told) => {
      const { shown, label } = this.planned(told);
      return [...shown, ...notes(told), html("p", { class: "buttons" },
        html("button", { type: "button", "data-act": "do", onclick: () => this.carryOut(told.plan) }, label))];
    });
  }

  async carryOut(plan) {
    this.acting = true;
    await this.ask("Asking the brokers …", { action: this.action, plan },
      (told) => [html("p", { class: "right" }, this.done(told), " The timeline shows it as your act."), ...notes(told)]);
    this.acting = false;
    this.element.querySelector("[data-act=close]").focus();
  }

  async ask(waiting, request, shown) {
    const told = this.told; // another opening or choice has its own
    told.replaceChildren(html("p", { class: "soft" }, waiting));
    try {
      told.replaceChildren(...shown(await this.post(request)));
    } catch (error) {
      told.replaceChildren(html("p", { class: "bad" }, String(error.message ?? error)));
    }
  }
}

const notes = (told) => told.notes.map((each) => html("p", { class: "soft" }, each));
