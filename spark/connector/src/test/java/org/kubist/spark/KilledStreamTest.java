package org.kubist.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;
import org.kubist.Answer;
import org.kubist.Batch;
import org.kubist.Query;
import org.kubist.Rows;
import org.kubist.Snapshot;
import org.kubist.Table;
import org.kubist.Writer;

/** A stream whose driver or executor is killed at random times still copies each row exactly once. */
class KilledStreamTest {
    private static final int ROWS_OF_A_STEP = 5000;
    private static final String TABLE =
            "{\"columns\": [{\"name\": \"id\", \"type\": \"int64\"}, {\"name\": \"x\", \"type\": \"float64\"}],"
                    + " \"dimensions\": {\"x\": [0, 1]}, \"identity\": [\"id\"]}";

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    Path folder;

    private final Random random = new Random(Long.getLong("seed", System.nanoTime()));
    private long steps;

    private String at(String name) {
        return folder.resolve(name).toString();
    }

    @Test
    @Timeout(value = 3, unit = TimeUnit.HOURS)
    void eachRowComesOnceWhoeverIsKilled() throws Exception {
        int rounds = Integer.getInteger("rounds", 0);
        assumeTrue(rounds > 0, "takes minutes: make stress-spark");
        for (String name : List.of("source", "sink")) {
            Table.create(at(name), TABLE).close();
        }
        int killed = 0;
        for (int round = 0; round < rounds; round++) {
            killed += driverIsKilled() ? 1 : 0;
            if (rounds > 1) {
                killed += executorIsKilled() ? 1 : 0;
            }
        }
        assertTrue(killed * 2 >= rounds, "only " + killed + " of " + rounds + " rounds killed anything");
        commitStep();
        Files.createFile(folder.resolve("last"));
        Process last = program("local[2]");
        assertEquals(0, last.waitFor(), () -> output());
        check();
    }

    private String output() {
        try {
            return Files.readString(folder.resolve("output"));
        } catch (IOException error) {
            return error.toString();
        }
    }

    private void commitStep() {
        try (Table table = Table.open(at("source"));
                Snapshot now = table.snapshot();
                Rows rows = new Rows(now.fields());
                Writer writer = table.writer("solver")) {
            for (int row = 0; row < ROWS_OF_A_STEP; row++) {
                rows.setLong(0, steps * ROWS_OF_A_STEP + row);
                rows.setDouble(1, random.nextDouble());
                rows.end();
            }
            writer.append(rows);
            writer.commit(steps, null);
            steps++;
        }
    }

    private long written() {
        try (Table table = Table.open(at("sink"));
                Snapshot now = table.snapshot()) {
            return now.rows();
        }
    }

    private void workAWhile(Process program) throws InterruptedException {
        long before = written();
        commitStep();
        while (program.isAlive() && written() == before) {
            program.waitFor(20, TimeUnit.MILLISECONDS);
        }
        for (int turn = random.nextInt(40); turn > 0 && program.isAlive(); turn--) {
            if (random.nextInt(3) == 0) {
                commitStep();
            }
            program.waitFor(random.nextInt(50), TimeUnit.MILLISECONDS);
        }
    }

    private boolean driverIsKilled() throws Exception {
        Process program = program("local[2]");
        workAWhile(program);
        boolean wasAlive = program.isAlive();
        program.destroyForcibly().waitFor();
        return wasAlive;
    }

    /** Spark continues with another executor; then the driver is killed too. */
    private boolean executorIsKilled() throws Exception {
        Process program = program("local-cluster[2,1,1024]");
        workAWhile(program);
        List<ProcessHandle> executors = program.descendants().toList();
        assertTrue(!executors.isEmpty() || !program.isAlive(), () -> output());
        for (ProcessHandle executor : executors.subList(0, Math.min(1, executors.size()))) {
            executor.destroyForcibly();
        }
        workAWhile(program);
        List<ProcessHandle> all = new ArrayList<>(program.descendants().toList());
        program.destroyForcibly().waitFor();
        all.forEach(ProcessHandle::destroyForcibly);
        return !executors.isEmpty();
    }

    /** Spark in its own process; executors use the jars in SPARK_HOME/jars. */
    private Process program(String master) throws IOException {
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        List<String> command = new ArrayList<>(List.of(java, "-Xmx1g"));
        String opened = System.getProperty("opened");
        command.addAll(List.of(opened.strip().split("\\s+")));
        command.addAll(List.of("-Dopened=" + opened.strip().replaceAll("\\s+", " "), "-Dspark.executor.memory=768m"));
        String classes = Stream.of(parts())
                .filter(part -> Files.isDirectory(Path.of(part)))
                .collect(Collectors.joining(File.pathSeparator));
        command.add("-Dspark.executor.extraClassPath=" + classes);
        command.addAll(List.of("-cp", System.getProperty("java.class.path")));
        command.addAll(List.of(StreamProgram.class.getName(), folder.toString(), master));
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.environment().put("SPARK_HOME", home().toString());
        builder.environment().put("SPARK_LOCAL_IP", "127.0.0.1");
        builder.environment().put("SPARK_SCALA_VERSION", "2.13");
        builder.environment().put("KUBIST_NATIVE_DIR", folder.toString());
        builder.directory(folder.toFile());
        builder.redirectErrorStream(true).redirectOutput(folder.resolve("output").toFile());
        return builder.start();
    }

    private static String[] parts() {
        return System.getProperty("java.class.path").split(File.pathSeparator);
    }

    private Path home() throws IOException {
        Path home = folder.resolve("home");
        Path jars = home.resolve("jars");
        if (!Files.exists(jars)) {
            Files.createDirectories(jars);
            int number = 0;
            for (String part : parts()) {
                Path from = Path.of(part).toAbsolutePath();
                if (Files.isRegularFile(from)) {
                    Files.createSymbolicLink(jars.resolve(number++ + "-" + from.getFileName()), from);
                }
            }
        }
        return home;
    }

    private void check() {
        TreeMap<Long, Integer> found = new TreeMap<>();
        try (Table table = Table.open(at("sink"));
                Snapshot now = table.snapshot();
                Answer answer = now.query(new Query().columns("id"))) {
            for (Batch batch = answer.next(); batch != null; batch = answer.next()) {
                for (int row = 0; row < batch.rows(); row++) {
                    found.merge(batch.column(0).getLong(row), 1, Integer::sum);
                }
                batch.close();
            }
        }
        assertEquals(steps * ROWS_OF_A_STEP, found.size(), () -> output());
        assertEquals(List.of(), found.entrySet().stream().filter(one -> one.getValue() != 1).toList());
    }
}
