// A client of a broker for many topics at once, always partition 0: TopicsClient BOOTSTRAP COMMAND ARGUMENT TOPIC...
//   create SETTINGS: make the topics with one partition each; SETTINGS: name=value,... or -
//   consume ISOLATION: a line for every record: topic, offset, timestamp, CRC-32 of key, value and headers; then
//     topic, "end" and the offset at which the consumer ends
//   produce COUNT: write so many records to each and print topic and offset
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class TopicsClient {
    public static void main(String[] arguments) throws Exception {
        List<String> topics = List.of(arguments).subList(3, arguments.length);
        switch (arguments[1]) {
            case "create" -> create(arguments[0], arguments[2], topics);
            case "consume" -> consume(arguments[0], arguments[2], topics);
            default -> produce(arguments[0], Integer.parseInt(arguments[2]), topics);
        }
        System.out.flush();
        System.exit(0);
    }

    private static void create(String bootstrap, String settings, List<String> topics) throws Exception {
        Map<String, String> configs = new HashMap<>();
        for (String setting : settings.equals("-") ? new String[0] : settings.split(",")) {
            configs.put(setting.split("=")[0], setting.split("=")[1]);
        }
        List<NewTopic> wanted = new ArrayList<>();
        for (String topic : topics) {
            wanted.add(new NewTopic(topic, 1, (short) 1).configs(configs));
        }
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(wanted).all().get();
        }
    }

    private static void consume(String bootstrap, String isolation, List<String> topics) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap, "isolation.level", isolation, "auto.offset.reset", "none");
        StringBuilder lines = new StringBuilder();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
            settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            for (String topic : topics) {
                TopicPartition partition = new TopicPartition(topic, 0);
                consumer.assign(List.of(partition));
                consumer.seekToBeginning(List.of(partition));
                long end = consumer.endOffsets(List.of(partition)).get(partition);
                while (consumer.position(partition) < end) {
                    for (ConsumerRecord<byte[], byte[]> one : consumer.poll(Duration.ofMillis(500)).records(partition)) {
                        lines.append(topic).append(' ').append(one.offset()).append(' ').append(one.timestamp());
                        lines.append(' ').append(sum(one)).append('\n');
                    }
                }
                lines.append(topic).append(" end ").append(end).append('\n');
            }
        }
        System.out.print(lines);
    }

    private static long sum(ConsumerRecord<byte[], byte[]> one) {
        CRC32 crc = new CRC32();
        add(crc, one.key());
        add(crc, one.value());
        for (Header header : one.headers()) {
            add(crc, header.key().getBytes(java.nio.charset.StandardCharsets.UTF_8));
            add(crc, header.value());
        }
        return crc.getValue();
    }

    private static void add(CRC32 crc, byte[] data) {
        crc.update(ByteBuffer.allocate(4).putInt(data == null ? -1 : data.length).flip());
        if (data != null) {
            crc.update(data);
        }
    }

    private static void produce(String bootstrap, int count, List<String> topics) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
            Map.of("bootstrap.servers", bootstrap), new ByteArraySerializer(), new ByteArraySerializer())) {
            for (String topic : topics) {
                for (int number = 0; number < count; number++) {
                    byte[] value = ("new " + number).getBytes();
                    ProducerRecord<byte[], byte[]> one = new ProducerRecord<>(topic, 0, null, value);
                    System.out.println(topic + " " + producer.send(one).get().offset());
                }
            }
        }
    }
}
