// A client of a broker: PartitionClient BOOTSTRAP COMMAND TOPIC [ARGUMENT], always partition 0.
//   create: make the topic with one partition
//   consume ISOLATION: print the offset and the CRC-32 of key and value of every record, then "end" and the end offset
//   produce COUNT: write so many records and print their offsets
import java.nio.ByteBuffer;
import java.time.Duration;
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
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class PartitionClient {
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        TopicPartition partition = new TopicPartition(arguments[2], 0);
        switch (arguments[1]) {
            case "create" -> create(bootstrap, partition.topic());
            case "consume" -> consume(bootstrap, partition, arguments[3]);
            default -> produce(bootstrap, partition, Integer.parseInt(arguments[3]));
        }
        System.out.flush();
        System.exit(0);
    }

    private static void create(String bootstrap, String topic) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
        }
    }

    private static void consume(String bootstrap, TopicPartition partition, String isolation) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap, "isolation.level", isolation, "auto.offset.reset", "earliest");
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
            settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<byte[], byte[]> one : consumer.poll(Duration.ofMillis(500)).records(partition)) {
                    CRC32 crc = new CRC32();
                    crc.update(one.key() == null ? ByteBuffer.allocate(0) : ByteBuffer.wrap(one.key()));
                    crc.update(one.value() == null ? ByteBuffer.allocate(0) : ByteBuffer.wrap(one.value()));
                    System.out.println(one.offset() + " " + crc.getValue());
                }
            }
            System.out.println("end " + end);
        }
    }

    private static void produce(String bootstrap, TopicPartition partition, int count) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
            Map.of("bootstrap.servers", bootstrap), new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int number = 0; number < count; number++) {
                byte[] value = ("new " + number).getBytes();
                ProducerRecord<byte[], byte[]> one = new ProducerRecord<>(partition.topic(), 0, null, value);
                System.out.println(producer.send(one).get().offset());
            }
        }
    }
}
