package roquet.compat;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The push consumer: clustering, broadcasting, tags, per-queue order, and a hundred thousand messages. */
final class Consuming {
    private static final int BATCH = 500;
    private static final long VOLUME_LIMIT_MS = 120_000;

    private Consuming() {
    }

    static void register(Map<String, Scenario> scenarios) {
        scenarios.put("clustering", Consuming::clustering);
        scenarios.put("broadcasting", Consuming::broadcasting);
        scenarios.put("tags", Consuming::tags);
        scenarios.put("orderly", Consuming::orderly);
        scenarios.put("volume", Consuming::volume);
    }

    /** A message with a mark, and perhaps a tag. */
    static Message marked(String topic, String tag, String mark) {
        Message message = new Message(topic, tag, ("body of " + mark).getBytes(StandardCharsets.UTF_8));
        message.putUserProperty(Inbox.MARK, mark);
        return message;
    }

    /** Sends {@code count} messages round the queues and returns their marks. */
    static Set<String> spread(Session session, List<MessageQueue> queues, String name, int count) throws Exception {
        Set<String> marks = new TreeSet<>();
        for (int n = 0; n < count; n++) {
            MessageQueue queue = queues.get(n % queues.size());
            session.send(marked(queue.getTopic(), "", name + n), queue);
            marks.add(name + n);
        }
        return marks;
    }

    static DefaultMQPushConsumer started(Session session, String group, String topic, Inbox inbox) throws Exception {
        DefaultMQPushConsumer consumer = session.push(group);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(inbox.listener());
        consumer.start();
        return consumer;
    }

    /** Two members of a group share the queues: all messages arrive, none at both. */
    private static Map<String, Object> clustering(Call call) throws Exception {
        try (Session session = new Session(call)) {
            String topic = call.topic();
            List<MessageQueue> queues = session.createTopic(topic, 4);
            Inbox left = new Inbox();
            Inbox right = new Inbox();
            DefaultMQPushConsumer one = started(session, call.group(), topic, left);
            DefaultMQPushConsumer two = started(session, call.group(), topic, right);
            Check.eventually(
                () -> Session.held(one, topic).size() == 2 && Session.held(two, topic).size() == 2,
                 "two queues for each member");
            Set<String> marks = spread(session, queues, "m", 80);
            Check.eventually(() -> left.distinct() + right.distinct() >= 80, "80 messages");
            Set<String> both = left.marks();
            both.retainAll(right.marks());
            Check.that(both.isEmpty(), "both members received %s", both);
            Set<String> union = left.marks();
            union.addAll(right.marks());
            Check.equal(union, marks, "what the group received");
            return Map.of("left", left.distinct(), "right", right.distinct());
        }
    }

    /** Two broadcasting instances each receive everything; what they did is in their files afterwards. */
    private static Map<String, Object> broadcasting(Call call) throws Exception {
        try (Session session = new Session(call)) {
            List<MessageQueue> queues = session.createTopic(call.topic(), 4);
            Set<String> marks = spread(session, queues, "m", 40);
            List<Inbox> inboxes = List.of(new Inbox(), new Inbox());
            List<DefaultMQPushConsumer> consumers = new ArrayList<>();
            for (Inbox inbox : inboxes) {
                DefaultMQPushConsumer consumer = session.push(call.group());
                consumers.add(consumer);
                Session.broadcast(consumer);
                consumer.subscribe(call.topic(), "*");
                consumer.registerMessageListener(inbox.listener());
                consumer.start();
            }
            marks.addAll(spread(session, queues, "later", 40));
            for (Inbox inbox : inboxes) {
                inbox.await(marks);
                Check.equal(inbox.deliveries(), marks.size(), "deliveries to one instance");
            }
            for (DefaultMQPushConsumer consumer : consumers) {
                Session.done(consumer, queues, marks.size() / queues.size());
            }
            return Map.of("each", marks.size());
        }
    }

    /** A subscription to two of three tags; a last message in every queue shows that nothing else came. */
    private static Map<String, Object> tags(Call call) throws Exception {
        try (Session session = new Session(call)) {
            List<MessageQueue> queues = session.createTopic(call.topic(), 4);
            Set<String> wanted = new TreeSet<>();
            for (int n = 0; n < 60; n++) {
                String tag = List.of("red", "green", "blue").get(n % 3);
                session.send(marked(call.topic(), tag, tag + n), queues.get(n % 4));
                if (!tag.equals("green")) {
                    wanted.add(tag + n);
                }
            }
            for (MessageQueue queue : queues) {
                session.send(marked(call.topic(), "red", "last" + queue.getQueueId()), queue);
                wanted.add("last" + queue.getQueueId());
            }
            Inbox inbox = new Inbox();
            DefaultMQPushConsumer consumer = session.push(call.group());
            consumer.setConsumeThreadMin(1);
            consumer.setConsumeThreadMax(1);
            consumer.subscribe(call.topic(), "red || blue");
            consumer.registerMessageListener(inbox.listener());
            consumer.start();
            inbox.await(wanted);
            Check.equal(inbox.marks(), wanted, "what passed the filter");
            return Map.of("received", inbox.distinct());
        }
    }

    /** Every queue is read in order, also across a message that asked to be tried again. */
    private static Map<String, Object> orderly(Call call) throws Exception {
        try (Session session = new Session(call)) {
            List<MessageQueue> queues = session.createTopic(call.topic(), 4);
            int each = 25;
            for (int n = 0; n < each * queues.size(); n++) {
                Message message = marked(call.topic(), "", "m" + n);
                Session.stored(session.producer().send(message, (all, m, id) -> all.get((Integer) id % 4), n));
            }
            Map<Integer, List<Long>> seen = new ConcurrentHashMap<>();
            AtomicBoolean refused = new AtomicBoolean();
            Inbox inbox = new Inbox();
            DefaultMQPushConsumer consumer = session.push(call.group());
            consumer.setSuspendCurrentQueueTimeMillis(50);
            consumer.subscribe(call.topic(), "*");
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                MessageExt message = messages.get(0);
                if (message.getQueueOffset() == 5 && refused.compareAndSet(false, true)) {
                    return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                }
                seen.computeIfAbsent(message.getQueueId(), id -> new ArrayList<>()).add(message.getQueueOffset());
                inbox.take(messages);
                return ConsumeOrderlyStatus.SUCCESS;
            });
            consumer.start();
            inbox.await(each * queues.size());
            List<Long> order = new ArrayList<>();
            for (long offset = 0; offset < each; offset++) {
                order.add(offset);
            }
            for (MessageQueue queue : queues) {
                Check.equal(seen.get(queue.getQueueId()), order, "order in queue " + queue.getQueueId());
            }
            Check.that(refused.get(), "no message was refused once");
            return Map.of("received", inbox.distinct(), "queues", seen.size());
        }
    }

    /** Many small messages to one consumer: each arrives, and none twice, since nobody else joins. */
    private static Map<String, Object> volume(Call call) throws Exception {
        int count = call.number("count", 100_000);
        try (Session session = new Session(call)) {
            List<MessageQueue> queues = session.createTopic(call.topic(), 4);
            Inbox inbox = new Inbox();
            DefaultMQPushConsumer consumer = session.push(call.group());
            consumer.setConsumeMessageBatchMaxSize(32);
            consumer.setPullBatchSize(256);
            consumer.subscribe(call.topic(), "*");
            consumer.registerMessageListener(inbox.listener());
            consumer.start();
            long began = System.nanoTime();
            List<Message> batch = new ArrayList<>(BATCH);
            for (int n = 0; n < count; n++) {
                batch.add(marked(call.topic(), "", "m" + n));
                if (batch.size() == BATCH || n == count - 1) {
                    Session.stored(session.producer().send(batch, queues.get(n / BATCH % queues.size())));
                    batch.clear();
                }
            }
            long sentMs = (System.nanoTime() - began) / 1_000_000;
            inbox.await(count, VOLUME_LIMIT_MS);
            Set<String> last = spread(session, queues, "last", queues.size());
            inbox.await(last);
            Check.equal(inbox.distinct(), count + last.size(), "distinct messages");
            return Map.of(
                "distinct", inbox.distinct() - last.size(),
                "deliveries", inbox.deliveries() - last.size(),
                "send_ms", sentMs);
        }
    }
}
