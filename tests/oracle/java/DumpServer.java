import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.DumpLogSegments;

/**
 * Runs DumpLogSegments many times in one JVM.
 *
 * Each line on stdin is one call: its arguments, separated by tabs. Each answer on stdout is a line
 * {@code STATUS STDOUT_BYTES STDERR_BYTES FAILURE} followed by those bytes; FAILURE is the class of the exception that
 * ended the call, or {@code -}. The streams hold what a real process would have written.
 */
public class DumpServer {
    private static final class ExitCalled extends RuntimeException {
        final int status;

        ExitCalled(int status) {
            super(null, null, false, false);
            this.status = status;
        }
    }

    public static void main(String[] ignored) throws Exception {
        PrintStream answers = System.out;
        Exit.setExitProcedure((status, message) -> {
            throw new ExitCalled(status);
        });
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String call = calls.readLine(); call != null; call = calls.readLine()) {
            answer(call.split("\t", -1), answers);
        }
    }

    private static void answer(String[] arguments, PrintStream answers) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        System.setOut(new PrintStream(out, false, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, false, StandardCharsets.UTF_8));
        int status = 0;
        String failure = "-";
        try {
            DumpLogSegments.main(arguments);
        } catch (ExitCalled exit) {
            status = exit.status;
        } catch (Throwable thrown) {
            status = 1;
            failure = thrown.getClass().getName();
            System.err.print("Exception in thread \"main\" ");
            thrown.printStackTrace(System.err);
        }
        System.out.flush();
        System.err.flush();
        answers.print(status + " " + out.size() + " " + err.size() + " " + failure + "\n");
        OutputStream raw = answers;
        out.writeTo(raw);
        err.writeTo(raw);
        answers.flush();
    }
}
