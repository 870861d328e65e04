package roquet.compat;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** Clients for other programs to look at: a producer and a consumer that stay, and one traced send. */
final class Holding {
    private static Session held;

    private Holding() {
    }

    static void register(Map<String, Scenario> scenarios) {
        scenarios.put("hold", Holding::hold);
        scenarios.put("release", Holding::release);
        scenarios.put("traced", Holding::traced);
    }

    /** Sends and consumes some messages, and leaves both clients running until {@code release}. */
    private static Map<String, Object> hold(Call call) throws Exception {
        Check.that(held == null, "clients are held already; release them first");
        held = new Session(call);
        List<MessageQueue> queues = held.createTopic(call.topic(), call.number("queues", 4));
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = Consuming.started(held, call.group(), call.topic(), inbox);
        Set<String> marks = Consuming.spread(held, queues, "m", call.number("count", 12));
        inbox.await(marks);
        Check.eventually(() -> Session.held(consumer, call.topic()).size() == queues.size(), "all queues");
        Session.done(consumer, queues, marks.size() / queues.size());
        // Both would happen by themselves, but only after a while.
        consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
        held.instance().sendHeartbeatToAllBrokerWithLock();
        return Map.of(
            "producer_client", held.producer().buildMQClientId(),
            "consumer_client", consumer.buildMQClientId());
    }

    private static Map<String, Object> release(Call call) {
        Check.that(held != null, "no clients are held");
        held.close();
        held = null;
        return Map.of();
    }

    /** Sends one message with its trace in a topic of our own; the shutdown sends the trace too. */
    private static Map<String, Object> traced(Call call) throws Exception {
        try (Session session = new Session(call)) {
            session.createTopic(call.topic(), 1);
            session.createTopic(call.text("trace_topic"), 1);
        }
        DefaultMQProducer producer = new DefaultMQProducer(call.group(), true, call.text("trace_topic"));
        producer.setNamesrvAddr(call.namesrv());
        producer.setClientIP("127.0.0.1");
        producer.start();
        Message message = Consuming.marked(call.topic(), "traced", "traced");
        message.setKeys("tracedKey");
        SendResult result = Session.stored(producer.send(message));
        producer.shutdown();
        return Map.of("msg_id", result.getMsgId());
    }
}
