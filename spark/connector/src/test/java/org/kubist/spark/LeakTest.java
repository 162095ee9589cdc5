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
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.spark.api.java.function.ForeachFunction;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.kubist.Table;

/** A hundred consecutive queries leave no native resources behind. */
class LeakTest {
    /** Handles that a Spark thread keeps of its last query: a table and a snapshot. */
    private static final long OF_THE_LAST = 2;
    /**
     * Files that Spark and Java open on demand: three descriptors per event loop of Spark (an epoll, an event and a
     * timer), and a jar with its first class.
     */
    private static final long OTHER_FILES = 12;

    @TempDir static Path folder;

    @Test
    void queriesLeaveNothingBehind() throws Exception {
        SparkSession spark = Session.open(folder, "local[2]");
        try {
            String location = folder.resolve("t").toString();
            spark.createDataFrame(new Rows(4).some(0, 2000), Rows.SCHEMA)
                    .write().format("kubist").option("dimensions", "x").mode("append").save(location);
            ask(spark, location, 10);
            // Handles of earlier tests in this process.
            long others = handlesAfterCollection(spark, 0);
            long files = open("");
            long ofTable = open(location);
            Map<String, Long> threads = threads();
            ask(spark, location, 100);
            assertEquals(0L, Table.held().get("arrays"));
            long held = handlesAfterCollection(spark, others);
            assertTrue(held <= others + OF_THE_LAST, held + " handles are open, and were " + others);
            assertTrue(open(location) <= ofTable + OF_THE_LAST, open(location) + " of its files are open, and were " + ofTable);
            assertTrue(open("") <= files + OTHER_FILES, open("") + " files are open, and were " + files);
            Map<String, Long> more = threads();
            more.keySet().removeIf(name -> more.get(name) <= threads.getOrDefault(name, 0L) + 2);
            assertEquals(Map.of(), more, "more threads than " + threads);
        } finally {
            spark.stop();
        }
    }

    /** A task of a cancelled query ends immediately, although much is left to read. */
    @Test
    void aCancelledQueryStopsReading() throws Exception {
        SparkSession spark = Session.open(folder, "local[2]");
        try {
            String location = folder.resolve("long").toString();
            spark.range(0, 2_000_000, 1, 2).selectExpr("id", "id / 2e6D AS x")
                    .write().format("kubist").option("dimensions", "x").mode("append").save(location);
            CountDownLatch begun = new CountDownLatch(2);
            BlockingQueue<Long> ended = new LinkedBlockingQueue<>();
            // Events may arrive after the end.
            spark.sparkContext().listenerBus().waitUntilEmpty();
            spark.sparkContext().addSparkListener(new SparkListener() {
                @Override
                public void onTaskStart(SparkListenerTaskStart task) {
                    begun.countDown();
                }

                @Override
                public void onTaskEnd(SparkListenerTaskEnd task) {
                    // A task that was killed before it ran has no metrics.
                    ended.add(task.taskMetrics() == null ? 0 : task.taskMetrics().inputMetrics().recordsRead());
                }
            });
            Thread asking = new Thread(() -> {
                spark.sparkContext().setJobGroup("slow", "to be cancelled", true);
                var rows = spark.read().format("kubist").option("partitions", "2").load(location);
                rows.filter("length(repeat(cast(id AS STRING), 200000)) > 0").foreach((ForeachFunction<Row>) row -> {});
            });
            asking.setUncaughtExceptionHandler((thread, error) -> {});
            asking.start();
            begun.await();
            spark.sparkContext().cancelJobGroup("slow");
            for (int task = 0; task < 2; task++) {
                assertTrue(ended.take() < 1_000_000, "a task read all of its rows");
            }
            asking.join();
            assertEquals(0L, Table.held().get("arrays"));
        } finally {
            spark.stop();
        }
    }

    private static void ask(SparkSession spark, String location, int times) {
        for (int time = 0; time < times; time++) {
            var rows = spark.read().format("kubist").option("partitions", "2").load(location);
            switch (time % 3) {
                case 0 -> rows.filter("x > 0.5D").collectAsList();
                case 1 -> rows.filter("x + y > 1").limit(1).collectAsList();
                default -> rows.sample(0.1).count();
            }
        }
    }

    /** Garbage collection closes the handles of plans, but undelivered events keep some plans alive. */
    private static long handlesAfterCollection(SparkSession spark, long enough) throws Exception {
        spark.sparkContext().listenerBus().waitUntilEmpty();
        ReferenceQueue<Object> collected = new ReferenceQueue<>();
        for (int turn = 0; turn < 20 && handles() > enough; turn++) {
            WeakReference<Object> garbage = new WeakReference<>(new Object(), collected);
            System.gc();
            assertEquals(garbage, collected.remove(10_000));
        }
        return handles();
    }

    private static long handles() {
        return ((Number) Table.held().get("handles")).longValue();
    }

    /** Threads by name without digits, including native ones. Spark fills some pools up to a limit. */
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

    /** The number of open files with this path prefix; with an empty prefix also sockets and similar. */
    private static long open(String beginning) throws IOException {
        try (var files = Files.list(Path.of("/proc/self/fd"))) {
            return files.filter(file -> target(file).startsWith(beginning)).count();
        }
    }

    /** The target of a descriptor; empty once it is closed. */
    private static String target(Path file) {
        try {
            return Files.readSymbolicLink(file).toString();
        } catch (IOException closed) {
            return "";
        }
    }
}
