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
    Object.assign(this, { action, planned, done });
    this.told = html("div", { role: "status" });
    this.element.replaceChildren(html("h2", { id: `${this.id}-title` }, title),
      html("form", { onsubmit: (event) => { event.preventDefault(); this.plan(request()); }, oninput: () => this.forget() }, fields,
        html("p", { class: "buttons" }, html("button", { "data-act": "plan" }, "show the plan"),
          html("button", { type: "button", "data-act": "close", onclick: () => this.element.close() }, "close"))), this.told);
    this.element.showModal();
  }

  // A plan belongs to what was chosen.
  forget() {
    this.told.replaceChildren();
  }

  plan(request) {
    return this.ask("Asking the brokers …", request, (told) => {
      const { shown, label } = this.planned(told);
      return [...shown, ...notes(told), html("p", { class: "buttons" },
        html("button", { type: "button", "data-act": "do", onclick: () => this.carryOut(told.plan) }, label))];
    });
  }

  async carryOut(plan) {
    await this.ask("Asking the brokers …", { action: this.action, plan },
      (told) => [html("p", { class: "right" }, this.done(told), " The timeline shows it as your act."), ...notes(told)]);
    this.element.querySelector("[data-act=close]").focus();
  }

  async ask(waiting, request, shown) {
    const told = this.told; // another opening has its own
    told.replaceChildren(html("p", { class: "soft" }, waiting));
    try {
      told.replaceChildren(...shown(await this.post(request)));
    } catch (error) {
      told.replaceChildren(html("p", { class: "bad" }, String(error.message ?? error)));
    }
  }
}

const notes = (told) => told.notes.map((each) => html("p", { class: "soft" }, each));
