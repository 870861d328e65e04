package roquet.compat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Messages that come later: delayed by their sender, or handed back by their consumer until they are dead.
 *
 * <p>Each has a beginning and an end, so that something can happen to the broker in between. The broker's delay
 * levels are given in ms: {@code levels=1000,2000,3000,…}.
 */
final class Retrying {
    private static final long LIMIT_MS = 90_000;
    private static final String LEVEL = "level";

    private static Session held;
    private static Tries tries;

    private Retrying() {
    }

    static void register(Map<String, Scenario> scenarios) {
        scenarios.put("delay-send", Retrying::delaySend);
        scenarios.put("delay-receive", Retrying::delayReceive);
        scenarios.put("retry-begin", Retrying::retryBegin);
        scenarios.put("retry-end", Retrying::retryEnd);
        scenarios.put("ordered-begin", Retrying::orderedBegin);
        scenarios.put("ordered-end", Retrying::orderedEnd);
    }

    /** What a consumer was given of each message: how often it had been tried, and when it came. */
    private static final class Tries {
        private final Map<String, List<Integer>> times = new TreeMap<>();
        private final Map<String, List<Long>> arrivals = new TreeMap<>();
        private final List<String> order = new ArrayList<>();

        synchronized void add(MessageExt message) {
            String mark = message.getUserProperty(Inbox.MARK);
            times.computeIfAbsent(mark, m -> new ArrayList<>()).add(message.getReconsumeTimes());
            arrivals.computeIfAbsent(mark, m -> new ArrayList<>()).add(System.currentTimeMillis());
            order.add(mark);
        }

        synchronized int atLeast(int count) {
            return (int) times.values().stream().filter(list -> list.size() >= count).count();
        }

        /** How many messages have been tried for the first time, and again up to this count. */
        synchronized int upTo(int count) {
            List<Integer> wanted = IntStream.rangeClosed(0, count).boxed().toList();
            return (int) times.values().stream().filter(list -> list.containsAll(wanted)).count();
        }

        synchronized List<Integer> times(String mark) {
            return List.copyOf(times.getOrDefault(mark, List.of()));
        }

        synchronized List<Long> arrivals(String mark) {
            return List.copyOf(arrivals.getOrDefault(mark, List.of()));
        }

        synchronized Set<String> marks() {
            return new TreeSet<>(times.keySet());
        }

        synchronized List<String> order() {
            return List.copyOf(order);
        }
    }

    private static long[] levels(Call call) {
        String[] words = call.text("levels").split(",");
        long[] levels = new long[words.length];
        for (int n = 0; n < words.length; n++) {
            levels[n] = Long.parseLong(words[n]);
        }
        return levels;
    }

    /** Sends {@code count} messages, one after the other at levels 1 to {@code top}. */
    private static Map<String, Object> delaySend(Call call) throws Exception {
        int count = call.number("count", 30);
        int top = call.number("top", 3);
        try (Session session = new Session(call)) {
            List<MessageQueue> queues = session.createTopic(call.topic(), 4);
            for (int n = 0; n < count; n++) {
                Message message = Consuming.marked(call.topic(), "late", "m" + n);
                message.setDelayTimeLevel(1 + n % top);
                message.putUserProperty(LEVEL, String.valueOf(1 + n % top));
                session.send(message, queues.get(n % queues.size()));
            }
        }
        return Map.of("sent", count);
    }

    /** Receives what {@code delay-send} sent: all of it, each once, none before its level's time. */
    private static Map<String, Object> delayReceive(Call call) throws Exception {
        int count = call.number("count", 30);
        long[] levels = levels(call);
        try (Session session = new Session(call)) {
            Inbox inbox = new Inbox();
            DefaultMQPushConsumer consumer = session.push(call.group());
            consumer.subscribe(call.topic(), "late");
            consumer.registerMessageListener(inbox.listener());
            consumer.start();
            inbox.await(count, LIMIT_MS);
            for (MessageExt message : inbox.all()) {
                int level = Integer.parseInt(message.getUserProperty(LEVEL));
                long waited = message.getStoreTimestamp() - message.getBornTimestamp();
                Check.that(waited >= levels[level - 1], "%s of level %d came after %d ms", message, level, waited);
                Check.equal(message.getTopic(), call.topic(), "topic");
                Check.equal(message.getTags(), "late", "tag");
                Check.equal(message.getProperty("REAL_TOPIC"), call.topic(), "REAL_TOPIC");
                Check.equal(message.getDelayTimeLevel(), level, "DELAY");
            }
            // A last message in every queue shows that no second copy is behind.
            List<MessageQueue> queues = session.queuesOf(call.topic());
            for (MessageQueue queue : queues) {
                session.send(Consuming.marked(call.topic(), "late", "last" + queue.getQueueId()), queue);
            }
            inbox.await(count + queues.size());
            return Map.of("received", inbox.distinct() - queues.size(), "deliveries", inbox.deliveries() - queues.size());
        }
    }

    private static Session begin(Call call) {
        Check.that(held == null, "a beginning waits for its end already");
        held = new Session(call);
        tries = new Tries();
        return held;
    }

    private static void end() {
        held.close();
        held = null;
    }

    /** A consumer that refuses everything; returns when it has refused each message once. */
    private static Map<String, Object> retryBegin(Call call) throws Exception {
        Session session = begin(call);
        List<MessageQueue> queues = session.createTopic(call.topic(), 4);
        DefaultMQPushConsumer consumer = session.push(call.group());
        consumer.setMaxReconsumeTimes(call.number("max", 3));
        consumer.subscribe(call.topic(), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(tries::add);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        int count = call.number("count", 6);
        Consuming.spread(session, queues, "m", count);
        Check.eventually(() -> tries.atLeast(1) == count, "the first try of each message");
        // By itself the client would look for queues of the new retry topic only after 20 s.
        String retryTopic = "%RETRY%" + call.group();
        MQClientInstance instance = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory();
        Check.eventually(() -> {
            instance.updateTopicRouteInfoFromNameServer(retryTopic);
            instance.rebalanceImmediately();
            return !Session.held(consumer, retryTopic).isEmpty();
        }, "a queue of " + retryTopic);
        return Map.of("refused", count);
    }

    /** Every message was tried the whole number of times, with its level's delay in between, and is dead. */
    private static Map<String, Object> retryEnd(Call call) throws Exception {
        int max = call.number("max", 3);
        int count = call.number("count", 6);
        long[] levels = levels(call);
        try {
            // How often it came does not say that it was tried often enough: some tries may be there twice.
            Check.eventually(() -> tries.upTo(max) == count, LIMIT_MS, max + " tries more of each message");
            List<MessageExt> dead = dead(call, tries.marks());
            int doubled = 0;
            for (String mark : tries.marks()) {
                Set<Integer> distinct = new TreeSet<>(tries.times(mark));
                doubled += tries.times(mark).size() - distinct.size();
                List<Long> arrivals = tries.arrivals(mark);
                // A try that came twice was handed back twice, and another level's delay may lie between.
                for (int n = 1; n < arrivals.size() && tries.times(mark).size() == distinct.size(); n++) {
                    long waited = arrivals.get(n) - arrivals.get(n - 1);
                    // The clock of the first arrival is ours: a few ms before the broker had it back.
                    Check.that(waited >= levels[n + 1] - 50, "try %d of %s came after %d ms", n, mark, waited);
                }
            }
            for (MessageExt message : dead) {
                Check.equal(message.getReconsumeTimes(), max + 1, "tries of a dead letter");
                Check.equal(message.getProperty("RETRY_TOPIC"), call.topic(), "RETRY_TOPIC");
                Check.that(message.getProperty("ORIGIN_MESSAGE_ID") != null, "a dead letter without its first id");
            }
            return Map.of("tried", tries.marks().size(), "dead", dead.size(), "doubled", doubled);
        } finally {
            end();
        }
    }

    /**
     * Reads the dead letters of the group until each of these marks is among them; one may be there twice.
     *
     * <p>The reader's group is new, so it begins with the first one. It must not seek: what the task of
     * {@code assign} has fetched by then is thrown away, and when that task takes the new place just as it is
     * cancelled, or breaks the connection because it is interrupted, the client goes on behind what it has lost.
     */
    private static List<MessageExt> dead(Call call, Set<String> marks) throws Exception {
        String topic = "%DLQ%" + call.group();
        Check.eventually(() -> held.queuesOf(topic).size() == 1, "the route of " + topic);
        DefaultLitePullConsumer reader = held.lite("R-" + call.group());
        reader.setAutoCommit(false);
        reader.start();
        Collection<MessageQueue> queues = reader.fetchMessageQueues(topic);
        reader.assign(queues);
        List<MessageExt> dead = new ArrayList<>();
        Set<String> found = new TreeSet<>();
        try {
            Check.eventually(() -> {
                dead.addAll(reader.poll(Duration.ofMillis(200).toMillis()));
                dead.forEach(message -> found.add(message.getUserProperty(Inbox.MARK)));
                return found.containsAll(marks);
            }, LIMIT_MS, "dead letters of " + marks);
        } catch (Check.Failed late) {
            long stored = held.producer().maxOffset(queues.iterator().next());
            throw new Check.Failed(late.getMessage() + ": " + dead.size() + " read, " + stored + " stored");
        }
        return dead;
    }

    /** An orderly consumer that cannot use the first message of the queue; returns when it tried once. */
    private static Map<String, Object> orderedBegin(Call call) throws Exception {
        Session session = begin(call);
        List<MessageQueue> queues = session.createTopic(call.topic(), 1);
        int count = call.number("count", 10);
        Consuming.spread(session, queues, "m", count);
        DefaultMQPushConsumer consumer = session.push(call.group());
        consumer.setMaxReconsumeTimes(call.number("max", 3));
        consumer.setSuspendCurrentQueueTimeMillis(call.number("suspend", 200));
        consumer.setConsumeMessageBatchMaxSize(1);
        consumer.subscribe(call.topic(), "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            messages.forEach(tries::add);
            boolean refused = messages.get(0).getUserProperty(Inbox.MARK).equals("m0");
            return refused ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT : ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        Check.eventually(() -> tries.atLeast(1) > 0, "the first try of the first message");
        return Map.of("sent", count);
    }

    /** The first message is dead after its tries, and only then the others came, in their order. */
    private static Map<String, Object> orderedEnd(Call call) throws Exception {
        int max = call.number("max", 3);
        int count = call.number("count", 10);
        try {
            Check.eventually(() -> tries.marks().size() == count, LIMIT_MS, "all " + count + " messages");
            List<MessageExt> dead = dead(call, Set.of("m0"));
            Check.equal(dead.get(0).getUserProperty(Inbox.MARK), "m0", "the dead letter");
            Check.equal(dead.get(0).getProperty("RETRY_TOPIC"), call.topic(), "RETRY_TOPIC");
            Check.that(tries.times("m0").size() > max, "m0 was tried %s", tries.times("m0"));
            List<String> first = new ArrayList<>();
            for (String mark : tries.order()) {
                if (!first.contains(mark)) {
                    first.add(mark);
                }
            }
            for (int n = 0; n < count; n++) {
                Check.equal(first.get(n), "m" + n, "order of first arrivals");
            }
            return Map.of("received", tries.marks().size(), "dead", dead.size());
        } finally {
            end();
        }
    }
}
