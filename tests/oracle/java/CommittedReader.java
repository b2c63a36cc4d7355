// What a consumer with read_committed gets of whole partition directories: fetches as a broker of 4.3.1 answers them
// (UnifiedLog.read, with the transaction indexes as they are), taken in by the consumer's own class (CompletedFetch).
// usage: CommittedReader WORK, the path of a <topic>-<n> directory on each line of standard input. Its regular files are
// copied to WORK. An answer is a line: the last stable offset, a tab, and the offsets of the records, with blanks between.
package org.apache.kafka.clients.consumer.internals;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class CommittedReader {
    private static final int FETCH_BYTES = 1000;
    private static final TopicPartition PARTITION = new TopicPartition("t", 0);
    private static final Metrics METRICS = new Metrics();
    private static final FetchMetricsManager MANAGER =
        new FetchMetricsManager(METRICS, new FetchMetricsRegistry(Set.of(), ""));

    public static void main(String[] arguments) throws Exception {
        Path work = Paths.get(arguments[0]);
        KafkaScheduler scheduler = new KafkaScheduler(1);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        int number = 0;
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Path directory = work.resolve("c" + number++).resolve("t-0");
            Files.createDirectories(directory);
            try (Stream<Path> paths = Files.list(Paths.get(line))) {
                for (Path path : paths.filter(Files::isRegularFile).toList()) {
                    Files.copy(path, directory.resolve(path.getFileName()));
                }
            }
            // Not after a clean stop, and flushed up to its end: the producer state is read from the log, and nothing is
            // recovered.
            UnifiedLog log = UnifiedLog.create(
                directory.toFile(), new LogConfig(Map.of()), 0, Long.MAX_VALUE, scheduler, new BrokerTopicStats(),
                Time.SYSTEM, 300_000, new ProducerStateManagerConfig(86_400_000, false), 600_000,
                new LogDirFailureChannel(10), false, Optional.empty());
            log.updateHighWatermark(log.logEndOffset());
            List<Long> offsets = read(log);
            System.out.println(
                log.lastStableOffset() + "\t" + offsets.stream().map(String::valueOf).collect(Collectors.joining(" ")));
            log.close();
        }
        System.out.flush();
        System.exit(0);
    }

    private static List<Long> read(UnifiedLog log) throws Exception {
        List<Long> found = new ArrayList<>();
        FetchConfig settings = new FetchConfig(1, FETCH_BYTES, 500, FETCH_BYTES, 500, true, "", IsolationLevel.READ_COMMITTED);
        Deserializers<byte[], byte[]> deserializers =
            new Deserializers<>(new ByteArrayDeserializer(), new ByteArrayDeserializer(), METRICS);
        LogContext context = new LogContext();
        SubscriptionState subscriptions = new SubscriptionState(context, AutoOffsetResetStrategy.EARLIEST);
        long offset = log.logStartOffset();
        while (offset < log.lastStableOffset()) {
            FetchDataInfo answer = log.read(offset, FETCH_BYTES, FetchIsolation.TXN_COMMITTED, true);
            FetchResponseData.PartitionData data = new FetchResponseData.PartitionData()
                .setRecords(answer.records)
                .setAbortedTransactions(answer.abortedTransactions.orElse(List.of()));
            CompletedFetch fetch = new CompletedFetch(
                context.logger(CompletedFetch.class), subscriptions, BufferSupplier.create(), PARTITION, data,
                new FetchMetricsAggregator(MANAGER, Set.of(PARTITION)), offset);
            List<ConsumerRecord<byte[], byte[]>> records = fetch.fetchRecords(settings, deserializers, Integer.MAX_VALUE);
            for (ConsumerRecord<byte[], byte[]> record : records) found.add(record.offset());
            if (fetch.nextFetchOffset() <= offset) break;
            offset = fetch.nextFetchOffset();
        }
        return found;
    }
}
