import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;

/**
 * Runs DumpLogSegments of any version of Kafka many times in one JVM. Its argument is the name of the tool's class.
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

    /** Where a call's output goes. Scala keeps the first System.out that it sees, so that one must stay. */
    private static final class Switch extends OutputStream {
        ByteArrayOutputStream target = new ByteArrayOutputStream();

        @Override
        public void write(int b) {
            target.write(b);
        }

        @Override
        public void write(byte[] bytes, int start, int length) {
            target.write(bytes, start, length);
        }
    }

    private static final Switch OUT = new Switch();
    private static final Switch ERR = new Switch();
    private static Method tool;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(new PrintStream(OUT, false, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, false, StandardCharsets.UTF_8));
        tool = Class.forName(arguments[0]).getMethod("main", String[].class);
        doNotExit();
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String call = calls.readLine(); call != null; call = calls.readLine()) {
            answer(call.split("\t", -1), answers);
        }
    }

    /** Versions that exit through Kafka's own class do not; the oldest ones call System.exit, which ends this JVM. */
    private static void doNotExit() throws Exception {
        Class<?> exit;
        Class<?> procedure;
        try {
            exit = Class.forName("org.apache.kafka.common.utils.Exit");
            procedure = Class.forName("org.apache.kafka.common.utils.Exit$Procedure");
        } catch (ClassNotFoundException old) {
            return;
        }
        Object thrower = Proxy.newProxyInstance(exit.getClassLoader(), new Class<?>[] {procedure}, (self, name, given) -> {
            throw new ExitCalled((Integer) given[0]);
        });
        exit.getMethod("setExitProcedure", procedure).invoke(null, thrower);
    }

    private static void answer(String[] arguments, PrintStream answers) throws Exception {
        ByteArrayOutputStream out = OUT.target = new ByteArrayOutputStream();
        ByteArrayOutputStream err = ERR.target = new ByteArrayOutputStream();
        int status = 0;
        String failure = "-";
        try {
            tool.invoke(null, (Object) arguments);
        } catch (InvocationTargetException wrapped) {
            Throwable thrown = wrapped.getCause();
            if (thrown instanceof ExitCalled) {
                status = ((ExitCalled) thrown).status;
            } else {
                status = 1;
                failure = thrown.getClass().getName();
                System.err.print("Exception in thread \"main\" ");
                thrown.printStackTrace(System.err);
            }
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
