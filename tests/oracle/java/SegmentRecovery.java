// LogSegment.recover of the real broker over one-segment directories.
// usage: SegmentRecovery WORK, requests on standard input, a line each:
//   DIR<TAB>index.interval.bytes<TAB>segment.index.bytes
// DIR holds NAME.log, perhaps index files, and perhaps NAME.snapshot: the producer state before. It is copied to WORK.
// An answer is a line of fields separated by tabs: the exception's class ("-" without one), bytes cut, then the hex of
// NAME.index, .timeindex, .txnindex and of the producer snapshot taken afterwards, "-" for a file that is not there.
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogSegments;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;

public class SegmentRecovery {
    private static final TopicPartition PARTITION = new TopicPartition("t", 0);
    private static final KafkaScheduler SCHEDULER = new KafkaScheduler(1, true, "recovery-");

    public static void main(String[] arguments) throws Exception {
        Path work = Paths.get(arguments[0]);
        SCHEDULER.startup();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        int number = 0;
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] fields = line.split("\t");
            Path directory = work.resolve("s" + number++).resolve("t-0");
            copy(Paths.get(fields[0]), directory);
            Map<String, String> settings = Map.of("index.interval.bytes", fields[1], "segment.index.bytes", fields[2]);
            System.out.println(recover(directory, new LogConfig(settings)));
        }
        System.out.flush();
        System.exit(0);
    }

    private static String recover(Path directory, LogConfig config) throws Exception {
        String name = nameOfLog(directory);
        long base = Long.parseLong(name);
        ProducerStateManager producers = new ProducerStateManager(
            PARTITION, directory.toFile(), 300_000, new ProducerStateManagerConfig(86_400_000, false), Time.SYSTEM);
        UnifiedLog.rebuildProducerState(
            producers, new LogSegments(PARTITION), 0, base, Time.SYSTEM, false, "");
        LeaderEpochFileCache epochs = new LeaderEpochFileCache(PARTITION, new LeaderEpochCheckpointFile(
            directory.resolve("leader-epoch-checkpoint").toFile(), new LogDirFailureChannel(1)), SCHEDULER);
        LogSegment segment = LogSegment.open(directory.toFile(), base, config, Time.SYSTEM, true, 0, false, "");
        String failure = "-";
        int cut = 0;
        try {
            cut = segment.recover(producers, epochs);
        } catch (Throwable error) {
            failure = error.getClass().getName();
        }
        List<String> answer = new ArrayList<>(List.of(failure, String.valueOf(cut)));
        for (String suffix : List.of(".index", ".timeindex", ".txnindex")) {
            answer.add(hex(directory.resolve(name + suffix), failure));
        }
        Files.deleteIfExists(directory.resolve(name + ".snapshot"));
        producers.takeSnapshot();
        try (Stream<Path> files = Files.list(directory)) {
            Path snapshot = files.filter(path -> path.toString().endsWith(".snapshot")).findAny().orElse(null);
            answer.add(snapshot == null ? "-" : hex(snapshot, failure));
        }
        segment.close();
        return String.join("\t", answer);
    }

    private static String nameOfLog(Path directory) throws IOException {
        try (Stream<Path> files = Files.list(directory)) {
            return files.map(path -> path.getFileName().toString())
                .filter(file -> file.endsWith(".log")).findAny().orElseThrow().replace(".log", "");
        }
    }

    private static String hex(Path file, String failure) throws IOException {
        boolean isGiven = failure.equals("-") && Files.exists(file);
        return isGiven ? "x" + HexFormat.of().formatHex(Files.readAllBytes(file)) : "-";
    }

    private static void copy(Path from, Path to) throws IOException {
        if (Files.exists(to)) {
            try (Stream<Path> old = Files.walk(to)) {
                for (Path path : old.sorted(Comparator.reverseOrder()).toList()) {
                    Files.delete(path);
                }
            }
        }
        Files.createDirectories(to);
        try (Stream<Path> files = Files.list(from)) {
            for (Path path : files.toList()) {
                Files.copy(path, to.resolve(path.getFileName()));
            }
        }
    }
}
