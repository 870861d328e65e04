package roquet.compat;

import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * The Java side of groups and topics that clients of other languages share: members that stay and can be looked
 * at, and messages of every kind. The caller plays the other side.
 */
final class Mixing {
    private static final int LARGE_BYTES = 20_000;
    private static final Map<String, Mixed> OPEN = new TreeMap<>();

    private Mixing() {
    }

    static void register(Map<String, Scenario> scenarios) {
        scenarios.put("mix-open", Mixing::open);
        scenarios.put("mix-join", Mixing::join);
        scenarios.put("mix-send", Mixing::send);
        scenarios.put("mix-kinds", Mixing::kinds);
        scenarios.put("mix-state", Mixing::state);
        scenarios.put("mix-leave", Mixing::leave);
        scenarios.put("mix-close", Mixing::close);
    }

    private static final class Mixed {
        private final Session session;
        private final List<MessageQueue> queues;
        private final Inbox inbox = new Inbox();
        private final List<DefaultMQPushConsumer> members = new ArrayList<>();

        Mixed(Session session, List<MessageQueue> queues) {
            this.session = session;
            this.queues = queues;
        }
    }

    private static Mixed mixed(Call call) {
        Mixed mixed = OPEN.get(call.topic());
        Check.that(mixed != null, "topic %s is not open", call.topic());
        return mixed;
    }

    /** Creates the topic. */
    private static Map<String, Object> open(Call call) throws Exception {
        Session session = new Session(call);
        OPEN.put(call.topic(), new Mixed(session, session.createTopic(call.topic(), call.number("queues", 8))));
        return Map.of();
    }

    /** Lets one more Java member consume; {@code ordered=1} makes it an orderly one. */
    private static Map<String, Object> join(Call call) throws Exception {
        Mixed mixed = mixed(call);
        DefaultMQPushConsumer consumer = mixed.session.push(call.group());
        consumer.subscribe(call.topic(), "*");
        if (call.number("ordered", 0) == 1) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                mixed.inbox.take(messages);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener(mixed.inbox.listener());
        }
        consumer.start();
        mixed.members.add(consumer);
        return Map.of("client_id", consumer.buildMQClientId());
    }

    /** Sends marked messages round the queues. */
    private static Map<String, Object> send(Call call) throws Exception {
        Mixed mixed = mixed(call);
        Consuming.spread(mixed.session, mixed.queues, call.text("name"), call.number("count", 80));
        return Map.of();
    }

    /** What each member holds, and what all of them have received. */
    private static Map<String, Object> state(Call call) {
        Mixed mixed = mixed(call);
        List<Object> held = new ArrayList<>();
        for (DefaultMQPushConsumer member : mixed.members) {
            List<Integer> numbers = new ArrayList<>();
            Session.held(member, call.topic()).forEach(queue -> numbers.add(queue.getQueueId()));
            held.add(numbers);
        }
        Map<String, Object> seen = new TreeMap<>();
        for (MessageExt message : mixed.inbox.all()) {
            seen.put(String.valueOf(message.getUserProperty(Inbox.MARK)), described(message));
        }
        return Map.of("held", held, "seen", seen, "deliveries", mixed.inbox.deliveries());
    }

    private static Map<String, Object> described(MessageExt message) {
        Map<String, Object> described = new TreeMap<>();
        described.put("topic", message.getTopic());
        described.put("body", new String(message.getBody(), StandardCharsets.UTF_8));
        described.put("tag", String.valueOf(message.getTags()));
        described.put("keys", String.valueOf(message.getKeys()));
        described.put("flag", message.getFlag());
        described.put("colour", String.valueOf(message.getUserProperty("colour")));
        described.put("queue", message.getQueueId());
        described.put("id", message.getMsgId());
        return described;
    }

    private static Map<String, Object> leave(Call call) {
        mixed(call).members.remove(0).shutdown();
        return Map.of();
    }

    private static Map<String, Object> close(Call call) {
        OPEN.remove(call.topic()).session.close();
        return Map.of();
    }

    /** Sends one message of each kind that this client can send, and returns their marks. */
    private static Map<String, Object> kinds(Call call) throws Exception {
        Mixed mixed = mixed(call);
        DefaultMQProducer producer = mixed.session.producer();
        List<String> marks = new ArrayList<>();
        Session.stored(producer.send(kind(call, "plain", marks)));
        producer.sendOneway(kind(call, "oneway", marks));
        Session.stored(producer.send(List.of(kind(call, "batch1", marks), kind(call, "batch2", marks))));
        Session.stored(producer.send(kind(call, "ordered", marks), (all, m, id) -> all.get((Integer) id), 2));
        Message delayed = kind(call, "delayed", marks);
        delayed.setDelayTimeLevel(1);
        Session.stored(producer.send(delayed));
        Session.stored(producer.send(large(call, "zlib", marks)));
        for (Object compression : compressions(producer)) {
            DefaultMQProducer other = new DefaultMQProducer("PG_" + compression + call.topic());
            other.setNamesrvAddr(call.namesrv());
            other.setClientIP("127.0.0.1");
            other.setInstanceName("mix-" + compression + call.topic());
            setter(other).invoke(other, compression);
            other.start();
            Session.stored(other.send(large(call, compression.toString().toLowerCase(), marks)));
            other.shutdown();
        }
        transaction(call, marks);
        return Map.of("marks", marks);
    }

    private static Message kind(Call call, String mark, List<String> marks) {
        marks.add(mark);
        Message message = Consuming.marked(call.topic(), "tag-" + mark, mark);
        message.setKeys("key-" + mark + " all");
        message.setFlag(7);
        message.putUserProperty("colour", "blue, 蓝");
        return message;
    }

    private static Message large(Call call, String mark, List<String> marks) {
        Message message = kind(call, mark, marks);
        message.setBody(("body of " + mark + " ").repeat(LARGE_BYTES / 10).getBytes(StandardCharsets.UTF_8));
        return message;
    }

    private static void transaction(Call call, List<String> marks) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer("TPG_" + call.topic());
        producer.setNamesrvAddr(call.namesrv());
        producer.setClientIP("127.0.0.1");
        producer.setInstanceName("mix-transaction" + call.topic());
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        producer.start();
        Session.stored(producer.sendMessageInTransaction(kind(call, "transaction", marks), null));
        producer.shutdown();
    }

    /** The compressions that may be chosen; client 4.9 knows one and cannot choose. */
    private static List<Object> compressions(DefaultMQProducer producer) {
        Method setter = setter(producer);
        List<Object> others = new ArrayList<>();
        if (setter != null) {
            for (Object each : setter.getParameterTypes()[0].getEnumConstants()) {
                if (!each.toString().equals("ZLIB")) {
                    others.add(each);
                }
            }
        }
        return others;
    }

    private static Method setter(DefaultMQProducer producer) {
        for (Method method : producer.getClass().getMethods()) {
            if (method.getName().equals("setCompressType") && method.getParameterTypes()[0].isEnum()) {
                return method;
            }
        }
        return null;
    }
}
