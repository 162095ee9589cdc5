package org.kubist.spark;

import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.Trigger;

/**
 * A program with a stream between two tables, which is killed while it runs: {@code folder master}. It ends once the
 * file {@code last} exists and it has read all rows.
 */
final class StreamProgram {
    private StreamProgram() {}

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        SparkSession.Builder builder = SparkSession.builder()
                .master(arguments[1])
                .appName("kubist-killed")
                .config("spark.ui.enabled", "false")
                .config("spark.driver.host", "127.0.0.1")
                .config("spark.driver.bindAddress", "127.0.0.1")
                .config("spark.sql.shuffle.partitions", "2")
                .config("spark.sql.session.timeZone", "UTC")
                .config("spark.executor.extraJavaOptions", System.getProperty("opened"))
                .config("spark.sql.warehouse.dir", folder.resolve("warehouse").toString())
                .config("spark.log.level", "ERROR");
        try (SparkSession spark = builder.getOrCreate()) {
            boolean isLast;
            do {
                isLast = Files.exists(folder.resolve("last"));
                round(spark, folder);
            } while (!isLast);
        }
    }

    /** Processes all available rows, in one or more batches. */
    private static void round(SparkSession spark, Path folder) throws Exception {
        Dataset<Row> rows = spark.readStream()
                .format("kubist")
                .option("partitions", "4")
                .load(folder.resolve("source").toString());
        StreamingQuery query = rows.writeStream()
                .format("kubist")
                .option("checkpointLocation", folder.resolve("checkpoint").toString())
                .option("path", folder.resolve("sink").toString())
                .trigger(Trigger.AvailableNow())
                .start();
        query.awaitTermination();
    }
}
