import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Makes Apache's Java client send one of each request that an application causes, so that the proxy in
 * front of the servers can write the frames down. Prints "online" while its consumers run, and leaves when
 * a line comes on standard input. Run it from source: java -cp JARS Client.java NAMESRV.
 */
public final class Client {
    private static final String TOPIC = "JavaTopic";

    public static void main(String[] arguments) {
        try {
            run(arguments[0]);
            System.exit(0);
        } catch (Exception failure) {
            // The client's threads would keep the process alive after main has ended.
            failure.printStackTrace();
            System.exit(1);
        }
    }

    private static void run(String namesrv) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("java_producer");
        producer.setNamesrvAddr(namesrv);
        producer.setClientIP("127.0.0.1");
        producer.start();
        producer.send(message("single", "TagA", "key1"), 10_000);
        producer.sendOneway(message("one way", "TagB", "key2"));
        List<Message> batch = new ArrayList<>();
        for (int number = 0; number < 3; number++) {
            batch.add(message("batch " + number, "TagA", "batch" + number));
        }
        producer.send(batch, 10_000);
        producer.send(new Message(TOPIC, "TagA", "large", "compress me ".repeat(1000).getBytes()), 10_000);
        Message delayed = message("delayed", "TagA", "delay");
        delayed.setDelayTimeLevel(1);
        producer.send(delayed, 10_000);
        Message timed = message("timed", "TagA", "timer");
        timed.setDelayTimeMs(1000);
        producer.send(timed, 10_000);

        TransactionMQProducer transactions = new TransactionMQProducer("java_transactions");
        transactions.setNamesrvAddr(namesrv);
        transactions.setClientIP("127.0.0.1");
        transactions.setInstanceName("transactions");
        transactions.setTransactionListener(new TransactionListener() {
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }

            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        transactions.start();
        transactions.sendMessageInTransaction(message("committed", "TagA", "transaction"), null);

        CountDownLatch came = new CountDownLatch(4);
        DefaultMQPushConsumer push = new DefaultMQPushConsumer("java_push");
        push.setNamesrvAddr(namesrv);
        push.setClientIP("127.0.0.1");
        push.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        push.subscribe(TOPIC, "TagA || TagB");
        push.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            came.countDown();
            boolean refuse = new String(messages.get(0).getBody(), StandardCharsets.UTF_8).equals("single")
                && messages.get(0).getReconsumeTimes() == 0;
            context.setDelayLevelWhenNextConsume(1);
            return refuse ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        push.start();

        CountDownLatch ordered = new CountDownLatch(4);
        DefaultMQPushConsumer orderly = new DefaultMQPushConsumer("java_orderly");
        orderly.setNamesrvAddr(namesrv);
        orderly.setClientIP("127.0.0.1");
        orderly.setInstanceName("orderly");
        orderly.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        orderly.subscribe(TOPIC, "*");
        orderly.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            ordered.countDown();
            return ConsumeOrderlyStatus.SUCCESS;
        });
        orderly.start();

        DefaultLitePullConsumer pull = new DefaultLitePullConsumer("java_pull");
        pull.setNamesrvAddr(namesrv);
        pull.setClientIP("127.0.0.1");
        pull.setInstanceName("pull");
        pull.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        pull.subscribe(TOPIC, "*");
        pull.start();
        for (int tries = 0; tries < 20 && pull.poll(1000).isEmpty(); tries++) {
            Thread.onSpinWait();
        }
        came.await(30, TimeUnit.SECONDS);
        ordered.await(30, TimeUnit.SECONDS);

        System.out.println("online");
        System.in.read();
        pull.shutdown();
        orderly.shutdown();
        push.shutdown();
        transactions.shutdown();
        producer.shutdown();
    }

    private static Message message(String body, String tag, String key) {
        return new Message(TOPIC, tag, key, body.getBytes(StandardCharsets.UTF_8));
    }
}
