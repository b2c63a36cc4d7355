// Reads logs as strictly as Kafka can: every batch and record valid, every record decoded, offsets rising.
// usage: StrictReader; the path of a log on each line of standard input. An answer is a line: records read, a tab, and
// what is wrong ("-": nothing).
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import org.apache.kafka.common.record.internal.FileLogInputStream.FileChannelRecordBatch;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;

public class StrictReader {
    private long records;

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String path = requests.readLine(); path != null; path = requests.readLine()) {
            StrictReader reader = new StrictReader();
            String problem;
            try (FileRecords log = FileRecords.open(new File(path), false)) {
                problem = reader.read(log);
            } catch (Throwable error) {
                problem = error.toString().replaceAll("\\s+", " ");
            }
            System.out.println(reader.records + "\t" + problem);
        }
    }

    private String read(FileRecords log) {
        long before = Long.MIN_VALUE;
        int position = 0;
        for (FileChannelRecordBatch batch : log.batches()) {
            batch.ensureValid();
            int count = 0;
            for (Record record : batch) {
                record.ensureValid();
                if (record.offset() <= before) return "offset " + record.offset() + " behind " + before;
                before = record.offset();
                count++;
            }
            records += count;
            if (batch.countOrNull() != null && batch.countOrNull() != count) return count + " records at " + position;
            if (batch.lastOffset() < before) return "last offset " + batch.lastOffset() + " below " + before;
            before = batch.lastOffset();
            position += batch.sizeInBytes();
        }
        return position == log.sizeInBytes() ? "-" : (log.sizeInBytes() - position) + " bytes left";
    }
}
