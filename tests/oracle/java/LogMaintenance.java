// What a running broker does to the segments of a partition: one run of the log cleaner, the deletion by retention, or
// one run of the expiration of remote segments and then the deletion of local ones.
// usage: LogMaintenance WORK, requests on standard input, a line each:
//   DIR<TAB>clean<TAB>now<TAB>delete.retention.ms<TAB>roll (true, false)
//   DIR<TAB>delete<TAB>now<TAB>retention.ms<TAB>retention.bytes<TAB>log start offset[<TAB>last offset in remote storage]
//   DIR<TAB>expire<TAB>now<TAB>retention.ms<TAB>retention.bytes<TAB>log start offset<TAB>local.retention.ms<TAB>
//   local.retention.bytes<TAB>remote segments, as ID:first:last:largest timestamp:size:state:EPOCH=offset/EPOCH=offset;...
// DIR is a <topic>-<n> directory; its regular files are copied to WORK with their times of change. "now" is in ms.
// An answer is a line of fields separated by tabs: the exception ("-" without one), then every segment that is left as
// baseOffset:size:batches:records:empty batches:control records. That of "expire" has two fields before the segments: the
// ids of the remote segments that are left, separated by commas, and the log start offset.
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataCache;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogManagerConfig;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadataManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogCleanerManager;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class LogMaintenance {
    private static final Uuid TOPIC = new Uuid(1, 2);

    /** Nothing is deleted in the background. */
    private static final Scheduler IDLE = new Scheduler() {
        @Override public void startup() { }
        @Override public void shutdown() { }
        @Override public void resizeThreadPool(int size) { }
        @Override public ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) {
            return LATER.schedule(() -> { }, 1, TimeUnit.DAYS);
        }
    };
    private static final ScheduledExecutorService LATER = Executors.newScheduledThreadPool(1);

    /** A clock that stands. */
    private record Clock(long milliseconds) implements Time {
        @Override public long nanoseconds() {
            return TimeUnit.MILLISECONDS.toNanos(milliseconds);
        }

        @Override public void sleep(long ms) { }

        @Override public void waitObject(Object object, Supplier<Boolean> condition, long deadline) { }
    }

    public static void main(String[] arguments) throws Exception {
        Path work = Paths.get(arguments[0]);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        int number = 0;
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] fields = line.split("\t");
            Path source = Paths.get(fields[0]);
            Path directory = work.resolve("s" + number++).resolve(source.getFileName());
            copy(source, directory);
            System.out.println(answer(directory, fields));
        }
        System.out.flush();
        System.exit(0);
    }

    private static String answer(Path directory, String[] fields) {
        List<String> answer = new ArrayList<>();
        try {
            answer.add("-");
            UnifiedLog log = switch (fields[1]) {
                case "clean" -> clean(directory, fields);
                case "delete" -> delete(directory, fields);
                default -> expire(directory, fields, answer);
            };
            for (LogSegment segment : log.logSegments()) {
                answer.add(summary(segment));
            }
            log.close();
        } catch (Throwable error) {
            Throwable cause = error instanceof InvocationTargetException ? error.getCause() : error;
            return cause.getClass().getName() + ": " + String.valueOf(cause.getMessage()).replaceAll("\\s", " ");
        }
        return String.join("\t", answer);
    }

    /** The log is recovered first: its producers and aborted transactions are those of its batches. */
    private static UnifiedLog clean(Path directory, String[] fields) throws Exception {
        Time clock = new Clock(Long.parseLong(fields[2]));
        UnifiedLog log = open(directory, clock, false, 0, Map.of(
            "cleanup.policy", "compact", "delete.retention.ms", fields[3]));
        if (Boolean.parseBoolean(fields[4])) {
            log.roll();
        }
        Method cleanable = LogCleanerManager.class.getDeclaredMethod(
            "cleanableOffsets", UnifiedLog.class, Optional.class, long.class);
        cleanable.setAccessible(true);
        Object range = cleanable.invoke(null, log, Optional.of(log.logStartOffset()), clock.milliseconds());
        LogToClean target = new LogToClean(
            log, value(range, "firstDirtyOffset"), value(range, "firstUncleanableDirtyOffset"),
            false);
        if (target.totalBytes() > 0) {
            Throttler throttler = new Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "cleaner", "bytes", clock);
            new Cleaner(0, new SkimpyOffsetMap(8 << 20), 1 << 16, 64 << 20, 0.9, throttler, clock, partition -> { })
                .clean(target);
        }
        return log;
    }

    private static UnifiedLog delete(Path directory, String[] fields) throws Exception {
        boolean isTiered = fields.length > 6;
        // The limits of a tiered topic are those of its local log.
        String prefix = isTiered ? "local." : "";
        UnifiedLog log = open(directory, new Clock(Long.parseLong(fields[2])), true, Long.parseLong(fields[5]), Map.of(
            "cleanup.policy", "delete", prefix + "retention.ms", fields[3], prefix + "retention.bytes", fields[4],
            isTiered ? "retention.ms" : "min.insync.replicas", isTiered ? "-1" : "1",
            "remote.storage.enable", String.valueOf(isTiered)));
        if (isTiered) {
            log.updateHighestOffsetInRemoteStorage(Long.parseLong(fields[6]));
        }
        log.deleteOldSegments();
        return log;
    }

    private static UnifiedLog expire(Path directory, String[] fields, List<String> answer) throws Exception {
        Clock clock = new Clock(Long.parseLong(fields[2]));
        UnifiedLog log = open(directory, clock, true, Long.parseLong(fields[5]), Map.of(
            "cleanup.policy", "delete", "retention.ms", fields[3], "retention.bytes", fields[4],
            "local.retention.ms", fields[6], "local.retention.bytes", fields[7], "remote.storage.enable", "true"));
        TopicIdPartition owner = new TopicIdPartition(TOPIC, log.topicPartition());
        Known.cache = new RemoteLogMetadataCache();
        for (String text : fields.length > 8 ? fields[8].split(";") : new String[0]) {
            Known.add(owner, text.split(":"));
        }
        Map<String, Object> settings = new HashMap<>();
        settings.put("remote.log.storage.system.enable", "true");
        settings.put("remote.log.storage.manager.class.name", Nowhere.class.getName());
        settings.put("remote.log.metadata.manager.class.name", Known.class.getName());
        RemoteLogManager manager = new RemoteLogManager(
            new RemoteLogManagerConfig(new AbstractConfig(RemoteLogManagerConfig.configDef(), settings)), 1,
            directory.getParent().toString(), "cluster",
            clock, partition -> Optional.of(log), (partition, offset) -> log.updateLogStartOffsetFromRemoteTier(offset),
            new BrokerTopicStats(true), new Metrics(), Optional.empty());
        Method highest = RemoteLogManager.class.getDeclaredMethod(
            "findHighestRemoteOffset", TopicIdPartition.class, UnifiedLog.class);
        highest.setAccessible(true);
        log.updateHighestOffsetInRemoteStorage(((OffsetAndEpoch) highest.invoke(manager, owner, log)).offset());
        Class<?> task = Class.forName(RemoteLogManager.class.getName() + "$RLMExpirationTask");
        Constructor<?> constructor = task.getDeclaredConstructor(RemoteLogManager.class, TopicIdPartition.class);
        constructor.setAccessible(true);
        Method run = task.getDeclaredMethod("cleanupExpiredRemoteLogSegments");
        run.setAccessible(true);
        run.invoke(constructor.newInstance(manager, owner));
        manager.close();
        List<String> left = new ArrayList<>();
        new Known().listRemoteLogSegments(owner).forEachRemaining(one -> left.add(one.remoteLogSegmentId().id().toString()));
        answer.add(String.join(",", left));
        answer.add(String.valueOf(log.logStartOffset()));
        log.deleteOldSegments();
        return log;
    }

    /** The remote segments of the partition that is asked about. */
    public static class Known implements RemoteLogMetadataManager {
        static RemoteLogMetadataCache cache;

        static void add(TopicIdPartition owner, String[] fields) throws Exception {
            RemoteLogSegmentId id = new RemoteLogSegmentId(owner, Uuid.fromString(fields[0]));
            Map<Integer, Long> epochs = new HashMap<>();
            for (String epoch : fields[6].split("/")) {
                epochs.put(Integer.parseInt(epoch.split("=")[0]), Long.parseLong(epoch.split("=")[1]));
            }
            ask("addCopyInProgressSegment", new RemoteLogSegmentMetadata(
                id, Long.parseLong(fields[1]), Long.parseLong(fields[2]), Long.parseLong(fields[3]), 1, 0,
                Integer.parseInt(fields[4]), epochs));
            for (int state = 1; state <= Integer.parseInt(fields[5]); state++) {
                RemoteLogSegmentState next = RemoteLogSegmentState.forId((byte) state);
                ask("updateRemoteLogSegmentMetadata", new RemoteLogSegmentMetadataUpdate(id, 0, Optional.empty(), next, 1));
            }
        }

        @SuppressWarnings("unchecked")
        private static <T> T ask(String name, Object... given) {
            for (Method method : RemoteLogMetadataCache.class.getDeclaredMethods()) {
                if (method.getName().equals(name) && method.getParameterCount() == given.length) {
                    method.setAccessible(true);
                    try {
                        return (T) method.invoke(cache, given);
                    } catch (ReflectiveOperationException error) {
                        throw new IllegalStateException(error.getCause());
                    }
                }
            }
            throw new IllegalArgumentException(name);
        }

        @Override public CompletableFuture<Void> addRemoteLogSegmentMetadata(RemoteLogSegmentMetadata metadata) {
            throw new UnsupportedOperationException();
        }

        @Override public CompletableFuture<Void> updateRemoteLogSegmentMetadata(RemoteLogSegmentMetadataUpdate update) {
            ask("updateRemoteLogSegmentMetadata", update);
            return CompletableFuture.completedFuture(null);
        }

        @Override public Optional<RemoteLogSegmentMetadata> remoteLogSegmentMetadata(TopicIdPartition p, int e, long o) {
            return ask("remoteLogSegmentMetadata", e, o);
        }

        @Override public Optional<Long> highestOffsetForEpoch(TopicIdPartition partition, int epoch) {
            return ask("highestOffsetForEpoch", epoch);
        }

        @Override public CompletableFuture<Void> putRemotePartitionDeleteMetadata(RemotePartitionDeleteMetadata deleted) {
            throw new UnsupportedOperationException();
        }

        @Override public Iterator<RemoteLogSegmentMetadata> listRemoteLogSegments(TopicIdPartition partition) {
            return ask("listAllRemoteLogSegments");
        }

        @Override public Iterator<RemoteLogSegmentMetadata> listRemoteLogSegments(TopicIdPartition partition, int epoch) {
            return ask("listRemoteLogSegments", epoch);
        }

        @Override public void onPartitionLeadershipChanges(Set<TopicIdPartition> led, Set<TopicIdPartition> followed) { }

        @Override public void onStopPartitions(Set<TopicIdPartition> partitions) { }

        @Override public long remoteLogSize(TopicIdPartition partition, int epoch) {
            throw new UnsupportedOperationException();
        }

        @Override public void configure(Map<String, ?> settings) { }

        @Override public void close() { }
    }

    /** Remote storage that holds nothing. */
    public static class Nowhere implements RemoteStorageManager {
        @Override public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata one, LogSegmentData data) {
            return Optional.empty();
        }

        @Override public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int start) {
            throw new UnsupportedOperationException();
        }

        @Override public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int start, int end) {
            throw new UnsupportedOperationException();
        }

        @Override public InputStream fetchIndex(RemoteLogSegmentMetadata metadata, IndexType type) {
            throw new UnsupportedOperationException();
        }

        @Override public void deleteLogSegmentData(RemoteLogSegmentMetadata metadata) { }

        @Override public void configure(Map<String, ?> settings) { }

        @Override public void close() { }
    }

    private static UnifiedLog open(
            Path directory, Time clock, boolean isClean, long logStartOffset, Map<String, String> settings)
            throws Exception {
        Map<String, String> all = new HashMap<>(settings);
        all.put("segment.index.bytes", "1048576");
        all.put("max.message.bytes", "67108864");
        UnifiedLog log = UnifiedLog.create(
            directory.toFile(), new LogConfig(all), logStartOffset, 0, IDLE, new BrokerTopicStats(), clock, 300_000,
            new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(10), isClean,
            Optional.empty(), new ConcurrentHashMap<>(), true, LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
        log.updateHighWatermark(log.logEndOffset());
        return log;
    }

    private static long value(Object range, String name) throws Exception {
        Field field = range.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.getLong(range);
    }

    private static String summary(LogSegment segment) {
        long batches = 0;
        long records = 0;
        long empty = 0;
        long control = 0;
        for (RecordBatch batch : segment.log().batches()) {
            batches++;
            long own = 0;
            for (Record record : batch) {
                own++;
            }
            records += own;
            empty += own == 0 ? 1 : 0;
            control += batch.isControlBatch() ? own : 0;
        }
        return segment.baseOffset() + ":" + segment.size() + ":" + batches + ":" + records + ":" + empty + ":" + control;
    }

    private static void copy(Path from, Path to) throws IOException {
        Files.createDirectories(to);
        try (Stream<Path> files = Files.list(from)) {
            for (Path path : files.filter(Files::isRegularFile).toList()) {
                Files.copy(path, to.resolve(path.getFileName()), StandardCopyOption.COPY_ATTRIBUTES);
            }
        }
    }
}
