package roquet.compat;

import java.util.Collection;
import java.util.Map;

/** Writes maps, collections, strings, numbers and booleans as JSON on one line. */
final class Json {
    private Json() {
    }

    static String of(Object value) {
        StringBuilder out = new StringBuilder();
        write(out, value);
        return out.toString();
    }

    private static void write(StringBuilder out, Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else if (value instanceof Map<?, ?> map) {
            String between = "{";
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                out.append(between);
                quote(out, entry.getKey().toString());
                out.append(':');
                write(out, entry.getValue());
                between = ",";
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Collection<?> items) {
            String between = "[";
            for (Object item : items) {
                out.append(between);
                write(out, item);
                between = ",";
            }
            out.append(items.isEmpty() ? "[]" : "]");
        } else {
            quote(out, value.toString());
        }
    }

    private static void quote(StringBuilder out, String text) {
        out.append('"');
        for (char each : text.toCharArray()) {
            if (each == '"' || each == '\\') {
                out.append('\\').append(each);
            } else if (each < ' ' || Character.isSurrogate(each)) {
                out.append(String.format("\\u%04x", (int) each));
            } else {
                out.append(each);
            }
        }
        out.append('"');
    }
}
