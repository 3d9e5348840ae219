import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.common.TopicPartition;

/**
 * The assignors of Kafka's consumer: a group as one line of JSON in, who gets what as one line of JSON out. A group has
 * "assignor" (its name), "counts" (partitions of each topic) and "members" (member_id, instance_id or null, topics).
 */
public final class AssignorDriver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final List<AbstractPartitionAssignor> ASSIGNORS =
        List.of(new RangeAssignor(), new RoundRobinAssignor());

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        BufferedReader groups = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = groups.readLine(); line != null; line = groups.readLine()) {
            answers.println(JSON.writeValueAsString(assigned(JSON.readTree(line))));
            answers.flush();
        }
    }

    private static ObjectNode assigned(JsonNode group) {
        Map<String, Integer> counts = new HashMap<>();
        group.get("counts").fields().forEachRemaining(each -> counts.put(each.getKey(), each.getValue().asInt()));
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (JsonNode member : group.get("members"))
            subscriptions.put(member.get("member_id").asText(), subscription(member));
        ObjectNode answer = JSON.createObjectNode();
        assignor(group.get("assignor").asText()).assign(counts, subscriptions).forEach((member, partitions) -> {
            for (TopicPartition partition : partitions)
                answer.withArray("/" + member).addArray().add(partition.topic()).add(partition.partition());
        });
        return answer;
    }

    private static Subscription subscription(JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.asText()));
        Subscription subscription = new Subscription(topics);
        if (!member.get("instance_id").isNull())
            subscription.setGroupInstanceId(Optional.of(member.get("instance_id").asText()));
        return subscription;
    }

    private static AbstractPartitionAssignor assignor(String name) {
        return ASSIGNORS.stream().filter(each -> each.name().equals(name)).findFirst().orElseThrow();
    }
}
