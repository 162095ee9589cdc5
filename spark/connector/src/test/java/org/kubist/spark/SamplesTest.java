package org.kubist.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.kubist.Answer;
import org.kubist.Batch;
import org.kubist.Query;
import org.kubist.Snapshot;
import org.kubist.Table;

/** Samples in Spark, compared with the engine's results. */
class SamplesTest {
    private static final int ROWS = 5000;

    @TempDir static Path folder;
    private static SparkSession spark;
    private static String location;

    @BeforeAll
    static void rowsAreThere() {
        spark = Session.open(folder, "local[2]");
        location = folder.resolve("t.kubist").toString();
        spark.createDataFrame(new Rows(2).some(0, ROWS), Rows.SCHEMA)
                .write()
                .format("kubist")
                .option("dimensions", "x,y")
                .option("identity", "id")
                .option("capacity", "128")
                .mode("append")
                .save(location);
    }

    @AfterAll
    static void sparkEnds() {
        spark.stop();
    }

    private static Dataset<Row> table(String... options) {
        var reader = spark.read().format("kubist");
        for (int index = 0; index < options.length; index += 2) {
            reader.option(options[index], options[index + 1]);
        }
        return reader.load(location);
    }

    private static TreeSet<Long> ids(Dataset<Row> rows) {
        TreeSet<Long> ids = new TreeSet<>();
        for (Row row : (Row[]) rows.select("id").collect()) {
            assertTrue(ids.add(row.getLong(0)), "a row came twice");
        }
        return ids;
    }

    private static TreeSet<Long> asked(Query query) {
        TreeSet<Long> ids = new TreeSet<>();
        try (Table table = Table.open(location);
                Snapshot snapshot = table.snapshot();
                Answer answer = snapshot.query(query)) {
            for (Batch batch = answer.next(); batch != null; batch = answer.next()) {
                for (int row = 0; row < batch.rows(); row++) {
                    ids.add(batch.column(0).getLong(row));
                }
                batch.close();
            }
        }
        return ids;
    }

    private static void pushed(Dataset<Row> rows) {
        String plan = Session.plan(rows);
        assertTrue(plan.contains("PushedSample"), plan);
        assertFalse(plan.contains("Sample "), plan);
    }

    @Test
    void everyWayToSayASampleIsTheEngines() {
        Random random = new Random(3);
        for (int round = 0; round < 8; round++) {
            double share = (1 + random.nextInt(60)) / 100.0;
            spark.conf().set("spark.sql.codegen.wholeStage", round % 2 == 0);
            double low = random.nextInt(80) / 100.0;
            TreeSet<Long> wanted = asked(new Query().where("x > " + low).sample(share).columns("id"));
            String condition = "x > " + low + "D";
            List<Dataset<Row>> ways = List.of(
                    table().filter(condition).sample(share, random.nextLong()),
                    table().sample(share).filter(condition),
                    table().filter(condition).select("x", "id", "c").sample(share),
                    table().select("x", "id").filter(condition).filter("x < 2").sort("x").sample(share),
                    spark.sql("SELECT id FROM k.t TABLESAMPLE (" + share * 100 + " PERCENT) REPEATABLE (7) WHERE " + condition));
            for (Dataset<Row> way : ways) {
                pushed(way);
                assertEquals(wanted, ids(way), Session.plan(way));
            }
        }
    }

    private static final Pattern WINDOW = Pattern.compile("\\[([0-9.E-]+), ([0-9.E-]+)\\)");

    /** The rows in the windows of a plan, read by the engine. */
    private static TreeSet<Long> ofWindows(Dataset<Row> rows, double wanted, String where) {
        String plan = Session.plan(rows);
        Matcher windows = WINDOW.matcher(plan.substring(plan.indexOf("PushedSample: "), plan.indexOf(", PushedWhere")));
        TreeSet<Long> ids = new TreeSet<>();
        double share = 0;
        while (windows.find()) {
            double low = Double.parseDouble(windows.group(1));
            double high = Double.parseDouble(windows.group(2));
            ids.addAll(asked(new Query().where(where).window(low, high).columns("id")));
            share += high - low;
        }
        assertEquals(wanted, share, 1e-12, plan);
        return ids;
    }

    /** For both meanings of a seed. */
    @Test
    void samplesAtRandomAreTheEngines() {
        Random random = new Random(Long.getLong("seed", 8));
        int questions = Math.max(12, Integer.getInteger("questions", 200) / 5);
        for (int question = 0; question < questions; question++) {
            spark.conf().set("spark.sql.codegen.wholeStage", question % 2 == 0);
            double share = switch (random.nextInt(6)) {
                case 0 -> 1;
                case 1 -> 1e-9;
                case 2 -> 1 - 1e-9;
                default -> (1 + random.nextInt(9999)) / 10000.0;
            };
            long seed = random.nextInt(4) == 0 ? (random.nextBoolean() ? Long.MIN_VALUE : Long.MAX_VALUE) : random.nextLong();
            Dataset<Row> table = table("seed", random.nextBoolean() ? "nested" : "window");
            double least = random.nextInt(100) / 100.0;
            String where = "x >= " + least;
            Dataset<Row> rows = random.nextBoolean()
                    ? table.filter(where + "D").select("id", "c", "x").sample(share, seed)
                    : table.sample(share, seed).filter(where + "D").select("d", "id");
            TreeSet<Long> wanted = ofWindows(rows, share, where);
            assertEquals(wanted, ids(rows), Session.plan(rows));
            assertEquals(wanted.size(), rows.count());
            int limit = 1 + random.nextInt(200);
            TreeSet<Long> some = ids(rows.limit(limit));
            assertEquals(Math.min(limit, wanted.size()), some.size());
            assertTrue(wanted.containsAll(some), Session.plan(rows.limit(limit)));
        }
    }

    @Test
    void smallerSamplesArePartsOfLargerOnes() {
        TreeSet<Long> large = ids(table().sample(0.5, 1));
        assertTrue(large.containsAll(ids(table().sample(0.1, 2))));
        assertTrue(large.size() > ROWS * 0.45 && large.size() < ROWS * 0.55, large.size() + " rows");
    }

    @Test
    void partsOfARandomSplitHaveEachRowOnce() {
        for (String seed : List.of("nested", "window")) {
            List<Long> all = new ArrayList<>();
            for (Dataset<Row> part : table("seed", seed).filter("x > 0.2D").randomSplit(new double[] {0.5, 0.3, 0.2}, 11)) {
                pushed(part);
                all.addAll(ids(part));
            }
            Collections.sort(all);
            assertEquals(new ArrayList<>(ids(table().filter("x > 0.2D"))), all, seed);
        }
    }

    @Test
    void aSeedMeansWhatItsOptionSays() {
        TreeSet<Long> nested = ids(table("seed", "nested").sample(0.2, 4));
        assertEquals(nested, ids(table().sample(0.2, 5)));
        TreeSet<Long> four = ids(table("seed", "window").sample(0.2, 4));
        assertNotEquals(four, ids(table("seed", "window").sample(0.2, 5)));
        assertEquals(four, ids(table("seed", "window").sample(0.2, 4)));
        assertTrue(four.size() > ROWS * 0.15 && four.size() < ROWS * 0.25, four.size() + " rows");
        // A window that passes 1 continues at 0.
        for (int seed = 0; seed < 30; seed++) {
            TreeSet<Long> most = ids(table("seed", "window").sample(0.9, seed));
            assertTrue(most.size() > ROWS * 0.87 && most.size() < ROWS * 0.93, most.size() + " rows");
        }
        String refused = Session.plan(table("seed", "refuse").sample(0.2, 4));
        assertTrue(refused.contains("Sample "), refused);
    }

    @Test
    void whatHasNoSuchLawStaysWithSpark() {
        for (Dataset<Row> rows : List.of(
                table().sample(true, 0.3, 1),
                table().filter("rand(1) < 0.5").sample(0.3, 1),
                table().limit(100).sample(0.3, 1),
                table().groupBy("i").count().sample(0.3, 1))) {
            String plan = Session.plan(rows);
            assertTrue(plan.contains("Sample "), plan);
            assertFalse(plan.contains("PushedSample"), plan);
        }
        // A sample of a sample has a quarter of the rows; Spark computes the second one.
        long rows = table().sample(0.5, 1).sample(0.5, 2).count();
        assertTrue(rows > ROWS * 0.2 && rows < ROWS * 0.3, rows + " rows");
    }

    @Test
    void countsOfASampleAreTheEngines() {
        Dataset<Row> counted = table().sample(0.3, 1).groupBy().count();
        assertTrue(Session.plan(counted).contains("LocalTableScan"), Session.plan(counted));
        assertEquals(ids(table().sample(0.3)).size(), ((Row[]) counted.collect())[0].getLong(0));
    }

    @Test
    void theInclusionIsAColumn() {
        Dataset<Row> weighted = table("inclusion", "chance").sample(0.25, 1).filter("x > 0.5D");
        Row[] rows = (Row[]) weighted.select("id", "chance").collect();
        assertTrue(rows.length > 0);
        for (Row row : rows) {
            assertEquals(0.25, row.getDouble(1));
        }
        assertEquals(ids(table().sample(0.25).filter("x > 0.5D")), ids(weighted));
        assertEquals(rows.length, weighted.filter("chance < 0.5D").count());
        // With all records the inclusion probability is 1, so the filter matches none.
        assertEquals(0, table("inclusion", "chance").filter("chance < 0.5D").sample(0.25, 1).count());
    }
}
