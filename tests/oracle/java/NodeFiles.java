// What a node makes of the files that it reads before its partitions.
// usage: NodeFiles, the paths of quorum-state files on standard input. An answer is a line: "-", or the class of the exception.
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import org.apache.kafka.raft.FileQuorumStateStore;

public class NodeFiles {
    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String path = requests.readLine(); path != null; path = requests.readLine()) {
            String answer = "-";
            try {
                new FileQuorumStateStore(new File(path)).readElectionState();
            } catch (RuntimeException error) {
                answer = error.getClass().getName();
            }
            System.out.println(answer);
        }
    }
}
