// A broker start (UnifiedLog.create) on whole partition directories.
// usage: PartitionStart WORK, requests on standard input, a line each:
//   DIR<TAB>clean (true, false)<TAB>recovery point<TAB>log start offset
// DIR is a <topic>-<n> directory; its regular files are copied to WORK. An answer is a line of fields separated by tabs:
// the exception ("-" without one), the log end offset, the ids of the producers, then every batch as
// baseOffset:lastOffset:count:crc.
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeSet;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class PartitionStart {
    /** Nothing is deleted in the background. */
    private static final Scheduler IDLE = new Scheduler() {
        @Override public void startup() { }
        @Override public void shutdown() { }
        @Override public void resizeThreadPool(int size) { }
        @Override public ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) {
            return LATER.schedule(() -> { }, 1, TimeUnit.DAYS);
        }
    };
    /** A clock at which no producer has expired. */
    private static final Time BEGINNING = new Time() {
        @Override public long nanoseconds() { return 0; }
        @Override public long milliseconds() { return 0; }
        @Override public void sleep(long time) { }
        @Override public void waitObject(Object object, Supplier<Boolean> condition, long deadline) { }
    };
    private static final ScheduledExecutorService LATER = Executors.newScheduledThreadPool(1);

    public static void main(String[] arguments) throws Exception {
        Path work = Paths.get(arguments[0]);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        int number = 0;
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] fields = line.split("\t");
            Path source = Paths.get(fields[0]);
            Path directory = work.resolve("s" + number++).resolve(source.getFileName());
            copy(source, directory);
            System.out.println(start(directory, fields));
        }
        System.out.flush();
        System.exit(0);
    }

    private static String start(Path directory, String[] fields) throws Exception {
        List<String> answer = new ArrayList<>();
        try {
            UnifiedLog log = UnifiedLog.create(
                directory.toFile(), new LogConfig(Map.of("segment.index.bytes", "16384")), Long.parseLong(fields[3]),
                Long.parseLong(fields[2]), IDLE, new BrokerTopicStats(), BEGINNING, 300_000,
                new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(10),
                Boolean.parseBoolean(fields[1]), Optional.empty());
            answer.add("-");
            answer.add(String.valueOf(log.logEndOffset()));
            answer.add(new TreeSet<>(log.producerStateManager().activeProducers().keySet()).toString());
            for (LogSegment segment : log.logSegments()) {
                for (RecordBatch batch : segment.log().batches()) {
                    answer.add(batch.baseOffset() + ":" + batch.lastOffset() + ":" + batch.countOrNull() + ":"
                        + batch.checksum());
                }
            }
            log.close();
        } catch (Throwable error) {
            return error.getClass().getName() + ": " + String.valueOf(error.getMessage()).replaceAll("\\s", " ");
        }
        return String.join("\t", answer);
    }

    private static void copy(Path from, Path to) throws IOException {
        Files.createDirectories(to);
        try (Stream<Path> files = Files.list(from)) {
            for (Path path : files.filter(Files::isRegularFile).toList()) {
                Files.copy(path, to.resolve(path.getFileName()));
            }
        }
    }
}
