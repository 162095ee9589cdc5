package org.kubist.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.kubist.Figure;
import org.kubist.Query;
import org.kubist.Snapshot;
import org.kubist.Table;
import org.kubist.Writer;

/** Catalogs: namespaces, options, snapshots, overwritten tables, and figures. */
class CatalogTest {
    @TempDir static Path folder;
    private static SparkSession spark;

    @BeforeAll
    static void tablesAreThere() {
        spark = Session.open(folder, "local[2]");
        spark.sql("CREATE TABLE k.airway TBLPROPERTIES (dimensions = 'x', identity = 'id', capacity = '1000')"
                + " AS SELECT id, id / 200000D AS x, cast(id % 7 AS INT) AS kind FROM range(200000)");
    }

    @AfterAll
    static void sparkEnds() {
        spark.stop();
    }

    private static List<String> ask(String question) {
        return Session.sorted(spark.sql(question));
    }

    private static void fails(String words, String question) {
        Throwable error = assertThrows(Exception.class, () -> ask(question));
        StringBuilder messages = new StringBuilder();
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            messages.append(cause.getMessage()).append('\n');
        }
        assertTrue(messages.toString().contains(words), messages.toString());
    }

    @Test
    void aNamespaceIsAFolder() {
        spark.sql("CREATE NAMESPACE k.runs");
        spark.sql("CREATE NAMESPACE k.runs.old");
        spark.sql("CREATE TABLE k.runs.old.first (x DOUBLE) TBLPROPERTIES (dimensions = 'x')");
        spark.sql("INSERT INTO k.runs.old.first VALUES (1), (2)");
        assertEquals(List.of("3.0|"), ask("SELECT sum(x) FROM k.runs.old.first"));
        assertTrue(Files.isDirectory(folder.resolve("runs/old/first")));
        assertTrue(ask("SHOW NAMESPACES IN k").contains("runs|"));
        assertEquals(List.of("runs.old|"), ask("SHOW NAMESPACES IN k.runs"));
        assertTrue(ask("SHOW TABLES IN k.runs.old").toString().contains("first"));
        assertFalse(ask("SHOW TABLES IN k").toString().contains("runs"));
        fails("exist", "CREATE NAMESPACE k.runs");
        fails("DROP", "DROP NAMESPACE k.runs");
        fails("keeps no location", "CREATE NAMESPACE k.elsewhere LOCATION '/elsewhere'");
        fails("keeps no comment", "CREATE NAMESPACE k.elsewhere COMMENT 'lost'");
        assertFalse(Files.exists(folder.resolve("elsewhere")));
        assertTrue(Files.exists(folder.resolve("runs/old/first")));
        fails("nowhere", "SHOW TABLES IN k.nowhere");
        fails("..", "SELECT * FROM k.`..`.airway");
        spark.sql("DROP NAMESPACE k.runs CASCADE");
        assertFalse(Files.exists(folder.resolve("runs")));
    }

    /** The cache belongs to a snapshot, so later commits are not in it. */
    @Test
    void whatIsCachedIsFoundByItsName() {
        spark.sql("CREATE TABLE k.kept TBLPROPERTIES (dimensions = 'x') AS SELECT id / 10D AS x FROM range(10)");
        spark.sql("CACHE TABLE k.kept");
        assertTrue(Session.plan(spark.sql("SELECT sum(x) FROM k.kept")).contains("In-memory table"));
        assertEquals(List.of("4.5|"), ask("SELECT sum(x) FROM k.kept"));
        spark.sql("INSERT INTO k.kept VALUES (100D)");
        assertEquals(List.of("104.5|"), ask("SELECT sum(x) FROM k.kept"));
        spark.sql("UNCACHE TABLE IF EXISTS k.kept");
        spark.sql("DROP TABLE k.kept");
    }

    @Test
    void optionsOfTheCatalogAndOfTheTableHold() {
        spark.conf().set("spark.sql.catalog.w", "org.kubist.spark.KubistCatalog");
        spark.conf().set("spark.sql.catalog.w.location", folder.toString());
        spark.conf().set("spark.sql.catalog.w.inclusion", "chance");
        spark.conf().set("spark.sql.catalog.w.dimensions", "x");
        spark.conf().set("spark.sql.catalog.w.staging", folder.resolve("waiting").toString());
        assertEquals(List.of("0.25|"), ask("SELECT DISTINCT chance FROM w.airway TABLESAMPLE (25 PERCENT)"));
        spark.sql("CREATE TABLE w.plain TBLPROPERTIES (writer = 'ann') AS SELECT id, id / 10D AS x FROM range(10)");
        try (Table table = Table.open(folder.resolve("plain").toString());
                Snapshot snapshot = table.snapshot()) {
            assertTrue(snapshot.description().get("writers").toString().contains("ann"), snapshot.description().toString());
        }
        assertFalse(Files.exists(folder.resolve("plain.staging")));
    }

    @Test
    void aTimeIsNoMomentOfATable() {
        fails("does not keep when", "SELECT * FROM k.airway TIMESTAMP AS OF '2026-01-01'");
        Exception error = assertThrows(Exception.class, () -> spark.read().format("kubist")
                .option("timestampAsOf", "2026-01-01").load(folder.resolve("airway").toString()));
        assertTrue(error.getMessage().contains("VERSION AS OF"), error.getMessage());
    }

    @Test
    void figuresAreTheEngines() {
        spark.read().format("kubist").load(folder.resolve("airway").toString()).createOrReplaceTempView("seen");
        List<Figure> wanted;
        try (Table table = Table.open(folder.resolve("airway").toString());
                Snapshot snapshot = table.snapshot()) {
            wanted = snapshot.estimate(List.of("mean(x)", "count(*)"), new Query().where("kind < 3"), 0.05);
        }
        for (String named : List.of("k.airway", "seen", folder.resolve("airway").toString())) {
            var found = spark.sql("SELECT * FROM kubist_estimate('" + named + "', 'mean(x), count(*)', 'kind < 3', 0.05)");
            assertTrue(Session.plan(found).contains("LocalTableScan"), Session.plan(found));
            assertEquals(wanted.stream().map(CatalogTest::shown).sorted().toList(), Session.sorted(found), named);
        }
        Figure mean = wanted.get(0);
        assertTrue(mean.low() <= mean.value() && mean.value() <= mean.high() && !mean.exact(), mean.toString());
        assertEquals(
                List.of("true|"),
                ask("SELECT low <= truth AND truth <= high FROM kubist_estimate('k.airway', 'mean(x)', NULL, 0.2)"
                        + " CROSS JOIN (SELECT avg(x) AS truth FROM k.airway)"));
        fails("nosuch", "SELECT * FROM kubist_estimate('k.airway', 'mean(nosuch)')");
        fails("not a constant", "SELECT * FROM k.airway, LATERAL kubist_estimate('k.airway', cast(kind AS STRING))");
        fails("say kubist_estimate(table", "SELECT * FROM kubist_estimate('k.airway')");
        spark.sql("SELECT * FROM seen WHERE kind = 1").createOrReplaceTempView("part");
        fails("no view of all", "SELECT * FROM kubist_estimate('part', 'mean(x)')");
    }

    private static String shown(Figure figure) {
        return figure.aggregate() + "|" + figure.value() + "|" + figure.low() + "|" + figure.high() + "|" + figure.rows() + "|"
                + figure.exact() + "|";
    }

    private static String at(String name) {
        return folder.resolve(name).toString();
    }

    private static void fill(String name, String rows, String mode) {
        spark.sql(rows).write().format("kubist").option("dimensions", "x").option("identity", "id").mode(mode).save(at(name));
    }

    private static void leftNothing(String name) {
        assertFalse(Files.exists(folder.resolve(name + ".staging")));
    }

    @Test
    void overwritingReplacesAllOrNothing() {
        fill("again", "SELECT id, id / 100D AS x FROM range(100)", "append");
        fill("again", "SELECT id, id / 50D AS x FROM range(50)", "overwrite");
        assertEquals(List.of("50|49|"), ask("SELECT count(*), max(id) FROM k.again"));
        // The old rows are read while the new ones are written.
        spark.sql("INSERT OVERWRITE k.again SELECT id + 100, x FROM k.again WHERE id < 10");
        assertEquals(List.of("10|109|"), ask("SELECT count(*), max(id) FROM k.again"));
        try (Table table = Table.open(at("again"));
                Snapshot snapshot = table.snapshot()) {
            assertEquals(List.of("id"), snapshot.description().get("identity"));
        }
        assertThrows(Exception.class, () -> fill("again", "SELECT id, assert_true(id < 7) IS NULL AS x FROM range(9)", "overwrite"));
        assertThrows(Exception.class, () -> spark.sql(
                "INSERT OVERWRITE k.again SELECT id, if(id < 7, 0.5D, cast(raise_error('to fail') AS DOUBLE)) FROM range(9)"));
        assertEquals(List.of("10|109|"), ask("SELECT count(*), max(id) FROM k.again"));
        leftNothing("again");
        fill("fresh", "SELECT id, id / 50D AS x FROM range(50)", "overwrite");
        assertEquals(List.of("50|"), ask("SELECT count(*) FROM k.fresh"));
        leftNothing("fresh");
    }

    @Test
    void whoeverWritesKeepsTheTable() {
        fill("busy", "SELECT id, id / 100D AS x FROM range(100)", "append");
        try (Table table = Table.open(at("busy"));
                Writer writer = table.writer("solver")) {
            writer.commit(null, "first");
            fails("solver", "INSERT OVERWRITE k.busy SELECT id, 0.5D FROM range(9)");
        }
        assertEquals(List.of("100|"), ask("SELECT count(*) FROM k.busy"));
        leftNothing("busy");
    }
}
