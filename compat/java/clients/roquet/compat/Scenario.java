package roquet.compat;

import java.util.Map;

/** One thing that users do with the client; returns what it saw, throws when it saw something wrong. */
@FunctionalInterface
interface Scenario {
    Map<String, Object> run(Call call) throws Exception;
}
