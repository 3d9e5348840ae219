import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What Kafka's EndToEndLatency measures, in microseconds: one record is sent with acks=all and waited for by a consumer,
 * then the next. Arguments: bootstrap topic records record_size_bytes; prints "elapsed_ms p50_us p99_us p999_us".
 * A tenth more is sent before the clock runs, for the JVM to warm up.
 */
public final class RoundTrips {
    private static final Duration TIMEOUT = Duration.ofSeconds(30);

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int records = Integer.parseInt(arguments[2]);
        byte[] value = new byte[Integer.parseInt(arguments[3])];
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("acks", "all");
        properties.put("linger.ms", "0");
        properties.put("fetch.max.wait.ms", "500");
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
             KafkaProducer<byte[], byte[]> producer =
                 new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            consumer.assign(List.of(partition));
            consumer.seekToEnd(List.of(partition));
            consumer.position(partition);
            for (int i = 0; i < records / 10; i++)
                roundTrip(producer, consumer, topic, value);
            long[] nanos = new long[records];
            long startMs = System.currentTimeMillis();
            for (int i = 0; i < records; i++)
                nanos[i] = roundTrip(producer, consumer, topic, value);
            long elapsedMs = System.currentTimeMillis() - startMs;
            Arrays.sort(nanos);
            System.out.println(elapsedMs + " " + micros(nanos, 0.5) + " " + micros(nanos, 0.99) + " " + micros(nanos, 0.999));
        }
    }

    private static long roundTrip(
            KafkaProducer<byte[], byte[]> producer, KafkaConsumer<byte[], byte[]> consumer, String topic, byte[] value)
            throws Exception {
        long start = System.nanoTime();
        producer.send(new ProducerRecord<>(topic, 0, null, value)).get();
        ConsumerRecords<byte[], byte[]> polled = consumer.poll(TIMEOUT);
        if (polled.count() != 1)
            throw new IllegalStateException(polled.count() + " records instead of 1");
        return System.nanoTime() - start;
    }

    private static long micros(long[] sorted, double quantile) {
        return sorted[(int) Math.ceil(quantile * sorted.length) - 1] / 1000;
    }

    private RoundTrips() { }
}
