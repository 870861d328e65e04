package roquet.bench;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.SerializeType;

/**
 * Sends from many threads with Apache's client and prints how long the sends took, as one JSON line.
 *
 * <p>Apache's benchmark producer tells a mean and a maximum but no percentile; this program puts the same
 * load on the broker and counts every send of the measured time in a histogram whose buckets are at most
 * 1.6 % wide. Arguments: name server, topic, threads, body bytes, warm-up seconds, measured seconds.
 */
public final class Latencies {
    private static final int SUB_BITS = 6;
    private static final int SUBS = 1 << SUB_BITS;
    private static final int BUCKETS = (64 - SUB_BITS) * SUBS;

    private enum Phase { WARM_UP, MEASURE, END }

    private static volatile Phase phase = Phase.WARM_UP;

    private Latencies() {
    }

    public static void main(String[] args) throws Exception {
        System.setProperty(RemotingCommand.SERIALIZE_TYPE_PROPERTY, SerializeType.ROCKETMQ.name());
        DefaultMQProducer producer = new DefaultMQProducer("latencies_producer");
        producer.setNamesrvAddr(args[0]);
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        producer.start();
        List<Sender> senders = new ArrayList<>();
        byte[] body = "x".repeat(Integer.parseInt(args[3])).getBytes(StandardCharsets.US_ASCII);
        for (int i = 0; i < Integer.parseInt(args[2]); i++) {
            Sender sender = new Sender(producer, args[1], body);
            senders.add(sender);
            sender.start();
        }
        Thread.sleep(Long.parseLong(args[4]) * 1000);
        phase = Phase.MEASURE;
        long begin = System.nanoTime();
        Thread.sleep(Long.parseLong(args[5]) * 1000);
        phase = Phase.END;
        double seconds = (System.nanoTime() - begin) / 1e9;
        for (Sender sender : senders) {
            sender.join();
        }
        System.out.println(report(senders, seconds));
        producer.shutdown();
        System.exit(0);
    }

    private static String report(List<Sender> senders, double seconds) {
        long[] counts = new long[BUCKETS];
        long sends = 0;
        long failures = 0;
        long nanos = 0;
        long max = 0;
        for (Sender sender : senders) {
            for (int i = 0; i < BUCKETS; i++) {
                counts[i] += sender.counts[i];
            }
            sends += sender.sends;
            failures += sender.failures;
            nanos += sender.nanos;
            max = Math.max(max, sender.max);
        }
        return String.format(Locale.ROOT,
            "{\"sends\": %d, \"failures\": %d, \"sends_per_s\": %.1f, \"mean_ms\": %.4f, \"p50_ms\": %.4f, "
                + "\"p99_ms\": %.4f, \"p999_ms\": %.4f, \"max_ms\": %.4f}",
            sends, failures, sends / seconds, sends == 0 ? 0.0 : nanos / 1e6 / sends,
            percentile(counts, sends, 0.50), percentile(counts, sends, 0.99),
            percentile(counts, sends, 0.999), max / 1e6);
    }

    private static double percentile(long[] counts, long sends, double share) {
        long wanted = (long) Math.ceil(sends * share);
        long seen = 0;
        for (int i = 0; i < BUCKETS; i++) {
            seen += counts[i];
            if (seen >= wanted && seen > 0) {
                return lowest(i + 1) / 1e6;
            }
        }
        return 0.0;
    }

    /** Returns the bucket of a duration: its highest bit, and the six bits that follow. */
    private static int bucket(long nanos) {
        if (nanos < SUBS) {
            return (int) Math.max(nanos, 0);
        }
        int shift = 63 - Long.numberOfLeadingZeros(nanos) - SUB_BITS;
        return (shift + 1) * SUBS + (int) ((nanos >>> shift) & (SUBS - 1));
    }

    /** Returns the shortest duration of a bucket. */
    private static long lowest(int bucket) {
        if (bucket < SUBS) {
            return bucket;
        }
        return (long) (SUBS + bucket % SUBS) << (bucket / SUBS - 1);
    }

    private static final class Sender extends Thread {
        private final DefaultMQProducer producer;
        private final String topic;
        private final byte[] body;
        private final long[] counts = new long[BUCKETS];
        private long sends;
        private long failures;
        private long nanos;
        private long max;

        Sender(DefaultMQProducer producer, String topic, byte[] body) {
            this.producer = producer;
            this.topic = topic;
            this.body = body;
        }

        @Override
        public void run() {
            while (phase != Phase.END) {
                boolean measured = phase == Phase.MEASURE;
                long begin = System.nanoTime();
                boolean stored;
                try {
                    stored = producer.send(new Message(topic, body)).getSendStatus() == SendStatus.SEND_OK;
                } catch (Exception refused) {
                    stored = false;
                }
                count(System.nanoTime() - begin, measured, stored);
            }
        }

        private void count(long took, boolean measured, boolean stored) {
            if (!stored) {
                failures++; // also before and after the measured time: a failure is never welcome
            } else if (measured) {
                sends++;
                nanos += took;
                max = Math.max(max, took);
                counts[bucket(took)]++;
            }
        }
    }
}
