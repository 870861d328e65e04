package roquet.compat;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** Traces in the system's own topic, which the broker must have: {@code traceTopicEnable=true}. */
final class Tracing {
    private static final int COUNT = 5;
    private static final String TRACES = "RMQ_SYS_TRACE_TOPIC";

    private Tracing() {
    }

    static void register(Map<String, Scenario> scenarios) {
        scenarios.put("trace", Tracing::trace);
    }

    /** The send and the use of each message are told, by the id that the sender was given. */
    private static Map<String, Object> trace(Call call) throws Exception {
        try (Session session = new Session(call)) {
            session.createTopic(call.topic(), 4);
            Set<String> told = ConcurrentHashMap.newKeySet();
            DefaultMQPushConsumer reader = session.push(call.group() + "-reader");
            reader.subscribe(TRACES, "*");
            reader.registerMessageListener((MessageListenerConcurrently) (messages, from) -> {
                messages.forEach(message -> note(message, told));
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            reader.start();
            DefaultMQProducer producer = new DefaultMQProducer("PG_" + call.group(), true, TRACES);
            DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(call.group(), true, TRACES);
            ready(producer, call, "sends");
            ready(consumer, call, "uses");
            Inbox inbox = new Inbox();
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.subscribe(call.topic(), "*");
            consumer.registerMessageListener(inbox.listener());
            producer.start();
            consumer.start();
            try {
                Set<String> wanted = new TreeSet<>();
                for (int n = 0; n < COUNT; n++) {
                    String id = Session.stored(producer.send(Consuming.marked(call.topic(), "", "m" + n))).getMsgId();
                    wanted.addAll(Set.of("Pub " + id, "SubBefore " + id, "SubAfter " + id));
                }
                inbox.await(COUNT);
                Check.eventually(() -> told.containsAll(wanted), "traces of " + wanted);
                return Map.of("told", wanted.size());
            } finally {
                producer.shutdown();
                consumer.shutdown();
            }
        }
    }

    /** Notes kind and message of each trace: fields end with the character 1, traces with 2. */
    private static void note(MessageExt message, Set<String> told) {
        for (String each : new String(message.getBody(), StandardCharsets.UTF_8).split("\u0002")) {
            String[] fields = each.split("\u0001");
            for (String field : fields) {
                told.add(fields[0] + " " + field);
            }
        }
    }

    private static void ready(ClientConfig client, Call call, String name) {
        client.setNamesrvAddr(call.namesrv());
        client.setClientIP("127.0.0.1");
        client.setInstanceName("roquet-" + name + call.topic());
        client.setPollNameServerInterval(1_000);
    }
}
