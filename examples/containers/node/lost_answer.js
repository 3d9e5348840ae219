// The response to a Produce request is lost, and an idempotent producer stores its record once.
const { Kafka, logLevel } = require("kafkajs");

// The named faults of one broker.
class Faults {
  constructor(url, token) {
    this.url = url;
    this.headers = { Authorization: `Bearer ${token}` };
  }

  async ask(method, path, body) {
    const response = await fetch(this.url + path, { method, headers: this.headers, body: body && JSON.stringify(body) });
    const told = await response.json();
    if (!response.ok) throw new Error(told.error);
    return told;
  }

  begin(fault) {
    return this.ask("POST", "/faults", fault);
  }

  end(fault) {
    return this.ask("POST", `/faults/${fault.id}/end`);
  }
}

async function loseAnswer(bootstrap, url, token, topic) {
  const faults = new Faults(url, token);
  const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING });
  const producer = kafka.producer({ idempotent: true });
  const send = async (value) => (await producer.send({ topic, messages: [{ value }] }))[0].baseOffset;
  await producer.connect();
  await send("first");
  const fault = await faults.begin({ fault: "drop_answer", api: "Produce", topic });
  const offset = await send("an order");
  const { fired } = await faults.end(fault);
  console.log(`offset ${offset}, the fault fired ${fired} time`);
  console.log(`next offset ${await send("last")}`);
  await producer.disconnect();
}

module.exports = { loseAnswer };

if (require.main === module) {
  loseAnswer(...process.argv.slice(2));
}
