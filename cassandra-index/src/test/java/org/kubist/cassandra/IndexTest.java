package org.kubist.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.SimpleStatement;
import com.datastax.driver.core.exceptions.DriverException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Statements, components and damage on real nodes; {@link OracleTest} checks results. */
class IndexTest {
    private static final String USING = " USING 'org.kubist.cassandra.KubistIndex'";

    private static void assertRefused(Nodes nodes, String message, String statement) {
        DriverException error = assertThrows(DriverException.class, () -> nodes.session.execute(statement), statement);
        assertTrue(error.getMessage().contains(message), error.getMessage());
    }

    @Test
    void wrongStatementsAreRefusedWithTheirReason() {
        try (Nodes nodes = new Nodes("refused")) {
            nodes.session.execute("CREATE TABLE t (a int, b int, x double, y double, name text, s int static, PRIMARY KEY (a, b))");
            nodes.session.execute("CREATE TABLE v (a varint PRIMARY KEY, x double)");
            assertRefused(nodes, "name has type text", "CREATE CUSTOM INDEX ON t (x, name)" + USING);
            assertRefused(nodes, "b is a clustering column", "CREATE CUSTOM INDEX ON t (b)" + USING);
            assertRefused(nodes, "s is a static column", "CREATE CUSTOM INDEX ON t (s)" + USING);
            assertRefused(nodes, "a has type varint", "CREATE CUSTOM INDEX ON v (x)" + USING);
            assertRefused(nodes, "'x' is not an integer", "CREATE CUSTOM INDEX ON t (x)" + USING + " WITH OPTIONS = {'seed': 'x'}");
            assertRefused(nodes, "sed", "CREATE CUSTOM INDEX ON t (x)" + USING + " WITH OPTIONS = {'sed': '1'}");

            nodes.session.execute("CREATE CUSTOM INDEX i ON t (x, y)" + USING);
            assertRefused(nodes, "sets all of its columns [x, y] or none; this one sets 1", "UPDATE t SET x = 1 WHERE a = 1 AND b = 1");
            assertRefused(nodes, "this one sets 1", "DELETE y FROM t WHERE a = 1 AND b = 1");
            nodes.session.execute("UPDATE t SET name = 'n' WHERE a = 1 AND b = 1");
            nodes.session.execute("DELETE x, y FROM t WHERE a = 1 AND b = 1");
            assertRefused(nodes, "use precision=FRACTION", "SELECT * FROM t WHERE expr(i, 'rows=10')");
            assertRefused(nodes, "not from 0 to 1", "SELECT * FROM t WHERE expr(i, 'precision=2')");
            assertRefused(nodes, "dependent secondary indexes", "ALTER TABLE t DROP x");
        }
    }

    /**
     * If two points have the same timestamp, Cassandra keeps the larger value of each column. The row can then
     * match a box that contains neither point.
     */
    @Test
    void mixedPointsOfOneTimestampAreFound() throws Exception {
        try (Nodes nodes = new Nodes("mixed")) {
            for (String key : List.of("PRIMARY KEY (a)", "PRIMARY KEY (a, b)")) {
                nodes.session.execute("DROP TABLE IF EXISTS t");
                nodes.session.execute("CREATE TABLE t (a int, b int, x int, y int, " + key + ")");
                nodes.session.execute("CREATE CUSTOM INDEX i ON t (x, y)" + USING);
                String box = "SELECT count(*) FROM t WHERE x > 5 AND y > 5";
                for (String point : List.of("1, 9", "9, 1")) {
                    for (int a = 0; a < 20; a++)
                        nodes.session.execute("INSERT INTO t (a, b, x, y) VALUES (" + a + ", 1, " + point + ") USING TIMESTAMP 5");
                    // After the second point, which is in an SSTable and a memtable.
                    assertEquals(point.equals("1, 9") ? 0 : 20, nodes.session.execute(box).one().getLong(0));
                    nodes.flush("mixed", "t");
                }
                assertEquals(20, nodes.session.execute(box).one().getLong(0));
                nodes.compact("mixed", "t");
                assertEquals(20, nodes.session.execute(box).one().getLong(0));
            }
        }
    }

    private static List<Path> components(Nodes nodes, String keyspace) throws Exception {
        List<Path> found = new ArrayList<>();
        for (String address : nodes.addresses)
            for (String folder : nodes.folders(address))
                try (Stream<Path> files = Files.walk(Path.of(folder, keyspace))) {
                    files.filter(path -> path.toString().endsWith("Kubist+i.db")).forEach(found::add);
                }
        return found;
    }

    /** Reads from all replicas, so that each notices its damage. */
    private static Set<Integer> ids(Nodes nodes) {
        Set<Integer> found = new TreeSet<>();
        nodes.session.execute(new SimpleStatement("SELECT a FROM t WHERE x > 0.25 AND x < 0.5 AND expr(i, 'precision=0.5')")
            .setConsistencyLevel(ConsistencyLevel.ALL)).forEach(row -> assertTrue(found.add(row.getInt("a"))));
        return found;
    }

    private static void flip(Path path, long at) throws IOException {
        byte[] bytes = Files.readAllBytes(path);
        bytes[(int) at] ^= 1;
        Files.write(path, bytes);
    }

    @Test
    void damagedAndMissingComponentsNeverGiveFewerRows() throws Exception {
        try (Nodes nodes = new Nodes("damage")) {
            nodes.session.execute("CREATE TABLE t (a int PRIMARY KEY, x double)");
            nodes.session.execute("CREATE CUSTOM INDEX i ON t (x)" + USING);
            for (int a = 0; a < 2000; a++) nodes.session.execute("INSERT INTO t (a, x) VALUES (" + a + ", " + a / 2000.0 + ")");
            Set<Integer> expected = ids(nodes);
            assertTrue(expected.size() > 150 && expected.size() < 350, expected.size() + " rows");
            nodes.flush("damage", "t");
            assertEquals(nodes.addresses.size(), components(nodes, "damage").size());
            assertEquals(expected, ids(nodes));

            // A query checks the footer when it opens the file, and reads the SSTable instead.
            for (Path path : components(nodes, "damage")) flip(path, Files.size(path) - 40);
            assertEquals(expected, ids(nodes));
            nodes.rebuild("damage", "t", "i");
            assertEquals(expected, ids(nodes));

            // A block is checked when it is read: that query fails, the next ones read the SSTable.
            for (Path path : components(nodes, "damage")) flip(path, 100);
            for (int i = 0; i < nodes.addresses.size(); i++) {
                try {
                    assertEquals(expected, ids(nodes));
                } catch (DriverException e) {
                    assertTrue(e.getMessage().contains("failure"), e.getMessage());
                }
            }
            assertEquals(expected, ids(nodes));
            nodes.rebuild("damage", "t", "i");
            for (Path path : components(nodes, "damage"))
                try (PointFile file = new PointFile(path, "seed 0, x double", 1)) {
                    file.verify();
                    assertEquals(2000, file.rows);
                }
            assertEquals(expected, ids(nodes));

            for (Path path : components(nodes, "damage")) Files.delete(path);
            assertEquals(expected, ids(nodes));
            nodes.rebuild("damage", "t", "i");
            assertEquals(nodes.addresses.size(), components(nodes, "damage").size());

            for (Path path : components(nodes, "damage"))
                assertTrue(Files.readString(path.resolveSibling(path.getFileName().toString().replace("Kubist+i.db", "TOC.txt")))
                    .contains("Kubist+i.db"));
            nodes.session.execute("DROP INDEX i");
            assertEquals(List.of(), components(nodes, "damage"));
        }
    }
}
