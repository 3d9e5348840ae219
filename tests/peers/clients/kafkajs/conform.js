// kafkajs for tests/conformance, see its programs/conversation.py:  node conform.js ROLE BOOTSTRAP NAME
"use strict";

const readline = require("readline");
const { CompressionTypes, Kafka, logLevel } = require("kafkajs");

const TIMEOUT_MS = 20_000;
const SESSION_TIMEOUT_MS = 6_000;
const HEARTBEAT_MS = 300;
const POLL_MS = 200;

const [role, bootstrap, name] = process.argv.slice(2);
const transactional = role === "transactional" || role === "offsets";
const kafka = new Kafka({
  clientId: name,
  brokers: bootstrap.split(","),
  logLevel: logLevel.ERROR,
  retry: { retries: 10, initialRetryTime: 50, maxRetryTime: 1000 },
});

function tell(event, values, error) {
  console.log(JSON.stringify({ event, values, error: error ? `${error.name}: ${error.message}` : "" }));
}

function batch(values) {
  const messages = values.map((value) => ({ value: String(value), partition: 0 }));
  return { topic: name, messages, acks: -1, timeout: TIMEOUT_MS, compression: CompressionTypes.None };
}

async function send(producer, values) {
  try {
    await producer.send(batch(values));
    tell("acknowledged", values);
  } catch (error) {
    tell("refused", values, error);
  }
}

async function transact(producer, values) {
  let transaction;
  try {
    transaction = await producer.transaction();
    await transaction.send(batch(values));
    if (role === "offsets") {
      const offset = String(values[values.length - 1] + 1);
      await transaction.sendOffsets({ consumerGroupId: name, topics: [{ topic: name, partitions: [{ partition: 0, offset }] }] });
    }
    await transaction.commit();
    tell("acknowledged", values);
  } catch (error) {
    if (!transaction) return tell("refused", values, error);
    try {
      await transaction.abort();
      tell("aborted", values, error);
    } catch (aborting) {
      tell("refused", values, { name: error.name, message: `${error.message}; then abort: ${aborting.message}` });
    }
  }
}

async function produce() {
  const producer = kafka.producer({
    idempotent: role !== "plain",
    transactionalId: transactional ? name : undefined,
    maxInFlightRequests: role === "plain" ? undefined : 1,
    allowAutoTopicCreation: false,
  });
  await producer.connect();
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const values = line.split(" ").map(Number);
    await (transactional ? transact(producer, values) : send(producer, values));
  }
  await producer.disconnect();
}

async function join() {
  const consumer = kafka.consumer({
    groupId: name,
    sessionTimeout: SESSION_TIMEOUT_MS,
    heartbeatInterval: HEARTBEAT_MS,
    maxWaitTimeInMs: POLL_MS,
    allowAutoTopicCreation: false,
  });
  process.stdin.resume();
  process.stdin.on("end", async () => {
    await consumer.disconnect();
    process.exit(0);
  });
  // After an error that is not to be retried kafkajs ends the consumer and leaves it to the application to start over.
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    if (!payload.restart) process.exit(1);
  });
  await consumer.connect();
  await consumer.subscribe({ topics: [name], fromBeginning: true });
  await consumer.run({ autoCommit: false, eachBatch });
}

async function eachBatch({ batch: read, resolveOffset, heartbeat, commitOffsetsIfNecessary }) {
  const values = read.messages.map((message) => Number(message.value.toString()));
  tell("read", values);
  const offset = String(Number(read.lastOffset()) + 1);
  try {
    await commitOffsetsIfNecessary({ topics: [{ topic: name, partitions: [{ partition: 0, offset }] }] });
    tell("committed", values);
  } catch (error) {
    tell("refused", values, error);
    throw error; // kafkajs decides by the error whether to join again
  }
  resolveOffset(read.lastOffset());
  await heartbeat();
}

(role === "member" ? join() : produce()).catch((error) => {
  console.error(error);
  process.exit(1);
});
