// A member of a group by kafkajs. It writes down what it is assigned, handed and has committed; it leaves at the end of
// its input.
//
//   node member.js BOOTSTRAP GROUP TOPIC NAME LOG ASSIGNOR SESSION_TIMEOUT_MS     (kafkajs has one assignor)
"use strict";

const fs = require("fs");
const { Kafka } = require("kafkajs");

const [bootstrap, groupId, topic, clientId, path, , sessionTimeoutMs] = process.argv.slice(2);
const file = fs.openSync(path, "a");

function write(event, fields) {
  fs.writeSync(file, JSON.stringify({ event, at_ms: Date.now(), ...fields }) + "\n");
}

let consumer;
let leaving = false;

async function join() {
  const kafka = new Kafka({ clientId, brokers: [bootstrap], retry: { retries: 1000, maxRetryTime: 500 } });
  consumer = kafka.consumer({
    groupId,
    sessionTimeout: Number(sessionTimeoutMs),
    heartbeatInterval: Number(sessionTimeoutMs) / 6,
    rebalanceTimeout: 20_000,
    maxWaitTimeInMs: 200,
    metadataMaxAge: 2000,
    allowAutoTopicCreation: false,
  });
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    write("assigned", { member: payload.memberId, partitions: payload.memberAssignment[topic] || [] });
  });
  consumer.on(consumer.events.REBALANCING, () => write("revoked", {}));
  // After some errors of a broker that has just started kafkajs gives up, and leaves it to the program to start over.
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    if (!payload.restart && !leaving) setTimeout(joinAgain, 300);
  });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({ autoCommit: false, eachBatch });
}

function joinAgain() {
  join().catch((error) => {
    console.error(error);
    setTimeout(joinAgain, 300);
  });
}

async function eachBatch({ batch, resolveOffset, heartbeat, commitOffsetsIfNecessary }) {
  const offsets = batch.messages.map((message) => Number(message.offset));
  write("handed", { partition: batch.partition, offsets });
  const next = String(Number(batch.lastOffset()) + 1);
  // The consumer's own commitOffsets would end it for good when the member is no longer known.
  await commitOffsetsIfNecessary({ topics: [{ topic, partitions: [{ partition: batch.partition, offset: next }] }] });
  write("committed", { offsets: { [batch.partition]: Number(next) } });
  resolveOffset(batch.lastOffset());
  await heartbeat();
}

process.stdin.resume();
process.stdin.on("end", async () => {
  leaving = true;
  await consumer.disconnect();
  write("left", {});
  process.exit(0);
});
joinAgain();
