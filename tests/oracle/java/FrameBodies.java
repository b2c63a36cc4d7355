import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;

/** Writes bodies of fetch responses and produce requests of every API version: DIRECTORY/fetch-response-V.bin ... */
public class FrameBodies {
    public static void main(String[] args) throws Exception {
        Path directory = Path.of(args[0]);
        for (short version = FetchResponseData.LOWEST_SUPPORTED_VERSION; version <= FetchResponseData.HIGHEST_SUPPORTED_VERSION; version++)
            write(directory, "fetch-response", response(version), version);
        for (short version = ProduceRequestData.LOWEST_SUPPORTED_VERSION; version <= ProduceRequestData.HIGHEST_SUPPORTED_VERSION; version++)
            write(directory, "produce-request", request(version), version);
    }

    private static void write(Path directory, String name, Message message, short version) throws Exception {
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        Files.write(directory.resolve(name + "-" + version + ".bin"), bytes);
    }

    private static MemoryRecords records(long offset, String... values) {
        SimpleRecord[] records = new SimpleRecord[values.length];
        for (int number = 0; number < values.length; number++)
            records[number] = new SimpleRecord(1700000000000L + number, ("k" + number).getBytes(), values[number].getBytes());
        return MemoryRecords.withRecords(offset, Compression.gzip().build(), records);
    }

    private static FetchResponseData response(short version) {
        FetchResponseData.PartitionData first = new FetchResponseData.PartitionData()
            .setPartitionIndex(3).setHighWatermark(44).setLastStableOffset(43).setRecords(records(41, "one", "two"));
        if (version >= 5) first.setLogStartOffset(40);
        if (version >= 11) first.setPreferredReadReplica(2);
        if (version >= 12) first.setCurrentLeader(new FetchResponseData.LeaderIdAndEpoch().setLeaderId(1).setLeaderEpoch(7));
        first.setAbortedTransactions(List.of(new FetchResponseData.AbortedTransaction().setProducerId(9).setFirstOffset(41)));
        FetchResponseData.PartitionData second = new FetchResponseData.PartitionData()
            .setPartitionIndex(4).setErrorCode((short) 1).setHighWatermark(-1).setRecords(null);
        FetchResponseData.FetchableTopicResponse topic = new FetchResponseData.FetchableTopicResponse()
            .setPartitions(List.of(first, second));
        if (version <= 12) topic.setTopic("orders"); else topic.setTopicId(new Uuid(1, 2));
        FetchResponseData data = new FetchResponseData().setThrottleTimeMs(5).setResponses(List.of(topic));
        if (version >= 7) data.setSessionId(77);
        if (version >= 16) {
            FetchResponseData.NodeEndpointCollection nodes = new FetchResponseData.NodeEndpointCollection();
            nodes.add(new FetchResponseData.NodeEndpoint().setNodeId(1).setHost("h").setPort(9092).setRack("r"));
            data.setNodeEndpoints(nodes);
        }
        return data;
    }

    private static ProduceRequestData request(short version) {
        ProduceRequestData.TopicProduceData topic = new ProduceRequestData.TopicProduceData()
            .setPartitionData(List.of(new ProduceRequestData.PartitionProduceData().setIndex(3).setRecords(records(0, "three"))));
        if (version <= 12) topic.setName("orders"); else topic.setTopicId(new Uuid(1, 2));
        ProduceRequestData.TopicProduceDataCollection topics = new ProduceRequestData.TopicProduceDataCollection();
        topics.add(topic);
        return new ProduceRequestData().setTransactionalId("t").setAcks((short) -1).setTimeoutMs(30000).setTopicData(topics);
    }
}
