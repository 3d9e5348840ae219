import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** The response to a Produce request is lost, and an idempotent producer stores its record once. */
public class LostAnswer {
    /** A named fault of one broker, from its beginning to the end of the block. */
    record Fault(URI api, String token, int id) implements AutoCloseable {
        static Fault begin(URI api, String token, String json) throws IOException, InterruptedException {
            return new Fault(api, token, number("id", ask(api, token, "POST", "/faults", json)));
        }

        int fired() throws IOException, InterruptedException {
            return number("fired", ask(api, token, "GET", "/faults/" + id, ""));
        }

        @Override
        public void close() throws IOException, InterruptedException {
            ask(api, token, "POST", "/faults/" + id + "/end", "");
        }

        private static String ask(URI api, String token, String method, String path, String body)
                throws IOException, InterruptedException {
            HttpRequest request = HttpRequest.newBuilder(api.resolve(path))
                    .header("Authorization", "Bearer " + token)
                    .method(method, HttpRequest.BodyPublishers.ofString(body))
                    .build();
            var response = HttpClient.newHttpClient().send(request, BodyHandlers.ofString());
            if (response.statusCode() >= 400) throw new IOException(response.body());
            return response.body();
        }

        private static int number(String name, String json) {
            Matcher found = Pattern.compile("\"" + name + "\": (\\d+)").matcher(json);
            if (!found.find()) throw new IllegalStateException(json);
            return Integer.parseInt(found.group(1));
        }
    }

    static void run(String bootstrap, URI api, String token, String topic) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "enable.idempotence", true);
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, "first")).get();
            try (var fault = Fault.begin(api, token, """
                    {"fault": "drop_answer", "api": "Produce", "topic": "%s"}""".formatted(topic))) {
                long offset = producer.send(new ProducerRecord<>(topic, "an order")).get().offset();
                System.out.println("offset " + offset + ", the fault fired " + fault.fired() + " time");
            }
            System.out.println("next offset " + producer.send(new ProducerRecord<>(topic, "last")).get().offset());
        }
    }

    public static void main(String[] arguments) throws Exception {
        run(arguments[0], URI.create(arguments[1]), arguments[2], arguments[3]);
    }
}
