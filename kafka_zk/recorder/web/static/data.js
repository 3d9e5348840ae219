// The page's data. A page that kafka-zk serves asks the recorder; an exported page contains its answers.

import { exported } from "./exported.js";
import { live } from "./live.js";

// Returns the driver of this page:
// `ask(question, values)`: the answer; throws an Error with the reason. `post(request)`: an act; null if the reader is not allowed to act.
// `present(shown)`: sends what this page shows to its viewers; null if the reader is not the presenter.
// `follow(onNews, onSilence)`: the recording's summary now and after each change; a silence has a reason, "" if it is not known.
// `askPrivately(question, values)`: an answer that contains records; null if the reader is not allowed to see them.
// `isViewers`: true for the page of a viewer, who has no terminal to look at.
// `hasLag`: true if it answers the question "lag". `kept`: what the address must keep. `missing`: why nothing can be shown, or "".
// `savingAddress(range)`, `codeAddress(file)`: addresses of files; null if this page has none.
export function source() {
  const packed = document.getElementById("exported");
  return packed === null ? live() : exported(packed.textContent);
}
