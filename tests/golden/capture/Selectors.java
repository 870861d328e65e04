import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.util.BloomFilter;

/**
 * Says what Apache's own classes make of selectors and of bloom filter entries.
 *
 * <p>Lines of standard input, words separated by tabs, texts as hex: {@code S expression name=value,…} is
 * answered with true, false, null, error or refused; {@code B f n text} with k, m and the positions.
 */
public final class Selectors {
    private Selectors() {
    }

    public static void main(String[] words) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split("\t", -1);
            System.out.println(parts[0].equals("B") ? bloom(parts) : selector(text(parts[1]), parts[2]));
        }
    }

    private static String text(String hex) {
        return new String(HexFormat.of().parseHex(hex), StandardCharsets.UTF_8);
    }

    private static String selector(String expression, String pairs) {
        Map<String, String> properties = new HashMap<>();
        for (String pair : pairs.split(",")) {
            if (!pair.isEmpty()) {
                String[] sides = pair.split("=", -1);
                properties.put(text(sides[0]), text(sides[1]));
            }
        }
        Expression parsed;
        try {
            parsed = FilterFactory.INSTANCE.get("SQL92").compile(expression);
        } catch (Throwable refused) {
            return "refused";
        }
        try {
            return String.valueOf(parsed.evaluate(new MessageEvaluationContext(properties)));
        } catch (Throwable error) {
            return "error";
        }
    }

    private static String bloom(String[] parts) {
        BloomFilter filter = BloomFilter.createByFn(Integer.parseInt(parts[1]), Integer.parseInt(parts[2]));
        String positions = Arrays.toString(filter.calcBitPositions(text(parts[3])));
        return filter.getK() + " " + filter.getM() + " " + positions.replaceAll("[^0-9,]", "");
    }
}
