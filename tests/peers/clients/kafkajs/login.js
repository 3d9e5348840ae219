// One record written and read back by kafkajs, which logs in as a line of JSON on its input says; prints the value that it
// has read.
//
//   node login.js
"use strict";

const fs = require("fs");
const { Kafka, logLevel } = require("kafkajs");

const login = JSON.parse(fs.readFileSync(0, "utf8"));

function sasl() {
  if (login.mechanism === "") return undefined;
  const mechanism = login.mechanism.toLowerCase();
  if (mechanism === "oauthbearer") return { mechanism, oauthBearerProvider: async () => ({ value: login.bearer }) };
  return { mechanism, username: login.user, password: login.password };
}

function ssl() {
  const own = login.certificate === "" ? {} : { key: fs.readFileSync(login.certificate), cert: fs.readFileSync(login.certificate) };
  return { ca: [fs.readFileSync(login.authority)], ...own };
}

function kafka(retries) {
  return new Kafka({
    brokers: [login.bootstrap], ssl: ssl(), sasl: sasl(), retry: { retries }, logLevel: logLevel.NOTHING,
  });
}

async function main() {
  const producer = kafka(0).producer();
  await producer.connect();
  await producer.send({ topic: login.topic, messages: [{ value: login.value }] });
  await producer.disconnect();
  const consumer = kafka(10).consumer({ groupId: login.value }); // the first group waits for its topic
  await consumer.connect();
  await consumer.subscribe({ topics: [login.topic], fromBeginning: true });
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
    const eachMessage = async ({ message }) => {
      if (message.value.toString() === login.value) resolve();
    };
    consumer.run({ eachMessage }).catch(reject);
  });
  await consumer.disconnect();
  console.log(login.value);
}

main().catch((error) => {
  console.error(`${error.name}: ${error.message}`);
  process.exit(1);
});
