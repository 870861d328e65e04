package roquet.compat;

/** Expectations: a failed one carries a sentence that says what was seen. */
final class Check {
    static final long LIMIT_MS = 60_000;

    private Check() {
    }

    static final class Failed extends RuntimeException {
        private static final long serialVersionUID = 1L;

        Failed(String message) {
            super(message);
        }
    }

    static void that(boolean holds, String otherwise, Object... details) {
        if (!holds) {
            throw new Failed(String.format(otherwise, details));
        }
    }

    static void equal(Object seen, Object expected, String what) {
        that(expected.equals(seen), "%s: expected %s, saw %s", what, expected, seen);
    }

    /** A condition that may ask the broker, and fail while the answer is not there yet. */
    @FunctionalInterface
    interface Condition {
        boolean holds() throws Exception;
    }

    static void eventually(Condition condition, String what) throws Exception {
        eventually(condition, LIMIT_MS, what);
    }

    /** Waits for a condition, in small steps, at most {@code limitMs}. */
    static void eventually(Condition condition, long limitMs, String what) throws Exception {
        long deadline = System.nanoTime() + limitMs * 1_000_000;
        while (!condition.holds()) {
            that(System.nanoTime() < deadline, "%s did not happen within %d ms", what, limitMs);
            Thread.sleep(10);
        }
    }
}
