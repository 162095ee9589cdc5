package org.kubist.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.kubist.Table;

/** A hundred queries, one after the other, leave nothing of the native half behind. */
class LeakTest {
    @TempDir static Path folder;

    @Test
    void queriesLeaveNothingBehind() throws Exception {
        SparkSession spark = Session.open(folder, "local[2]");
        try {
            String location = folder.resolve("t").toString();
            spark.createDataFrame(new Rows(4).some(0, 2000), Rows.SCHEMA)
                    .write().format("kubist").option("dimensions", "x").mode("append").save(location);
            ask(spark, location, 10);
            assertEquals(0L, handlesAfterCollection());
            long files = open();
            int threads = threads();
            ask(spark, location, 100);
            assertEquals(0L, Table.held().get("arrays"));
            assertEquals(0L, handlesAfterCollection());
            assertTrue(open() <= files + 2, open() + " files are open, and were " + files);
            assertTrue(threads() <= threads + 2, threads() + " threads run, and were " + threads);
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
    private static Object handlesAfterCollection() throws InterruptedException {
        ReferenceQueue<Object> collected = new ReferenceQueue<>();
        for (int turn = 0; turn < 50 && !Table.held().get("handles").equals(0L); turn++) {
            WeakReference<Object> garbage = new WeakReference<>(new Object(), collected);
            System.gc();
            assertEquals(garbage, collected.remove(10_000));
        }
        return Table.held().get("handles");
    }

    private static int threads() {
        return Thread.getAllStackTraces().size();
    }

    private static long open() throws IOException {
        try (var files = Files.list(Path.of("/proc/self/fd"))) {
            return files.count();
        }
    }
}
