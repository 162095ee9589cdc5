package org.kubist.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.kubist.Json;
import org.kubist.Table;

/**
 * Converts types that Spark lacks (unsigned integers, half floats, nanoseconds, dictionaries), and compares random
 * queries of such columns with the same rows in Parquet.
 */
class StoredTypesTest {
    private static final int ROWS = 3000;
    /** Each column, its Kubist type, and its values for a number h from 0 to 999. */
    private static final String[][] COLUMNS = {
        {"x", "float64", "h / 1000D"},
        {"a", "uint8", "cast(h % 256 AS SMALLINT)"},
        {"b", "uint16", "cast(h * 65 AS INT)"},
        {"c", "uint32", "h * 4294967L"},
        {"e", "uint64", "cast(h * 18446744073709551BD AS DECIMAL(20,0))"},
        {"f", "float16", "cast((h % 40) / 8 AS FLOAT)"},
        {"m", "Timestamp(ns, \"UTC\")", "timestamp_micros(h * 1000003L)"},
        {"s", "Dictionary(Int32, Utf8)", "concat('w', h % 11)"},
        {"t", "LargeUtf8", "concat('w', h % 13)"},
    };

    @TempDir static Path folder;
    private static SparkSession spark;
    private final Random random = new Random(Long.getLong("seed", 6));

    @BeforeAll
    static void rowsAreThere() {
        spark = Session.open(folder, "local[2]");
        List<Map<String, Object>> columns = new ArrayList<>();
        List<String> values = new ArrayList<>();
        for (String[] column : COLUMNS) {
            boolean isDimension = column[0].equals("x");
            columns.add(Map.of("name", column[0], "type", column[1], "nullable", !isDimension));
            values.add(isDimension
                    ? column[2] + " AS x"
                    : "if(pmod(hash(id, '" + column[0] + "'), 6) = 0, NULL, " + column[2] + ") AS " + column[0]);
        }
        columns.add(Map.of("name", "id", "type", "int64", "nullable", false));
        String location = folder.resolve("t").toString();
        Table.create(location, Json.write(Map.of(
                        "columns", columns,
                        "dimensions", Map.of("x", List.of(0, 1)),
                        "identity", List.of("id"),
                        "capacity", 128)))
                .close();
        String parquet = folder.resolve("rows.parquet").toString();
        spark.sql("SELECT " + String.join(", ", values) + ", id FROM (SELECT id, pmod(hash(id), 1000) AS h FROM range("
                        + ROWS + "))")
                .write().parquet(parquet);
        spark.read().parquet(parquet).write().format("kubist").mode("append").save(location);
        spark.read().parquet(parquet).createOrReplaceTempView("parquet_rows");
        spark.read().format("kubist").load(location).createOrReplaceTempView("kubist_rows");
    }

    @AfterAll
    static void sparkEnds() {
        spark.stop();
    }

    private String pick(String... words) {
        return words[random.nextInt(words.length)];
    }

    /** Existing values, the limits of types, and values beyond the limits. */
    private String value(String column) {
        int h = random.nextInt(1000);
        return switch (column) {
            case "a" -> pick("0", "255", "256", "-1", Integer.toString(h % 256));
            case "b" -> pick("0", "65535", "65536", "-1", Integer.toString(h * 65));
            case "c" -> pick("0", "4294967295", "4294967296", "-1", Long.toString(h * 4294967L));
            case "e" -> pick("0BD", "18446744073709551615BD", "18446744073709551616BD", "-1BD", h + "BD * 18446744073709551BD", "7");
            case "f" -> pick("0.1", "cast(0.1 AS FLOAT)", "cast('NaN' AS FLOAT)", "-0.0D", h % 40 / 8.0 + "D");
            case "m" -> "timestamp_micros(" + h * 1000003L + "L)";
            case "s", "t" -> "'w" + h % 13 + "'";
            default -> h / 1000.0 + "D";
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
        String column = COLUMNS[random.nextInt(COLUMNS.length)][0];
        return switch (random.nextInt(6)) {
            case 0 -> column + pick(" IS NULL", " IS NOT NULL");
            case 1 -> column + pick(" IN (", " NOT IN (") + value(column) + ", " + value(column) + pick("", ", NULL") + ")";
            case 2 -> column + " BETWEEN " + value(column) + " AND " + value(column);
            case 3 -> column + " <=> " + pick("NULL", value(column));
            default -> column + pick(" < ", " <= ", " > ", " >= ", " = ", " <> ") + value(column);
        };
    }

    private String select() {
        if (random.nextInt(4) == 0) {
            return "count(*), count(e), min(a), max(a), min(b), max(c), min(e), max(e), max(f), min(m), max(s), min(t)";
        }
        List<String> names = new ArrayList<>(Arrays.stream(COLUMNS).map(column -> column[0]).toList());
        Collections.shuffle(names, random);
        return String.join(", ", names.subList(0, 1 + random.nextInt(5)));
    }

    @Test
    void answersAreThoseOfParquet() {
        int questions = Math.max(12, Integer.getInteger("questions", 200) / 5);
        for (int question = 0; question < questions; question++) {
            spark.conf().set("spark.sql.codegen.wholeStage", question % 2 == 0);
            String asked = "SELECT " + select() + " FROM %s" + (question % 10 == 9 ? "" : " WHERE " + condition(3));
            Dataset<Row> ours = spark.sql(String.format(asked, "kubist_rows"));
            assertEquals(
                    Session.sorted(spark.sql(String.format(asked, "parquet_rows"))),
                    Session.sorted(ours),
                    () -> asked + "\n" + Session.plan(ours));
        }
    }

    @Test
    void whatCrossesExactlyIsPushed() {
        String plan = Session.plan(spark.sql(
                "SELECT x FROM kubist_rows WHERE a > 3 AND b < 7 AND c = 5 AND e >= 9 AND s = 'w1' AND f > 1 AND m IS NOT NULL"));
        for (String pushed : List.of("\"a\" > 3", "\"b\" < 7", "\"c\" = 5", "\"e\" >= 9", "\"s\" = 'w1'")) {
            assertTrue(plan.contains(pushed), plan);
        }
        assertFalse(plan.contains("\"f\" >"), plan);
    }

    /** The engine accepts each condition, but all conditions together are too long. */
    @Test
    void conditionsTooLongTogetherAreSharedWithSpark() {
        Column all = functions.col("x").lt(0.9);
        for (int list = 0; list < 3; list++) {
            Object[] words = new Object[7000];
            String tail = list + "x".repeat(1000);
            Arrays.setAll(words, index -> index < 13 ? "w" + index : index + tail);
            all = all.and(functions.col(list == 1 ? "t" : "s").isin(words));
        }
        Dataset<Row> ours = spark.table("kubist_rows").filter(all).select("id");
        String plan = Session.plan(ours);
        assertTrue(plan.contains("PushedWhere: [") && plan.contains("\"x\" <"), plan.substring(0, 2000));
        assertTrue(plan.contains("Filter "), "Spark computes what was too much");
        List<String> wanted = Session.sorted(spark.sql(
                "SELECT id FROM parquet_rows WHERE x < 0.9 AND s IS NOT NULL AND t IS NOT NULL"));
        assertEquals(wanted, Session.sorted(ours));
    }
}
