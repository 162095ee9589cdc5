package org.kubist.bench;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.sql.SparkSession;

/** Measures the tasks of a query; bytes are those requested from the system, as Spark counts only some. */
final class Watch extends SparkListener {
    private static final Path IO = Path.of("/proc/self/io");

    private static final OperatingSystemMXBean SYSTEM =
            ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);

    private final SparkSession spark;
    private final AtomicLong millis = new AtomicLong();

    Watch(SparkSession spark) {
        this.spark = spark;
        spark.sparkContext().addSparkListener(this);
    }

    @Override
    public void onTaskEnd(SparkListenerTaskEnd task) {
        millis.addAndGet(task.taskMetrics().executorRunTime());
    }

    /** CPU time of all threads of this process, including native ones, which other programs hardly influence. */
    private static double processorSeconds() {
        return SYSTEM.getProcessCpuTime() / 1e9;
    }

    private static long bytesRead() {
        try {
            return Files.readAllLines(IO).stream()
                    .filter(line -> line.startsWith("rchar: "))
                    .mapToLong(line -> Long.parseLong(line.substring("rchar: ".length())))
                    .sum();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /**
     * The cost of a query.
     *
     * @param seconds elapsed time
     * @param processor CPU seconds
     * @param tasks total seconds of all tasks
     * @param bytes bytes read
     */
    record Cost(double seconds, double processor, double tasks, long bytes) {}

    Cost of(Runnable question) throws TimeoutException {
        spark.sparkContext().listenerBus().waitUntilEmpty();
        millis.set(0);
        long before = bytesRead();
        double processor = processorSeconds();
        long begin = System.nanoTime();
        question.run();
        double seconds = (System.nanoTime() - begin) / 1e9;
        processor = processorSeconds() - processor;
        long bytes = bytesRead() - before;
        spark.sparkContext().listenerBus().waitUntilEmpty();
        return new Cost(seconds, processor, millis.get() / 1e3, bytes);
    }
}
