package roquet.compat;

import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.common.message.MessageQueue;

/** A live consumer that is moved by the broker: the old way (220), where the client does it. */
final class Moving {
    private static final String SETTING = "useServerSideResetOffset";
    private static final long TIMEOUT_MS = 5_000;
    /** The client drops its queues, waits ten seconds by itself, and begins anew. */
    private static final long LIMIT_MS = 60_000;

    private Moving() {
    }

    static void register(Map<String, Scenario> scenarios) {
        scenarios.put("reset-live", Moving::resetLive);
    }

    private static void set(MQClientAPIImpl api, String broker, boolean isServerSide) throws Exception {
        Properties change = new Properties();
        change.setProperty(SETTING, String.valueOf(isServerSide));
        api.updateBrokerConfig(broker, change, TIMEOUT_MS);
    }

    private static Map<String, Object> resetLive(Call call) throws Exception {
        try (Session session = new Session(call)) {
            List<MessageQueue> queues = session.createTopic(call.topic(), 2);
            Set<String> marks = Consuming.spread(session, queues, "m", 10);
            Inbox inbox = new Inbox();
            DefaultMQPushConsumer consumer = Consuming.started(session, call.group(), call.topic(), inbox);
            inbox.await(marks);
            String broker = session.brokerAddress(queues.get(0));
            MQClientAPIImpl api = session.instance().getMQClientAPIImpl();
            set(api, broker, false);
            try {
                Check.eventually(() -> {
                    consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
                    try {
                        return api.invokeBrokerToResetOffset(
                            broker, call.topic(), call.group(), 0L, true, TIMEOUT_MS).size() == 2;
                    } catch (org.apache.rocketmq.client.exception.MQClientException early) {
                        return false; // not every queue has a stored offset yet
                    }
                }, "a reset of both queues");
                Check.eventually(() -> inbox.deliveries() >= 20, LIMIT_MS, "every message once more");
                Check.equal(inbox.marks(), marks, "messages after the reset");
                return Map.of("distinct", inbox.distinct());
            } finally {
                set(api, broker, true);
            }
        }
    }
}
