import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Kafka's command-line tools in one JVM: a line of JSON (main class and arguments) in, a line of JSON (exit code,
 * stdout, stderr) out. Their exits go through Kafka's own Exit class, which lets itself be told what to do instead.
 */
public final class ToolRunner {
    private static final ObjectMapper JSON = new ObjectMapper();

    private static final class Exited extends RuntimeException {
    }

    private static Integer exitCode;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        Exit.setExitProcedure((code, message) -> {
            // Some tools catch everything, print it and exit again: only the first exit counts, and what was said before.
            System.setErr(new PrintStream(OutputStream.nullOutputStream()));
            if (exitCode == null)
                exitCode = code;
            throw new Exited();
        });
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            JsonNode request = JSON.readTree(line);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            int code = run(request);
            answers.println(JSON.writeValueAsString(JSON.createObjectNode().put("code", code)
                .put("stdout", out.toString(StandardCharsets.UTF_8))
                .put("stderr", err.toString(StandardCharsets.UTF_8))));
            answers.flush();
        }
    }

    private static int run(JsonNode request) throws Exception {
        exitCode = null;
        List<String> arguments = new ArrayList<>();
        request.get("arguments").forEach(argument -> arguments.add(argument.asText()));
        try {
            String[] array = arguments.toArray(new String[0]);
            withScalaOutput(() -> Class.forName(request.get("main").asText()).getMethod("main", String[].class)
                .invoke(null, (Object) array));
        } catch (java.lang.reflect.InvocationTargetException failure) {
            if (exitCode == null) {
                failure.getCause().printStackTrace();
                return 1;
            }
        }
        return exitCode == null ? 0 : exitCode;
    }

    private interface Work {
        void run() throws Exception;
    }

    /** Scala's println keeps the stream that it found first; Console.withOut changes that for one call. */
    private static void withScalaOutput(Work work) throws Exception {
        Exception[] failed = new Exception[1];
        scala.Function0<Object> body = new scala.runtime.AbstractFunction0<Object>() {
            @Override
            public Object apply() {
                try {
                    work.run();
                } catch (Exception failure) {
                    failed[0] = failure;
                }
                return null;
            }
        };
        scala.Console.withOut(System.out, body);
        if (failed[0] != null)
            throw failed[0];
    }

    private ToolRunner() { }
}
