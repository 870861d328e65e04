package roquet.compat;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Every way to send, and every kind of message; each is received again and compared with what was sent. */
final class Sending {
    private static final int FULL_BODY_BYTES = 4 * 1024 * 1024;

    private Sending() {
    }

    static void register(Map<String, Scenario> scenarios) {
        scenarios.put("sync", call -> roundTrip(call, ordinary(call, 20), Sending::sync));
        scenarios.put("async", call -> roundTrip(call, ordinary(call, 50), Sending::async));
        scenarios.put("oneway", call -> roundTrip(call, ordinary(call, 20), Sending::oneway));
        scenarios.put("batch", call -> roundTrip(call, ordinary(call, 50), Sending::batch));
        scenarios.put("properties", call -> roundTrip(call, unusual(call), Sending::sync));
        scenarios.put("compressed", Sending::compressed);
        scenarios.put("large", Sending::large);
    }

    @FunctionalInterface
    private interface Way {
        void send(DefaultMQProducer producer, List<Message> messages) throws Exception;
    }

    private static Map<String, Object> roundTrip(Call call, List<Message> sent, Way way) throws Exception {
        try (Session session = new Session(call)) {
            way.send(session.producer(), sent);
            return Map.of("received", received(session, call, sent).size());
        }
    }

    /** Receives everything in the topic and compares it with what was sent, by mark. */
    private static List<MessageExt> received(Session session, Call call, List<Message> sent) throws Exception {
        // A topic that the first send created shows in the route a moment later.
        Check.eventually(() -> !session.queuesOf(call.topic()).isEmpty(), "the topic's route");
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = session.push(call.group());
        consumer.subscribe(call.topic(), "*");
        consumer.registerMessageListener(inbox.listener());
        consumer.start();
        inbox.await(sent.size());
        Check.equal(inbox.distinct(), sent.size(), "messages in the topic");
        for (Message message : sent) {
            same(inbox.get(message.getUserProperty(Inbox.MARK)), message);
        }
        return inbox.all();
    }

    private static void same(MessageExt seen, Message sent) {
        String mark = sent.getUserProperty(Inbox.MARK);
        Check.that(seen != null, "message %s was not received", mark);
        Check.equal(seen.getTopic(), sent.getTopic(), "topic of " + mark);
        Check.that(Arrays.equals(seen.getBody(), sent.getBody()), "the body of %s changed", mark);
        Check.equal(seen.getFlag(), sent.getFlag(), "flag of " + mark);
        // Tags, keys and user properties are all properties; the broker may only add to them.
        sent.getProperties().forEach((name, value) ->
            Check.equal(seen.getProperties().get(name), value, "property " + name + " of " + mark));
    }

    private static void sync(DefaultMQProducer producer, List<Message> messages) throws Exception {
        for (Message message : messages) {
            SendResult result = Session.stored(producer.send(message));
            Check.that(result.getMsgId() != null && result.getOffsetMsgId() != null, "no id in %s", result);
        }
    }

    private static void async(DefaultMQProducer producer, List<Message> messages) throws Exception {
        List<CompletableFuture<SendResult>> results = new ArrayList<>();
        for (Message message : messages) {
            CompletableFuture<SendResult> result = new CompletableFuture<>();
            results.add(result);
            producer.send(message, new SendCallback() {
                @Override
                public void onSuccess(SendResult sent) {
                    result.complete(sent);
                }

                @Override
                public void onException(Throwable problem) {
                    result.completeExceptionally(problem);
                }
            });
        }
        for (CompletableFuture<SendResult> result : results) {
            Session.stored(result.get(Check.LIMIT_MS, TimeUnit.MILLISECONDS));
        }
    }

    private static void oneway(DefaultMQProducer producer, List<Message> messages) throws Exception {
        for (Message message : messages) {
            producer.sendOneway(message);
        }
    }

    private static void batch(DefaultMQProducer producer, List<Message> messages) throws Exception {
        SendResult result = Session.stored(producer.send(messages));
        Check.equal(result.getMsgId().split(",").length, messages.size(), "ids of the batch");
        Check.equal(result.getOffsetMsgId().split(",").length, messages.size(), "offset ids of the batch");
    }

    private static Message marked(Call call, String mark, byte[] body) {
        Message message = new Message(call.topic(), body);
        message.putUserProperty(Inbox.MARK, mark);
        return message;
    }

    private static List<Message> ordinary(Call call, int count) {
        List<Message> messages = new ArrayList<>();
        for (int n = 0; n < count; n++) {
            Message message = marked(call, "m" + n, ("body " + n).getBytes(StandardCharsets.UTF_8));
            message.setTags("Tag" + n % 3);
            message.setKeys("key" + n + " common");
            message.setFlag(n * 1_000_003);
            message.putUserProperty("shape", n % 2 == 0 ? "round" : "square");
            messages.add(message);
        }
        return messages;
    }

    private static List<Message> unusual(Call call) {
        return List.of(manyProperties(call), unicode(call));
    }

    private static Message manyProperties(Call call) {
        Message message = marked(call, "many", "x".getBytes(StandardCharsets.UTF_8));
        for (int n = 0; n < 300; n++) {
            message.putUserProperty("property-" + n, "value " + "=".repeat(n % 60));
        }
        return message;
    }

    private static Message unicode(Call call) {
        Message message = marked(call, "unicode", "héllo, 世界 🚀".getBytes(StandardCharsets.UTF_8));
        message.setTags("标签");
        message.setKeys("ключ κλειδί");
        message.putUserProperty("emoji🚀", "naïve — 日本語 \u00a0 end");
        message.putUserProperty("quotes", "\"'\\{}[]:;,\t\n");
        return message;
    }

    /** A body above 4 KB goes compressed; the reader sees the plain one, and the record is small. */
    private static Map<String, Object> compressed(Call call) throws Exception {
        byte[] body = "all work and no play ".repeat(10_000).getBytes(StandardCharsets.UTF_8);
        List<Message> sent = List.of(marked(call, "text", body));
        try (Session session = new Session(call)) {
            sync(session.producer(), sent);
            MessageExt seen = received(session, call, sent).get(0);
            int stored = seen.getStoreSize();
            Check.that(stored < body.length / 10, "stored as %d bytes: not compressed", stored);
            return Map.of("received", 1, "body_bytes", body.length);
        }
    }

    /** A random body just below 4 MiB passes; one above is refused by the broker itself. */
    private static Map<String, Object> large(Call call) throws Exception {
        byte[] body = new byte[FULL_BODY_BYTES - 32 * 1024];
        new Random(5).nextBytes(body);
        List<Message> sent = List.of(marked(call, "large", body));
        try (Session session = new Session(call)) {
            DefaultMQProducer producer = session.producer();
            producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
            sync(producer, sent);
            received(session, call, sent);
            producer.setMaxMessageSize(2 * FULL_BODY_BYTES);
            Message huge = marked(call, "huge", new byte[FULL_BODY_BYTES + 1]);
            return Map.of("received", 1, "too_large_code", refusal(producer, huge));
        }
    }

    private static int refusal(DefaultMQProducer producer, Message message) throws Exception {
        try {
            producer.send(message);
        } catch (MQBrokerException refused) {
            return refused.getResponseCode();
        }
        throw new Check.Failed("the broker took a body of " + message.getBody().length + " bytes");
    }
}
