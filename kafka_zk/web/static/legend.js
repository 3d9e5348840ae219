// What the signs mean, where they are.

import { html } from "./dom.js";

const sign = (shown, meaning, kind = "") => html("span", { class: "sign" }, html("span", { class: kind, "aria-hidden": "true" }, shown), ` ${meaning}`);

export const clusterLegend = () => html("p", { class: "legend", role: "note", "aria-label": "Legend" },
  sign("★", "controller"), sign("♥", "its ZooKeeper session lives"), sign("leads", "leader", "tag leader"), sign("✓", "follows, in sync"),
  sign("behind", "follows, not in sync", "tag out"), sign("nobody", "nobody leads or owns it", "bad"),
  sign("▢", "gone (dashed)", "dashed"), sign("→", "what went just now: ↓ watch, ↑ read or write"));

export const timelineLegend = () => html("p", { class: "legend", role: "note", "aria-label": "Legend of the timeline" },
  sign("■", "write to ZooKeeper"), sign("▼", "watch fired"), sign("●", "a process told"),
  sign(" ", "bar: who has it", "swatch held"), sign(" ", "nobody has it", "swatch missing"));
