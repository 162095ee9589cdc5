package org.kubist.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import java.util.stream.Stream;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;

/**
 * Compares Kubist with Parquet, Delta and Iceberg through Spark on this machine: {@code make bench-spark}.
 *
 * <p>The rows are written once as unordered Parquet files, from which each store is filled, unless it exists. The
 * queries run on all stores in turn, with files in the page cache, and their results are compared. The first round does
 * not count, and long queries have fewer rounds.
 */
public final class Bench {
    /** About 100 MB of Parquet. */
    private static final long ROWS_OF_A_FILE = 2_500_000;
    /** Limit of a query's total time over all stores, after three counted rounds. */
    private static final double PATIENCE_SECONDS = 60;
    private static final int LEAST_TURNS = 3;
    /** About 1 % of the rows. */
    private static final String BOX = "x >= 0.3F AND x < 0.57F AND y >= 0.4F AND y < 0.67F AND z >= 0.5F AND z < 0.77F";

    private static final Map<String, Function<Store, Dataset<Row>>> QUESTIONS = new LinkedHashMap<>();

    static {
        QUESTIONS.put("full scan", store -> sums(store.open()));
        QUESTIONS.put("box", store -> sums(store.open().filter(BOX)));
        QUESTIONS.put("1 % of all", store -> sums(store.open().sample(0.01, 7)));
        QUESTIONS.put("1 % of the box", store -> sums(store.open().filter(BOX).sample(0.01, 7)));
        QUESTIONS.put("mean to 1 %", Store::mean);
    }

    private Bench() {}

    private static Dataset<Row> sums(Dataset<Row> rows) {
        return rows.agg(
                functions.expr("count(pid)"), functions.expr("sum(pid)"), functions.expr("sum(step)"),
                functions.expr("sum(x + y + z)"), functions.expr("sum(diameter)"), functions.expr("sum(u + v + w)"));
    }

    /**
     * Fills the stores and runs the queries.
     *
     * @param arguments folder, rows, rounds, names of stores separated by commas
     * @throws Exception if a store cannot be filled or returns a different result
     */
    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]).toAbsolutePath();
        long rows = Long.parseLong(arguments[1]);
        int turns = Integer.parseInt(arguments[2]);
        Set<String> wanted = Set.of(arguments[3].split(","));
        Files.createDirectories(folder);
        SparkSession spark = session(folder, rows);
        try {
            int files = (int) Math.max(2, rows / ROWS_OF_A_FILE);
            List<Store> stores = Store.all(spark, folder, files).stream().filter(store -> wanted.contains(store.name())).toList();
            Report report = new Report(rows, turns, stores);
            Watch watch = new Watch(spark);
            fill(spark, folder, rows, stores, watch, report);
            ask(stores, turns, watch, report);
            System.out.println(report.text());
        } finally {
            spark.stop();
        }
    }

    private static SparkSession session(Path folder, long rows) {
        return SparkSession.builder()
                .master("local[2]")
                .appName("bench-spark")
                .config("spark.ui.enabled", "false")
                .config("spark.log.level", "ERROR")
                .config("spark.driver.host", "127.0.0.1")
                .config("spark.driver.bindAddress", "127.0.0.1")
                .config("spark.local.dir", folder.resolve("shuffles").toString())
                .config("spark.sql.shuffle.partitions", Long.toString(Math.max(2, rows / ROWS_OF_A_FILE)))
                .config("spark.sql.warehouse.dir", folder.resolve("warehouse").toString())
                .config("spark.sql.extensions", "org.kubist.spark.KubistExtensions,"
                        + "io.delta.sql.DeltaSparkSessionExtension,"
                        + "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
                .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
                .config("spark.databricks.delta.optimize.maxFileSize", Long.toString(128 << 20))
                // Allows old files to be deleted immediately after a rewrite.
                .config("spark.databricks.delta.retentionDurationCheck.enabled", "false")
                .config("spark.sql.catalog.iceberg", "org.apache.iceberg.spark.SparkCatalog")
                .config("spark.sql.catalog.iceberg.type", "hadoop")
                .config("spark.sql.catalog.iceberg.warehouse", folder.resolve("iceberg").toString())
                .getOrCreate();
    }

    private static void fill(SparkSession spark, Path folder, long rows, List<Store> stores, Watch watch, Report report)
            throws IOException, TimeoutException {
        Path source = folder.resolve("source");
        if (!Files.exists(source.resolve("_SUCCESS"))) {
            Particles.made(spark, rows, (int) Math.max(2, rows / ROWS_OF_A_FILE)).write().mode("overwrite").parquet(source.toString());
        }
        for (Store store : stores) {
            Path place = folder.resolve(store.name());
            Path done = folder.resolve(store.name() + ".done");
            if (!Files.exists(done)) {
                Dataset<Row> all = spark.read().parquet(source.toString());
                report.ingest(store, watch.of(() -> store.write(all)));
                store.tidy();
                // Spark deletes shuffle files only after garbage collection.
                System.gc();
                Files.createFile(done);
            }
            report.size(store, bytes(place));
        }
    }

    private static long bytes(Path folder) throws IOException {
        try (Stream<Path> files = Files.walk(folder)) {
            return files.filter(Files::isRegularFile).mapToLong(file -> file.toFile().length()).sum();
        }
    }

    private static void ask(List<Store> stores, int turns, Watch watch, Report report) throws TimeoutException {
        for (Map.Entry<String, Function<Store, Dataset<Row>>> question : QUESTIONS.entrySet()) {
            Map<String, String> answers = new TreeMap<>();
            double seconds = 0;
            for (int turn = 0; turn <= turns && (turn <= LEAST_TURNS || seconds < PATIENCE_SECONDS); turn++) {
                for (Store store : stores) {
                    List<Row> answer = new ArrayList<>();
                    Watch.Cost cost = watch.of(() -> answer.addAll(question.getValue().apply(store).collectAsList()));
                    answers.put(store.name(), exact(answer.get(0)));
                    seconds += cost.seconds();
                    if (turn > 0) {
                        report.question(question.getKey(), store, cost);
                    }
                }
            }
            boolean same = Set.copyOf(answers.values()).size() == 1;
            boolean samples = question.getKey().contains("%");
            if (!same && !samples) {
                throw new IllegalStateException(question.getKey() + ": the answers differ: " + answers);
            }
            System.err.println(question.getKey() + ": " + answers);
        }
    }

    /** The integers of a result, which do not depend on the row order. */
    private static String exact(Row answer) {
        Object[] values = new Object[Math.min(3, answer.size())];
        Arrays.setAll(values, answer::get);
        return Arrays.toString(values);
    }
}
