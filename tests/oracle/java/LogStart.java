// A broker start (UnifiedLog.create) on whole partition directories, and every file that it leaves.
// usage: LogStart WORK, requests on standard input, a line each:
//   DIR<TAB>clean (true, false)<TAB>recovery point<TAB>log start offset<TAB>segment.index.bytes<TAB>clock, ms
// DIR is a <topic>-<n> directory; its regular files are copied to WORK, and the start runs there. An answer is a line of
// JSON. What the broker would do in the background is collected: leader epochs are written before the files are listed,
// files are deleted afterwards, to see which of them go.
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.apache.kafka.common.errors.KafkaStorageException;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class LogStart {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Tasks wait until they are run by the beginning of their names. */
    private static final class Waiting implements Scheduler {
        private record Task(String name, Runnable work) { }

        private static final ScheduledExecutorService LATER = Executors.newScheduledThreadPool(1);
        private final List<Task> tasks = new ArrayList<>();

        @Override public void startup() { }
        @Override public void shutdown() { }
        @Override public void resizeThreadPool(int size) { }
        @Override public ScheduledFuture<?> schedule(String name, Runnable work, long delay, long period) {
            if (period < 0) tasks.add(new Task(name, work));
            return LATER.schedule(() -> { }, 1, TimeUnit.DAYS);
        }
        void run(String beginning) {
            for (Task task : List.copyOf(tasks)) if (task.name.startsWith(beginning)) task.work.run();
        }
    }

    private record Stopped(long milliseconds) implements Time {
        @Override public long nanoseconds() { return milliseconds * 1_000_000; }
        @Override public void sleep(long time) { }
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
            System.out.println(JSON.writeValueAsString(start(directory, fields)));
            remove(directory);
            // What a failed start mapped is given back by the collector only.
            if (number % 50 == 0) System.gc();
        }
        System.out.flush();
        System.exit(0);
    }

    private static Map<String, Object> start(Path directory, String[] fields) throws Exception {
        Map<String, Object> answer = new TreeMap<>();
        Waiting scheduler = new Waiting();
        UnifiedLog log = null;
        try {
            log = UnifiedLog.create(
                directory.toFile(), new LogConfig(Map.of("segment.index.bytes", fields[4])), Long.parseLong(fields[3]),
                Long.parseLong(fields[2]), scheduler, new BrokerTopicStats(), new Stopped(Long.parseLong(fields[5])),
                300_000, new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(10),
                Boolean.parseBoolean(fields[1]), Optional.empty());
            answer.put("exception", null);
        } catch (Throwable error) {
            boolean isOffline = error instanceof IOException
                || (error instanceof KafkaStorageException && error.getCause() instanceof IOException);
            answer.put("exception", Map.of(
                "class", error.getClass().getName(), "message", String.valueOf(error.getMessage()),
                "broker", isOffline ? "dir_offline" : "broker_stops"));
        }
        scheduler.run("leader-epoch-cache-flush");
        Map<String, Object> files = files(directory);
        answer.put("files", files);
        if (log != null) {
            answer.put("log_start_offset", log.logStartOffset());
            answer.put("recovery_point", log.recoveryPoint());
            answer.put("log_end_offset", log.logEndOffset());
            answer.put("first_unstable_offset", log.firstUnstableOffset().orElse(null));
            List<Object> segments = new ArrayList<>();
            for (LogSegment segment : log.logSegments()) segments.add(List.of(segment.baseOffset(), segment.size()));
            answer.put("segments", segments);
            scheduler.run("delete-");
            Map<String, Object> left = files(directory);
            answer.put("deleted_later", files.keySet().stream().filter(name -> !left.containsKey(name)).toList());
            try {
                log.close();
            } catch (RuntimeException ignored) {
                // A log that is damaged enough starts and cannot be closed.
            }
        }
        return answer;
    }

    private static Map<String, Object> files(Path directory) throws Exception {
        Map<String, Object> found = new TreeMap<>();
        for (Path path : regularFiles(directory)) {
            byte[] data = Files.readAllBytes(path);
            String digest = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(data));
            found.put(path.getFileName().toString(), Map.of("size", data.length, "sha256", digest));
        }
        return found;
    }

    private static void copy(Path from, Path to) throws IOException {
        Files.createDirectories(to);
        for (Path path : regularFiles(from)) Files.copy(path, to.resolve(path.getFileName()));
    }

    private static void remove(Path directory) throws IOException {
        for (Path path : regularFiles(directory)) Files.delete(path);
    }

    private static List<Path> regularFiles(Path directory) throws IOException {
        try (Stream<Path> paths = Files.list(directory)) {
            return paths.filter(Files::isRegularFile).toList();
        }
    }
}
