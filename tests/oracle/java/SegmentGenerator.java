package org.apache.kafka.common.record;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Writes random segments with Kafka's own client library: OUT_DIR/NUMBER/BASE_OFFSET.log.
 *
 * Usage: SegmentGenerator OUT_DIR SEED COUNT. The same seed gives the same files.
 */
public class SegmentGenerator {
    private static final byte MAGIC_0 = 0;
    private static final byte MAGIC_1 = 1;
    private static final byte MAGIC_2 = 2;
    private static final CompressionType[] CODECS = CompressionType.values();
    private static final long[] FIRST_OFFSETS = {0, 0, 0, 1, 7, 4_096, 987_654, 5_000_000_000L};

    private final Random random;
    private final ByteArrayOutputStream segment = new ByteArrayOutputStream();
    private final long baseOffset;
    private long nextOffset;
    private long clock = 1_700_000_000_000L;
    private long producerId = RecordBatch.NO_PRODUCER_ID;
    private int sequence = RecordBatch.NO_SEQUENCE;

    private SegmentGenerator(long seed) {
        // Seeds that differ in few bits would begin with nearly the same numbers.
        random = new Random(seed * 0x9E3779B97F4A7C15L);
        baseOffset = FIRST_OFFSETS[random.nextInt(FIRST_OFFSETS.length)];
        nextOffset = baseOffset;
    }

    public static void main(String[] arguments) throws IOException {
        Path directory = Path.of(arguments[0]);
        long seed = Long.parseLong(arguments[1]);
        int count = Integer.parseInt(arguments[2]);
        for (int number = 0; number < count; number++) {
            SegmentGenerator generator = new SegmentGenerator(seed * 1_000_003 + number);
            byte[] bytes = generator.generate(number);
            Path home = Files.createDirectories(directory.resolve(String.format("%04d", number)));
            Files.write(home.resolve(String.format("%020d.log", generator.baseOffset)), bytes);
        }
    }

    /** The kind of segment goes round with its number, so that a few of them hold every kind. */
    private byte[] generate(int number) throws IOException {
        int entries = 2 + random.nextInt(14);
        for (int entry = 0; entry < entries; entry++) {
            switch (number % 8) {
                case 0 -> legacy(MAGIC_0);
                case 1 -> legacy(MAGIC_1);
                case 2 -> legacyOrBatch(entry, entries);
                case 3, 4 -> data(false);
                case 5 -> transactional();
                case 6 -> metadata();
                default -> anything();
            }
        }
        boolean compact = number % 8 > 2 && random.nextInt(4) == 0;
        return compact ? compacted() : segment.toByteArray();
    }

    private void legacyOrBatch(int entry, int entries) {
        if (3 * entry < entries) {
            legacy(MAGIC_0);
        } else if (3 * entry < 2 * entries) {
            legacy(MAGIC_1);
        } else {
            data(false);
        }
    }

    private void anything() throws IOException {
        switch (random.nextInt(6)) {
            case 0 -> legacy((byte) random.nextInt(2));
            case 1 -> transactional();
            case 2 -> metadata();
            case 3 -> emptyBatch();
            case 4 -> unknownControl();
            default -> data(random.nextInt(8) == 0);
        }
    }

    private void legacy(byte magic) {
        CompressionType codec = CODECS[random.nextInt(4)];
        TimestampType type = magic == MAGIC_0 ? TimestampType.NO_TIMESTAMP_TYPE : timestampType();
        MemoryRecordsBuilder builder = builder(magic, codec, type, false, false, RecordBatch.NO_TIMESTAMP);
        records(builder, false);
    }

    private void data(boolean isTransactional) {
        if (random.nextInt(3) == 0) {
            producerId = 1000 + random.nextInt(4);
            sequence = random.nextBoolean() ? Integer.MAX_VALUE - random.nextInt(6) : random.nextInt(1000);
        }
        long horizon = random.nextInt(6) == 0 ? clock + random.nextInt(100_000) : RecordBatch.NO_TIMESTAMP;
        boolean deletable = horizon != RecordBatch.NO_TIMESTAMP && !isTransactional;
        MemoryRecordsBuilder builder = builder(MAGIC_2, CODECS[random.nextInt(CODECS.length)], timestampType(),
            isTransactional, false, deletable ? horizon : RecordBatch.NO_TIMESTAMP);
        int count = records(builder, true);
        if (sequence != RecordBatch.NO_SEQUENCE) {
            sequence = DefaultRecordBatch.incrementSequence(sequence, count);
        }
        if (random.nextInt(3) == 0) {
            producerId = RecordBatch.NO_PRODUCER_ID;
            sequence = RecordBatch.NO_SEQUENCE;
        }
    }

    private void transactional() {
        if (producerId == RecordBatch.NO_PRODUCER_ID) {
            producerId = 2000 + random.nextInt(4);
            sequence = 0;
        }
        if (random.nextInt(3) > 0) {
            data(true);
            return;
        }
        ControlRecordType type = random.nextBoolean() ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
        ByteBuffer buffer = ByteBuffer.allocate(256);
        MemoryRecords.writeEndTransactionalMarker(buffer, nextOffset++, clock, random.nextInt(9),
            producerId, (short) random.nextInt(9), new EndTransactionMarker(type, random.nextInt(99)));
        buffer.flip();
        write(buffer);
    }

    /** One batch of KRaft control records, all types in turn, or data as a metadata log has it. */
    private void metadata() {
        if (random.nextInt(3) == 0) {
            data(false);
            return;
        }
        MemoryRecordsBuilder builder = builder(MAGIC_2, CompressionType.NONE, TimestampType.CREATE_TIME, false, true,
            RecordBatch.NO_TIMESTAMP);
        int count = 1 + random.nextInt(5);
        for (int index = 0; index < count; index++) {
            clock += random.nextInt(1000);
            switch (random.nextInt(5)) {
                case 0 -> builder.appendLeaderChangeMessage(clock, new LeaderChangeMessage()
                    .setLeaderId(random.nextInt(5))
                    .setVoters(List.of(leaderVoter(), leaderVoter()))
                    .setGrantingVoters(random.nextBoolean() ? List.of() : List.of(leaderVoter())));
                case 1 -> builder.appendSnapshotHeaderMessage(clock,
                    new SnapshotHeaderRecord().setLastContainedLogTimestamp(random.nextLong()));
                case 2 -> builder.appendSnapshotFooterMessage(clock, new SnapshotFooterRecord());
                case 3 -> builder.appendKRaftVersionMessage(clock,
                    new KRaftVersionRecord().setKRaftVersion((short) random.nextInt(3)));
                default -> builder.appendVotersMessage(clock, new VotersRecord()
                    .setVoters(List.of(voter(), voter(), voter()).subList(0, random.nextInt(4))));
            }
        }
        nextOffset += count;
        write(builder.build().buffer());
    }

    private LeaderChangeMessage.Voter leaderVoter() {
        return new LeaderChangeMessage.Voter().setVoterId(random.nextInt(5));
    }

    private VotersRecord.Voter voter() {
        VotersRecord.EndpointCollection endpoints = new VotersRecord.EndpointCollection();
        for (int index = random.nextInt(3); index > 0; index--) {
            endpoints.add(new VotersRecord.Endpoint().setName("L\u00e4\"\\\n" + index)
                .setHost(new String(text(30), StandardCharsets.UTF_8)).setPort(random.nextInt(65_536)));
        }
        return new VotersRecord.Voter().setVoterId(random.nextInt())
            .setVoterDirectoryId(new Uuid(random.nextLong(), random.nextLong()))
            .setEndpoints(endpoints)
            .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature()
                .setMinSupportedVersion((short) random.nextInt(2)).setMaxSupportedVersion((short) random.nextInt()));
    }

    private void unknownControl() throws IOException {
        MemoryRecordsBuilder builder = builder(MAGIC_2, CODECS[random.nextInt(CODECS.length)], TimestampType.CREATE_TIME,
            random.nextBoolean(), true, RecordBatch.NO_TIMESTAMP);
        int keySize = 4 + random.nextInt(3);
        ByteBuffer key = ByteBuffer.allocate(keySize);
        key.putShort((short) random.nextInt(3)).putShort((short) (random.nextInt(12) - 2)).rewind();
        builder.appendUncheckedWithOffset(nextOffset++, new SimpleRecord(clock, key, ByteBuffer.wrap(text(20))));
        write(builder.build().buffer());
    }

    private void emptyBatch() {
        ByteBuffer buffer = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        int delta = random.nextInt(20);
        DefaultRecordBatch.writeEmptyHeader(buffer, MAGIC_2, random.nextInt(99), (short) random.nextInt(9),
            random.nextInt(99), nextOffset, nextOffset + delta, random.nextInt(9), timestampType(), clock,
            random.nextBoolean(), random.nextBoolean());
        nextOffset += delta + 1;
        buffer.flip();
        write(buffer);
    }

    private int records(MemoryRecordsBuilder builder, boolean headers) {
        long first = nextOffset;
        int count = 1 + random.nextInt(random.nextInt(5) == 0 ? 60 : 6);
        int step = random.nextInt(5) == 0 ? 5 : 1;
        boolean disorder = random.nextInt(6) == 0;
        for (int index = 0; index < count; index++) {
            clock += random.nextInt(50);
            long timestamp = disorder ? random.nextInt(1_000_000) - 1L : clock;
            Header[] own = headers && random.nextInt(3) == 0 ? headers() : Record.EMPTY_HEADERS;
            builder.appendWithOffset(nextOffset, timestamp, keyOrValue(24), keyOrValue(200), own);
            nextOffset += 1 + random.nextInt(step);
        }
        write(builder.build().buffer());
        return (int) (nextOffset - first);
    }

    private Header[] headers() {
        Header[] headers = new Header[1 + random.nextInt(4)];
        for (int index = 0; index < headers.length; index++) {
            headers[index] = new RecordHeader(new String(text(12), StandardCharsets.UTF_8), keyOrValue(20));
        }
        return headers;
    }

    private byte[] keyOrValue(int longest) {
        return switch (random.nextInt(8)) {
            case 0 -> null;
            case 1 -> new byte[0];
            case 2 -> bytes(longest);
            default -> text(longest);
        };
    }

    private byte[] bytes(int longest) {
        byte[] bytes = new byte[random.nextInt(longest + 1)];
        random.nextBytes(bytes);
        return bytes;
    }

    private byte[] text(int longest) {
        String pattern = "k\u00e9y \uD83D\uDE00,{\"a\":" + random.nextInt(1000) + "}\t";
        return pattern.repeat(1 + longest / pattern.length()).substring(0, random.nextInt(longest + 1))
            .getBytes(StandardCharsets.UTF_8);
    }

    private TimestampType timestampType() {
        return random.nextInt(4) == 0 ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
    }

    private MemoryRecordsBuilder builder(byte magic, CompressionType codec, TimestampType type, boolean isTransactional,
                                         boolean isControl, long deleteHorizonMs) {
        boolean idempotent = magic == MAGIC_2 && producerId != RecordBatch.NO_PRODUCER_ID;
        return new MemoryRecordsBuilder(new ByteBufferOutputStream(4096), magic, Compression.of(codec).build(), type,
            nextOffset, type == TimestampType.LOG_APPEND_TIME ? clock : RecordBatch.NO_TIMESTAMP,
            idempotent ? producerId : isTransactional ? 1L : RecordBatch.NO_PRODUCER_ID,
            idempotent || isTransactional ? (short) 3 : RecordBatch.NO_PRODUCER_EPOCH,
            isControl ? RecordBatch.NO_SEQUENCE : idempotent ? sequence : isTransactional ? 0 : RecordBatch.NO_SEQUENCE,
            isTransactional, isControl, magic == MAGIC_2 ? random.nextInt(9) : RecordBatch.NO_PARTITION_LEADER_EPOCH,
            Integer.MAX_VALUE, deleteHorizonMs);
    }

    private void write(ByteBuffer buffer) {
        ByteBuffer view = buffer.duplicate();
        byte[] bytes = new byte[view.remaining()];
        view.get(bytes);
        segment.writeBytes(bytes);
    }

    /** What the cleaner's own filter makes of the segment. */
    private byte[] compacted() {
        MemoryRecords source = MemoryRecords.readableRecords(ByteBuffer.wrap(segment.toByteArray()));
        ByteBuffer target = ByteBuffer.allocate(4 * segment.size() + 65_536);
        MemoryRecords.RecordFilter filter = new MemoryRecords.RecordFilter(clock, 1000L) {
            @Override
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                BatchRetention whenEmpty =
                    batch.magic() < MAGIC_2 ? BatchRetention.DELETE_EMPTY : BatchRetention.RETAIN_EMPTY;
                return new BatchRetentionResult(whenEmpty, batch.isControlBatch());
            }

            @Override
            protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                return Math.floorMod(record.offset(), 5) > 1;
            }
        };
        source.filterTo(new TopicPartition("generated", 0), filter, target, Integer.MAX_VALUE,
            BufferSupplier.NO_CACHING);
        target.flip();
        byte[] bytes = new byte[target.remaining()];
        target.get(bytes);
        return bytes;
    }
}
