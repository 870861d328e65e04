package roquet.compat;

import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.time.format.DateTimeFormatter;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Where a new group begins: FIRST_OFFSET, LAST_OFFSET or TIMESTAMP, counted in old and new messages.
 *
 * <p>The broker has a say: it answers offset 0 to a new group as long as the queue's first message is still
 * there, and then the client's wish does not matter. A broadcasting consumer does not ask for the group's
 * offset, so with {@code model=BROADCASTING} the wish decides, by the broker's offsets and times.
 */
final class Beginning {
    private static final int EACH = 20;
    private static final DateTimeFormatter SECOND = DateTimeFormatter.ofPattern("yyyyMMddHHmmss");

    private Beginning() {
    }

    static void register(Map<String, Scenario> scenarios) {
        scenarios.put("begin", Beginning::begin);
    }

    private static Map<String, Object> begin(Call call) throws Exception {
        ConsumeFromWhere where = ConsumeFromWhere.valueOf("CONSUME_FROM_" + call.text("where"));
        try (Session session = new Session(call)) {
            List<MessageQueue> queues = session.createTopic(call.topic(), 4);
            Set<String> old = Consuming.spread(session, queues, "old", EACH);
            Inbox inbox = new Inbox();
            DefaultMQPushConsumer consumer = session.push(call.group());
            consumer.setConsumeFromWhere(where);
            if (call.text("model", "CLUSTERING").equals("BROADCASTING")) {
                Session.broadcast(consumer);
            }
            // One thread takes the messages of a queue in order, so the new ones come after the old ones.
            consumer.setConsumeThreadMin(1);
            consumer.setConsumeThreadMax(1);
            consumer.subscribe(call.topic(), "*");
            consumer.registerMessageListener(inbox.listener());
            Set<String> fresh;
            if (where == ConsumeFromWhere.CONSUME_FROM_TIMESTAMP) {
                consumer.setConsumeTimestamp(nextSecond());
                fresh = Consuming.spread(session, queues, "new", EACH);
                consumer.start();
            } else {
                consumer.start();
                // A queue is held from the moment that its first offset is known.
                Check.eventually(
                    () -> Session.held(consumer, call.topic()).size() == queues.size(), "all queues");
                fresh = Consuming.spread(session, queues, "new", EACH);
            }
            inbox.await(fresh);
            Set<String> seen = inbox.marks();
            seen.retainAll(old);
            return Map.of("old", seen.size(), "new", inbox.distinct() - seen.size());
        }
    }

    /** Waits for the clock's next second, the finest that the client's setting can say, and returns it. */
    private static String nextSecond() throws Exception {
        long second = System.currentTimeMillis() / 1_000 + 1;
        Check.eventually(() -> System.currentTimeMillis() >= second * 1_000, 2_000, "the next second");
        return SECOND.format(LocalDateTime.ofInstant(Instant.ofEpochSecond(second), ZoneId.systemDefault()));
    }
}
