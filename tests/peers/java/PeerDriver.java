import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's Java clients behind one line of JSON in, one line of JSON out, so that many small tests share one JVM.
 * Bytes are base64, null is null. An answer has "error" (the exception's simple class name and message) or results.
 */
public final class PeerDriver {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
            answers.flush();
        }
    }

    private static ObjectNode answer(JsonNode request) {
        try {
            switch (request.get("op").asText()) {
                case "produce": return produce(request);
                case "consume": return consume(request);
                case "offsets": return offsets(request);
                case "describe": return describe(request);
                case "create": return create(request);
                case "delete": return delete(request);
                default: throw new IllegalArgumentException("unknown op " + request.get("op"));
            }
        } catch (Throwable failure) {
            return JSON.createObjectNode().put("error", text(failure));
        }
    }

    private static String text(Throwable failure) {
        Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
        return cause.getClass().getSimpleName() + ": " + cause.getMessage();
    }

    private static Properties properties(JsonNode request) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", request.get("bootstrap").asText());
        if (request.has("config"))
            request.get("config").fields().forEachRemaining(e -> properties.put(e.getKey(), e.getValue().asText()));
        return properties;
    }

    private static byte[] bytes(JsonNode node) throws Exception {
        return node == null || node.isNull() ? null : node.binaryValue();
    }

    private static ObjectNode produce(JsonNode request) throws Exception {
        ArrayNode offsets = JSON.createArrayNode();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(properties(request), new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> pending = new ArrayList<>();
            for (JsonNode record : request.get("records")) {
                List<Header> headers = new ArrayList<>();
                for (JsonNode header : record.get("headers"))
                    headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
                Long timestamp = record.get("timestamp_ms").isNull() ? null : record.get("timestamp_ms").asLong();
                pending.add(producer.send(new ProducerRecord<>(request.get("topic").asText(),
                    record.get("partition").asInt(), timestamp, bytes(record.get("key")), bytes(record.get("value")),
                    headers)));
            }
            producer.flush();
            for (Future<RecordMetadata> sent : pending)
                offsets.add(sent.get().offset());
        }
        return JSON.createObjectNode().set("offsets", offsets);
    }

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode request) {
        return new KafkaConsumer<>(properties(request), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static TopicPartition partition(JsonNode request) {
        return new TopicPartition(request.get("topic").asText(), request.get("partition").asInt());
    }

    private static ObjectNode consume(JsonNode request) throws Exception {
        int count = request.get("count").asInt();
        long deadline = System.currentTimeMillis() + request.get("timeout_ms").asLong();
        ArrayNode records = JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(request)) {
            consumer.assign(List.of(partition(request)));
            consumer.seek(partition(request), request.get("offset").asLong());
            while (records.size() < count && System.currentTimeMillis() < deadline)
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100)))
                    if (records.size() < count)
                        records.add(toJson(record));
        }
        return JSON.createObjectNode().set("records", records);
    }

    private static ObjectNode toJson(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode node = JSON.createObjectNode();
        node.put("offset", record.offset()).put("timestamp_ms", record.timestamp());
        node.put("key", record.key()).put("value", record.value());
        ArrayNode headers = node.putArray("headers");
        for (Header header : record.headers())
            headers.addArray().add(header.key()).add(header.value());
        return node;
    }

    private static ObjectNode offsets(JsonNode request) {
        TopicPartition partition = partition(request);
        ObjectNode answer = JSON.createObjectNode();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(request)) {
            answer.put("beginning", consumer.beginningOffsets(List.of(partition)).get(partition));
            answer.put("end", consumer.endOffsets(List.of(partition)).get(partition));
            ArrayNode found = answer.putArray("at");
            for (JsonNode timestamp : request.get("timestamps")) {
                OffsetAndTimestamp at = consumer.offsetsForTimes(Map.of(partition, timestamp.asLong())).get(partition);
                if (at == null)
                    found.addNull();
                else
                    found.addArray().add(at.offset()).add(at.timestamp());
            }
        }
        return answer;
    }

    private static ObjectNode describe(JsonNode request) throws Exception {
        String topic = request.get("topic").asText();
        ObjectNode answer = JSON.createObjectNode();
        try (Admin admin = Admin.create(properties(request))) {
            answer.put("controller", admin.describeCluster().controller().get().id());
            answer.put("brokers", admin.describeCluster().nodes().get().size());
            answer.put("cluster_id", admin.describeCluster().clusterId().get());
            ArrayNode leaders = answer.putArray("leaders");
            admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions()
                .forEach(partition -> leaders.add(partition.leader().id()));
            answer.put("topic_id",
                admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).topicId().toString());
        }
        return answer;
    }

    private static ObjectNode create(JsonNode request) throws Exception {
        Map<String, String> configs = new HashMap<>();
        request.get("configs").fields().forEachRemaining(e -> configs.put(e.getKey(), e.getValue().asText()));
        NewTopic topic = new NewTopic(request.get("topic").asText(), request.get("partitions").asInt(),
            (short) request.get("replication_factor").asInt()).configs(configs);
        try (Admin admin = Admin.create(properties(request))) {
            admin.createTopics(List.of(topic)).all().get();
        }
        return JSON.createObjectNode();
    }

    private static ObjectNode delete(JsonNode request) throws Exception {
        try (Admin admin = Admin.create(properties(request))) {
            admin.deleteTopics(List.of(request.get("topic").asText())).all().get();
        }
        return JSON.createObjectNode();
    }

    private PeerDriver() { }
}
