import java.net.URI;
import java.util.List;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.Network;
import org.testcontainers.containers.wait.strategy.Wait;

/** Runs LostAnswer with ZooKeeper and a broker in containers. */
public class InContainers {
    private static final String TOKEN = "a-token-of-this-test-only";

    public static void main(String[] arguments) throws Exception {
        try (Network network = Network.newNetwork();
                var zookeeper = new GenericContainer<>(image("ZOOKEEPER_IMAGE", "zookeeper:3.9"));
                var broker = new GenericContainer<>(image("KAFKA_ZK_IMAGE", "kafka-zk:0.1.0"))) {
            zookeeper.withNetwork(network).withNetworkAliases("zookeeper").start();
            broker.withNetwork(network)
                    .withEnv("KAFKA_ZOOKEEPER_CONNECT", "zookeeper:2181")
                    .withEnv("KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://127.0.0.1:29092")
                    .withEnv("KAFKA_ZK_FAULTS_PORT", "9600")
                    .withEnv("KAFKA_ZK_FAULTS_TOKEN", TOKEN)
                    .waitingFor(Wait.forLogMessage(".*started broker_id.*", 1));
            broker.setPortBindings(List.of("127.0.0.1:29092:29092", "127.0.0.1:9600:9600"));
            broker.start();
            LostAnswer.run("127.0.0.1:29092", URI.create("http://127.0.0.1:9600"), TOKEN, "orders");
        }
    }

    private static String image(String variable, String usual) {
        return System.getenv().getOrDefault(variable, usual);
    }
}
