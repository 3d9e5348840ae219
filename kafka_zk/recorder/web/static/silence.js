// What the page says when the recorder does not answer.

import { dated } from "./dom.js";

// `recording`: its last summary, null if there is none. `moment`: the shown one. `isViewers`: the reader has no terminal to look at.
export function silence(recording, moment, isViewers) {
  if (recording === null && isViewers) return "The presenter's machine does not respond: ask the presenter whether the page is still shared.";
  if (recording === null) return "The recorder does not respond: open the address that kafka-zk printed last.";
  const { live, kept } = recording, shown = `This is the picture of ${dated(moment)}; nothing else can be shown until it responds.`;
  if (isViewers) return `The presenter's machine does not respond. ${shown}`;
  const rest = !live ? "" : kept.startsWith("in memory") ? " The recording was in memory: if the recorder was stopped, it is gone."
    : ` The recording is kept ${kept}: kafka-zk web opens that file.`;
  return `The recorder does not respond. ${shown}${rest}`;
}
