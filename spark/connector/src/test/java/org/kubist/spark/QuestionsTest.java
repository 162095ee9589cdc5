package org.kubist.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.TreeSet;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Random queries of a table, compared with the same rows in Parquet, which Spark reads itself. */
class QuestionsTest {
    /** More than one Spark batch. */
    private static final int ROWS = 10_000;
    private static final int TOGETHER = 10;

    @TempDir static Path folder;
    private static SparkSession spark;

    @BeforeAll
    static void rowsAreThere() {
        spark = Session.open(folder, "local[2]");
        Dataset<Row> rows = spark.createDataFrame(new Rows(1).some(0, ROWS), Rows.SCHEMA).repartition(3);
        rows.write().parquet(folder.resolve("rows.parquet").toString());
        Dataset<Row> same = spark.read().parquet(folder.resolve("rows.parquet").toString());
        same.write()
                .format("kubist")
                .option("dimensions", "x,y,d")
                .option("identity", "id")
                .option("capacity", "128")
                .mode("append")
                .save(folder.resolve("t.kubist").toString());
        same.createOrReplaceTempView("parquet_rows");
        spark.read().format("kubist").load(folder.resolve("t.kubist").toString()).createOrReplaceTempView("kubist_rows");
    }

    @AfterAll
    static void sparkEnds() {
        spark.stop();
    }

    private final Random random = new Random(Long.getLong("seed", 5));

    private String pick(String... words) {
        return words[random.nextInt(words.length)];
    }

    private String number(String column) {
        return switch (column) {
            case "x", "y" -> Double.toString(random.nextInt(100) / 100.0) + "D";
            case "f", "d" -> {
                double value = Rows.odd(random, random.nextInt(20) / 10.0);
                boolean isWord = Double.isNaN(value) || Double.isInfinite(value);
                String type = column.equals("f") ? "FLOAT" : "DOUBLE";
                yield isWord ? "CAST('" + value + "' AS " + type + ")" : "CAST(" + value + "D AS " + type + ")";
            }
            case "e" -> random.nextInt(2500) / 1000.0 + "BD";
            case "g" -> "60446290980731458735.30BD";
            case "n" -> pick("9223372036854775807", "1000", "-5", Long.toString(random.nextLong() >> 40));
            case "i" -> pick("-2147483648", Integer.toString(random.nextInt(50)));
            default -> Integer.toString(random.nextInt(20) - 10);
        };
    }

    private String value(String column) {
        return switch (column) {
            case "c" -> "'" + Rows.WORDS[random.nextInt(Rows.WORDS.length)].replace("\\", "\\\\").replace("'", "\\'") + "'";
            case "z" -> "X'0" + random.nextInt(3) + "7F'";
            case "j" -> "DATE '197" + random.nextInt(10) + "-03-01'";
            case "m" -> "TIMESTAMP '197" + random.nextInt(7) + "-05-06 07:08:09.001002'";
            case "w" -> "TIMESTAMP_NTZ '197" + random.nextInt(7) + "-05-06 07:08:09.001002'";
            default -> number(column);
        };
    }

    private String condition(int depth) {
        if (depth > 0 && random.nextInt(2) == 0) {
            String left = condition(depth - 1);
            return switch (random.nextInt(3)) {
                case 0 -> "NOT (" + left + ")";
                case 1 -> "(" + left + ") AND (" + condition(depth - 1) + ")";
                default -> "(" + left + ") OR (" + condition(depth - 1) + ")";
            };
        }
        String column = pick("x", "y", "t", "s", "i", "n", "f", "d", "d", "f", "e", "g", "c", "c", "z", "j", "m", "w", "b");
        if (column.equals("b")) {
            return pick("b", "b IS NULL", "b = false", "NOT b", "b <=> true");
        }
        return switch (random.nextInt(8)) {
            case 0 -> column + pick(" IS NULL", " IS NOT NULL");
            case 1 -> column + pick(" IN (", " NOT IN (") + value(column) + ", " + value(column)
                    + pick("", ", NULL", ", " + value(column)) + ")";
            case 2 -> column.equals("c")
                    ? pick("startswith(c, ", "endswith(c, ", "contains(c, ", "NOT contains(c, ") + value("c") + ")"
                    : column + " BETWEEN " + value(column) + " AND " + value(column);
            case 3 -> column + " <=> " + pick("NULL", value(column));
            case 4 -> pick("x + y > 1", "length(c) = 2", "i % 2 = 0", "f < d", "isnan(d)", "c LIKE 'a_b'");
            default -> column + pick(" < ", " <= ", " > ", " >= ", " = ", " <> ") + value(column);
        };
    }

    private String columns() {
        List<String> names = new ArrayList<>(Arrays.asList(Rows.SCHEMA.fieldNames()));
        java.util.Collections.shuffle(names, random);
        return String.join(", ", names.subList(0, 1 + random.nextInt(5)));
    }

    private static String from(String select, String table, String where) {
        return "SELECT " + select + " FROM " + table + " WHERE " + where;
    }

    /** Many conditions in one query, which Spark also evaluates on the Parquet rows. */
    @Test
    void conditionsHoldOfTheSameRows() {
        int questions = Integer.getInteger("questions", 200);
        int pushed = 0;
        for (int asked = 0; asked < questions; asked += TOGETHER) {
            spark.conf().set("spark.sql.codegen.wholeStage", asked / TOGETHER % 2 == 0);
            List<String> conditions = new ArrayList<>();
            List<String> truths = new ArrayList<>();
            List<String> ours = new ArrayList<>();
            for (int index = 0; index < TOGETHER; index++) {
                String where = condition(3);
                conditions.add(where);
                truths.add("(" + where + ") <=> true");
                ours.add("SELECT " + index + " AS question, id FROM kubist_rows WHERE " + where);
            }
            List<TreeSet<Long>> wanted = sets();
            for (Row row : (Row[]) spark.sql("SELECT id, " + String.join(", ", truths) + " FROM parquet_rows").collect()) {
                for (int index = 0; index < TOGETHER; index++) {
                    if (row.getBoolean(index + 1)) {
                        wanted.get(index).add(row.getLong(0));
                    }
                }
            }
            List<TreeSet<Long>> found = sets();
            Dataset<Row> answer = spark.sql(String.join(" UNION ALL ", ours));
            for (Row row : (Row[]) answer.collect()) {
                assertTrue(found.get(row.getInt(0)).add(row.getLong(1)), "a row came twice");
            }
            for (int index = 0; index < TOGETHER; index++) {
                assertEquals(wanted.get(index), found.get(index), conditions.get(index));
            }
            pushed += TOGETHER - Session.plan(answer).split(java.util.regex.Pattern.quote("PushedWhere: []"), -1).length + 1;
        }
        assertTrue(pushed > questions / 2, "only " + pushed + " of " + questions + " pushed anything");
    }

    private static List<TreeSet<Long>> sets() {
        List<TreeSet<Long>> sets = new ArrayList<>();
        for (int index = 0; index < TOGETHER; index++) {
            sets.add(new TreeSet<>());
        }
        return sets;
    }

    @Test
    void answersAreThoseOfParquet() {
        int questions = Math.max(10, Integer.getInteger("questions", 200) / 10);
        for (int question = 0; question < questions; question++) {
            spark.conf().set("spark.sql.codegen.wholeStage", question % 2 == 0);
            String where = condition(3);
            String select = switch (random.nextInt(4)) {
                case 0 -> "count(*), count(d), min(i), max(n), min(j), max(m), min(e), max(g), max(w), min(t), max(s)";
                case 1 -> "*";
                default -> columns();
            };
            Dataset<Row> ours = spark.sql(from(select, "kubist_rows", where));
            List<String> wanted = Session.sorted(spark.sql(from(select, "parquet_rows", where)));
            assertEquals(wanted, Session.sorted(ours), where + "\n" + Session.plan(ours));
            if (question % 5 == 0) {
                limited(where, columns());
            }
        }
    }

    /** Checks that the number of rows is correct, and that each is a row of the result. */
    private void limited(String where, String select) {
        int limit = 1 + random.nextInt(300);
        List<String> all = Session.sorted(spark.sql(from("id, " + select, "parquet_rows", where)));
        List<String> some = Session.sorted(spark.sql(from("id, " + select, "kubist_rows", where) + " LIMIT " + limit));
        assertEquals(Math.min(limit, all.size()), some.size(), where);
        assertTrue(new HashSet<>(all).containsAll(some), where);
    }

    @Test
    void figuresOfTheWholeTableComeFromItsDescription() {
        String select = "count(*), count(d), count(c), min(i), max(i), min(n), max(n), min(j), max(j), min(m), max(m),"
                + " min(w), min(e), max(e), min(g), max(g), min(t), max(s)";
        Dataset<Row> ours = spark.sql("SELECT " + select + " FROM kubist_rows");
        assertEquals(Session.sorted(spark.sql("SELECT " + select + " FROM parquet_rows")), Session.sorted(ours));
        assertTrue(Session.plan(ours).contains("LocalTableScan"), Session.plan(ours));
        // NaN is the greatest number in Spark, and no number in Kubist.
        Dataset<Row> floats = spark.sql("SELECT max(d), min(d), max(f), sum(i), avg(x) FROM kubist_rows");
        assertFalse(Session.plan(floats).contains("LocalTableScan"));
        assertEquals("NaN", Session.sorted(floats).get(0).split("\\|")[0]);
    }

    @Test
    void joinsAndGroupsReadTheSameRows() {
        for (String question : List.of(
                "SELECT a.i, count(*), max(b.x) FROM %1$s a JOIN %1$s b ON a.id = b.id WHERE a.d > 1 GROUP BY a.i",
                "SELECT c, max(d), count(DISTINCT i) FROM %1$s WHERE x < 0.3 GROUP BY c",
                "SELECT id, rank() OVER (PARTITION BY t ORDER BY id) FROM %1$s WHERE y >= 0.9",
                "SELECT id FROM %1$s WHERE c < cast(X'FF' AS STRING)",
                "SELECT id FROM %1$s WHERE c = cast(X'FF' AS STRING) OR c > cast(X'F0FF' AS STRING)",
                "SELECT id FROM %1$s WHERE i IN (SELECT max(t) FROM %1$s) AND x > 0.1")) {
            assertEquals(
                    Session.sorted(spark.sql(String.format(question, "parquet_rows"))),
                    Session.sorted(spark.sql(String.format(question, "kubist_rows"))),
                    question);
        }
    }

    @Test
    void thePlanSaysWhatWasPushed() {
        String plan = Session.plan(spark.sql("SELECT x FROM kubist_rows WHERE d > 1 AND x + y > 1 AND c = 'a'"));
        assertTrue(plan.contains("\"d\" > 1.0 OR isnan(\"d\")"), plan);
        assertTrue(plan.contains("\"c\" = 'a'"), plan);
        assertTrue(plan.contains("Filter ("), plan);
        plan = Session.plan(spark.sql("SELECT x FROM kubist_rows WHERE d > 1 LIMIT 7"));
        assertTrue(plan.contains("PushedLimit: 7"), plan);
        assertFalse(plan.contains("Filter ("), plan);
    }
}
