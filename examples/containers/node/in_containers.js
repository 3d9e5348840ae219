// Runs loseAnswer with ZooKeeper and a broker in containers.
const { GenericContainer, Network, Wait } = require("testcontainers");
const { loseAnswer } = require("./lost_answer.js");

const TOKEN = "a-token-of-this-test-only";

async function main() {
  const network = await new Network().start();
  const zookeeper = await new GenericContainer(process.env.ZOOKEEPER_IMAGE ?? "zookeeper:3.9")
    .withNetwork(network)
    .withNetworkAliases("zookeeper")
    .start();
  const broker = await new GenericContainer(process.env.KAFKA_ZK_IMAGE ?? "kafka-zk:0.1.0")
    .withNetwork(network)
    .withExposedPorts({ container: 29092, host: 29092 }, 9600)
    .withEnvironment({
      KAFKA_ZOOKEEPER_CONNECT: "zookeeper:2181",
      KAFKA_ADVERTISED_LISTENERS: "PLAINTEXT://127.0.0.1:29092",
      KAFKA_ZK_FAULTS_PORT: "9600",
      KAFKA_ZK_FAULTS_TOKEN: TOKEN,
    })
    .withWaitStrategy(Wait.forLogMessage("started broker_id"))
    .start();
  try {
    await loseAnswer("127.0.0.1:29092", `http://127.0.0.1:${broker.getMappedPort(9600)}`, TOKEN, "orders");
  } finally {
    await broker.stop();
    await zookeeper.stop();
    await network.stop();
  }
}

main();
