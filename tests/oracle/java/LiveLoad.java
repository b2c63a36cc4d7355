// Keeps a broker busy: LiveLoad BOOTSTRAP SECONDS, on four topics of one partition each, which it makes.
//   plain: segments that are deleted by retention; comp: one that is compacted, with few keys; tx: transactions, some of
//   them aborted, deleted by retention; zs: batches compressed with zstd, compacted and deleted.
// Prints "ready" when it begins to write, and in the end how many records it wrote to each topic.
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class LiveLoad {
    private static final Map<String, String> SEGMENTS = Map.of(
        "segment.bytes", "1048576", "file.delete.delay.ms", "1000");
    private static final Map<String, String> DELETED = Map.of(
        "retention.bytes", "6291456", "cleanup.policy", "delete");
    private static final Map<String, String> COMPACTED = Map.of(
        "cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0.01", "max.compaction.lag.ms", "1000",
        "delete.retention.ms", "1000");
    private static final Map<String, String> BOTH = Map.of(
        "cleanup.policy", "compact,delete", "retention.bytes", "6291456", "min.cleanable.dirty.ratio", "0.01",
        "max.compaction.lag.ms", "1000");

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        long end = System.currentTimeMillis() + 1000 * Long.parseLong(arguments[1]);
        Map<String, Map<String, String>> topics = Map.of("plain", DELETED, "comp", COMPACTED, "tx", DELETED, "zs", BOTH);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            List<NewTopic> made = new ArrayList<>();
            topics.forEach((topic, own) -> {
                Map<String, String> all = new java.util.HashMap<>(SEGMENTS);
                all.putAll(own);
                made.add(new NewTopic(topic, 1, (short) 1).configs(all));
            });
            admin.createTopics(made).all().get();
        }
        System.out.println("ready");
        System.out.flush();
        Map<String, AtomicLong> counts = Map.of(
            "plain", new AtomicLong(), "comp", new AtomicLong(), "tx", new AtomicLong(), "zs", new AtomicLong());
        List<Thread> writers = new ArrayList<>();
        for (String topic : topics.keySet()) {
            Thread writer = new Thread(() -> {
                try {
                    write(bootstrap, topic, end, counts.get(topic));
                } catch (Exception error) {
                    error.printStackTrace();
                    System.exit(1);
                }
            });
            writer.start();
            writers.add(writer);
        }
        for (Thread writer : writers) {
            writer.join();
        }
        counts.forEach((topic, count) -> System.out.println(topic + " " + count));
        System.out.flush();
        System.exit(0);
    }

    private static void write(String bootstrap, String topic, long end, AtomicLong count) throws Exception {
        boolean isTransactional = topic.equals("tx");
        Map<String, Object> settings = new java.util.HashMap<>(Map.of(
            "bootstrap.servers", bootstrap, "linger.ms", "5", "batch.size", "32768",
            "compression.type", topic.equals("zs") ? "zstd" : "none"));
        if (isTransactional) {
            settings.put("transactional.id", "live-" + topic);
        }
        Random random = new Random(topic.hashCode());
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
            settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            if (isTransactional) {
                producer.initTransactions();
            }
            while (System.currentTimeMillis() < end) {
                if (isTransactional) {
                    producer.beginTransaction();
                }
                for (int number = 0; number < 40; number++) {
                    byte[] value = new byte[200 + random.nextInt(400)];
                    random.nextBytes(value);
                    byte[] key = ("key " + random.nextInt(3000)).getBytes();
                    producer.send(new ProducerRecord<>(topic, 0, key, value));
                    count.incrementAndGet();
                }
                producer.flush();
                if (isTransactional) {
                    if (random.nextInt(3) == 0) {
                        producer.abortTransaction();
                    } else {
                        producer.commitTransaction();
                    }
                }
                Thread.sleep(10 + random.nextInt(40));
            }
        }
    }
}
