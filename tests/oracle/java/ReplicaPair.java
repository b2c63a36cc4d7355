// What a follower would do with its copy of a partition if another copy became the leader: the real log loading, the
// real leader side (kafka.cluster.Partition.fetchRecords over a real UnifiedLog) and the real follower side
// (kafka.server.AbstractFetcherThread) of Kafka 4.3.1, in one process.
// usage: java ... kafka.server.ReplicaPair WORK CASES.jsonl > results.jsonl
// case: {"id", "leader": {"dir", "clean", "recovery_point", "log_start_offset", "high_watermark"}, "follower": {same}, "config": {..}}
package kafka.server;

import com.fasterxml.jackson.databind.*;
import java.io.*;
import java.lang.reflect.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.Stream;
import org.apache.kafka.common.*;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.requests.*;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.*;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.network.BrokerEndPoint;
import org.apache.kafka.server.storage.log.*;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.*;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class ReplicaPair {
    static final ObjectMapper J = new ObjectMapper();
    public static class NoSched implements Scheduler {
        public final List<Map.Entry<String, Runnable>> once = new ArrayList<>();
        public void startup() { } public void shutdown() { } public void resizeThreadPool(int n) { }
        public ScheduledFuture<?> schedule(String name, Runnable t, long d, long p) { if (p < 0) once.add(Map.entry(name, t)); return new ScheduledFuture<Object>() { public long getDelay(TimeUnit u) { return 0; } public int compareTo(Delayed x) { return 0; } public boolean cancel(boolean b) { return true; } public boolean isCancelled() { return false; } public boolean isDone() { return false; } public Object get() { return null; } public Object get(long l, TimeUnit u) { return null; } }; }
        public void run(String pre) { for (Map.Entry<String, Runnable> e : new ArrayList<>(once)) if (e.getKey().startsWith(pre)) { e.getValue().run(); once.remove(e); } }
    }
    public static void wipe(Path p) throws IOException { if (!Files.exists(p)) return; try (Stream<Path> s = Files.walk(p)) { for (Path x : s.sorted(Comparator.reverseOrder()).toList()) Files.delete(x); } }
    public static void copy(Path from, Path to) throws IOException { wipe(to); try (Stream<Path> s = Files.walk(from)) { for (Path x : s.toList()) { Path y = to.resolve(from.relativize(x).toString()); if (Files.isDirectory(x)) Files.createDirectories(y); else Files.copy(x, y); } } }
    static LogConfig conf(JsonNode c) { Map<String, Object> m = new HashMap<>(); m.put("segment.index.bytes", 8192); m.put("internal.segment.bytes", 1000000); m.put("retention.ms", -1L); m.put("message.timestamp.before.max.ms", Long.MAX_VALUE); if (c != null) c.fields().forEachRemaining(e -> m.put(e.getKey(), e.getValue().asText())); return new LogConfig(m); }
    public static UnifiedLog load(Path d, JsonNode p, LogConfig c, NoSched s) throws Exception {
        UnifiedLog l = UnifiedLog.create(d.toFile(), c, p.path("log_start_offset").asLong(0), p.path("recovery_point").asLong(0), s, new BrokerTopicStats(), Time.SYSTEM, 300000, new ProducerStateManagerConfig(86400000, false), 600000, new LogDirFailureChannel(10), p.path("clean").asBoolean(true), Optional.empty());
        // Partition.createLog: the checkpointed high watermark is set as soon as the log is there
        l.updateHighWatermark(p.path("high_watermark").asLong(0));
        return l;
    }
    static List<Object> epochs(UnifiedLog l) { List<Object> r = new ArrayList<>(); l.leaderEpochCache().epochEntries().forEach(e -> r.add(List.of(e.epoch(), e.startOffset()))); return r; }
    static Map<String, Object> state(UnifiedLog l) { Map<String, Object> m = new LinkedHashMap<>(); m.put("log_start_offset", l.logStartOffset()); m.put("log_end_offset", l.logEndOffset()); m.put("high_watermark", l.highWatermark()); m.put("leader_epochs", epochs(l)); return m; }
    /** offset -> identity of the record (all but the batch's partition leader epoch), from all segments; a batch that cannot be read: offset of the batch -> "unreadable" */
    public static TreeMap<Long, String> records(UnifiedLog l) {
        TreeMap<Long, String> m = new TreeMap<>();
        for (LogSegment s : l.logSegments()) {
            try { for (RecordBatch b : s.log().batches()) {
                try { if (!b.isValid()) { m.put(b.baseOffset(), "unreadable"); continue; }
                    for (org.apache.kafka.common.record.internal.Record r : b) { StringBuilder h = new StringBuilder(); for (org.apache.kafka.common.header.Header x : r.headers()) h.append(x.key()).append('=').append(Arrays.toString(x.value())).append(';');
                        m.put(r.offset(), (b.isControlBatch() ? "C" : "D") + (b.isTransactional() ? "T" : "") + "|" + b.producerId() + "|" + b.producerEpoch() + "|" + r.sequence() + "|" + r.timestamp() + "|" + str(r.hasKey() ? r.key() : null) + "|" + str(r.hasValue() ? r.value() : null) + "|" + h); }
                } catch (Throwable t) { m.put(b.baseOffset(), "unreadable"); } } } catch (Throwable t) { m.put(s.baseOffset() * -1 - 1, "segment " + t); }
        }
        return m;
    }
    static int batchEpoch(UnifiedLog l) { int m = -1; for (LogSegment s : l.logSegments()) try { for (RecordBatch b : s.log().batches()) m = Math.max(m, b.partitionLeaderEpoch()); } catch (Throwable t) { } return m; }
    static String str(java.nio.ByteBuffer b) { if (b == null) return "null"; byte[] x = new byte[b.remaining()]; b.duplicate().get(x); return "'" + new String(x, StandardCharsets.ISO_8859_1) + "'"; }
    /** [[first,last],...] of offsets, neighbours joined where no held offset of all lies between */
    static List<Object> ranges(Collection<Long> offs, NavigableSet<Long> all) { List<Object> r = new ArrayList<>(); Long a = null, b = null; for (Long o : new TreeSet<>(offs)) { if (a == null) { a = b = o; } else { Long nx = all.higher(b); if (nx != null && nx.equals(o)) b = o; else { r.add(List.of(a, b)); a = b = o; } } } if (a != null) r.add(List.of(a, b)); return r; }

    static class Follower extends AbstractFetcherThread {
        final UnifiedLog log; final List<Object> steps; final LeaderEndPoint end; long lowest = Long.MAX_VALUE;
        Follower(UnifiedLog log, LeaderEndPoint end, List<Object> steps) { super("f", "f", end, new FailedPartitions(), new TierStateMachine(end, null, false), 1, false, new BrokerTopicStats()); this.log = log; this.steps = steps; this.end = end; }
        public scala.Option<LogAppendInfo> processPartitionData(TopicPartition tp, long fetchOffset, int epoch, FetchResponseData.PartitionData d) {
            MemoryRecords recs = toMemoryRecords(FetchResponse.recordsOrFail(d));
            if (fetchOffset != log.logEndOffset()) throw new IllegalStateException("Offset mismatch for partition " + tp + ": fetched offset = " + fetchOffset + ", log end offset = " + log.logEndOffset() + ".");
            LogAppendInfo i; try { try { i = log.appendAsFollower(recs, epoch); } catch (UnexpectedAppendOffsetException x) {
                // Partition.appendRecordsToFollowerOrFutureReplica: an empty log may start earlier, at the base offset of the batch
                if (log.logEndOffset() != log.logStartOffset() || x.firstOffset >= log.logEndOffset() || x.lastOffset < log.logEndOffset()) throw x;
                steps.add(Map.of("empty_log_starts_again_at", x.firstOffset)); log.truncateFullyAndStartAt(x.firstOffset, Optional.empty()); i = log.appendAsFollower(recs, epoch); } } catch (RuntimeException x) { steps.add(Map.of("append_exception", x.getClass().getName() + ": " + x.getMessage())); throw x; }
            try { log.maybeUpdateHighWatermark(d.highWatermark()); } catch (IOException e) { throw new UncheckedIOException(e); }
            log.maybeIncrementLogStartOffset(d.logStartOffset(), LogStartOffsetIncrementReason.LeaderOffsetIncremented);
            return scala.Option.apply(i);
        }
        public void truncate(TopicPartition tp, OffsetTruncationState s) { Map<String, Object> m = new LinkedHashMap<>(); m.put("truncate_to", s.offset()); m.put("completed", s.truncationCompleted()); m.put("log_end_offset", log.logEndOffset()); steps.add(m); lowest = Math.min(lowest, Math.min(s.offset(), log.logEndOffset())); log.truncateTo(s.offset()); }
        public void truncateFullyAndStartAt(TopicPartition tp, long o) { steps.add(Map.of("truncate_fully_and_start_at", o, "log_end_offset", log.logEndOffset())); lowest = Long.MIN_VALUE; log.truncateFullyAndStartAt(o, Optional.empty()); }
        public Optional<Integer> latestEpoch(TopicPartition tp) { return log.latestEpoch(); }
        public long logStartOffset(TopicPartition tp) { return log.logStartOffset(); }
        public long logEndOffset(TopicPartition tp) { return log.logEndOffset(); }
        public Optional<OffsetAndEpoch> endOffsetForEpoch(TopicPartition tp, int e) { return log.endOffsetForEpoch(e); }
        public boolean shouldFetchFromLastTieredOffset(TopicPartition tp, long a, long b) { return false; }
    }
    static class Leader implements LeaderEndPoint {
        final kafka.cluster.Partition part; final UnifiedLog log; final TopicPartition tp; final List<Object> steps; final int epoch; Follower f; int max = 1 << 20;
        Leader(UnifiedLog log, int epoch, List<Object> steps) throws Exception {
            this.log = log; this.tp = log.topicPartition(); this.steps = steps; this.epoch = epoch;
            part = new kafka.cluster.Partition(tp, 30000L, 1, () -> (Object) 1L, Time.SYSTEM, null, null, null, null, null, scala.Option.empty());
            part.setLog(log, false); part.leaderReplicaIdOpt_$eq(scala.Option.apply((Object) 1));
            Method m = null; for (Method x : kafka.cluster.Partition.class.getDeclaredMethods()) if (x.getName().endsWith("leaderEpoch_$eq")) m = x; m.setAccessible(true); m.invoke(part, epoch);
            // Partition.makeLeader
            if (log.latestEpoch().isEmpty() || log.latestEpoch().get() < epoch || true) log.assignEpochStartOffset(epoch, log.logEndOffset());
        }
        public boolean isTruncationOnFetchSupported() { return true; }
        public void initiateClose() { } public void close() { }
        public BrokerEndPoint brokerEndPoint() { return new BrokerEndPoint(1, "l", 1); }
        public Map<TopicPartition, FetchResponseData.PartitionData> fetch(FetchRequest.Builder b) {
            FetchRequest.PartitionData q = b.fetchData().get(tp); FetchResponseData.PartitionData r = new FetchResponseData.PartitionData().setPartitionIndex(tp.partition());
            Map<String, Object> m = new LinkedHashMap<>(); m.put("fetch", q.fetchOffset); m.put("last_fetched_epoch", q.lastFetchedEpoch.orElse(null));
            try {
                LogReadInfo i = part.fetchRecords(new FetchParams(-1, -1, 0, 0, max, FetchIsolation.LOG_END, Optional.empty()), q, 0L, max, true, false);
                r.setHighWatermark(log.highWatermark()).setLogStartOffset(i.logStartOffset()).setLastStableOffset(i.lastStableOffset());
                if (i.divergingEpoch().isPresent()) { r.setDivergingEpoch(i.divergingEpoch().get()); r.setRecords(MemoryRecords.EMPTY); m.put("diverging_epoch", i.divergingEpoch().get().epoch()); m.put("diverging_end_offset", i.divergingEpoch().get().endOffset()); }
                else { Records x = i.fetchedData().records; r.setRecords(x instanceof FileRecords ? toMem((FileRecords) x) : x); m.put("bytes", x.sizeInBytes()); }
            } catch (Throwable t) { Errors e = Errors.forException(t); r.setErrorCode(e.code()); m.put("error", e.name()); m.put("message", t.getMessage()); }
            steps.add(m); return Map.of(tp, r);
        }
        static MemoryRecords toMem(FileRecords f) throws IOException { java.nio.ByteBuffer b = java.nio.ByteBuffer.allocate(f.sizeInBytes()); f.readInto(b, 0); return MemoryRecords.readableRecords(b); }
        public OffsetAndEpoch fetchEarliestOffset(TopicPartition tp, int e) { return new OffsetAndEpoch(log.logStartOffset(), log.leaderEpochCache().epochForOffset(log.logStartOffset()).orElse(0)); }
        public OffsetAndEpoch fetchLatestOffset(TopicPartition tp, int e) { return new OffsetAndEpoch(log.logEndOffset(), log.latestEpoch().orElse(0)); }
        public OffsetAndEpoch fetchEarliestLocalOffset(TopicPartition tp, int e) { return fetchEarliestOffset(tp, e); }
        public OffsetAndEpoch fetchEarliestPendingUploadOffset(TopicPartition tp, int e) { throw new UnsupportedOperationException(); }
        public Map<TopicPartition, OffsetForLeaderEpochResponseData.EpochEndOffset> fetchEpochEndOffsets(Map<TopicPartition, OffsetForLeaderEpochRequestData.OffsetForLeaderPartition> m) { Map<TopicPartition, OffsetForLeaderEpochResponseData.EpochEndOffset> r = new HashMap<>(); m.forEach((k, v) -> r.put(k, part.lastOffsetForLeaderEpoch(Optional.of(v.currentLeaderEpoch()), v.leaderEpoch(), true))); return r; }
        public ResultWithPartitions<Optional<ReplicaFetch>> buildFetch(Map<TopicPartition, PartitionFetchState> st) {
            PartitionFetchState s = st.get(tp); if (s == null || !s.isReadyForFetch()) return new ResultWithPartitions<>(Optional.empty(), Set.of());
            Map<TopicPartition, FetchRequest.PartitionData> q = new LinkedHashMap<>(); q.put(tp, new FetchRequest.PartitionData(Uuid.ZERO_UUID, s.fetchOffset(), f.log.logStartOffset(), 1 << 20, Optional.of(epoch), s.lastFetchedEpoch()));
            return new ResultWithPartitions<>(Optional.of(new ReplicaFetch(q, FetchRequest.Builder.forReplica(ApiKeys.FETCH.latestVersion(), 2, 1L, 0, 0, q))), Set.of());
        }
    }
    static Map<String, Object> exc(Throwable t, Path w) { Map<String, Object> m = new LinkedHashMap<>(); m.put("class", t.getClass().getName()); m.put("message", t.getMessage() == null ? null : t.getMessage().replaceAll("/[^ ,]*/(s\\d+-[lf]|[lf])/", "")); return m; }
    public static Map<String, Object> one(String id, JsonNode L, JsonNode F, JsonNode cfg, Path root, Path w) throws Exception {
        Map<String, Object> r = new LinkedHashMap<>(); r.put("id", id);
        Path ls = root.resolve(L.get("dir").asText()), fs = root.resolve(F.get("dir").asText()), ld = w.resolve("l").resolve(ls.getFileName().toString().replaceAll("^(.*)\\.[0-9a-f]{32}-future$", "$1")), fd = w.resolve("f").resolve(fs.getFileName().toString().replaceAll("^(.*)\\.[0-9a-f]{32}-future$", "$1"));
        Files.createDirectories(ld.getParent()); Files.createDirectories(fd.getParent()); copy(ls, ld); copy(fs, fd);
        NoSched s1 = new NoSched(), s2 = new NoSched(); LogConfig c = conf(cfg); UnifiedLog l, f;
        try { l = load(ld, L, c, s1); } catch (Throwable t) { r.put("leader_load_exception", exc(t, w)); return r; }
        try { f = load(fd, F, c, s2); } catch (Throwable t) { r.put("follower_load_exception", exc(t, w)); l.close(); return r; }
        r.put("leader", state(l)); r.put("follower", state(f));
        TreeMap<Long, String> lr = records(l), fr = records(f); long fleo = f.logEndOffset();
        int e = Math.max(Math.max(l.latestEpoch().orElse(-1), f.latestEpoch().orElse(-1)), Math.max(batchEpoch(l), batchEpoch(f))) + 1; r.put("new_leader_epoch", e);
        List<Object> steps = new ArrayList<>(); Leader le = new Leader(l, e, steps); Follower th = new Follower(f, le, steps); le.f = th;
        // ReplicaManager.initialFetchOffset
        long init = f.latestEpoch().isPresent() ? f.logEndOffset() : f.highWatermark(); r.put("initial_fetch_offset", init);
        TopicPartition tp = f.topicPartition();
        try {
            scala.collection.immutable.Map<TopicPartition, InitialFetchState> m = scala.collection.immutable.Map$.MODULE$.<TopicPartition, InitialFetchState>empty().updated(tp, new InitialFetchState(scala.Option.empty(), le.brokerEndPoint(), e, init));
            th.addPartitions(m); long before; int n = 0; boolean failed = false;
            do { before = steps.size(); long bl = f.logEndOffset(); th.doWork(); n++; scala.Option<PartitionFetchState> st = th.fetchState(tp); if (st.isEmpty()) { failed = true; break; } if (st.get().isDelayed()) Thread.sleep(3); Map<?, ?> last = (Map<?, ?>) steps.get(steps.size() - 1); if (last.containsKey("bytes") && last.get("bytes").equals(0) ) break; } while (n < 60);
            r.put("partition_failed", failed); if (n >= 60) r.put("gave_up_after", n);
        } catch (Throwable t) { r.put("exception", exc(t, w)); }
        r.put("steps", steps);
        long tr = th.lowest == Long.MAX_VALUE ? fleo : th.lowest; boolean full = th.lowest == Long.MIN_VALUE;
        r.put("truncated_fully", full); r.put("truncation_offset", full ? null : tr); r.put("truncates", full || tr < fleo);
        TreeSet<Long> lost = new TreeSet<>(full ? fr.keySet() : fr.tailMap(tr, true).keySet()), gone = new TreeSet<>(), both = new TreeSet<>(fr.keySet()); both.addAll(lr.keySet());
        for (Long o : lost) if (!fr.get(o).equals(lr.get(o))) gone.add(o);
        r.put("follower_records_truncated", Map.of("count", lost.size(), "ranges", ranges(lost, fr.navigableKeySet())));
        r.put("records_lost", Map.of("count", gone.size(), "ranges", ranges(gone, fr.navigableKeySet()))); // truncated and not the same record in the leader's copy
        // the copies as they lay there
        TreeSet<Long> diff = new TreeSet<>(), onlyL = new TreeSet<>(), onlyF = new TreeSet<>(); for (Long o : both) { String a = lr.get(o), b = fr.get(o); if (a == null) onlyF.add(o); else if (b == null) onlyL.add(o); else if (!a.equals(b)) diff.add(o); }
        Map<String, Object> cm = new LinkedHashMap<>(); cm.put("same", both.size() - diff.size() - onlyL.size() - onlyF.size()); cm.put("different", ranges(diff, both)); cm.put("only_leader", ranges(onlyL, both)); cm.put("only_follower", ranges(onlyF, both)); r.put("contents_before", cm);
        r.put("follower_after", state(f));
        TreeMap<Long, String> fa = records(f); TreeSet<Long> d2 = new TreeSet<>(); TreeSet<Long> b2 = new TreeSet<>(fa.keySet()); b2.addAll(lr.keySet()); for (Long o : b2) if (!Objects.equals(fa.get(o), lr.get(o))) d2.add(o);
        r.put("differences_left_after", ranges(d2, b2));
        try { l.close(); } catch (Throwable t) { } try { f.close(); } catch (Throwable t) { }
        return r;
    }
    public static void main(String[] a) throws Exception {
        Path w = Paths.get(a[0]).toAbsolutePath(), root = Paths.get(a[1]).toAbsolutePath().getParent(); if (a.length > 2) root = Paths.get(a[2]).toAbsolutePath(); PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8); int n = 0;
        for (String line : Files.readAllLines(Paths.get(a[1]))) { if (line.isBlank()) continue; JsonNode j = J.readTree(line); Path d = w.resolve("s" + (++n)); Map<String, Object> r;
            try { r = one(j.get("id").asText(), j.get("leader"), j.get("follower"), j.get("config"), root, d); } catch (Throwable t) { r = new LinkedHashMap<>(); r.put("id", j.get("id").asText()); r.put("oracle_exception", t.toString()); t.printStackTrace(); }
            out.println(J.writeValueAsString(r)); out.flush(); wipe(d); if (n % 40 == 0) System.gc(); }
        System.exit(0);
    }
}
