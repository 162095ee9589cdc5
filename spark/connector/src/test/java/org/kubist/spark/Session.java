package org.kubist.spark;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/** Spark in this process, with the catalog {@code k} and the sample rule. */
final class Session {
    private Session() {}

    static SparkSession open(Path folder, String master) {
        return SparkSession.builder()
                .master(master)
                .appName("kubist")
                .config("spark.ui.enabled", "false")
                .config("spark.driver.host", "127.0.0.1")
                .config("spark.driver.bindAddress", "127.0.0.1")
                .config("spark.sql.shuffle.partitions", "2")
                .config("spark.sql.session.timeZone", "UTC")
                .config("spark.sql.warehouse.dir", folder.resolve("warehouse").toString())
                .config("spark.sql.extensions", "org.kubist.spark.KubistExtensions")
                .config("spark.sql.catalog.k", "org.kubist.spark.KubistCatalog")
                .config("spark.sql.catalog.k.location", folder.toString())
                // Tests make tasks fail on purpose.
                .config("spark.log.level", "FATAL")
                .getOrCreate();
    }

    /** The sorted rows as text, in which NaN equals NaN. */
    static List<String> sorted(Dataset<Row> rows) {
        Row[] collected = (Row[]) rows.collect();
        return Arrays.stream(collected).map(Session::text).sorted(Comparator.naturalOrder()).toList();
    }

    private static String text(Row row) {
        StringBuilder text = new StringBuilder();
        for (int index = 0; index < row.size(); index++) {
            Object value = row.get(index);
            text.append(value instanceof byte[] bytes ? Arrays.toString(bytes) : String.valueOf(value)).append('|');
        }
        return text.toString();
    }

    static String plan(Dataset<Row> rows) {
        return rows.queryExecution().executedPlan().toString();
    }
}
