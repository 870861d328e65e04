package roquet.compat;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Transactions: a third is committed, a third rolled back, a third decided only when the broker asks.
 *
 * <p>{@code transaction-begin} leaves its producer running, which answers that it does not know yet;
 * {@code transaction-end} lets it know and receives what comes of it. Something can happen to the broker in
 * between. The broker must ask often: {@code transactionCheckInterval=1000 transactionTimeOut=1000}.
 */
final class Transacting {
    private static final int EACH = 10;
    private static final long LIMIT_MS = 90_000;
    private static final Map<String, Running> RUNNING = new TreeMap<>();

    private Transacting() {
    }

    static void register(Map<String, Scenario> scenarios) {
        scenarios.put("transaction-begin", Transacting::begin);
        scenarios.put("transaction-end", Transacting::end);
        scenarios.put("transaction-heir", Transacting::heir);
    }

    /** Decides by the mark: c commit, r roll back, u even or odd, once it is known. */
    private static final class Decisions implements TransactionListener {
        private final Set<String> asked = new TreeSet<>();
        private final Set<String> answered = new TreeSet<>();
        private boolean isKnown;

        @Override
        public synchronized LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return switch (message.getUserProperty(Inbox.MARK).charAt(0)) {
                case 'c' -> LocalTransactionState.COMMIT_MESSAGE;
                case 'r' -> LocalTransactionState.ROLLBACK_MESSAGE;
                default -> LocalTransactionState.UNKNOW;
            };
        }

        @Override
        public synchronized LocalTransactionState checkLocalTransaction(MessageExt message) {
            String mark = message.getUserProperty(Inbox.MARK);
            boolean isFirst = asked.add(mark);
            if (mark.charAt(0) == 'u' && (!isKnown || isFirst)) {
                return LocalTransactionState.UNKNOW;
            }
            answered.add(mark);
            return isMeant(mark) ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
        }

        static boolean isMeant(String mark) {
            return mark.charAt(0) == 'c'
                || mark.charAt(0) == 'u' && Integer.parseInt(mark.substring(1)) % 2 == 0;
        }

        synchronized void know() {
            isKnown = true;
        }

        synchronized boolean hasAnswered(Set<String> marks) {
            return answered.containsAll(marks);
        }

        synchronized int asked() {
            return asked.size();
        }
    }

    private record Running(TransactionMQProducer producer, Decisions decisions) {
    }

    private static Running started(Call call, String name) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer("PG_" + call.topic());
        producer.setNamesrvAddr(call.namesrv());
        producer.setClientIP("127.0.0.1");
        producer.setInstanceName("roquet-transactions-" + name + call.topic());
        producer.setPollNameServerInterval(1_000);
        producer.setHeartbeatBrokerInterval(1_000);
        producer.setSendMsgTimeout(10_000);
        Decisions decisions = new Decisions();
        producer.setTransactionListener(decisions);
        producer.start();
        return new Running(producer, decisions);
    }

    private static Map<String, Object> begin(Call call) throws Exception {
        try (Session session = new Session(call)) {
            session.createTopic(call.topic(), 4);
        }
        Running running = started(call, "first");
        RUNNING.put(call.topic(), running);
        for (int n = 0; n < EACH; n++) {
            for (String kind : List.of("c", "r", "u")) {
                Message message = Consuming.marked(call.topic(), "tag", kind + n);
                TransactionSendResult sent = running.producer().sendMessageInTransaction(message, null);
                Check.equal(sent.getSendStatus(), SendStatus.SEND_OK, "status of " + kind + n);
                Check.that(sent.getTransactionId() != null, "no transaction id in %s", sent);
            }
        }
        if (call.text("wait", "asked").equals("asked")) {
            Check.eventually(() -> running.decisions().asked() >= EACH, LIMIT_MS, "questions about all");
        }
        return Map.of("sent", 3 * EACH);
    }

    /** The first producer goes without a word; another of its group answers for it. */
    private static Map<String, Object> heir(Call call) throws Exception {
        Running heir = started(call, "heir");
        // Client 5 says that it is alive only to brokers whose topics it has looked up.
        heir.producer().getDefaultMQProducerImpl().getMqClientFactory()
            .updateTopicRouteInfoFromNameServer(call.topic());
        RUNNING.put(call.topic(), heir).producer().shutdown();
        return Map.of();
    }

    private static Map<String, Object> end(Call call) throws Exception {
        Running running = RUNNING.remove(call.topic());
        try (Session session = new Session(call)) {
            running.decisions().know();
            Set<String> wanted = new TreeSet<>();
            Set<String> undecided = new TreeSet<>();
            for (int n = 0; n < EACH; n++) {
                wanted.add("c" + n);
                undecided.add("u" + n);
            }
            undecided.stream().filter(Decisions::isMeant).forEach(wanted::add);
            Check.eventually(() -> running.decisions().hasAnswered(undecided), LIMIT_MS, "answers about all");
            Check.eventually(() -> session.queuesOf(call.topic()).size() == 4, "the topic's route");
            Inbox inbox = new Inbox();
            Consuming.started(session, call.group(), call.topic(), inbox);
            inbox.await(wanted);
            // What else there might be comes before a last message in every queue.
            List<MessageQueue> queues = session.queuesOf(call.topic());
            inbox.await(Consuming.spread(session, queues, "last", queues.size()));
            Set<String> others = inbox.marks();
            others.removeAll(wanted);
            others.removeIf(mark -> mark.startsWith("last"));
            Check.that(others.isEmpty(), "these were not committed: %s", others);
            MessageExt one = inbox.get("u0");
            Check.equal(one.getTags(), "tag", "tag");
            return Map.of(
                "received", wanted.size(),
                "deliveries", inbox.deliveries() - queues.size(),
                // Decided when the broker asked, and nevertheless there twice.
                "doubled", inbox.doubled().stream().filter(mark -> mark.startsWith("u")).count());
        } finally {
            running.producer().shutdown();
        }
    }
}
