package roquet.compat;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.exception.RemotingException;

/**
 * Order while things change: messages numbered for each queue are sent without a pause, and orderly members of
 * one group come and go, while the caller kills the broker between two steps.
 *
 * <p>A number may come again, from where the group had committed last. No number may come before the one in
 * front of it has been consumed, by whichever member.
 */
final class Ordering {
    private static final int QUEUES = 4;
    private static final long PAUSE_MS = 3;
    private static final long STEP_LIMIT_MS = 60_000;

    private static Flow flow;

    private Ordering() {
    }

    static void register(Map<String, Scenario> scenarios) {
        scenarios.put("order-begin", Ordering::begin);
        scenarios.put("order-join", Ordering::join);
        scenarios.put("order-leave", Ordering::leave);
        scenarios.put("order-end", Ordering::end);
    }

    /** What was consumed of each queue, by all members together. */
    private static final class Ledger {
        private final long[] highest = new long[QUEUES];
        private final Map<String, Long> byMember = new TreeMap<>();
        private final List<String> faults = new ArrayList<>();
        private long again;

        synchronized void note(String member, int queue, long number) {
            byMember.merge(member, 1L, Long::sum);
            if (number > highest[queue] + 1) {
                faults.add(String.format("queue %d: %s got %d after %d", queue, member, number, highest[queue]));
            } else if (number <= highest[queue]) {
                again++;
            }
            highest[queue] = Math.max(highest[queue], number);
        }

        synchronized long lowest() {
            long lowest = Long.MAX_VALUE;
            for (long each : highest) {
                lowest = Math.min(lowest, each);
            }
            return lowest;
        }

        synchronized long of(String member) {
            return byMember.getOrDefault(member, 0L);
        }

        synchronized long again() {
            return again;
        }

        synchronized void check() {
            Check.that(faults.isEmpty(), "out of order: %s", faults);
        }
    }

    /** A topic, the thread that sends to it, and the members of the group. */
    private static final class Flow {
        private final Session session;
        private final String topic;
        private final String group;
        private final List<MessageQueue> queues;
        private final Ledger ledger = new Ledger();
        private final Map<String, DefaultMQPushConsumer> members = new TreeMap<>();
        private final Thread sender = new Thread(this::send, "sender");
        private volatile boolean isStopping;
        private volatile long sent;
        private volatile String trouble = "";

        Flow(Call call) throws Exception {
            session = new Session(call);
            topic = call.topic();
            group = call.group();
            queues = session.createTopic(topic, QUEUES);
        }

        /** Sends 1, 2, 3 … to every queue; a send that failed is repeated, and may then be there twice. */
        private void send() {
            try {
                while (!isStopping) {
                    for (MessageQueue queue : queues) {
                        sendOne(queue, sent + 1);
                    }
                    sent++;
                    Thread.sleep(PAUSE_MS);
                }
            } catch (Exception surprise) {
                trouble = surprise.toString();
            }
        }

        private void sendOne(MessageQueue queue, long number) throws Exception {
            long deadline = System.nanoTime() + STEP_LIMIT_MS * 1_000_000;
            while (true) {
                try {
                    session.send(Consuming.marked(topic, "", String.valueOf(number)), queue);
                    return;
                } catch (MQClientException | MQBrokerException | RemotingException brokerIsDown) {
                    if (System.nanoTime() > deadline) {
                        throw brokerIsDown;
                    }
                    Thread.sleep(50);
                }
            }
        }

        void start(String name) throws Exception {
            DefaultMQPushConsumer consumer = session.push(group);
            consumer.setConsumeMessageBatchMaxSize(1);
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                messages.forEach(message -> ledger.note(
                    name, message.getQueueId(), Long.parseLong(message.getUserProperty(Inbox.MARK))));
                return ConsumeOrderlyStatus.SUCCESS;
            });
            consumer.start();
            members.put(name, consumer);
        }

        /** Waits until the members hold each queue once, as many each, and each has taken of so many more. */
        void settle(int more) throws Exception {
            Check.eventually(() -> {
                // Both would happen by themselves, but only after seconds.
                for (DefaultMQPushConsumer member : members.values()) {
                    member.getDefaultMQPushConsumerImpl().getmQClientFactory().sendHeartbeatToAllBrokerWithLock();
                    member.getDefaultMQPushConsumerImpl().getmQClientFactory().rebalanceImmediately();
                }
                Thread.sleep(200);
                return isShared();
            }, STEP_LIMIT_MS, "a disjoint and complete assignment among " + members.keySet());
            long wanted = ledger.lowest() + more;
            Map<String, Long> before = new TreeMap<>();
            members.keySet().forEach(name -> before.put(name, ledger.of(name)));
            Check.eventually(
                () -> ledger.lowest() >= wanted && haveMore(before) || !trouble.isEmpty(), STEP_LIMIT_MS,
                wanted + " of each queue, and some for each member");
            Check.equal(trouble, "", "trouble of the sender");
            ledger.check();
        }

        private boolean haveMore(Map<String, Long> before) {
            return before.entrySet().stream().allMatch(each -> ledger.of(each.getKey()) > each.getValue());
        }

        private boolean isShared() {
            Set<MessageQueue> union = new TreeSet<>();
            for (DefaultMQPushConsumer member : members.values()) {
                Set<MessageQueue> own = Session.held(member, topic);
                if (own.size() != QUEUES / members.size()) {
                    return false;
                }
                union.addAll(own);
            }
            return union.size() == QUEUES;
        }

        long stop() throws Exception {
            isStopping = true;
            sender.join(STEP_LIMIT_MS);
            Check.equal(trouble, "", "trouble of the sender");
            Check.eventually(() -> ledger.lowest() >= sent, STEP_LIMIT_MS, sent + " of each queue");
            ledger.check();
            return sent;
        }
    }

    private static Map<String, Object> begin(Call call) throws Exception {
        Check.that(flow == null, "messages flow already; end that first");
        flow = new Flow(call);
        flow.start("first");
        flow.sender.start();
        flow.settle(call.number("more", 50));
        return Map.of("first", flow.ledger.of("first"));
    }

    /** A second member comes; called once more, it only waits: after a crash of the broker, say. */
    private static Map<String, Object> join(Call call) throws Exception {
        if (!flow.members.containsKey("second")) {
            flow.start("second");
        }
        flow.settle(call.number("more", 50));
        return Map.of("first", flow.ledger.of("first"), "second", flow.ledger.of("second"));
    }

    private static Map<String, Object> leave(Call call) throws Exception {
        flow.members.remove("first").shutdown();
        flow.settle(call.number("more", 50));
        return Map.of("second", flow.ledger.of("second"));
    }

    private static Map<String, Object> end(Call call) throws Exception {
        try {
            long sent = flow.stop();
            return Map.of(
                "each", sent,
                "missing", sent - flow.ledger.lowest(),
                "again", flow.ledger.again(),
                "second", flow.ledger.of("second"));
        } finally {
            flow.isStopping = true;
            flow.session.close();
            flow = null;
        }
    }
}
