// Legends: the meaning of each sign.

import { html } from "./dom.js";

const sign = (shown, meaning, kind = "") => html("span", { class: "sign" }, html("span", { class: kind, "aria-hidden": "true" }, shown), ` ${meaning}`);

export const clusterLegend = () => html("p", { class: "legend", role: "note", "aria-label": "Legend" },
  sign("★", "controller"), sign("♥", "live session"), sign("♡", "not heard from"), sign("▢", "gone", "dashed"));

export const timelineLegend = () => html("p", { class: "legend", role: "note", "aria-label": "Legend of the timeline" },
  sign("■", "write to ZooKeeper"), sign("▼", "watch fired"), sign("●", "anything else"),
  sign(" ", "its leader or owner", "swatch held"), sign(" ", "none", "swatch missing"));
