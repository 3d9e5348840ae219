import java.io.BufferedReader;
import java.io.FileWriter;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerIterator;
import kafka.consumer.KafkaStream;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.message.MessageAndMetadata;

/**
 * Members of a group, each a ZooKeeper consumer of 0.8.2 or 0.10.2 with one stream.
 *
 * Arguments: topic, folder for the records (empty: they are not written), key=value of the consumers' configuration.
 * Requests, one a line: "join NAME..." (all at once), "leave NAME...". The answer is "ok", or "error" and why, when all
 * of them have. A record is a line "monotonic-ns partition offset" in the folder's file NAME.
 */
public final class GroupMember {
    private static final Map<String, ConsumerConnector> MEMBERS = new ConcurrentHashMap<>();
    private static final ExecutorService THREADS = Executors.newCachedThreadPool();
    private static String topic;
    private static String folder;
    private static String[] configuration;

    public static void main(String[] arguments) throws Exception {
        topic = arguments[0];
        folder = arguments[1];
        configuration = java.util.Arrays.copyOfRange(arguments, 2, arguments.length);
        PrintStream answers = System.out;
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        answers.println("ok");
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(answer(line.split(" ")));
            answers.flush();
        }
        System.exit(0);
    }

    private static String answer(String[] request) {
        List<Future<?>> pending = new ArrayList<>();
        for (int index = 1; index < request.length; index++) {
            String name = request[index];
            pending.add(THREADS.submit(() -> {
                if (request[0].equals("join"))
                    join(name);
                else
                    MEMBERS.remove(name).shutdown();
                return null;
            }));
        }
        try {
            for (Future<?> each : pending)
                each.get();
            return "ok";
        } catch (Exception failure) {
            return "error " + String.valueOf(failure.getMessage()).replaceAll("\\s+", " ");
        }
    }

    private static void join(String name) throws Exception {
        Properties properties = new Properties();
        for (String pair : configuration)
            properties.put(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
        properties.put("consumer.id", name);
        ConsumerConnector connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(properties));
        MEMBERS.put(name, connector);
        KafkaStream<byte[], byte[]> stream =
            connector.createMessageStreams(Collections.singletonMap(topic, 1)).get(topic).get(0);
        if (!folder.isEmpty())
            THREADS.submit(() -> {
                record(name, stream);
                return null;
            });
    }

    /** Written through at once, so that a kill loses nothing that was delivered. */
    private static void record(String name, KafkaStream<byte[], byte[]> stream) throws Exception {
        try (Writer lines = new FileWriter(folder + "/" + name)) {
            for (ConsumerIterator<byte[], byte[]> each = stream.iterator(); each.hasNext();) {
                MessageAndMetadata<byte[], byte[]> found = each.next();
                lines.write(System.nanoTime() + " " + found.partition() + " " + found.offset() + "\n");
                lines.flush();
            }
        }
    }

    private GroupMember() { }
}
