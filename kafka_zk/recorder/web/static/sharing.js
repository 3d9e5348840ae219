// A shared page: the presenter's sends what it shows, and a viewer's shows the same until the viewer lets go.

import { counted, html } from "./dom.js";
import { isCut } from "./folds.js";

// Returns the part of this page; null if the page is not shared, or was opened without the presenter's link.
// `present(shown)` sends the presenter's state, `show(shown, isFollowing)` shows it to a viewer, `onProblem(why)` tells the reader.
export function sharing(recording, element, present, show, onProblem) {
  if (recording.shared === "viewer") return new Viewer(element, show, onProblem);
  return recording.shared === "presenter" && present ? new Presenter(element, present, onProblem) : null;
}

// One request at a time, so that the states arrive in their order; the latest replaces one that still waits.
class Presenter {
  constructor(element, present, onProblem) {
    Object.assign(this, { present, onProblem, sent: "", waiting: "", busy: false });
    this.count = html("span", { class: "soft", title: "Their pages show what this page shows" });
    element.replaceChildren(this.count);
    element.hidden = false;
  }

  // `recording`: the summary in the latest news.
  heard({ viewers }) { this.tell(viewers); }

  tell(viewers) {
    this.count.textContent = `presenting to ${counted(viewers, "viewer", "viewers")}${isCut() ? ", who see only the last items that you folded or unfolded" : ""}`;
  }

  // `shown()`: what the page shows now.
  async drawn(shown) {
    this.waiting = JSON.stringify(shown());
    if (this.busy) return;
    this.busy = true;
    try {
      while (this.waiting !== this.sent) {
        this.sent = this.waiting;
        this.tell((await this.present(JSON.parse(this.sent))).viewers);
      }
    } catch (error) {
      this.sent = ""; // sent again with the next drawing
      this.onProblem(`Viewers do not see this: ${error.message ?? error}`);
    } finally {
      this.busy = false;
    }
  }

  letGo() {}
}

class Viewer {
  constructor(element, show, onProblem) {
    Object.assign(this, { show, onProblem, isFollowing: true, latest: null, shown: 0, busy: false });
    this.button = html("button", { id: "follow", title: "Show what the presenter shows, until you use this page yourself", onclick: () => this.toggle() }, "follow the presenter");
    element.replaceChildren(this.button);
    element.hidden = false;
    this.label();
    for (const type of ["click", "input", "change"]) document.addEventListener(type, (event) => this.used(event), true);
  }

  label() {
    this.button.setAttribute("aria-pressed", String(this.isFollowing));
  }

  toggle() {
    if (this.isFollowing) return this.letGo();
    Object.assign(this, { isFollowing: true, shown: 0 });
    this.label();
    this.run();
  }

  // The viewer looks around alone.
  letGo() {
    this.isFollowing = false;
    this.label();
  }

  used({ target }) {
    if (target.closest("main, nav, #filter") && target.closest("button, a, input, select, summary, [data-seq], [data-mark], [role=button]")) this.letGo();
  }

  heard({ presented }) {
    if (presented === null || presented.number < (this.latest?.number ?? 0)) return; // an answer may be older than the news
    this.latest = presented;
    this.run();
  }

  // Shows the latest state; those that came meanwhile are skipped.
  async run() {
    if (this.busy) return;
    this.busy = true;
    while (this.isFollowing && this.latest && this.latest.number !== this.shown) {
      this.shown = this.latest.number;
      await this.show(this.latest.shown, () => this.isFollowing).catch((error) => this.onProblem(String(error.message ?? error)));
    }
    this.busy = false;
  }

  drawn() {}
}
