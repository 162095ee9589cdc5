package org.kubist.spark;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.kubist.KubistException;

/** Options set with {@code option(...)}, declared only here and listed in docs/spark.md. */
final class Options {
    /** The meaning of a sample's seed. */
    enum Seed {
        /** The seed is ignored: samples are nested, and always the same records. */
        NESTED,
        /** Another seed selects another window of priorities. */
        WINDOW,
        /** Spark samples from all rows. */
        REFUSE
    }

    static final Set<String> READ = Set.of("seed", "inclusion", "partitions", "snapshot", "versionasof", "step");
    static final Set<String> WRITE = Set.of("staging", "writer");
    static final Set<String> CREATE = Set.of("dimensions", "identity", "lookup", "capacity", "accuracy");
    /** Options that Spark adds itself, and options of streams. */
    private static final Set<String> OF_SPARK =
            Set.of("path", "checkpointlocation", "queryname", "provider", "owner", "location", "is_managed_location");

    private final CaseInsensitiveStringMap said;

    Options(Map<String, String> said) {
        this.said = new CaseInsensitiveStringMap(said);
        Set<String> known = new TreeSet<>(READ);
        known.addAll(WRITE);
        known.addAll(CREATE);
        for (String name : this.said.keySet()) {
            String lower = name.toLowerCase(Locale.ROOT);
            if (lower.equals("timestampasof")) {
                throw timeless();
            }
            if (!known.contains(lower) && !OF_SPARK.contains(lower) && !lower.startsWith("option.")) {
                throw invalid("unknown option \"" + name + "\"; there are " + String.join(", ", known));
            }
        }
        // Invalid values are refused immediately, even if they are not used.
        seed();
        partitions();
        version();
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Options options && said.equals(options.said);
    }

    @Override
    public int hashCode() {
        return said.hashCode();
    }

    static KubistException invalid(String message) {
        return new KubistException(KubistException.Kind.INVALID_INPUT, message);
    }

    static KubistException timeless() {
        return new KubistException(
                KubistException.Kind.UNSUPPORTED,
                "a table does not keep when its commits were made: give the token of a snapshot (snapshot, VERSION AS OF"
                        + " 'token') or a step (step, VERSION AS OF n)");
    }

    String location() {
        String path = said.get("path");
        if (path == null || path.isEmpty()) {
            throw invalid("no table is given: say load(location) or save(location)");
        }
        return path;
    }

    Seed seed() {
        String name = said.getOrDefault("seed", "nested");
        for (Seed seed : Seed.values()) {
            if (seed.name().equalsIgnoreCase(name)) {
                return seed;
            }
        }
        throw invalid("option seed: \"" + name + "\" is neither nested, window nor refuse");
    }

    /** The name of the inclusion column; null for none. */
    String inclusion() {
        return said.get("inclusion");
    }

    /** The number of partitions of a scan; 0 chooses it by rows. */
    int partitions() {
        long parts = whole("partitions", 0);
        if (parts < 0 || parts > 1 << 16) {
            throw invalid("option partitions: " + parts + " is not between 1 and 65536");
        }
        return (int) parts;
    }

    private long whole(String name, long otherwise) {
        String text = said.get(name);
        try {
            return text == null ? otherwise : Long.parseLong(text);
        } catch (NumberFormatException error) {
            throw invalid("option " + name + ": \"" + text + "\" is not a whole number");
        }
    }

    /** The snapshot to read: a token or the number of a step; null for the newest state. */
    String version() {
        String version = null;
        for (String name : List.of("snapshot", "versionAsOf", "step")) {
            if (said.containsKey(name)) {
                if (version != null) {
                    throw invalid("give only one of snapshot, versionAsOf and step");
                }
                version = said.get(name);
            }
        }
        return version;
    }

    /** The folder for staged rows; null for one next to the table. */
    String staging() {
        return said.get("staging");
    }

    /** The writer's name; null for a free one. */
    String writer() {
        return said.get("writer");
    }

    boolean creates() {
        return said.containsKey("dimensions");
    }

    private List<String> names(String option) {
        List<String> names = new ArrayList<>();
        for (String name : said.getOrDefault(option, "").split(",")) {
            if (!name.isBlank()) {
                names.add(name.trim());
            }
        }
        return names;
    }

    /** Error bounds of stored values, by column. */
    private Map<String, String> accuracy() {
        Map<String, String> bounds = new LinkedHashMap<>();
        for (String text : names("accuracy")) {
            int equals = text.lastIndexOf('=');
            if (equals < 1 || bounds.put(text.substring(0, equals).trim(), text.substring(equals + 1).trim()) != null) {
                throw invalid("option accuracy: \"" + text + "\" must have the form x=1e-6 or ux=1e-4 rel, once for each column");
            }
        }
        return bounds;
    }

    private Map<String, Object> dimensions() {
        Map<String, Object> dimensions = new LinkedHashMap<>();
        for (String text : names("dimensions")) {
            String[] parts = text.split("=", 2);
            Object domain = parts.length == 1 ? null : domain(text, parts[1].trim());
            if (dimensions.containsKey(parts[0].trim())) {
                throw invalid("option dimensions: " + parts[0].trim() + " is there twice");
            }
            dimensions.put(parts[0].trim(), domain);
        }
        return dimensions;
    }

    private static Object domain(String dimension, String domain) {
        if (domain.equals("quantile")) {
            return domain;
        }
        try {
            String[] ends = domain.split(":", -1);
            if (ends.length == 2) {
                return List.of(Double.valueOf(ends[0].trim()), Double.valueOf(ends[1].trim()));
            }
        } catch (NumberFormatException error) {
        }
        throw invalid("option dimensions: \"" + dimension + "\" must have the form x, x=0:1 or x=quantile");
    }

    /** Options of a new table except its columns, as a JSON object. */
    Map<String, Object> creation() {
        Map<String, Object> creation = new LinkedHashMap<>();
        creation.put("dimensions", dimensions());
        creation.put("identity", names("identity"));
        creation.put("lookup", names("lookup"));
        Map<String, String> accuracy = accuracy();
        if (!accuracy.isEmpty()) {
            creation.put("accuracy", accuracy);
        }
        if (said.containsKey("capacity")) {
            creation.put("capacity", whole("capacity", 0));
        }
        return creation;
    }
}
