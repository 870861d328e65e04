package roquet.compat;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.message.MessageQueue;

/** A group of three shares its queues again when a member leaves and when one comes; no message is missed. */
final class Sharing {
    private static final long REBALANCE_LIMIT_MS = 60_000;
    private static final int EACH = 160;

    private Sharing() {
    }

    static void register(Map<String, Scenario> scenarios) {
        scenarios.put("rebalance", Sharing::rebalance);
    }

    private static Map<String, Object> rebalance(Call call) throws Exception {
        try (Session session = new Session(call)) {
            String topic = call.topic();
            List<MessageQueue> queues = session.createTopic(topic, 8);
            Inbox inbox = new Inbox();
            Map<String, DefaultMQPushConsumer> members = new HashMap<>();
            for (String name : List.of("a", "b", "c")) {
                members.put(name, Consuming.started(session, call.group(), topic, inbox));
            }
            shared(members, queues);
            Set<String> marks = Consuming.spread(session, queues, "three", EACH);

            // Messages flow while the group changes: that is when one could be lost.
            members.remove("a").shutdown();
            marks.addAll(Consuming.spread(session, queues, "left", EACH));
            shared(members, queues);
            marks.addAll(Consuming.spread(session, queues, "two", EACH));

            members.put("d", Consuming.started(session, call.group(), topic, inbox));
            marks.addAll(Consuming.spread(session, queues, "came", EACH));
            shared(members, queues);
            marks.addAll(Consuming.spread(session, queues, "again", EACH));

            inbox.await(marks);
            Check.equal(inbox.marks(), marks, "what the group received");
            return Map.of("received", inbox.distinct(), "deliveries", inbox.deliveries());
        }
    }

    /** Waits until the members hold every queue exactly once and nobody is without. */
    private static void shared(Map<String, DefaultMQPushConsumer> members, List<MessageQueue> queues)
        throws Exception {
        Check.eventually(() -> {
            Set<MessageQueue> union = new TreeSet<>();
            int held = 0;
            for (DefaultMQPushConsumer member : members.values()) {
                Set<MessageQueue> own = Session.held(member, queues.get(0).getTopic());
                if (own.size() < queues.size() / members.size()) {
                    return false;
                }
                held += own.size();
                union.addAll(own);
            }
            return held == queues.size() && union.size() == queues.size();
        }, REBALANCE_LIMIT_MS, "a disjoint and complete assignment among " + members.keySet());
    }
}
