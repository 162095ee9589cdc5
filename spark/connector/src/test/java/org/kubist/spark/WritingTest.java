package org.kubist.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.Trigger;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.kubist.KubistException;
import org.kubist.Query;
import org.kubist.Snapshot;
import org.kubist.Table;
import org.kubist.Writer;

/** Jobs and streams that write: each row exactly once, or no row of a job. */
class WritingTest {
    @TempDir static Path folder;
    private static SparkSession spark;

    @BeforeAll
    static void sparkBegins() {
        // Tasks may fail three times.
        spark = Session.open(folder, "local[2,4]");
    }

    @AfterAll
    static void sparkEnds() {
        spark.stop();
    }

    private static String at(String name) {
        return folder.resolve(name).toString();
    }

    private static void write(Dataset<Row> rows, String name) {
        rows.write().format("kubist").option("dimensions", "x").option("identity", "id").mode("append").save(at(name));
    }

    private static Dataset<Row> numbers(long count) {
        return spark.range(0, count, 1, 4).selectExpr("id", "id / " + count + " AS x");
    }

    private static Dataset<Row> read(String name) {
        return spark.read().format("kubist").load(at(name));
    }

    private static void holds(String name, long count) {
        assertEquals(
                List.of(count + "|" + count + "|"),
                Session.sorted(read(name).selectExpr("count(id)", "count(DISTINCT id)")));
    }

    private static boolean leftAnything(String name) throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            return files.anyMatch(path -> path.getFileName().toString().equals(name + ".staging"));
        }
    }

    @Test
    void aJobIsOneCommit() throws IOException {
        write(numbers(10_000), "once");
        write(numbers(10_000).selectExpr("id + 10000 AS id", "x"), "once");
        holds("once", 20_000);
        try (Table table = Table.open(at("once"));
                Snapshot snapshot = table.snapshot()) {
            List<?> writers = (List<?>) snapshot.description().get("writers");
            long commits = writers.stream().mapToLong(one -> (Long) ((Map<?, ?>) one).get("commits")).sum();
            assertEquals(2, commits);
        }
        assertFalse(leftAnything("once"));
    }

    private static Dataset<Row> failing(Dataset<Row> rows, int attempts) {
        MapFunction<Row, Row> fail = row -> {
            boolean late = row.getLong(0) % 2500 == 2400;
            if (late && TaskContext.get().attemptNumber() < attempts) {
                throw new IllegalStateException("this attempt was to fail");
            }
            return row;
        };
        return rows.map(fail, Encoders.row(rows.schema()));
    }

    @Test
    void attemptsThatFailDoubleNothing() throws IOException {
        write(failing(numbers(10_000), 2), "retried");
        holds("retried", 10_000);
        assertFalse(leftAnything("retried"));
    }

    @Test
    void aJobThatFailsLeavesNothing() throws IOException {
        assertThrows(Exception.class, () -> write(failing(numbers(10_000), 100), "failed"));
        assertFalse(Files.exists(folder.resolve("failed")), "the table was made for this job");
        write(numbers(100), "failed");
        assertThrows(Exception.class, () -> write(failing(numbers(10_000), 100), "failed"));
        holds("failed", 100);
        assertFalse(leftAnything("failed"));
    }

    @Test
    void aJobThatFailsKeepsWhatOthersCommitted() {
        MapFunction<Row, Row> fail = row -> {
            if (row.getLong(0) == 2400) {
                commit("others", "solver", 0, null, "once");
                throw new IllegalStateException("this job was to fail");
            }
            return row;
        };
        Dataset<Row> rows = numbers(10_000);
        assertThrows(Exception.class, () -> write(rows.map(fail, Encoders.row(rows.schema())), "others"));
        holds("others", 100);
    }

    @Test
    void catalogsMakeFillAndDropTables() {
        spark.sql("CREATE TABLE k.made (id BIGINT NOT NULL, x DOUBLE NOT NULL, c STRING)"
                + " TBLPROPERTIES (dimensions = 'x=0:1', identity = 'id')");
        spark.sql("INSERT INTO k.made VALUES (1, 0.5, 'a'), (2, 0.7, NULL)");
        assertEquals(List.of("1|0.5|a|", "2|0.7|null|"), Session.sorted(spark.sql("SELECT * FROM k.made")));
        String token;
        try (Table table = Table.open(at("made"));
                Snapshot snapshot = table.snapshot()) {
            token = snapshot.token();
        }
        spark.sql("INSERT INTO k.made (c, x, id) VALUES ('b', 0.1, 3)");
        assertEquals(List.of("3|"), Session.sorted(spark.sql("SELECT count(*) FROM k.made")));
        assertEquals(
                List.of("2|"), Session.sorted(spark.sql("SELECT count(*) FROM k.made VERSION AS OF '" + token + "'")));
        assertTrue(Session.sorted(spark.sql("SHOW TABLES IN k")).toString().contains("made"));
        assertThrows(Exception.class, () -> spark.sql("CREATE TABLE k.made (x DOUBLE) TBLPROPERTIES (dimensions = 'x')"));
        spark.sql("CREATE TABLE k.copied TBLPROPERTIES (dimensions = 'x') AS SELECT * FROM k.made WHERE x > 0.2");
        holds("copied", 2);
        spark.sql("DROP TABLE k.copied");
        assertFalse(Files.exists(folder.resolve("copied")));
    }

    @Test
    void storedValuesAreWithinTheirBoundsOfErrors() {
        Dataset<Row> rows = numbers(1000);
        rows.write().format("kubist").option("dimensions", "x").option("identity", "id").option("accuracy", "x=0.01")
                .mode("append").save(at("rounded"));
        isRounded("rounded");
        rows.write().format("kubist").mode("overwrite").save(at("rounded"));
        isRounded("rounded");
        spark.sql("CREATE TABLE k.bounded (id BIGINT NOT NULL, x DOUBLE NOT NULL)"
                + " TBLPROPERTIES (dimensions = 'x', accuracy = 'x=1e-2')");
        rows.write().format("kubist").mode("append").save(at("bounded"));
        isRounded("bounded");
        for (String wrong : List.of("y=0.01", "x=0", "x", "x=1,x=2", "id=5")) {
            fails(wrong.startsWith("y") ? "no column `y`" : "accuracy", () -> rows.write().format("kubist").option("dimensions", "x").option("identity", "id")
                    .option("accuracy", wrong).mode("append").save(at("refused")));
        }
        assertFalse(Files.exists(folder.resolve("refused")));
    }

    private static void isRounded(String name) {
        Dataset<Row> read = read(name).selectExpr("count(*)", "max(abs(x - id / 1000D)) <= 0.01", "count(DISTINCT x) < 100");
        assertEquals(List.of("1000|true|true|"), Session.sorted(read));
    }

    @Test
    void aStreamThatIsStartedAgainDoublesNothing() throws Exception {
        Path source = Files.createDirectories(folder.resolve("incoming"));
        String checkpoint = at("checkpoint");
        write(numbers(1), "streamed");
        for (int round = 1; round <= 3; round++) {
            spark.range(round * 1000L, (round + 1) * 1000L, 1, 2).selectExpr("id", "id / 1e4D AS x")
                    .write().mode("append").parquet(source.toString());
            stream(source, checkpoint, "id", "x");
            holds("streamed", 1 + round * 1000L);
            // Simulates a driver that died between the commit and its checkpoint, so the batch is repeated.
            Path note = folder.resolve("checkpoint/commits/" + (round - 1));
            Files.delete(note);
            Files.deleteIfExists(note.resolveSibling("." + note.getFileName() + ".crc"));
            stream(source, checkpoint, "id", "x");
            holds("streamed", 1 + round * 1000L);
        }
        // Rows of a stream have no column names, so another order is refused.
        fails("has the columns id BIGINT, x DOUBLE", () -> stream(source, at("turned"), "x", "id"));
        holds("streamed", 3001);
        assertFalse(leftAnything("streamed"));
    }

    private static void stream(Path source, String checkpoint, String... columns) throws Exception {
        StreamingQuery query = spark.readStream()
                .schema("id BIGINT, x DOUBLE")
                .parquet(source.toString())
                .selectExpr(columns)
                .writeStream()
                .format("kubist")
                .option("checkpointLocation", checkpoint)
                .option("path", at("streamed"))
                .trigger(Trigger.AvailableNow())
                .start();
        query.awaitTermination();
    }

    @Test
    void aStreamFollowsSteps() throws Exception {
        write(numbers(0), "steps");
        for (long step = 1; step <= 3; step++) {
            step(step);
            StreamingQuery query = spark.readStream()
                    .format("kubist")
                    .load(at("steps"))
                    .filter("x >= 0.5D")
                    .writeStream()
                    .format("parquet")
                    .option("checkpointLocation", at("followed.checkpoint"))
                    .option("path", at("followed"))
                    .trigger(Trigger.AvailableNow())
                    .start();
            query.awaitTermination();
            List<String> found = Session.sorted(
                    spark.read().schema("id BIGINT, x DOUBLE").parquet(at("followed")).selectExpr("count(id)", "count(DISTINCT id)"));
            assertEquals(List.of(step * 50 + "|" + step * 50 + "|"), found);
        }
    }

    @Test
    void aStreamRefusesTheCheckpointOfAnotherTable() throws Exception {
        Path path = folder.resolve("replaced");
        Path backup = folder.resolve("backup");
        write(numbers(0), "replaced");
        commit("replaced", "w", 100, 1L, null);
        assertEquals(100, followed("replaced"));
        copy(path, backup);
        commit("replaced", "w", 200, 2L, null);
        assertEquals(200, followed("replaced"));
        // A backup with the same steps but other rows.
        Table.drop(path.toString());
        copy(backup, path);
        commit("replaced", "w", 300, 2L, null);
        fails("new checkpointLocation", () -> followed("replaced"));
        Table.drop(path.toString());
        write(numbers(0), "replaced");
        commit("replaced", "w", 400, 1L, null);
        fails("new checkpointLocation", () -> followed("replaced"));
    }

    private static void copy(Path from, Path to) throws IOException {
        try (Stream<Path> files = Files.walk(from)) {
            for (Path file : files.toList()) {
                Files.copy(file, to.resolve(from.relativize(file)));
            }
        }
    }

    @Test
    void aStreamWaitsForAllDeclaredWriters() throws Exception {
        write(numbers(0), "declared");
        try (Table table = Table.open(at("declared"))) {
            table.declareWriters(List.of("left", "right"));
        }
        commit("declared", "left", 100, 1L, null);
        commit("declared", "left", 200, 2L, null);
        assertEquals(0, followed("declared"));
        commit("declared", "right", 300, 1L, null);
        assertEquals(200, followed("declared"));
        commit("declared", "right", 400, 2L, null);
        assertEquals(400, followed("declared"));
    }

    private static long followed(String name) throws Exception {
        StreamingQuery query = spark.readStream()
                .format("kubist")
                .load(at(name))
                .writeStream()
                .format("parquet")
                .option("checkpointLocation", at(name + ".checkpoint"))
                .option("path", at(name + ".followed"))
                .trigger(Trigger.AvailableNow())
                .start();
        query.awaitTermination();
        return spark.read().schema("id BIGINT, x DOUBLE").parquet(at(name + ".followed")).distinct().count();
    }

    @Test
    void aContinuousStreamIsRefusedInWords() {
        write(numbers(1), "continuous");
        Dataset<Row> rate = spark.readStream().format("rate").load().selectExpr("value AS id", "value / 1e9D AS x");
        fails("ProcessingTime", () -> rate.writeStream()
                .format("kubist")
                .option("checkpointLocation", at("continuous.checkpoint"))
                .option("path", at("continuous"))
                .trigger(Trigger.Continuous("1 second"))
                .start()
                .awaitTermination());
        holds("continuous", 1);
        fails("continuous", () -> spark.readStream()
                .format("kubist")
                .load(at("continuous"))
                .writeStream()
                .format("console")
                .option("checkpointLocation", at("continuous.other"))
                .trigger(Trigger.Continuous("1 second"))
                .start()
                .awaitTermination());
    }

    private static void step(long step) {
        commit("steps", "solver", step * 100, step, null);
    }

    private static void commit(String name, String who, long first, Long step, String token) {
        try (Table table = Table.open(at(name));
                Snapshot snapshot = table.snapshot();
                Writer writer = table.writer(who);
                org.kubist.Rows rows = new org.kubist.Rows(snapshot.fields())) {
            for (int row = 0; row < 100; row++) {
                rows.setLong(0, first + row);
                rows.setDouble(1, row / 100.0);
                rows.end();
            }
            writer.append(rows);
            writer.commit(step, token);
        }
    }

    private static void fails(String words, org.junit.jupiter.api.function.Executable call) {
        Throwable error = assertThrows(Exception.class, call);
        StringBuilder messages = new StringBuilder();
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            messages.append(cause.getMessage()).append('\n');
        }
        assertTrue(messages.toString().contains(words), messages.toString());
    }

    @Test
    void whatMakesNoSenseIsRefusedInWords() {
        write(numbers(100), "sound");
        fails("nowhere", () -> read("nowhere"));
        fails("identity", () -> write(numbers(1).drop("id"), "unidentified"));
        fails("unknown option \"colour\"", () -> spark.read().format("kubist").option("colour", "red").load(at("sound")));
        fails("seed", () -> spark.read().format("kubist").option("seed", "7").load(at("sound")));
        fails("inclusion", () -> spark.read().format("kubist").option("inclusion", "x").load(at("sound")));
        fails("token", () -> spark.read().format("kubist").option("snapshot", "yesterday").load(at("sound")));
        fails("x", () -> write(numbers(1).selectExpr("id", "'a' AS x"), "sound"));
        fails("more", () -> write(numbers(1).selectExpr("id", "x", "1 AS more"), "sound"));
        fails("ARRAY", () -> write(numbers(1).selectExpr("id", "x", "array(1) AS list"), "lists"));
        fails("dimensions", () -> spark.sql("CREATE TABLE k.flat (x DOUBLE)"));
        fails("say load(location)", () -> spark.read().format("kubist").load());
        assertThrows(Exception.class, () -> read("sound").sample(1.5).count());
        holds("sound", 100);
    }

    @Test
    void anAnswerOfOtherColumnsThanPlannedIsAFailure() {
        write(numbers(10), "planned");
        try (Table table = Table.open(at("planned"));
                Snapshot snapshot = table.snapshot()) {
            var part = new KubistReader.Part(at("planned"), snapshot.splits(new Query().columns("id", "x"), 1).get(0), null);
            for (String other : List.of("x DOUBLE, id BIGINT", "id BIGINT", "id INT, x DOUBLE")) {
                var factory = new KubistReader.Factory(StructType.fromDDL(other));
                fails("planned", () -> factory.createColumnarReader(part));
            }
        }
    }

    @Test
    void aTableThatIsGoneIsAFailureAndNoAnswer() {
        write(numbers(1000), "gone");
        Dataset<Row> rows = read("gone");
        assertEquals(1000, rows.collectAsList().size());
        Table.drop(at("gone"));
        fails("gone", () -> rows.collectAsList());
        write(numbers(10), "gone");
        Throwable error = assertThrows(Exception.class, () -> rows.collectAsList());
        while (!(error instanceof KubistException)) {
            error = error.getCause();
        }
    }
}
