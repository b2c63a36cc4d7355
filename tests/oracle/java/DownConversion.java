// What RecordsUtil.downConvert of kafka-clients 3.9.1 makes of logs (the class went away in 4.0).
//
// One log a line on standard input: path, magic and output path, separated by tabs. One line each on standard output: "-" when
// the output was written, else the name of the exception. With a fourth field the seconds that the conversion took follow.
package org.apache.kafka.common.record;

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;

import org.apache.kafka.common.utils.Time;

public class DownConversion {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t");
            String answer = "-";
            try (FileRecords source = FileRecords.open(new File(fields[0]), false)) {
                long begin = System.nanoTime();
                ConvertedRecords<MemoryRecords> converted =
                    RecordsUtil.downConvert(source.batches(), Byte.parseByte(fields[1]), 0L, Time.SYSTEM);
                double seconds = (System.nanoTime() - begin) / 1e9;
                if (fields.length > 3) {
                    answer += "\t" + seconds;
                }
                write(fields[2], converted.records().buffer().duplicate());
            } catch (Throwable error) {
                answer = error.getClass().getName();
            }
            System.out.println(answer);
        }
    }

    private static void write(String path, ByteBuffer data) throws Exception {
        StandardOpenOption[] options =
            {StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.TRUNCATE_EXISTING};
        try (FileChannel channel = FileChannel.open(Paths.get(path), options)) {
            while (data.hasRemaining()) {
                channel.write(data);
            }
        }
    }
}
