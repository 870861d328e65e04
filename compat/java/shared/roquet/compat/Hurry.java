package roquet.compat;

/**
 * Shortens the shutdown of Apache's client.
 *
 * <p>It joins a thread that looks up from its queue only every three seconds. An interrupt makes that thread
 * look at once; in a client that is not shutting down it does nothing but a log line.
 */
final class Hurry {
    static final String CLOSING = "closing";
    private static final long STEP_MS = 30;

    private Hurry() {
    }

    static void start() {
        Thread thread = new Thread(Hurry::watch, "hurry");
        thread.setDaemon(true);
        thread.start();
    }

    private static void watch() {
        try {
            while (true) {
                Thread.sleep(STEP_MS);
                Thread[] threads = new Thread[Thread.activeCount() + 16];
                int count = Thread.enumerate(threads);
                for (int n = 0; n < count; n++) {
                    if (isShuttingDown(threads[n])) {
                        nudge(threads, count);
                        break;
                    }
                }
            }
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    private static boolean isShuttingDown(Thread thread) {
        if (!thread.getName().equals("main") && !thread.getName().equals(CLOSING)) {
            return false;
        }
        for (StackTraceElement frame : thread.getStackTrace()) {
            if (frame.getMethodName().equals("shutdown") && frame.getClassName().endsWith(".ServiceThread")) {
                return true;
            }
        }
        return false;
    }

    private static void nudge(Thread[] threads, int count) {
        for (int n = 0; n < count; n++) {
            if (threads[n].getName().equals("NettyEventExecutor")) {
                threads[n].interrupt();
            }
        }
    }
}
