import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Kafka's Java clients for tests/conformance, see its programs/conversation.py: Conform ROLE BOOTSTRAP NAME. */
public final class Conform {
    private static final int TIMEOUT_MS = 20_000;
    private static final int SESSION_TIMEOUT_MS = 6_000;
    private static final int HEARTBEAT_MS = 300;
    private static final int POLL_MS = 200;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String role;
    private final String name;
    private final TopicPartition partition;
    private final Properties properties = new Properties();

    private Conform(String role, String bootstrap, String name) {
        this.role = role;
        this.name = name;
        partition = new TopicPartition(name, 0);
        properties.put("bootstrap.servers", bootstrap);
        properties.put("client.id", name);
        properties.put("default.api.timeout.ms", TIMEOUT_MS);
        properties.put("request.timeout.ms", TIMEOUT_MS / 2);
    }

    public static void main(String[] arguments) throws Exception {
        Conform conform = new Conform(arguments[0], arguments[1], arguments[2]);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        if (conform.role.equals("member"))
            conform.read(input);
        else
            conform.produce(input);
    }

    private static void tell(String event, List<Integer> values, String error) throws Exception {
        ObjectNode line = JSON.createObjectNode().put("event", event).put("error", error);
        ArrayNode told = line.putArray("values");
        values.forEach(told::add);
        System.out.println(JSON.writeValueAsString(line));
    }

    private static String text(Exception failure) {
        Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
        return cause.getClass().getSimpleName() + ": " + cause.getMessage();
    }

    private void produce(BufferedReader input) throws Exception {
        boolean transactional = role.equals("transactional") || role.equals("offsets");
        properties.put("acks", "all");
        properties.put("enable.idempotence", !role.equals("plain"));
        properties.put("linger.ms", 5);
        properties.put("delivery.timeout.ms", TIMEOUT_MS);
        properties.put("max.block.ms", TIMEOUT_MS);
        if (transactional)
            properties.put("transactional.id", name);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            if (transactional)
                producer.initTransactions();
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                List<Integer> values = Stream.of(line.split(" ")).map(Integer::valueOf).collect(Collectors.toList());
                if (transactional)
                    transact(producer, values);
                else
                    send(producer, values);
            }
        }
    }

    private List<Future<RecordMetadata>> start(KafkaProducer<String, String> producer, List<Integer> values) {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (Integer value : values)
            sent.add(producer.send(new ProducerRecord<>(name, 0, null, value.toString())));
        return sent;
    }

    private void send(KafkaProducer<String, String> producer, List<Integer> values) throws Exception {
        List<Future<RecordMetadata>> sent = start(producer, values);
        for (int i = 0; i < sent.size(); i++) {
            try {
                sent.get(i).get();
                tell("acknowledged", values.subList(i, i + 1), "");
            } catch (Exception failure) {
                tell("refused", values.subList(i, i + 1), text(failure));
            }
        }
    }

    private void transact(KafkaProducer<String, String> producer, List<Integer> values) throws Exception {
        try {
            producer.beginTransaction();
            for (Future<RecordMetadata> each : start(producer, values))
                each.get();
            if (role.equals("offsets"))
                producer.sendOffsetsToTransaction(next(values.get(values.size() - 1)), new ConsumerGroupMetadata(name));
            producer.commitTransaction();
            tell("acknowledged", values, "");
        } catch (Exception failure) {
            try {
                producer.abortTransaction();
                tell("aborted", values, text(failure));
            } catch (Exception aborting) {
                tell("refused", values, text(failure) + "; then abort: " + text(aborting));
            }
        }
    }

    private Map<TopicPartition, OffsetAndMetadata> next(long offset) {
        return Map.of(partition, new OffsetAndMetadata(offset + 1));
    }

    private void read(BufferedReader input) throws Exception {
        properties.put("group.id", name);
        properties.put("session.timeout.ms", SESSION_TIMEOUT_MS);
        properties.put("heartbeat.interval.ms", HEARTBEAT_MS);
        properties.put("fetch.max.wait.ms", POLL_MS);
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", false);
        AtomicBoolean leaving = new AtomicBoolean();
        Thread waiting = new Thread(() -> {
            input.lines().forEach(line -> { });
            leaving.set(true);
        });
        waiting.setDaemon(true);
        waiting.start();
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(name));
            while (!leaving.get()) {
                List<ConsumerRecord<String, String>> records = new ArrayList<>();
                consumer.poll(Duration.ofMillis(POLL_MS)).forEach(records::add);
                if (!records.isEmpty())
                    commit(consumer, records);
            }
        }
    }

    private void commit(KafkaConsumer<String, String> consumer, List<ConsumerRecord<String, String>> records)
            throws Exception {
        List<Integer> values = records.stream().map(each -> Integer.valueOf(each.value())).collect(Collectors.toList());
        tell("read", values, "");
        try {
            consumer.commitSync(next(records.get(records.size() - 1).offset()));
            tell("committed", values, "");
        } catch (Exception failure) {
            tell("refused", values, text(failure));
        }
    }
}
