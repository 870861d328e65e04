package roquet.compat;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.store.OffsetStore;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.consumer.RebalanceImpl;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** The clients of one scenario: made alike, and all shut down at its end. */
final class Session implements AutoCloseable {
    private static final AtomicInteger INSTANCES = new AtomicInteger();

    private final Call call;
    private final List<Runnable> closers = new ArrayList<>();
    private DefaultMQProducer producer;

    Session(Call call) {
        this.call = call;
    }

    /** The producer of the scenario, started at first use. */
    DefaultMQProducer producer() throws MQClientException {
        if (producer == null) {
            producer = ready(new DefaultMQProducer(call.text("producer_group", "PG_" + call.topic())));
            producer.setSendMsgTimeout(10_000);
            producer.start();
            closers.add(producer::shutdown);
        }
        return producer;
    }

    /** A push consumer that begins at the first message; the caller subscribes, registers a listener, starts. */
    DefaultMQPushConsumer push(String group) {
        DefaultMQPushConsumer consumer = ready(new DefaultMQPushConsumer(group));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(500);
        closers.add(consumer::shutdown);
        return consumer;
    }

    DefaultLitePullConsumer lite(String group) {
        DefaultLitePullConsumer consumer = ready(new DefaultLitePullConsumer(group));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        closers.add(consumer::shutdown);
        return consumer;
    }

    private <C extends ClientConfig> C ready(C client) {
        client.setNamesrvAddr(call.namesrv());
        client.setClientIP("127.0.0.1");
        client.setInstanceName("roquet-" + INSTANCES.incrementAndGet());
        client.setPollNameServerInterval(1_000);
        // By default half a minute: so long a broker that was killed would not know the client again.
        client.setHeartbeatBrokerInterval(1_000);
        return client;
    }

    /** Creates the topic through the client and waits until the name server gives its route. */
    List<MessageQueue> createTopic(String topic, int queues) throws Exception {
        instance().getMQAdminImpl().createTopic("TBW102", topic, queues);
        Check.eventually(() -> queuesOf(topic).size() == queues, "the route of " + topic);
        return queuesOf(topic);
    }

    /** The topic's queues in order; none while it has no route. */
    List<MessageQueue> queuesOf(String topic) throws Exception {
        try {
            return new ArrayList<>(new TreeSet<>(producer().fetchPublishMessageQueues(topic)));
        } catch (MQClientException noRouteYet) {
            return List.of();
        }
    }

    MQClientInstance instance() throws MQClientException {
        return producer().getDefaultMQProducerImpl().getMqClientFactory();
    }

    String brokerAddress(MessageQueue queue) throws MQClientException {
        String address = instance().findBrokerAddressInPublish(queue.getBrokerName());
        Check.that(address != null, "no address of broker %s", queue.getBrokerName());
        return address;
    }

    /** Sends to one queue and insists on SEND_OK. */
    SendResult send(Message message, MessageQueue queue) throws Exception {
        return stored(producer().send(message, queue));
    }

    static SendResult stored(SendResult result) {
        Check.equal(result.getSendStatus(), SendStatus.SEND_OK, "send status");
        return result;
    }

    /** The queues of the topic that a push consumer holds now. */
    static Set<MessageQueue> held(DefaultMQPushConsumer consumer, String topic) {
        Set<MessageQueue> queues = new TreeSet<>();
        RebalanceImpl share = consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl();
        share.getProcessQueueTable().forEach((queue, work) -> {
            if (queue.getTopic().equals(topic) && !work.isDropped()) {
                queues.add(queue);
            }
        });
        return queues;
    }

    /**
     * Lets a consumer begin to read its queues anew, from where it is.
     *
     * <p>Client 4.9 waits half a minute for the answers that a broker owed it when it was killed.
     */
    static void beginAnew(DefaultMQPushConsumer consumer) {
        consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
        RebalanceImpl share = consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl();
        share.getProcessQueueTable().forEach((queue, work) -> work.setDropped(true));
        share.getProcessQueueTable().clear();
        consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().rebalanceImmediately();
    }

    /**
     * Waits until the consumer has counted every message of the topic as done, {@code each} in every queue.
     *
     * <p>A listener has a message before the client does that, so what is committed may lag behind what came.
     */
    static void done(DefaultMQPushConsumer consumer, List<MessageQueue> queues, long each) throws Exception {
        OffsetStore offsets = consumer.getDefaultMQPushConsumerImpl().getOffsetStore();
        for (MessageQueue queue : queues) {
            Check.eventually(
                () -> offsets.readOffset(queue, ReadOffsetType.READ_FROM_MEMORY) == each, "the end of " + queue);
        }
    }

    /** Sets the message model; its enum moved to another package between 4.9 and 5. */
    static void broadcast(DefaultMQPushConsumer consumer) throws ReflectiveOperationException {
        for (Method method : DefaultMQPushConsumer.class.getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                for (Object model : method.getParameterTypes()[0].getEnumConstants()) {
                    if (model.toString().equals("BROADCASTING")) {
                        method.invoke(consumer, model);
                        return;
                    }
                }
            }
        }
        throw new NoSuchMethodException("setMessageModel(BROADCASTING)");
    }

    /** Shuts all clients down, side by side because each takes its time. */
    @Override
    public void close() {
        List<Thread> closing = new ArrayList<>();
        for (Runnable closer : closers) {
            closing.add(new Thread(closer, Hurry.CLOSING));
        }
        closing.forEach(Thread::start);
        for (Thread each : closing) {
            try {
                each.join(Check.LIMIT_MS);
            } catch (InterruptedException hurried) {
                Thread.currentThread().interrupt();
                return;
            }
        }
    }
}
