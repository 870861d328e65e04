package roquet.compat;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.message.MessageQueue;

/** The lite pull consumer: by subscription with committed offsets, and by assignment with seeks. */
final class Pulling {
    private static final long POLL_MS = 200;
    private static final long ATTEMPT_MS = 5_000;

    private Pulling() {
    }

    static void register(Map<String, Scenario> scenarios) {
        scenarios.put("lite-subscribe", Pulling::subscribe);
        scenarios.put("lite-assign", Pulling::assign);
    }

    private static void poll(DefaultLitePullConsumer consumer, Inbox inbox, Set<String> marks) throws Exception {
        Check.eventually(() -> {
            inbox.take(consumer.poll(POLL_MS));
            return inbox.marks().containsAll(marks);
        }, marks.size() + " polled messages");
    }

    /** What one member committed is not given to the next one of the group. */
    private static Map<String, Object> subscribe(Call call) throws Exception {
        try (Session session = new Session(call)) {
            List<MessageQueue> queues = session.createTopic(call.topic(), 4);
            Set<String> early = Consuming.spread(session, queues, "early", 40);
            Inbox first = new Inbox();
            DefaultLitePullConsumer consumer = session.lite(call.group());
            consumer.setAutoCommit(false);
            consumer.subscribe(call.topic(), "*");
            consumer.start();
            poll(consumer, first, early);
            Check.equal(first.deliveries(), early.size(), "first member's deliveries");
            consumer.commitSync();
            consumer.shutdown();

            Set<String> late = Consuming.spread(session, queues, "late", 8);
            Inbox second = new Inbox();
            DefaultLitePullConsumer next = session.lite(call.group());
            next.subscribe(call.topic(), "*");
            next.start();
            poll(next, second, late);
            Check.equal(second.marks(), late, "second member's messages");
            return Map.of("first", first.distinct(), "second", second.distinct());
        }
    }

    /** Seek to an offset, to the end and to the beginning of assigned queues. */
    private static Map<String, Object> assign(Call call) throws Exception {
        try (Session session = new Session(call)) {
            List<MessageQueue> queues = session.createTopic(call.topic(), 2);
            Set<String> marks = Consuming.spread(session, queues, "m", 20);
            MessageQueue left = queues.get(0);
            MessageQueue right = queues.get(1);
            DefaultLitePullConsumer consumer = session.lite(call.group());
            consumer.setAutoCommit(false);
            consumer.start();
            consumer.assign(queues);
            Set<String> ends = new TreeSet<>();
            int seeked = sought(consumer, () -> {
                consumer.seek(left, 7);
                consumer.seekToEnd(right);
                String end = "end" + ends.size();
                session.send(Consuming.marked(call.topic(), "", end), right);
                ends.add(end);
                // Queue 0 holds m0 m2 m4 …: offset 7 is m14.
                return Set.of("m14", "m16", "m18", end);
            });
            marks.addAll(ends);
            int all = sought(consumer, () -> {
                consumer.seekToBegin(left);
                consumer.seekToBegin(right);
                return marks;
            });
            return Map.of("after_seek", seeked, "from_begin", all - ends.size());
        }
    }

    /** Moves the consumer and returns the marks that it must then see, and no others. */
    @FunctionalInterface
    private interface Seeks {
        Set<String> make() throws Exception;
    }

    /**
     * Makes the seeks until exactly what lies behind them comes, and returns how much that is.
     *
     * <p>The client loses a seek now and then, by itself: when the task that it cancels takes the new place just
     * before, the next one goes on from the old place. So one that had another effect is made again.
     */
    private static int sought(DefaultLitePullConsumer consumer, Seeks seeks) throws Exception {
        int[] count = new int[1];
        Check.eventually(() -> {
            Set<String> wanted = seeks.make();
            Inbox inbox = new Inbox();
            long deadline = System.nanoTime() + ATTEMPT_MS * 1_000_000;
            while (!inbox.marks().containsAll(wanted) && System.nanoTime() < deadline) {
                inbox.take(consumer.poll(POLL_MS));
            }
            count[0] = inbox.distinct();
            return inbox.marks().equals(wanted);
        }, "the effect of the seeks");
        return count[0];
    }
}
