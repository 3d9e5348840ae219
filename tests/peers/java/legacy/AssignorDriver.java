import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import kafka.common.TopicAndPartition;
import kafka.consumer.ConsumerThreadId;
import kafka.consumer.PartitionAssignor;
import kafka.consumer.PartitionAssignor$;
import kafka.consumer.TopicFilter;
import kafka.consumer.Whitelist;
import org.I0Itec.zkclient.ZkClient;
import scala.Tuple2;
import scala.collection.Iterator;

/**
 * What the Scala consumers of 0.8.2 and 0.10.2 decide from ZooKeeper: who gets which partition, and what a white list
 * matches. One source for both; what differs is found by reflection. A request is one line of fields with tabs between,
 * an answer "ok" and a count of lines that follow, or "error" and why..
 */
public final class AssignorDriver {
    private static final int TIMEOUT_MS = 30_000;
    /** A ZkUtils (0.10) or a ZkClient (0.8): what an AssignmentContext reads with. */
    private static Object zookeeper;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            for (String answer : answer(line.split("\t", -1)))
                answers.println(answer);
            answers.flush();
        }
        System.exit(0);
    }

    private static List<String> answer(String[] request) {
        try {
            List<String> lines;
            switch (request[0]) {
                case "connect": lines = connect(request[1]); break;
                case "assign": lines = assign(request); break;
                case "matches": lines = matches(request); break;
                default: throw new IllegalArgumentException("unknown request " + request[0]);
            }
            List<String> all = new ArrayList<>();
            all.add("ok\t" + lines.size());
            all.addAll(lines);
            return all;
        } catch (Throwable failure) {
            Throwable cause = failure instanceof InvocationTargetException ? failure.getCause() : failure;
            String text = cause.getClass().getSimpleName() + ": " + cause.getMessage();
            return Collections.singletonList("error\t" + text.replaceAll("\\s+", " "));
        }
    }

    private static List<String> connect(String address) throws Exception {
        zookeeper = new ZkClient(address, TIMEOUT_MS, TIMEOUT_MS, kafka.utils.ZKStringSerializer$.MODULE$);
        Class<?> needed = context().getParameterTypes()[3];
        if (!needed.isInstance(zookeeper))
            zookeeper = needed.getMethod("apply", ZkClient.class, boolean.class).invoke(null, zookeeper, false);
        return Collections.emptyList();
    }

    private static Constructor<?> context() throws ClassNotFoundException {
        return Class.forName("kafka.consumer.AssignmentContext").getConstructors()[0];
    }

    /** assign strategy group exclude_internal consumer; lines: topic partition thread, all that this member knows of. */
    private static List<String> assign(String[] request) throws Exception {
        PartitionAssignor assignor = PartitionAssignor$.MODULE$.createInstance(request[1]);
        Object snapshot = context().newInstance(request[2], request[4], Boolean.parseBoolean(request[3]), zookeeper);
        Object decided = PartitionAssignor.class.getMethod("assign", snapshot.getClass()).invoke(assignor, snapshot);
        List<String> lines = new ArrayList<>();
        if (decided instanceof scala.collection.Map) {
            add(lines, decided);
        } else {
            // 0.10: a Pool of one map for each consumer
            for (Iterator<?> each = ((scala.collection.Iterable<?>) decided).iterator(); each.hasNext();)
                add(lines, ((Tuple2<?, ?>) each.next())._2());
        }
        return lines;
    }

    private static void add(List<String> lines, Object map) {
        for (Iterator<?> each = ((scala.collection.Map<?, ?>) map).iterator(); each.hasNext();) {
            Tuple2<?, ?> entry = (Tuple2<?, ?>) each.next();
            TopicAndPartition partition = (TopicAndPartition) entry._1();
            ConsumerThreadId thread = (ConsumerThreadId) entry._2();
            lines.add(partition.topic() + "\t" + partition.partition() + "\t" + thread);
        }
    }

    /** matches regex topic...; one line of 0 and 1, or an error where Kafka does not take the expression. */
    private static List<String> matches(String[] request) {
        TopicFilter filter = new Whitelist(request[1]);
        StringBuilder found = new StringBuilder();
        for (String topic : Arrays.asList(request).subList(2, request.length))
            found.append(filter.isTopicAllowed(topic, true) ? '1' : '0');
        return Collections.singletonList(found.toString());
    }

    private AssignorDriver() { }
}
