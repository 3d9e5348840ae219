// The page explains itself.

import { html } from "./dom.js";

const SAID = [
  ["Cluster", "Brokers above, ZooKeeper in the middle, members of groups below. An arrow into ZooKeeper is a read or a write, an "
    + "arrow out of it a watch that fired, an arc between brokers a request of the controller. ♥ is a live session: when it ends, "
    + "all ephemeral znodes of that process go. Where ZooKeeper tells when it heard from whom, hearts beat, and ♡ has been "
    + "silent for half of its timeout. The table has a row for each partition and a column for each broker."],
  ["Znodes", "Everything that is in ZooKeeper at this moment. A coloured line says whose session an ephemeral znode lives by; choose one "
    + "to see its data, what its last write changed, and its history. Who watches it is as processes tell."],
  ["Timeline", "Bars: who was the controller, led a partition, owned it in a group, from when to when; red is nobody. "
    + "Marks: what each process did. A square is a write to ZooKeeper, a triangle a watch that fired, a dot something "
    + "that a process told (brokers tell with --trace). Choose one."],
  ["Numbers", "The line beside the name of a topic in the timeline is its records a second, beside that of a group its lag; "
    + "red: no answer from a leader. end: the high watermark, below which consumers see records."],
  ["What happened", "A failover or a rebalance is one line there, with what it cost: how long it took, how long a "
    + "partition had no leader or owner, and how many writes and watches there were in that time."],
  ["Why?", "The chain back from an event to what set it off. A solid line is certain: ZooKeeper or the process says so. "
    + "A dotted one is likely: the last thing that the same process told before, or for a broker's new role the last write "
    + "of the partition's state."],
  ["Keys", "Left and right: the event before, the next one. Space: play. L: live. C: cluster. Z: znodes. /: the filter. W: why, the event that "
    + "caused the chosen one. E: its first effect. Escape: back to the list of what happened."],
  ["Save", "The picture as an SVG file, or the shown time as a recording, which kafka-zk web FILE opens."],
  ["Rewind", "Drag the slider, or step with the arrow keys: cluster and znodes show that moment, always. The address of "
    + "the page carries the moment; a copy of it shows the same."],
];

export function helpView() {
  return html("div", { class: "help" }, SAID.map(([title, text]) => html("div", {}, html("h2", {}, title), html("p", {}, text))));
}
