import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Random;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.TimestampType;

/**
 * Writes one large v2 segment of JSON events of about 185 bytes, a header on every tenth.
 *
 * Usage: BenchSegment FILE CODEC KIBIBYTES RECORDS_PER_BATCH
 */
public class BenchSegment {
    private static final String[] ACTIONS = {"open", "scroll", "buy", "return", "close"};

    public static void main(String[] arguments) throws IOException {
        Compression codec = Compression.of(CompressionType.forName(arguments[1])).build();
        long wanted = Long.parseLong(arguments[2]) << 10;
        int records = Integer.parseInt(arguments[3]);
        Random random = new Random(20_240_601);
        ByteBuffer buffer = ByteBuffer.allocate(1 << 20);
        long offset = 0;
        long clock = 1_717_200_000_000L;
        try (OutputStream out = new BufferedOutputStream(Files.newOutputStream(Path.of(arguments[0])), 1 << 20)) {
            for (long written = 0; written < wanted;) {
                buffer.clear();
                MemoryRecordsBuilder batch = MemoryRecords.builder(buffer, (byte) 2, codec, TimestampType.CREATE_TIME,
                    offset, -1L, -1L, (short) -1, -1, false, 7);
                for (int index = 0; index < records; index++) {
                    clock += random.nextInt(25);
                    batch.append(clock, utf8("account-" + random.nextInt(500_000)), utf8(event(random)), headers(index, random));
                }
                ByteBuffer built = batch.build().buffer();
                out.write(built.array(), built.arrayOffset() + built.position(), built.remaining());
                written += built.remaining();
                offset += records;
            }
        }
    }

    private static String event(Random random) {
        StringBuilder text = new StringBuilder("{\"action\":\"").append(ACTIONS[random.nextInt(ACTIONS.length)])
            .append("\",\"account\":").append(random.nextInt(500_000))
            .append(",\"token\":\"").append(Long.toHexString(random.nextLong()))
            .append("\",\"price\":").append(random.nextInt(1_000_000) / 100.0)
            .append(",\"path\":\"/shop/").append(random.nextInt(90_000))
            .append("\",\"agent\":\"Firefox (Linux x86_64)\",\"note\":\"");
        for (int left = random.nextInt(90); left > 0; left--) {
            text.append((char) ('a' + random.nextInt(26)));
        }
        return text.append("\"}").toString();
    }

    private static Header[] headers(int index, Random random) {
        return index % 10 > 0 ? new Header[0]
            : new Header[] {new RecordHeader("trace-id", utf8(Long.toHexString(random.nextLong())))};
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
