// Reads logs as Kafka 4.3.1 does: every batch and every record is checked and decompressed.
//
// One path a line on standard input. For each log a line a record (offset, timestamp, timestamp type, transactional, control,
// key, value and headers; bytes in hexadecimal, "-" for null), then "=" and what is wrong, or nothing behind it.

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.File;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;

import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.FileLogInputStream.FileChannelRecordBatch;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;

public class ReadBack {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintWriter out =
            new PrintWriter(new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8), 1 << 16));
        for (String path = lines.readLine(); path != null; path = lines.readLine()) {
            String problem;
            try (FileRecords log = FileRecords.open(new File(path), false)) {
                problem = read(log, out);
            } catch (Throwable error) {
                problem = error.toString();
            }
            out.println("=" + problem.replace('\n', ' '));
        }
        out.flush();
    }

    private static String read(FileRecords log, PrintWriter out) {
        String problem = "";
        long last = Long.MIN_VALUE;
        long size = 0;
        for (FileChannelRecordBatch batch : log.batches()) {
            batch.ensureValid();
            int count = 0;
            for (Record record : batch) {
                record.ensureValid();
                if (record.offset() <= last) {
                    problem = "offset " + record.offset() + " behind " + last;
                }
                last = record.offset();
                count++;
                StringBuilder headers = new StringBuilder();
                for (Header header : record.headers()) {
                    headers.append(' ').append(HEX.formatHex(header.key().getBytes(StandardCharsets.UTF_8)));
                    headers.append('=').append(hex(header.value() == null ? null : ByteBuffer.wrap(header.value())));
                }
                out.println(record.offset() + " " + record.timestamp() + " " + batch.timestampType().id + " "
                    + (batch.isTransactional() ? "T" : "-") + (batch.isControlBatch() ? "C" : "-") + " "
                    + hex(record.key()) + " " + hex(record.value()) + headers);
            }
            if (batch.countOrNull() != null && batch.countOrNull() != count) {
                problem = "a batch of " + count + " records declares " + batch.countOrNull();
            }
            if (count > 0 && batch.lastOffset() < last) {
                problem = "a batch ends before its last record " + last;
            }
            last = Math.max(last, batch.lastOffset());
            size += batch.sizeInBytes();
        }
        return size == log.sizeInBytes() ? problem : (log.sizeInBytes() - size) + " bytes left over";
    }

    private static String hex(ByteBuffer data) {
        if (data == null) {
            return "-";
        }
        byte[] bytes = new byte[data.remaining()];
        data.duplicate().get(bytes);
        return HEX.formatHex(bytes);
    }
}
