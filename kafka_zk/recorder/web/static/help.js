// The page explains itself.

import { html } from "./dom.js";

const SAID = [
  ["Cluster", "Brokers above, ZooKeeper in the middle, members of groups below. An arrow into ZooKeeper is a read or a write, an "
    + "arrow out of it a watch that fired, an arc between brokers a request of the controller. ♥ is a live session: when it ends, "
    + "all ephemeral znodes of that process are deleted. If ZooKeeper reports heartbeats, hearts beat; ♡ is a session without a "
    + "heartbeat for half of its timeout. The table has a row for each partition and a column for each broker."],
  ["Znodes", "Everything that is in ZooKeeper at this moment. A coloured line names the session of an ephemeral znode; choose one "
    + "to see its data, its last change, and its history. Only watchers that processes report are shown."],
  ["Lag", "Every group and partition at this moment: the committed offset and since when it has not changed, the end of the log, "
    + "the lag, and the age of the first record that the group has not committed. 'At least' means that the recording does not "
    + "go back further. With the address for changes, a group without live members can be reset: first you see the plan, and "
    + "as whom the cluster would be changed."],
  ["Topics", "The configuration of a topic, as the brokers tell it when you ask, and what set each value. It is of the present, also "
    + "when you rewind."],
  ["Records of a topic", "With the address for records: at most 50 records at once, with keys and values in the format that you choose. They are "
    + "asked of the brokers when you press the button, and are in no recording."],
  ["Strategies", "The same change of a group's members under each assignment strategy: who reads each partition and when, when members "
    + "are silent, and how many records wait. kafka-zk's own groups did this in its simulator; it was not measured on this cluster."],
  ["Timeline", "Bars: the controller, each partition's leader and its owner in a group, over time; red means none. "
    + "Marks: events of each process. A square is a write to ZooKeeper, a triangle a watch that fired, a dot another event "
    + "that the process reported (brokers report with --trace). Choose one to see it."],
  ["Numbers", "In the timeline, the line beside a topic is its records per second, the line beside a group its lag; "
    + "grey means unknown: a leader did not answer or was not asked. end: the high watermark, below which consumers see records. "
    + "More than 1,000 partitions are asked about in turns; the table then says how old its numbers may be."],
  ["Records", "In a scenario, a square is a record, in the column of its offset: acknowledged, written by a replica, below its high "
    + "watermark, read and committed by a group. Red: the judges of the simulator find it lost, doubled or unread, from this moment on. In "
    + "a live cluster only offsets are known: a square is a batch between two samples, and red is an offset that went back."],
  ["What happened", "A failover or a rebalance is one line there, with its cost: its duration, the longest time that a "
    + "partition had no leader or owner, and the number of writes and watches in that time. A fenced write is a line, too: a refused "
    + "request of an old controller, or a refused commit of a member that is not the owner. Choose a line to play it slowly: an "
    + "arrow for each event, with its znode, its time after the first one, and a sentence; the timeline shows the milliseconds around it."],
  ["Why?", "The chain of causes of an event. A solid line is certain: ZooKeeper or the process reported it. "
    + "A dotted line is likely: the previous event of the same process, a person's act, or for a broker's new role the last "
    + "write of the partition's state. A chain ends after two likely links."],
  ["Keys", "Left and right: the previous event, the next event. Space: play. L: live. C: cluster. Z: znodes. /: the filter. W: the event that "
    + "caused the chosen one. E: its first effect. Escape: back to the list of what happened. In slow motion, left, right and space go through its steps, and Escape ends it."],
  ["Save", "The picture as an SVG file, or the shown time as a recording, which kafka-zk web FILE opens."],
  ["Rewind", "Drag the slider, or step with the arrow keys: cluster and znodes always show that moment. The address of "
    + "the page contains the moment, so a copy of the address shows the same."],
];

export function helpView() {
  return html("div", { class: "help" }, SAID.map(([title, text]) => html("div", {}, html("h2", {}, title), html("p", {}, text))));
}
