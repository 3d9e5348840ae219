// A failover, an election, a rebalance or a fenced write, one arrow at a time. Python computes the steps (slow_motion.py).

import { colour, html, middle, readable, svg } from "./dom.js";

const ZOOKEEPER = "ZooKeeper", MOST_NAME = 14, MOST_PATH = 120, HEIGHT = 16;
const LEAST_REACH_MS = 2, MOST_REACH_MS = 500;

// `windTo(seq)` shows the cluster after an entry. `holdMs()`: how long each step stays while it plays.
export class SlowMotion {
  constructor(element, windTo, holdMs) {
    Object.assign(this, { element, windTo, holdMs, isOpen: false, isPlaying: false });
    this.previous = html("button", { "data-slowly": "previous", onclick: () => this.step(-1) }, "◀ previous");
    this.play = html("button", { "data-slowly": "play", onclick: () => this.toggle() });
    this.next = html("button", { "data-slowly": "next", onclick: () => this.step(1) }, "next ▶");
    this.said = html("p", { class: "step", role: "status" });
  }

  // `told`: the play, with the `text` of its episode, and the shown time (`since_ms` to `until_ms`). `closed`: called when the reader closes it.
  open(told, closed) {
    Object.assign(this, { told, closed, isOpen: true, isPlaying: false, at: -1 });
    this.list = html("ol", { class: "slowly" });
    this.element.replaceChildren(
      html("h2", {}, `Slow motion: ${readable(told.text)}`),
      told.is_whole ? "" : html("p", { class: "soft" }, "More was recorded then than is shown here."),
      html("div", { class: "head" },
        html("p", { class: "buttons" }, this.previous, this.play, this.next,
          html("button", { "data-slowly": "close", title: "Back to the event (Escape)", onclick: () => this.leave() }, "close")),
        this.said,
        html("div", { class: "lanes", "aria-hidden": "true" }, told.lanes.map((name) => html("span", { title: name }, middle(readable(name), MOST_NAME))))),
      this.list);
    this.element.hidden = false;
    this.go(0);
    (this.play.disabled ? this.element.querySelector("[data-slowly=close]") : this.play).focus();
  }

  close() {
    Object.assign(this, { isOpen: false, isPlaying: false });
    this.element.hidden = true;
  }

  leave() {
    this.close();
    this.closed();
  }

  atTheEnd() { return this.at >= this.told.steps.length - 1; }

  // A step by the reader ends the play.
  step(by) {
    this.isPlaying = false;
    this.go(this.at + by);
  }

  // Shows the steps up to this one.
  async go(index) {
    const { steps } = this.told, before = this.at;
    this.at = Math.min(Math.max(index, 0), steps.length - 1);
    const focused = this.list.contains(document.activeElement);
    while (this.list.children.length > this.at + 1) this.list.lastChild.remove();
    while (this.list.children.length <= this.at) this.list.append(this.line(this.list.children.length));
    for (const each of this.list.querySelectorAll("[aria-current]")) each.removeAttribute("aria-current");
    this.list.lastChild?.setAttribute("aria-current", "step");
    this.list.lastChild?.scrollIntoView({ block: "nearest" });
    if (focused && !this.list.contains(document.activeElement)) this.list.lastChild.querySelector("button").focus();
    const now = steps[this.at];
    this.said.textContent = now ? `${this.at + 1} of ${steps.length}: ${readable(now.said)}` : "There is no event of it to show.";
    this.buttons();
    if (now && this.at !== before) await this.windTo(now.seq);
  }

  buttons() {
    this.previous.disabled = this.at <= 0;
    this.next.disabled = this.atTheEnd();
    this.play.textContent = this.isPlaying ? "❚❚ pause" : "▶ play";
    this.play.disabled = !this.told.steps.length;
    if (document.activeElement.disabled) this.play.focus(); // else the keyboard's place would be lost
  }

  async toggle() {
    this.isPlaying = !this.isPlaying;
    const run = this.run = {}; // another press starts another run
    if (this.isPlaying && this.atTheEnd()) await this.go(0);
    this.buttons();
    while (this.isPlaying && run === this.run && !this.atTheEnd()) {
      await new Promise((done) => setTimeout(done, this.holdMs()));
      if (!this.isPlaying || run !== this.run) return;
      await this.go(this.at + 1);
    }
    if (run === this.run) this.isPlaying = false;
    this.buttons();
  }

  // Returns true if the key is one of slow motion.
  pressed(event) {
    if (event.key === " " && event.target.matches("button")) return true; // the button's own
    const bound = { ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), " ": () => this.toggle(), Escape: () => this.leave() }[event.key];
    if (!bound) return false;
    event.preventDefault();
    bound();
    return true;
  }

  // The time around the step, as long as its nearest neighbours need; null if nothing is played.
  range() {
    const now = this.isOpen ? this.told.steps[this.at] : undefined;
    if (!now) return null;
    const apart = this.told.steps.map((each) => Math.abs(each.time_ms - now.time_ms)).filter(Boolean);
    const reach = Math.max(LEAST_REACH_MS, Math.min(MOST_REACH_MS, 2 * Math.min(...apart)));
    return { from_ms: Math.max(now.time_ms - reach, this.told.since_ms), to_ms: Math.min(now.time_ms + reach, this.told.until_ms) };
  }

  line(index) {
    const { after, source, target, label, znode } = this.told.steps[index], { lanes } = this.told;
    const ends = source === target ? `, within ${lanes[source]}` : `, from ${lanes[source]} to ${lanes[target]}`;
    return html("li", {}, html("button", { onclick: () => this.step(index - this.at) },
      html("span", { class: "soft" }, `${after} `), html("b", {}, label), znode ? [" ", html("span", { class: "mono", title: znode }, middle(readable(znode), MOST_PATH))] : [],
      html("span", { class: "unseen" }, readable(ends))), arrow(lanes, source, target));
  }
}

// Lanes as vertical lines, as in the list's head; the arrow, or a dot for what happens within one.
function arrow(lanes, source, target) {
  const place = (index) => `${((index + 0.5) / lanes.length) * 100}%`, y = HEIGHT / 2, side = Math.sign(target - source);
  const fill = colour(lanes[lanes[source] === ZOOKEEPER ? target : source]);
  const drawn = source === target ? [svg("circle", { cx: place(source), cy: y, r: 4, fill })]
    : [svg("line", { class: "arrow", x1: place(source), x2: place(target), y1: y, y2: y, stroke: fill, pathLength: 1 }),
      svg("svg", { x: place(target), y, overflow: "visible" }, svg("path", { d: `M0 0L${-9 * side} -5V5z`, fill }))];
  return svg("svg", { width: "100%", height: HEIGHT, "aria-hidden": "true" },
    lanes.map((_, index) => svg("line", { class: "axis", x1: place(index), x2: place(index), y1: 0, y2: HEIGHT })), drawn);
}
