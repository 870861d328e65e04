package roquet.compat;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.IntPredicate;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** SQL92 selectors over properties: push and lite pull, and expressions that cannot be used. */
final class Selecting {
    private static final int COUNT = 60;
    private static final int QUEUES = 4;
    private static final long POLL_MS = 200;

    /** The last message of every queue passes each selector: when all have come, nothing else will. */
    private static final String LAST = "last";

    private static final String PUSHED =
        "(n BETWEEN 10 AND 19 OR (region IN ('east', 'it''s') AND note IS NULL)) AND price > 1.5 OR last = '1'";
    private static final String PULLED =
        "n >= 30 AND region IS NOT NULL AND region NOT IN ('west') AND NOT (TAGS = 'odd') OR last STARTSWITH '1'";

    private Selecting() {
    }

    static void register(Map<String, Scenario> scenarios) {
        scenarios.put("sql-send", Selecting::send);
        scenarios.put("sql-push", Selecting::push);
        scenarios.put("sql-lite", Selecting::lite);
        scenarios.put("sql-late", Selecting::late);
        scenarios.put("sql-wrong", Selecting::wrong);
    }

    private static String region(int n) {
        return n % 4 == 0 ? "east" : n % 4 == 1 ? "west" : n % 4 == 2 ? "it's" : "";
    }

    private static double price(int n) {
        return n % 5 * 0.9;
    }

    private static boolean hasNote(int n) {
        return n % 3 == 0;
    }

    private static Set<String> expected(IntPredicate wanted) {
        Set<String> marks = new TreeSet<>();
        for (int n = 0; n < COUNT; n++) {
            if (wanted.test(n)) {
                marks.add("m" + n);
            }
        }
        for (int queue = 0; queue < QUEUES; queue++) {
            marks.add(LAST + queue);
        }
        return marks;
    }

    private static boolean isPushed(int n) {
        boolean regional = n % 2 == 0 && !hasNote(n);
        return (n >= 10 && n <= 19 || regional) && price(n) > 1.5;
    }

    private static boolean isPulled(int n) {
        return n >= 30 && n % 2 == 0;
    }

    private static Message message(String topic, int n) {
        Message message = Consuming.marked(topic, n % 2 == 0 ? "even" : "odd", "m" + n);
        message.putUserProperty("n", String.valueOf(n));
        message.putUserProperty("price", String.valueOf(price(n)));
        if (!region(n).isEmpty()) {
            message.putUserProperty("region", region(n));
        }
        if (hasNote(n)) {
            message.putUserProperty("note", "seen");
        }
        return message;
    }

    private static Map<String, Object> send(Call call) throws Exception {
        try (Session session = new Session(call)) {
            List<MessageQueue> queues = session.createTopic(call.topic(), QUEUES);
            for (int n = 0; n < COUNT; n++) {
                session.send(message(call.topic(), n), queues.get(n % QUEUES));
            }
            for (int queue = 0; queue < QUEUES; queue++) {
                Message last = Consuming.marked(call.topic(), "", LAST + queue);
                last.putUserProperty("last", "1");
                session.send(last, queues.get(queue));
            }
            return Map.of("sent", COUNT + QUEUES);
        }
    }

    private static Map<String, Object> push(Call call) throws Exception {
        try (Session session = new Session(call)) {
            Inbox inbox = new Inbox();
            DefaultMQPushConsumer consumer = session.push(call.group());
            consumer.subscribe(call.topic(), MessageSelector.bySql(PUSHED));
            consumer.registerMessageListener(inbox.listener());
            consumer.start();
            Set<String> marks = expected(Selecting::isPushed);
            inbox.await(marks);
            Check.equal(inbox.marks(), marks, "selected messages");
            return Map.of("received", inbox.distinct());
        }
    }

    private static Map<String, Object> lite(Call call) throws Exception {
        try (Session session = new Session(call)) {
            Inbox inbox = new Inbox();
            DefaultLitePullConsumer consumer = session.lite(call.group() + "-lite");
            consumer.subscribe(call.topic(), MessageSelector.bySql(PULLED));
            consumer.start();
            Set<String> marks = expected(Selecting::isPulled);
            Check.eventually(() -> {
                inbox.take(consumer.poll(POLL_MS));
                return inbox.marks().containsAll(marks);
            }, marks.size() + " polled messages");
            Check.equal(inbox.marks(), marks, "selected messages");
            return Map.of("received", inbox.distinct());
        }
    }

    /** A consumer that waits at the end of its queues is woken by what its selector wants, and only by that. */
    private static Map<String, Object> late(Call call) throws Exception {
        try (Session session = new Session(call)) {
            List<MessageQueue> queues = session.createTopic(call.topic(), 1);
            Inbox inbox = new Inbox();
            DefaultMQPushConsumer consumer = session.push(call.group());
            consumer.subscribe(call.topic(), MessageSelector.bySql("n > 2 OR last = '1'"));
            consumer.registerMessageListener(inbox.listener());
            consumer.start();
            Check.eventually(() -> Session.held(consumer, call.topic()).size() == 1, "the queue");
            for (int n = 0; n < 5; n++) {
                session.send(message(call.topic(), n), queues.get(0));
            }
            inbox.await(Set.of("m3", "m4"));
            Check.equal(inbox.marks(), Set.of("m3", "m4"), "selected messages");
            return Map.of("received", inbox.distinct());
        }
    }

    private static Map<String, Object> wrong(Call call) throws Exception {
        try (Session session = new Session(call)) {
            session.createTopic(call.topic(), 1);
            DefaultMQPushConsumer pushing = session.push(call.group());
            pushing.subscribe(call.topic(), MessageSelector.bySql("price > > 5"));
            pushing.registerMessageListener(new Inbox().listener());
            int push = codeOf(pushing::start);
            DefaultLitePullConsumer pulling = session.lite(call.group() + "-lite");
            pulling.subscribe(call.topic(), MessageSelector.bySql("region IN (5)"));
            int lite = codeOf(pulling::start);
            return Map.of("push", push, "lite", lite);
        }
    }

    private interface Start {
        void run() throws MQClientException;
    }

    private static int codeOf(Start start) {
        try {
            start.run();
        } catch (MQClientException refused) {
            return refused.getResponseCode();
        }
        throw new Check.Failed("a wrong expression was accepted");
    }
}
