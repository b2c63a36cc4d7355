import java.util.Collection;
import java.util.Map;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * Prints what a release of Kafka knows, as one JSON object: the levels of metadata.version, the features, the states of
 * transactions and the names of configs. It asks by reflection, because classes and methods move between releases.
 */
public class ReleaseFacts {
    public static void main(String[] args) throws Exception {
        TreeMap<Integer, String> levels = new TreeMap<>();
        for (Object each : constants("org.apache.kafka.server.common.MetadataVersion"))
            levels.put(((Number) call(each, "featureLevel")).intValue(), (String) call(each, "version"));
        TreeMap<String, Object> ranges = new TreeMap<>();
        Class<?> quorum = Class.forName("org.apache.kafka.controller.QuorumFeatures");
        Map<?, ?> supported = (Map<?, ?>) quorum.getMethod("defaultSupportedFeatureMap", boolean.class).invoke(null, false);
        supported.forEach((name, range) -> ranges.put((String) name, range));
        TreeMap<Integer, String> states = new TreeMap<>();
        for (Object each : constants("org.apache.kafka.coordinator.transaction.TransactionState"))
            states.put(((Number) call(each, "id")).intValue(), (String) call(each, "stateName"));

        StringJoiner all = new StringJoiner(",\n ", "{", "}");
        all.add(text("firstLevel") + ": " + levels.firstKey());
        all.add(text("levels") + ": " + array(levels.values()));
        StringJoiner features = new StringJoiner(", ", "{", "}");
        ranges.forEach((name, range) -> features.add(text(name) + ": [" + call(range, "min") + ", " + call(range, "max") + "]"));
        all.add(text("features") + ": " + features);
        all.add(text("transactionStates") + ": " + array(states.values()));
        all.add(text("topicConfigs") + ": " + configs("org.apache.kafka.storage.internals.log.LogConfig"));
        all.add(text("groupConfigs") + ": " + configs("org.apache.kafka.coordinator.group.GroupConfig"));
        System.out.println(all);
    }

    private static Object[] constants(String name) throws Exception {
        return Class.forName(name).getEnumConstants();
    }

    private static String configs(String owner) throws Exception {
        Collection<?> names = (Collection<?>) Class.forName(owner).getMethod("configNames").invoke(null);
        return array(new TreeSet<>(names));
    }

    private static Object call(Object target, String method) {
        try {
            return target.getClass().getMethod(method).invoke(target);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private static String array(Collection<?> names) {
        StringJoiner all = new StringJoiner(", ", "[", "]");
        names.forEach(each -> all.add(text((String) each)));
        return all.toString();
    }

    private static String text(String value) {
        return "\"" + value + "\"";
    }
}
