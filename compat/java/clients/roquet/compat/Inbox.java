package roquet.compat;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * What a consumer was given, by the message's mark: a user property with a number that the sender chose.
 *
 * <p>To know that nothing more will come, a scenario sends a last message to every queue and waits for those.
 */
final class Inbox {
    static final String MARK = "mark";

    private final Map<String, MessageExt> first = new HashMap<>();
    private final Set<String> doubled = new TreeSet<>();
    private int deliveries;

    synchronized void take(List<MessageExt> messages) {
        for (MessageExt message : messages) {
            deliveries++;
            String mark = String.valueOf(message.getUserProperty(MARK));
            if (first.putIfAbsent(mark, message) != null) {
                doubled.add(mark);
            }
        }
    }

    MessageListenerConcurrently listener() {
        return (messages, from) -> {
            take(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
    }

    synchronized int distinct() {
        return first.size();
    }

    synchronized int deliveries() {
        return deliveries;
    }

    /** The marks that came more than once. */
    synchronized Set<String> doubled() {
        return new TreeSet<>(doubled);
    }

    synchronized Set<String> marks() {
        return new TreeSet<>(first.keySet());
    }

    synchronized MessageExt get(String mark) {
        return first.get(mark);
    }

    synchronized List<MessageExt> all() {
        return new ArrayList<>(first.values());
    }

    void await(int distinct) throws Exception {
        await(distinct, Check.LIMIT_MS);
    }

    void await(int distinct, long limitMs) throws Exception {
        try {
            Check.eventually(() -> distinct() >= distinct, limitMs, distinct + " messages");
        } catch (Check.Failed late) {
            throw new Check.Failed(late.getMessage() + "; there were " + distinct());
        }
    }

    /** Waits until a message with each of these marks is there. */
    void await(Set<String> marks) throws Exception {
        try {
            Check.eventually(() -> marks().containsAll(marks), marks.size() + " messages");
        } catch (Check.Failed late) {
            Set<String> missing = new TreeSet<>(marks);
            missing.removeAll(marks());
            throw new Check.Failed(late.getMessage() + "; missing " + missing);
        }
    }
}
