package roquet.compat;

import java.util.HashMap;
import java.util.Map;

/** The arguments of one scenario: {@code key=value} words. */
record Call(Map<String, String> words) {

    static Call parse(String[] words) {
        Map<String, String> parsed = new HashMap<>();
        for (String word : words) {
            int sign = word.indexOf('=');
            Check.that(sign > 0, "an argument reads key=value, not %s", word);
            parsed.put(word.substring(0, sign), word.substring(sign + 1));
        }
        return new Call(parsed);
    }

    String text(String key) {
        Check.that(words.containsKey(key), "the argument %s= is missing", key);
        return words.get(key);
    }

    String text(String key, String otherwise) {
        return words.getOrDefault(key, otherwise);
    }

    int number(String key, int otherwise) {
        return words.containsKey(key) ? Integer.parseInt(words.get(key)) : otherwise;
    }

    String namesrv() {
        return text("namesrv");
    }

    String topic() {
        return text("topic");
    }

    String group() {
        return text("group");
    }
}
