import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import kafka.api.FetchRequestBuilder;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.common.TopicAndPartition;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.OffsetRequest;
import kafka.javaapi.OffsetResponse;
import kafka.javaapi.PartitionMetadata;
import kafka.javaapi.TopicMetadata;
import kafka.javaapi.TopicMetadataRequest;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.message.MessageAndOffset;
import kafka.producer.KeyedMessage;
import kafka.producer.ProducerConfig;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * The clients of Kafka 0.8.2 and 0.10.2: the Scala producer, the first Java producer, SimpleConsumer. One source for
 * both; what only 0.10 has is found by reflection. A request is one line of fields with tabs between (and its records,
 * one a line), an answer likewise; bytes are base64, null is "-". These jars hold no JSON library.
 */
public final class OldDriver {
    private static final int TIMEOUT_MS = 30_000;
    private static final int BUFFER_BYTES = 65536;
    private static final String NULL = "-";
    private static BufferedReader requests;
    private static PrintStream answers;

    public static void main(String[] arguments) throws Exception {
        answers = System.out;
        System.setOut(System.err);
        requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            for (String answer : answer(line.split("\t", -1)))
                answers.println(answer);
            answers.flush();
        }
    }

    /** The first line is "ok" and the number of lines that follow, or "error" and why. */
    private static List<String> answer(String[] request) {
        try {
            List<String> lines;
            switch (request[0]) {
                case "produce": lines = produce(request); break;
                case "fetch": lines = fetch(request); break;
                case "offsets": lines = offsets(request); break;
                default: throw new IllegalArgumentException("unknown request " + request[0]);
            }
            List<String> all = new ArrayList<>();
            all.add("ok\t" + lines.size());
            all.addAll(lines);
            return all;
        } catch (Throwable failure) {
            Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
            String text = cause.getClass().getSimpleName() + ": " + cause.getMessage();
            return Collections.singletonList("error\t" + text.replaceAll("\\s+", " "));
        }
    }

    private static byte[] bytes(String field) {
        return field.equals(NULL) ? null : Base64.getDecoder().decode(field);
    }

    private static String field(ByteBuffer buffer) {
        if (buffer == null)
            return NULL;
        byte[] data = new byte[buffer.remaining()];
        buffer.duplicate().get(data);
        return Base64.getEncoder().encodeToString(data);
    }

    /** produce api bootstrap topic codec count, then count lines: key value timestamp. */
    private static List<String> produce(String[] request) throws Exception {
        List<String[]> records = new ArrayList<>();
        for (int left = Integer.parseInt(request[5]); left > 0; left--)
            records.add(requests.readLine().split("\t", -1));
        if (request[1].equals("scala"))
            produceByScala(request[2], request[3], request[4], records);
        else
            produceByJava(request[2], request[3], request[4], records);
        return Collections.emptyList();
    }

    private static void produceByScala(String bootstrap, String topic, String codec, List<String[]> records) {
        Properties properties = new Properties();
        properties.put("metadata.broker.list", bootstrap);
        properties.put("compression.codec", codec);
        properties.put("request.required.acks", "-1");
        properties.put("request.timeout.ms", String.valueOf(TIMEOUT_MS));
        List<KeyedMessage<byte[], byte[]>> messages = new ArrayList<>();
        for (String[] record : records)
            messages.add(new KeyedMessage<>(topic, bytes(record[0]), bytes(record[1])));
        kafka.javaapi.producer.Producer<byte[], byte[]> producer =
            new kafka.javaapi.producer.Producer<>(new ProducerConfig(properties));
        try {
            int batch = 50;
            for (int start = 0; start < messages.size(); start += batch)
                producer.send(messages.subList(start, Math.min(messages.size(), start + batch)));
        } finally {
            producer.close();
        }
    }

    private static void produceByJava(String bootstrap, String topic, String codec, List<String[]> records)
            throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("compression.type", codec);
        properties.put("acks", "all");
        properties.put("linger.ms", "20");
        for (String side : Arrays.asList("key", "value")) {
            String serializer = "org.apache.kafka.common.serialization.ByteArraySerializer";
            properties.put(side + ".serializer", serializer);
        }
        List<Future<RecordMetadata>> pending = new ArrayList<>();
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties);
        try {
            for (String[] record : records)
                pending.add(producer.send(javaRecord(topic, record)));
            for (Future<RecordMetadata> sent : pending)
                sent.get();
        } finally {
            producer.close();
        }
    }

    /** With the timestamp if this version's records have one. */
    @SuppressWarnings("unchecked")
    private static ProducerRecord<byte[], byte[]> javaRecord(String topic, String[] record) throws Exception {
        byte[] key = bytes(record[0]);
        byte[] value = bytes(record[1]);
        Integer partition = 0;
        for (Constructor<?> constructor : ProducerRecord.class.getConstructors())
            if (constructor.getParameterCount() == 5)
                return (ProducerRecord<byte[], byte[]>)
                    constructor.newInstance(topic, partition, Long.valueOf(record[2]), key, value);
        return new ProducerRecord<>(topic, partition, key, value);
    }

    private static SimpleConsumer consumer(String host, String port) {
        return new SimpleConsumer(host, Integer.parseInt(port), TIMEOUT_MS, BUFFER_BYTES, "old-driver");
    }

    /** A connection to the leader, found by Metadata version 0. */
    private static SimpleConsumer leader(String bootstrap, String topic, int partition) {
        String[] address = bootstrap.split(",")[0].split(":");
        SimpleConsumer any = consumer(address[0], address[1]);
        try {
            TopicMetadataRequest question = new TopicMetadataRequest(Collections.singletonList(topic));
            for (TopicMetadata metadata : any.send(question).topicsMetadata())
                for (PartitionMetadata found : metadata.partitionsMetadata())
                    if (found.partitionId() == partition && found.leader() != null)
                        return consumer(found.leader().host(), String.valueOf(found.leader().port()));
        } finally {
            any.close();
        }
        throw new IllegalStateException("no leader for " + topic + "-" + partition);
    }

    /** fetch bootstrap topic partition offset count version fetch_size; lines: offset timestamp magic key value. */
    private static List<String> fetch(String[] request) throws Exception {
        String topic = request[2];
        int partition = Integer.parseInt(request[3]);
        long offset = Long.parseLong(request[4]);
        int count = Integer.parseInt(request[5]);
        long deadline = System.currentTimeMillis() + TIMEOUT_MS;
        List<String> lines = new ArrayList<>();
        SimpleConsumer consumer = leader(request[1], topic, partition);
        try {
            while (lines.size() < count && System.currentTimeMillis() < deadline) {
                FetchRequestBuilder builder = new FetchRequestBuilder().clientId("old-driver").maxWait(500).minBytes(1)
                    .addFetch(topic, partition, offset, Integer.parseInt(request[7]));
                if (!request[6].equals(NULL))
                    FetchRequestBuilder.class.getMethod("requestVersion", short.class)
                        .invoke(builder, Short.parseShort(request[6]));
                FetchResponse response = consumer.fetch(builder.build());
                if (response.errorCode(topic, partition) != 0)
                    throw new IllegalStateException("error code " + response.errorCode(topic, partition));
                for (MessageAndOffset found : response.messageSet(topic, partition)) {
                    if (found.offset() < offset || lines.size() == count)
                        continue;
                    lines.add(line(found));
                    offset = found.offset() + 1;
                }
            }
        } finally {
            consumer.close();
        }
        return lines;
    }

    private static String line(MessageAndOffset found) throws Exception {
        kafka.message.Message message = found.message();
        if (!message.isValid())
            throw new IllegalStateException("the checksum of offset " + found.offset() + " is wrong");
        Object timestamp = -1L;
        if (message.magic() > 0)
            timestamp = message.getClass().getMethod("timestamp").invoke(message);
        return found.offset() + "\t" + timestamp + "\t" + message.magic() + "\t" + field(message.key()) + "\t"
            + field(message.payload());
    }

    /** offsets bootstrap topic partition time max_offsets; lines: the error code, then the offsets. */
    private static List<String> offsets(String[] request) {
        int partition = Integer.parseInt(request[3]);
        SimpleConsumer consumer = leader(request[1], request[2], partition);
        try {
            PartitionOffsetRequestInfo info =
                new PartitionOffsetRequestInfo(Long.parseLong(request[4]), Integer.parseInt(request[5]));
            OffsetResponse response = consumer.getOffsetsBefore(new OffsetRequest(
                Collections.singletonMap(new TopicAndPartition(request[2], partition), info), (short) 0, "old-driver"));
            List<String> lines = new ArrayList<>();
            lines.add(String.valueOf(response.errorCode(request[2], partition)));
            for (long offset : response.offsets(request[2], partition))
                lines.add(String.valueOf(offset));
            return lines;
        } finally {
            consumer.close();
        }
    }

    private OldDriver() { }
}
