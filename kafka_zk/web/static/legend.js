// What the signs mean, where they are.

import { html } from "./dom.js";

const sign = (shown, meaning, kind = "") => html("span", { class: "sign" }, html("span", { class: kind, "aria-hidden": "true" }, shown), ` ${meaning}`);

export const clusterLegend = () => html("p", { class: "legend", role: "note", "aria-label": "Legend" },
  sign("★", "controller"), sign("♥", "ZooKeeper session lives"), sign("▢", "gone", "dashed"), sign("✓", "follower in sync"),
  sign("→", "just now: ↓ a watch fired, ↑ a read or write"));

export const timelineLegend = () => html("p", { class: "legend", role: "note", "aria-label": "Legend of the timeline" },
  sign("■", "write to ZooKeeper"), sign("▼", "watch fired"), sign("●", "a process told"),
  sign(" ", "bar: who has it", "swatch held"), sign(" ", "nobody has it", "swatch missing"));
