package roquet.compat;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RemotingClient;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** What the client can ask besides sending and receiving: topics, offsets, messages by id and by key. */
final class Administering {
    private static final int SEND_MESSAGE_V2 = 310;
    private static final int UPDATE_AND_CREATE_TOPIC = 17;
    private static final String ILLEGAL = "bad topic!";

    private Administering() {
    }

    static void register(Map<String, Scenario> scenarios) {
        scenarios.put("create-topic", Administering::createTopic);
        scenarios.put("query", Administering::query);
        scenarios.put("illegal-topic", Administering::illegalTopic);
    }

    private static Map<String, Object> createTopic(Call call) throws Exception {
        try (Session session = new Session(call)) {
            DefaultMQProducer producer = session.producer();
            MessageQueue queue = session.createTopic(call.topic(), 5).get(0);
            Check.equal(producer.maxOffset(queue), 0L, "max offset of a new queue");
            for (int n = 0; n < 3; n++) {
                SendResult result = session.send(Consuming.marked(call.topic(), "", "m" + n), queue);
                Check.equal(result.getQueueOffset(), (long) n, "queue offset");
            }
            Check.eventually(() -> producer.maxOffset(queue) == 3, "max offset 3");
            Check.equal(producer.minOffset(queue), 0L, "min offset");
            Check.equal(producer.searchOffset(queue, 0), 0L, "offset at time 0");
            long later = System.currentTimeMillis() + 60_000;
            Check.equal(producer.searchOffset(queue, later), 3L, "offset a minute ahead");
            long age = System.currentTimeMillis() - producer.earliestMsgStoreTime(queue);
            Check.that(age >= 0 && age < 600_000, "the first message is %d ms old", age);
            return Map.of("queues", session.queuesOf(call.topic()).size(), "max_offset", producer.maxOffset(queue));
        }
    }

    private static Map<String, Object> query(Call call) throws Exception {
        try (Session session = new Session(call)) {
            DefaultMQProducer producer = session.producer();
            session.createTopic(call.topic(), 4);
            List<SendResult> sent = new ArrayList<>();
            for (int n = 0; n < 6; n++) {
                Message message = Consuming.marked(call.topic(), "T", "m" + n);
                message.setKeys("own" + n + " " + (n % 2 == 0 ? "even" : "odd"));
                sent.add(Session.stored(producer.send(message)));
            }
            long now = System.currentTimeMillis();
            // The index may follow the log by a moment.
            Check.eventually(() -> found(producer, call.topic(), "even", now).size() == 3, "3 by key");
            Check.equal(found(producer, call.topic(), "own5", now).size(), 1, "messages with key own5");
            Check.equal(found(producer, call.topic(), "nobody", now).size(), 0, "messages with an unused key");
            for (int n = 0; n < sent.size(); n++) {
                SendResult result = sent.get(n);
                MessageExt byId = producer.viewMessage(call.topic(), result.getOffsetMsgId());
                Check.equal(byId.getUserProperty(Inbox.MARK), "m" + n, "message by offset id");
                Check.equal(byId.getQueueOffset(), result.getQueueOffset(), "queue offset by id");
                MessageExt byUnique = session.instance().getMQAdminImpl()
                    .queryMessageByUniqKey(call.topic(), result.getMsgId());
                Check.that(byUnique != null, "no message with unique key %s", result.getMsgId());
                Check.equal(byUnique.getUserProperty(Inbox.MARK), "m" + n, "message by unique key");
            }
            return Map.of("by_key", 3, "by_id", sent.size(), "by_unique_key", sent.size());
        }
    }

    private static List<MessageExt> found(DefaultMQProducer producer, String topic, String key, long now)
        throws Exception {
        try {
            QueryResult result = producer.queryMessage(topic, key, 32, now - 600_000, now + 600_000);
            return result.getMessageList();
        } catch (MQClientException none) {
            return List.of();
        }
    }

    /** The client refuses the name itself; a request made by hand shows what the broker answers. */
    private static Map<String, Object> illegalTopic(Call call) throws Exception {
        Map<String, Object> codes = new HashMap<>();
        try (Session session = new Session(call)) {
            MessageQueue queue = session.createTopic(call.topic(), 1).get(0);
            // The client learns a broker's address from the route of a topic that it has sent to.
            Session.stored(session.producer().send(Consuming.marked(call.topic(), "", "legal")));
            try {
                session.producer().send(new Message(ILLEGAL, new byte[] {1}));
                throw new Check.Failed("the client sent to an illegal topic");
            } catch (MQClientException refused) {
                codes.put("client_code", refused.getResponseCode());
            }
            String address = session.brokerAddress(queue);
            Map<String, String> send = Map.ofEntries(
                Map.entry("a", "PG"), Map.entry("b", ILLEGAL), Map.entry("c", "TBW102"), Map.entry("d", "4"),
                Map.entry("e", "0"), Map.entry("f", "0"), Map.entry("g", String.valueOf(System.currentTimeMillis())),
                Map.entry("h", "0"), Map.entry("i", ""), Map.entry("j", "0"), Map.entry("k", "false"),
                Map.entry("m", "false"));
            codes.put("send_code", ask(session, address, SEND_MESSAGE_V2, send));
            Map<String, String> create = Map.of(
                "topic", ILLEGAL, "defaultTopic", "TBW102", "readQueueNums", "4", "writeQueueNums", "4",
                "perm", "6", "topicFilterType", "SINGLE_TAG", "topicSysFlag", "0", "order", "false");
            codes.put("create_code", ask(session, address, UPDATE_AND_CREATE_TOPIC, create));
        }
        return codes;
    }

    private static int ask(Session session, String address, int code, Map<String, String> fields) throws Exception {
        RemotingCommand request = RemotingCommand.createRequestCommand(code, null);
        request.setExtFields(new HashMap<>(fields));
        request.setBody("x".getBytes(StandardCharsets.UTF_8));
        RemotingClient client = session.instance().getMQClientAPIImpl().getRemotingClient();
        return client.invokeSync(address, request, 5_000).getCode();
    }
}
