package org.kubist;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.text.MessageFormat;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tables through the Java API, compared with the same rows in Java. */
class TableTest {
    private static final String COLUMNS =
            """
            {"columns": [
              {"name": "id", "type": "int64"}, {"name": "x", "type": "float64"},
              {"name": "flag", "type": "bool", "nullable": true}, {"name": "tiny", "type": "int8", "nullable": true},
              {"name": "small", "type": "uint8", "nullable": true}, {"name": "number", "type": "int32", "nullable": true},
              {"name": "single", "type": "float32", "nullable": true}, {"name": "huge", "type": "uint64", "nullable": true},
              {"name": "text", "type": "string", "nullable": true}, {"name": "bytes", "type": "binary", "nullable": true},
              {"name": "day", "type": "date", "nullable": true},
              {"name": "moment", "type": "timestamp[ms]", "nullable": true},
              {"name": "price", "type": "Decimal128(30, 2)", "nullable": true}],
             "dimensions": {"x": [0, 1]}, "identity": ["id"], "capacity": 256}
            """;

    @TempDir Path folder;
    private final Map<Long, List<Object>> rows = new HashMap<>();

    @BeforeEach
    void nothingIsHeld() {
        assertEquals(Map.of("handles", 0L, "arrays", 0L), Table.held());
    }

    @AfterEach
    void allWasFreed() {
        assertEquals(Map.of("handles", 0L, "arrays", 0L), Table.held());
    }

    private String location() {
        return folder.resolve("t.kubist").toString();
    }

    private Table filled(int count) {
        Table table = Table.create(location(), COLUMNS);
        Random random = new Random(7);
        try (Snapshot empty = table.snapshot();
                Rows batch = new Rows(empty.fields());
                Writer writer = table.writer("w")) {
            for (long id = 0; id < count; id++) {
                put(batch, row(id, random));
                if (batch.rows() == 700) {
                    writer.append(batch);
                    batch.clear();
                }
            }
            writer.append(batch);
            assertEquals((long) count, writer.commit(null, "all").get("rows"));
        }
        return table;
    }

    private List<Object> row(long id, Random random) {
        List<Object> values = new ArrayList<>(List.of(
                id,
                random.nextDouble(),
                random.nextBoolean(),
                (byte) random.nextInt(256),
                (short) random.nextInt(256),
                random.nextInt(),
                random.nextFloat(),
                new BigDecimal(new java.math.BigInteger(64, random)),
                "t\u00e9xt " + random.nextInt(50),
                new byte[] {(byte) random.nextInt(256), 0, 1},
                random.nextInt(20000) - 10000,
                random.nextInt() * 1000L,
                new BigDecimal(new java.math.BigInteger(90, random).negate(), 2)));
        for (int column = 2; column < values.size(); column++) {
            if (random.nextInt(5) == 0) {
                values.set(column, null);
            }
        }
        rows.put(id, values);
        return values;
    }

    private static void put(Rows batch, List<Object> values) {
        for (int index = 0; index < values.size(); index++) {
            Object value = values.get(index);
            if (value == null) {
                batch.setNull(index);
            } else if (value instanceof Long number) {
                batch.setLong(index, number);
            } else if (value instanceof Integer number) {
                batch.setInt(index, number);
            } else if (value instanceof Short number) {
                batch.setShort(index, number);
            } else if (value instanceof Byte number) {
                batch.setByte(index, number);
            } else if (value instanceof Double number) {
                batch.setDouble(index, number);
            } else if (value instanceof Float number) {
                batch.setFloat(index, number);
            } else if (value instanceof Boolean flag) {
                batch.setBoolean(index, flag);
            } else if (value instanceof byte[] bytes) {
                batch.setBytes(index, bytes);
            } else if (value instanceof BigDecimal decimal) {
                batch.setDecimal(index, decimal);
            } else {
                batch.setString(index, (String) value);
            }
        }
        batch.end();
    }

    private static Map<Long, List<Object>> read(Answer answer) {
        Map<Long, List<Object>> found = new HashMap<>();
        try (answer) {
            for (Batch batch = answer.next(); batch != null; batch = answer.next()) {
                // Every other block of 100 rows, through a view that begins there.
                for (int row = 0; row < batch.rows(); row++) {
                    List<Object> values = new ArrayList<>();
                    for (int index = 0; index < answer.fields().size(); index++) {
                        int first = row / 100 % 2 == 0 ? 0 : row - row % 100;
                        values.add(batch.column(index).from(first).get(row - first));
                    }
                    assertNull(found.put((Long) values.get(0), values), "a row came twice");
                }
                for (int index = 0; index < answer.fields().size(); index++) {
                    Column column = batch.column(index);
                    int half = batch.rows() / 2;
                    int ofRest = column.from(half).nullCount(batch.rows() - half);
                    assertEquals(column.nullCount(batch.rows()), column.from(0).nullCount(half) + ofRest);
                }
                batch.close();
                batch.close();
            }
        }
        return found;
    }

    private static void same(Map<Long, List<Object>> wanted, Map<Long, List<Object>> found) {
        assertEquals(wanted.keySet(), found.keySet());
        wanted.forEach((id, values) ->
                assertTrue(Arrays.deepEquals(values.toArray(), found.get(id).toArray()), values + " became " + found.get(id)));
    }

    @Test
    void everyTypeComesBack() {
        try (Table table = filled(3000);
                Snapshot snapshot = table.snapshot()) {
            assertEquals(3000, snapshot.rows());
            same(rows, read(snapshot.query(new Query())));
            List<String> types = snapshot.fields().stream().map(field -> field.type().kind().toString()).toList();
            assertEquals(
                    List.of("INT64", "FLOAT64", "BOOLEAN", "INT8", "INT16", "INT32", "FLOAT32", "DECIMAL", "STRING",
                            "BINARY", "DATE", "TIMESTAMP_NTZ", "DECIMAL"),
                    types);
            assertFalse(snapshot.fields().get(11).exact(), "milliseconds are stored, microseconds come");
        }
    }

    @Test
    void unitsThatAreNotKnownAreLogged() {
        List<String> told = new ArrayList<>();
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord event) {
                told.add(event.getLevel() + " " + MessageFormat.format(event.getMessage(), event.getParameters()));
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        };
        Logger logger = Logger.getLogger(Table.class.getName());
        logger.addHandler(handler);
        String columns = "[{\"name\": \"x\", \"type\": \"float64\", \"unit\": \"metr\"},"
                + " {\"name\": \"u\", \"type\": \"float64\", \"unit\": \"m/s\"}]";
        Table.create(location(), "{\"columns\": " + columns + ", \"dimensions\": [\"x\"]}").close();
        logger.removeHandler(handler);
        assertEquals(1, told.size());
        assertTrue(told.get(0).startsWith("WARNING " + location() + ": column \"x\": the unit `metr` is not known"));
    }

    @Test
    void questionsAndSplitsHaveTheRowsThatJavaFinds() {
        try (Table table = filled(3000);
                Snapshot snapshot = table.snapshot()) {
            Query query = new Query().box("x", 0.2, 0.6).where("number > 0");
            Map<Long, List<Object>> wanted = new HashMap<>(rows);
            wanted.values().removeIf(row -> (double) row.get(1) < 0.2
                    || (double) row.get(1) > 0.6
                    || row.get(5) == null
                    || (int) row.get(5) <= 0);
            same(wanted, read(snapshot.query(query)));
            assertEquals(wanted.size(), snapshot.count(query));
            long expected = snapshot.expected(query);
            assertTrue(expected > 1000 && expected < 1400, "0.4 of 3000 by place alone is " + expected);
            assertEquals(0, snapshot.expected(new Query().box("x", 2, 3)));
            assertEquals(3000, snapshot.expected(new Query()));
            Map<Long, List<Object>> ofSplits = new HashMap<>();
            for (Split split : snapshot.splits(query, 5)) {
                read(table.read(split)).forEach((id, row) -> assertNull(ofSplits.put(id, row)));
            }
            same(wanted, ofSplits);

            try (Answer answer = snapshot.query(query)) {
                for (Batch batch = answer.next(); batch != null; batch = answer.next()) {
                    batch.close();
                }
                assertEquals((long) wanted.size(), answer.stats().get("rows_returned"));
            }

            Query largest = new Query().orderBy("x desc").limit(7).columns("x").steps(null, 9L).perCell(100, Map.of("x", 1));
            assertEquals(7, snapshot.count(largest));
            assertEquals(largest.toString(), Query.json(largest.toString()).toString());
            long sampled = snapshot.count(new Query().sample(0.1));
            assertTrue(sampled > 200 && sampled < 400, "a tenth of 3000 is " + sampled);
            Figure mean = snapshot.estimate(List.of("mean(x)"), new Query(), 1e-12).get(0);
            double exact = rows.values().stream().mapToDouble(row -> (double) row.get(1)).average().orElseThrow();
            assertTrue(mean.exact() && Math.abs(mean.value() - exact) < 1e-12, mean + " of " + exact);
        }
    }

    @Test
    void aMomentStaysAndATokenCountsOnce() {
        try (Table table = filled(100);
                Snapshot before = table.snapshot()) {
            try (Rows batch = new Rows(before.fields());
                    Writer writer = table.writer("w")) {
                put(batch, row(1000, new Random(1)));
                writer.append(batch);
                assertEquals(true, writer.commit(null, "all").get("repeated"));
                writer.append(batch);
                assertEquals(false, writer.commit(null, "more").get("repeated"));
            }
            try (Table other = Table.open(location());
                    Snapshot now = other.snapshot();
                    Snapshot then = other.at(before.token())) {
                assertEquals(101, now.rows());
                assertEquals(100, then.rows());
            }
        }
    }

    @Test
    void stagedRowsComeWithOneCommit() {
        try (Table table = filled(10);
                Snapshot before = table.snapshot();
                Writer writer = table.writer("w")) {
            for (int file = 0; file < 3; file++) {
                String path = folder.resolve("rows-" + file).toString();
                try (StagedFile staged = table.stage(path);
                        Rows batch = new Rows(before.fields())) {
                    put(batch, row(100 + file, new Random(file)));
                    staged.append(batch);
                    staged.finish();
                }
                writer.appendStaged(path);
            }
            try (Snapshot staged = table.snapshot()) {
                assertEquals(10, staged.rows(), "nothing is seen before the commit");
            }
            writer.commit(null, "staged");
            try (Snapshot after = table.snapshot()) {
                same(rows, read(after.query(new Query())));
            }
        }
    }

    private static void fails(KubistException.Kind kind, String words, Runnable call) {
        KubistException error = assertThrows(KubistException.class, call::run);
        assertEquals(kind, error.kind(), error.getMessage());
        assertTrue(error.getMessage().contains(words), error.getMessage());
    }

    @Test
    void failuresKeepTheirKinds() throws IOException {
        fails(KubistException.Kind.NOT_FOUND, "nowhere", () -> Table.open(folder.resolve("nowhere").toString()));
        try (Table table = filled(10);
                Snapshot snapshot = table.snapshot();
                Writer first = table.writer("one")) {
            fails(KubistException.Kind.EXISTS, "t.kubist", () -> Table.create(location(), COLUMNS));
            fails(KubistException.Kind.INVALID_INPUT, "nosuch", () -> snapshot.query(new Query().where("nosuch > 1")));
            fails(KubistException.Kind.INVALID_INPUT, "sample", () -> snapshot.count(new Query().sample(1.5)));
            fails(KubistException.Kind.INVALID_INPUT, "unknown field", () -> snapshot.query(Query.json("{\"colour\": 1}")));
            fails(KubistException.Kind.BUSY, "one", () -> table.writer("one"));
            fails(KubistException.Kind.INVALID_INPUT, "token", () -> table.at("yesterday"));
            try (Rows batch = new Rows(snapshot.fields())) {
                List<Object> tooLarge = new ArrayList<>(row(1, new Random(1)));
                tooLarge.set(4, (short) 300);
                put(batch, tooLarge);
                fails(KubistException.Kind.INVALID_INPUT, "\"small\"", () -> first.append(batch));
            }
            Answer closed = snapshot.query(new Query());
            closed.close();
            closed.close();
            fails(KubistException.Kind.EXPIRED, "closed", closed::next);
        }
        rows.clear();
        Files.writeString(folder.resolve("file"), "no table");
        fails(KubistException.Kind.NOT_FOUND, "file", () -> Table.open(folder.resolve("file").toString()));
    }

    @Test
    void anInterruptStopsAQuestion() {
        try (Table table = filled(100);
                Snapshot snapshot = table.snapshot();
                Answer answer = snapshot.query(new Query())) {
            Thread.currentThread().interrupt();
            fails(KubistException.Kind.CANCELLED, "interrupted", answer::next);
            assertTrue(Thread.interrupted());
        }
    }

    @Test
    void anHundredQuestionsLeaveNothingBehind() throws IOException {
        try (Table table = filled(2000);
                Snapshot snapshot = table.snapshot()) {
            ask(snapshot, 10);
            long files = open();
            int threads = Thread.activeCount();
            ask(snapshot, 100);
            assertEquals(files, open(), "open files");
            assertEquals(threads, Thread.activeCount(), "threads");
            assertEquals(Map.of("handles", 2L, "arrays", 0L), Table.held());
        }
    }

    private static void ask(Snapshot snapshot, int times) {
        for (int time = 0; time < times; time++) {
            Answer answer = snapshot.query(new Query().sample(0.5));
            Batch batch = answer.next();
            batch.close();
            if (time % 2 == 0) {
                read(answer);
            }
            answer.close();
        }
    }

    /** Each result has 10 MB, little of it in the Java heap, so a leak of a hundred would be visible. */
    @Test
    void anHundredAnswersLeaveNoMemoryBehind() throws IOException {
        String columns =
                "{\"columns\": [{\"name\": \"id\", \"type\": \"int64\"}, {\"name\": \"x\", \"type\": \"float64\"},"
                        + " {\"name\": \"y\", \"type\": \"float64\"}, {\"name\": \"z\", \"type\": \"float64\"}],"
                        + " \"dimensions\": {\"x\": [0, 1]}, \"identity\": [\"id\"]}";
        int count = 320_000;
        try (Table table = Table.create(location(), columns);
                Snapshot empty = table.snapshot();
                Rows batch = new Rows(empty.fields());
                Writer writer = table.writer("w")) {
            Random random = new Random(3);
            for (int row = 0; row < count; row++) {
                batch.setLong(0, row);
                for (int column = 1; column < 4; column++) {
                    batch.setDouble(column, random.nextDouble());
                }
                batch.end();
            }
            writer.append(batch);
            writer.commit(null, null);
            try (Snapshot snapshot = table.snapshot()) {
                readAll(snapshot, 10, count);
                long before = residentMegabytes();
                readAll(snapshot, 100, count);
                long more = residentMegabytes() - before;
                assertTrue(more < 200, "answers of 1,000 MB left " + more + " MB behind");
            }
        }
    }

    private static void readAll(Snapshot snapshot, int times, int count) {
        for (int time = 0; time < times; time++) {
            try (Answer answer = snapshot.query(new Query())) {
                int read = 0;
                for (Batch batch = answer.next(); batch != null; batch = answer.next()) {
                    read += batch.rows();
                    batch.close();
                }
                assertEquals(count, read);
            }
        }
    }

    private static long residentMegabytes() throws IOException {
        String status = Files.readString(Path.of("/proc/self/status"));
        return Long.parseLong(status.replaceAll("(?s).*VmRSS:\\s*(\\d+) kB.*", "$1")) / 1024;
    }

    private static long open() throws IOException {
        try (var files = Files.list(Path.of("/proc/self/fd"))) {
            return files.count();
        }
    }

    @Test
    void jsonComesBackAsItWas() {
        Map<String, Object> value = new HashMap<>();
        value.put("a \"quoted\" \\ name\n\u0001", Arrays.asList(1L, -2.5, null, true, Map.of(), List.of(), "\u00e9\ud83d\ude00"));
        assertEquals(value, Json.read(Json.write(value)));
        for (String wrong : List.of("", "{", "[1", "\"a", "{\"a\" 1}", "[1]]", "1x", "\"\\u12\"", "nan")) {
            assertThrows(KubistException.class, () -> Json.read(wrong), wrong);
        }
        assertThrows(KubistException.class, () -> Json.write(Double.NaN));
    }
}
