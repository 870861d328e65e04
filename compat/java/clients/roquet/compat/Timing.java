package roquet.compat;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Messages for an arbitrary time: by seconds, by milliseconds and by the clock, and taken back.
 *
 * <p>Only client 5 has the methods; they are called by reflection, since the same sources compile with 4.9.
 * A sender and a receiver are two scenarios, so that a broker can end between them.
 */
final class Timing {
    private static final String DUE = "due";
    private static final long LIMIT_MS = 90_000;

    private Timing() {
    }

    static void register(Map<String, Scenario> scenarios) {
        scenarios.put("timer-send", Timing::send);
        scenarios.put("timer-receive", Timing::receive);
        scenarios.put("timer-recall", Timing::recall);
    }

    /** Sends messages that are due {@code first_ms} from now, and some milliseconds later each. */
    private static Map<String, Object> send(Call call) throws Exception {
        int count = call.number("count", 30);
        try (Session session = new Session(call)) {
            List<MessageQueue> queues = session.createTopic(call.topic(), 4);
            for (int n = 0; n < count; n++) {
                Message message = Consuming.marked(call.topic(), "timed", "m" + n);
                time(message, n, call.number("first_ms", 3_000) + n * 100L);
                SendResult sent = session.send(message, queues.get(n % queues.size()));
                Check.equal(sent.getMessageQueue().getQueueId(), n % queues.size(), "queue");
            }
        }
        return Map.of("sent", count);
    }

    private static void time(Message message, int number, long delayMs) throws ReflectiveOperationException {
        long now = System.currentTimeMillis();
        long due = number % 3 == 0 ? now + delayMs / 1_000 * 1_000 : now + delayMs;
        message.putUserProperty(DUE, String.valueOf(due));
        switch (number % 3) {
            case 0 -> set(message, "setDelayTimeSec", delayMs / 1_000);
            case 1 -> set(message, "setDelayTimeMs", delayMs);
            default -> set(message, "setDeliverTimeMs", due);
        }
    }

    private static void set(Message message, String method, long value) throws ReflectiveOperationException {
        Message.class.getMethod(method, long.class).invoke(message, value);
    }

    /**
     * Receives what {@code timer-send} sent: all of it, none before its time, and none later than the precision
     * and {@code slack_ms} allow.
     */
    private static Map<String, Object> receive(Call call) throws Exception {
        int count = call.number("count", 30);
        try (Session session = new Session(call)) {
            Inbox inbox = new Inbox();
            DefaultMQPushConsumer consumer = session.push(call.group());
            consumer.subscribe(call.topic(), "timed");
            consumer.registerMessageListener(inbox.listener());
            consumer.start();
            inbox.await(count, LIMIT_MS);
            for (MessageExt message : inbox.all()) {
                long late = message.getStoreTimestamp() - Long.parseLong(message.getUserProperty(DUE));
                Check.that(late >= 0, "%s came %d ms early", message, -late);
                Check.that(late <= 1_000 + call.number("slack_ms", 2_000), "%s came %d ms late", message, late);
                Check.equal(message.getProperty("REAL_TOPIC"), call.topic(), "REAL_TOPIC");
                Check.that(message.getProperty("TIMER_OUT_MS") != null, "TIMER_OUT_MS is missing");
                Check.that(message.getProperty("TIMER_DEQUEUE_MS") != null, "TIMER_DEQUEUE_MS is missing");
            }
            int last = sendLast(session, call);
            inbox.await(count + last);
            return Map.of("received", inbox.distinct() - last, "deliveries", inbox.deliveries() - last);
        }
    }

    /** Sends a message to every queue, behind which nothing more can come. */
    private static int sendLast(Session session, Call call) throws Exception {
        List<MessageQueue> queues = session.queuesOf(call.topic());
        for (MessageQueue queue : queues) {
            session.send(Consuming.marked(call.topic(), "timed", "last" + queue.getQueueId()), queue);
        }
        return queues.size();
    }

    /** Sends ten and takes every second one back. */
    private static Map<String, Object> recall(Call call) throws Exception {
        try (Session session = new Session(call)) {
            List<MessageQueue> queues = session.createTopic(call.topic(), 1);
            DefaultMQProducer producer = session.producer();
            List<SendResult> sent = new ArrayList<>();
            Set<String> kept = new TreeSet<>();
            for (int n = 0; n < 10; n++) {
                Message message = Consuming.marked(call.topic(), "timed", "m" + n);
                set(message, "setDelayTimeMs", 6_000);
                sent.add(session.send(message, queues.get(0)));
            }
            for (int n = 0; n < 10; n++) {
                if (n % 2 == 0) {
                    kept.add("m" + n);
                    continue;
                }
                Object handle = SendResult.class.getMethod("getRecallHandle").invoke(sent.get(n));
                Object id = DefaultMQProducer.class.getMethod("recallMessage", String.class, String.class)
                    .invoke(producer, call.topic(), handle);
                Check.equal(id, sent.get(n).getMsgId(), "recalled message");
            }
            Inbox inbox = new Inbox();
            DefaultMQPushConsumer consumer = session.push(call.group());
            consumer.subscribe(call.topic(), "timed");
            consumer.registerMessageListener(inbox.listener());
            consumer.start();
            inbox.await(kept);
            Message after = Consuming.marked(call.topic(), "timed", "after");
            set(after, "setDelayTimeMs", 2_000);
            session.send(after, queues.get(0));
            inbox.await(Set.of("after"));
            Set<String> others = inbox.marks();
            others.removeAll(kept);
            return Map.of("received", inbox.distinct() - 1, "others", others.size() - 1);
        }
    }
}
