package roquet.compat;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.exception.RemotingException;

/**
 * Requests: a producer asks and waits, a consumer answers through the broker.
 *
 * <p>{@code reply-begin} starts both and leaves them running; {@code reply-end} asks again with the same ones,
 * which may have to find the broker anew. {@code reply-lost} answers somebody who is not there.
 */
final class Replying {
    private static final int EACH = 5;
    private static final int LARGE_BYTES = 100_000;
    private static final long ANSWER_MS = 40_000;
    private static final String SILENT = "silent";
    private static final Map<String, Running> RUNNING = new TreeMap<>();

    private Replying() {
    }

    static void register(Map<String, Scenario> scenarios) {
        scenarios.put("reply-begin", Replying::begin);
        scenarios.put("reply-end", Replying::end);
        scenarios.put("reply-lost", Replying::lost);
    }

    /** What runs for one topic; {@code answered} are the marks whose replies the asker's client has taken. */
    private record Running(
        Session session, DefaultMQProducer asker, DefaultMQPushConsumer consumer, Set<String> answered) {
    }

    /** A producer that tells the broker soon after a crash that it is there. */
    private static DefaultMQProducer started(Call call) throws MQClientException {
        DefaultMQProducer asker = new DefaultMQProducer("PG_ASK_" + call.topic());
        asker.setNamesrvAddr(call.namesrv());
        asker.setClientIP("127.0.0.1");
        asker.setInstanceName("roquet-asking-" + call.topic());
        asker.setPollNameServerInterval(1_000);
        asker.setHeartbeatBrokerInterval(1_000);
        asker.setSendMsgTimeout(10_000);
        asker.start();
        return asker;
    }

    private static Map<String, Object> begin(Call call) throws Exception {
        Session session = new Session(call);
        session.createTopic(call.topic(), 4);
        DefaultMQProducer replier = session.producer();
        Set<String> answered = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = session.push(call.group());
        consumer.subscribe(call.topic(), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, from) -> {
            messages.forEach(message -> answer(replier, message, answered));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Check.eventually(() -> Session.held(consumer, call.topic()).size() == 4, "all queues");
        Running running = new Running(session, started(call), consumer, answered);
        RUNNING.put(call.topic(), running);
        return asked(running, call.topic());
    }

    private static Map<String, Object> end(Call call) throws Exception {
        Running running = RUNNING.remove(call.topic());
        try {
            if (call.number("anew", 0) == 1) {
                Session.beginAnew(running.consumer());
            }
            Check.eventually(() -> isHeard(running.asker(), call.topic()), 60_000, "a first answer");
            return asked(running, call.topic());
        } finally {
            running.asker().shutdown();
            running.session().close();
        }
    }

    /** The sender of a reply learns that nobody is there to have it. */
    private static Map<String, Object> lost(Call call) throws Exception {
        try (Session session = new Session(call)) {
            String topic = call.text("cluster") + "_REPLY_TOPIC";
            Check.eventually(() -> session.queuesOf(topic).size() == 1, "the route of " + topic);
            Message reply = Consuming.marked(topic, "", "lost");
            MessageAccessor.putProperty(reply, "MSG_TYPE", "reply");
            MessageAccessor.putProperty(reply, "CORRELATION_ID", "none");
            MessageAccessor.putProperty(reply, "TTL", "3000");
            MessageAccessor.putProperty(reply, "REPLY_TO_CLIENT", "nobody@1");
            try {
                session.producer().send(reply, session.queuesOf(topic).get(0));
            } catch (MQBrokerException refused) {
                return Map.of("code", refused.getResponseCode(), "said", refused.getErrorMessage());
            }
            throw new Check.Failed("the reply to nobody was taken");
        }
    }

    private static boolean isHeard(DefaultMQProducer producer, String topic) throws Exception {
        try {
            producer.request(Consuming.marked(topic, "", "first"), 1_000);
            return true;
        } catch (RequestTimeoutException | RemotingException | MQBrokerException | MQClientException notYet) {
            return false;
        }
    }

    private static Map<String, Object> asked(Running running, String topic) throws Exception {
        DefaultMQProducer producer = running.asker();
        running.answered().clear();
        for (int n = 0; n < EACH; n++) {
            Message request = Consuming.marked(topic, "", "sync" + n);
            check(producer.request(request, ANSWER_MS), "sync" + n);
        }
        CompletableFuture<?>[] waiting = new CompletableFuture<?>[EACH];
        for (int n = 0; n < EACH; n++) {
            String mark = "async" + n;
            waiting[n] = requested(producer, topic, mark).thenAccept(reply -> {
                // The client calls back when the request is stored, with nothing if no reply is there yet.
                if (reply != null) {
                    check(reply, mark);
                }
            });
        }
        CompletableFuture.allOf(waiting).get(ANSWER_MS, TimeUnit.MILLISECONDS);
        Check.eventually(
            () -> running.answered().stream().filter(mark -> mark.startsWith("async")).count() == EACH,
            "replies to all that was asked without waiting");
        Message large = producer.request(Consuming.marked(topic, "", "large"), ANSWER_MS);
        Check.equal(large.getBody().length, LARGE_BYTES, "size of the large reply");
        boolean isLate = false;
        try {
            producer.request(Consuming.marked(topic, SILENT, SILENT), 1_500);
        } catch (RequestTimeoutException late) {
            isLate = true;
        }
        return Map.of("sync", EACH, "async", EACH, "silent_is_late", isLate);
    }

    private static CompletableFuture<Message> requested(DefaultMQProducer producer, String topic, String mark)
        throws Exception {
        CompletableFuture<Message> future = new CompletableFuture<>();
        producer.request(Consuming.marked(topic, "", mark), new RequestCallback() {
            @Override
            public void onSuccess(Message reply) {
                future.complete(reply);
            }

            @Override
            public void onException(Throwable error) {
                future.completeExceptionally(error);
            }
        }, ANSWER_MS);
        return future;
    }

    private static void check(Message reply, String mark) {
        String body = new String(reply.getBody(), StandardCharsets.UTF_8);
        Check.equal(body, "answer to body of " + mark, "body of the reply");
        Check.equal(reply.getUserProperty(Inbox.MARK), mark, "mark of the reply");
        for (String name : new String[] {"CORRELATION_ID", "PUSH_REPLY_TIME", "ARRIVE_TIME"}) {
            Check.that(reply.getProperty(name) != null, "the reply has no %s: %s", name, reply);
        }
    }

    private static void answer(DefaultMQProducer replier, MessageExt request, Set<String> answered) {
        if (SILENT.equals(request.getTags())) {
            return;
        }
        String mark = request.getUserProperty(Inbox.MARK);
        String body = "answer to " + new String(request.getBody(), StandardCharsets.UTF_8);
        byte[] bytes = mark.equals("large") ? new byte[LARGE_BYTES] : body.getBytes(StandardCharsets.UTF_8);
        try {
            Message reply = MessageUtil.createReplyMessage(request, bytes);
            reply.putUserProperty(Inbox.MARK, mark);
            Check.equal(replier.send(reply, ANSWER_MS).getSendStatus(), SendStatus.SEND_OK, "status of the reply");
            answered.add(mark);
        } catch (MQBrokerException | MQClientException | RemotingException gone) {
            System.err.println("no answer to " + mark + ": " + gone); // asked again, or gone meanwhile
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }
}
