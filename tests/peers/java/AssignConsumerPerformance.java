import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * What kafka-consumer-perf-test measures, by assigned partitions instead of a group.
 * Arguments: bootstrap topic partitions records [key=value ...]; prints "records bytes elapsed_ms".
 * The clock runs from the first poll, so that JVM start and metadata are left out.
 */
public final class AssignConsumerPerformance {
    private static final long IDLE_TIMEOUT_MS = 30_000;

    public static void main(String[] arguments) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("check.crcs", "false");
        for (int i = 4; i < arguments.length; i++) {
            String[] keyValue = arguments[i].split("=", 2);
            properties.put(keyValue[0], keyValue[1]);
        }
        long wanted = Long.parseLong(arguments[3]);
        List<TopicPartition> partitions = new ArrayList<>();
        for (int partition = 0; partition < Integer.parseInt(arguments[2]); partition++)
            partitions.add(new TopicPartition(arguments[1], partition));
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            partitions.forEach(consumer::position);
            consume(consumer, wanted);
        }
    }

    private static void consume(KafkaConsumer<byte[], byte[]> consumer, long wanted) {
        long records = 0;
        long bytes = 0;
        long startMs = System.currentTimeMillis();
        long lastMs = startMs;
        while (records < wanted && System.currentTimeMillis() - lastMs < IDLE_TIMEOUT_MS) {
            ConsumerRecords<byte[], byte[]> polled = consumer.poll(Duration.ofMillis(100));
            for (ConsumerRecord<byte[], byte[]> record : polled) {
                bytes += (record.key() == null ? 0 : record.key().length)
                    + (record.value() == null ? 0 : record.value().length);
            }
            records += polled.count();
            if (!polled.isEmpty())
                lastMs = System.currentTimeMillis();
        }
        System.out.println(records + " " + bytes + " " + (lastMs - startMs));
    }

    private AssignConsumerPerformance() { }
}
