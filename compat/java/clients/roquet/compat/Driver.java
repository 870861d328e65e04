package roquet.compat;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;

/**
 * Runs scenarios with Apache's Java client and prints one JSON line for each.
 *
 * <p>{@code Driver sync namesrv=127.0.0.1:9876 topic=T group=G} runs one scenario and exits with 0 or 1.
 * {@code Driver serve} reads such lines from standard input, words separated by tabs, until it ends: many
 * scenarios for the price of one JVM. The same sources compile with client 4.9.8 and 5.5.0.
 */
public final class Driver {
    private static final Map<String, Scenario> SCENARIOS = new TreeMap<>();

    static {
        Sending.register(SCENARIOS);
        Consuming.register(SCENARIOS);
        Beginning.register(SCENARIOS);
        Pulling.register(SCENARIOS);
        Sharing.register(SCENARIOS);
        Administering.register(SCENARIOS);
        Holding.register(SCENARIOS);
        Retrying.register(SCENARIOS);
        Timing.register(SCENARIOS);
        Selecting.register(SCENARIOS);
        Moving.register(SCENARIOS);
        Transacting.register(SCENARIOS);
        Replying.register(SCENARIOS);
        Tracing.register(SCENARIOS);
        Ordering.register(SCENARIOS);
        Mixing.register(SCENARIOS);
    }

    private Driver() {
    }

    public static void main(String[] words) throws Exception {
        // The client's own chatter must not mix with our lines.
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        Hurry.start();
        if (words.length == 1 && words[0].equals("serve")) {
            serve(answers);
            System.exit(0);
        }
        Map<String, Object> answer = run(words);
        answers.println(Json.of(answer));
        System.exit(Boolean.TRUE.equals(answer.get("ok")) ? 0 : 1);
    }

    private static void serve(PrintStream answers) throws Exception {
        var requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(Json.of(run(line.split("\t"))));
        }
    }

    private static Map<String, Object> run(String[] words) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("scenario", words.length == 0 ? "" : words[0]);
        long began = System.nanoTime();
        try {
            Scenario scenario = words.length == 0 ? null : SCENARIOS.get(words[0]);
            Check.that(scenario != null, "no such scenario; there are %s", SCENARIOS.keySet());
            answer.put("result", scenario.run(Call.parse(Arrays.copyOfRange(words, 1, words.length))));
            answer.put("ok", true);
        } catch (Check.Failed failed) {
            answer.put("ok", false);
            answer.put("error", failed.getMessage());
        } catch (Exception | LinkageError surprise) {
            StringWriter trace = new StringWriter();
            surprise.printStackTrace(new PrintWriter(trace, true));
            answer.put("ok", false);
            answer.put("error", trace.toString());
        }
        answer.put("ms", (System.nanoTime() - began) / 1_000_000);
        return answer;
    }
}
