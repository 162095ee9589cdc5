package org.kubist.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.kubist.Table;

/** A hundred queries, one after the other, leave nothing of the native half behind. */
class LeakTest {
    /** Spark keeps the plans of its last queries: a table and a snapshot each. */
    private static final long HELD_BY_SPARK = 6;

    @TempDir static Path folder;

    @Test
    void queriesLeaveNothingBehind() throws Exception {
        SparkSession spark = Session.open(folder, "local[2]");
        try {
            String location = folder.resolve("t").toString();
            spark.createDataFrame(new Rows(4).some(0, 2000), Rows.SCHEMA)
                    .write().format("kubist").option("dimensions", "x").mode("append").save(location);
            ask(spark, location, 10);
            assertTrue(handlesAfterCollection() <= HELD_BY_SPARK, Table.held().toString());
            long files = open();
            Map<String, Long> threads = threads();
            ask(spark, location, 100);
            assertEquals(0L, Table.held().get("arrays"));
            assertTrue(handlesAfterCollection() <= HELD_BY_SPARK, Table.held().toString());
            assertTrue(open() <= files + HELD_BY_SPARK, open() + " files are open, and were " + files);
            Map<String, Long> more = threads();
            more.keySet().removeIf(name -> more.get(name) <= threads.getOrDefault(name, 0L) + 2);
            assertEquals(Map.of(), more, "more threads than " + threads);
        } finally {
            spark.stop();
        }
    }

    private static void ask(SparkSession spark, String location, int times) {
        for (int time = 0; time < times; time++) {
            var rows = spark.read().format("kubist").option("partitions", "2").load(location);
            switch (time % 3) {
                case 0 -> rows.filter("x > 0.5D").collectAsList();
                // A task that is left before its end.
                case 1 -> rows.filter("x + y > 1").limit(1).collectAsList();
                default -> rows.sample(0.1).count();
            }
        }
    }

    /** What plans held is closed when Java collects them. */
    private static long handlesAfterCollection() throws InterruptedException {
        ReferenceQueue<Object> collected = new ReferenceQueue<>();
        for (int turn = 0; turn < 20 && handles() > HELD_BY_SPARK; turn++) {
            WeakReference<Object> garbage = new WeakReference<>(new Object(), collected);
            System.gc();
            assertEquals(garbage, collected.remove(10_000));
        }
        return handles();
    }

    private static long handles() {
        return ((Number) Table.held().get("handles")).longValue();
    }

    /** How many threads there are of each name, without its numbers, native ones too. Spark fills some pools up to a bound. */
    private static Map<String, Long> threads() throws IOException {
        Map<String, Long> threads = new TreeMap<>();
        try (var tasks = Files.list(Path.of("/proc/self/task"))) {
            for (Path task : tasks.toList()) {
                Path name = task.resolve("comm");
                if (Files.exists(name)) {
                    threads.merge(Files.readString(name).strip().replaceAll("[0-9]+", "N"), 1L, Long::sum);
                }
            }
        }
        threads.keySet().removeIf(name -> name.startsWith("block-manager"));
        return threads;
    }

    private static long open() throws IOException {
        try (var files = Files.list(Path.of("/proc/self/fd"))) {
            return files.count();
        }
    }
}
