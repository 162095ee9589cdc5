package org.kubist.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.scheduler.AccumulableInfo;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import scala.jdk.javaapi.CollectionConverters;

/** The metrics of a plan have the cost of its query. */
class CostTest {
    private static final long ROWS = 200_000;

    @TempDir static Path folder;

    /** The location of a new table of {@link #ROWS} rows: an id, and x from 0 to 1. */
    private static String table(SparkSession spark, String name) {
        String location = folder.resolve(name).toString();
        spark.range(0, ROWS, 1, 2).selectExpr("id", "id / 2e5D AS x")
                .write().format("kubist").option("dimensions", "x").mode("append").save(location);
        return location;
    }

    @Test
    void plansSayWhatWasRead() throws Exception {
        SparkSession spark = Session.open(folder, "local[2]");
        try {
            String location = table(spark, "t");
            Map<String, AtomicLong> costs = new ConcurrentHashMap<>();
            spark.sparkContext().addSparkListener(new SparkListener() {
                @Override
                public void onTaskEnd(SparkListenerTaskEnd task) {
                    for (AccumulableInfo said : CollectionConverters.asJava(task.taskInfo().accumulables())) {
                        if (said.name().get().endsWith("by Kubist")) {
                            long value = ((Number) said.update().get()).longValue();
                            costs.computeIfAbsent(said.name().get(), name -> new AtomicLong()).addAndGet(value);
                        }
                    }
                }
            });
            Dataset<Row> rows = spark.read().format("kubist").load(location);
            assertEquals(ROWS * (ROWS - 1) / 2, rows.selectExpr("sum(id)").first().getLong(0));
            spark.sparkContext().listenerBus().waitUntilEmpty();
            long all = costs.get("bytes read by Kubist").getAndSet(0);
            assertTrue(all > 0, costs.toString());
            assertTrue(costs.get("rows examined by Kubist").getAndSet(0) >= ROWS, costs.toString());
            rows.sample(0.01).selectExpr("sum(id)").collectAsList();
            spark.sparkContext().listenerBus().waitUntilEmpty();
            long sample = costs.get("bytes read by Kubist").get();
            assertTrue(sample > 0 && sample < all / 4, sample + " bytes for a sample, and " + all + " for all");
        } finally {
            spark.stop();
        }
    }

    /** A small query needs fewer tasks than cores, and no query needs many. */
    @Test
    void tasksAreAsManyAsTheRowsAreWorth() throws Exception {
        SparkSession spark = Session.open(folder, "local[2]");
        try {
            String location = table(spark, "tasks");
            Dataset<Row> rows = spark.read().format("kubist").load(location);
            assertEquals(2, tasks(rows));
            assertEquals(2, tasks(rows.filter("x > 0.25D")));
            assertEquals(1, tasks(rows.filter("x > 0.25D AND x < 0.3D")));
            assertEquals(1, tasks(rows.sample(0.1)));
            assertEquals(1, tasks(rows.filter("x > 2D")));
            assertEquals(7, tasks(spark.read().format("kubist").option("partitions", "7").load(location)));
            // A sample of two windows has no more tasks, except if a window is too small for one.
            Dataset<Row> windows =
                    spark.read().format("kubist").option("seed", "window").option("partitions", "6").load(location);
            for (int seed = 0; seed < 5; seed++) {
                int tasks = tasks(windows.sample(0.9, seed));
                assertTrue(tasks == 6 || tasks == 7, tasks + " tasks");
            }
        } finally {
            spark.stop();
        }
    }

    /** Joins, unions and groups of single-task scans are correct. */
    @Test
    void answersOfOneTaskAreJoined() throws Exception {
        SparkSession spark = Session.open(folder, "local[2]");
        try {
            spark.conf().set("spark.sql.autoBroadcastJoinThreshold", "-1");
            String location = table(spark, "one");
            Dataset<Row> few = spark.read().format("kubist").load(location).filter("id >= 100000 AND id < 100100");
            Dataset<Row> more = spark.read().format("kubist").option("partitions", "3").load(location).filter("id % 5 = 0");
            for (boolean isAdaptive : new boolean[] {true, false}) {
                spark.conf().set("spark.sql.adaptive.enabled", Boolean.toString(isAdaptive));
                String context = "adaptive " + isAdaptive;
                assertEquals("[10004950,100]", few.selectExpr("sum(id)", "count(x)").first().toString(), context);
                assertEquals(100, few.groupBy("id").count().filter("count = 1").count(), context);
                assertEquals(100, few.as("a").join(few.as("b"), "id").count(), context);
                assertEquals(20, few.join(more, "id").count(), context);
                assertEquals(20, more.join(few, "id").count(), context);
                assertEquals(40_080, more.join(few, more.col("id").equalTo(few.col("id")), "full_outer").count(), context);
                assertEquals(39_980, more.join(few, more.col("id").equalTo(few.col("id")), "left_anti").count(), context);
                assertEquals(200, few.union(few).groupBy("x").count().selectExpr("sum(count)").first().getLong(0), context);
                Dataset<Row> none = few.filter("x > 2D");
                assertEquals("[null,0]", none.selectExpr("sum(id)", "count(x)").first().toString(), context);
                assertEquals(0, none.join(few, "id").count(), context);
                assertEquals(100, few.join(none, few.col("id").equalTo(none.col("id")), "left_outer").count(), context);
            }
        } finally {
            spark.stop();
        }
    }

    private static int tasks(Dataset<Row> rows) {
        return rows.toJavaRDD().getNumPartitions();
    }
}
