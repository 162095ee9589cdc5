package org.kubist.cassandra;

import com.datastax.driver.core.BoundStatement;
import com.datastax.driver.core.PreparedStatement;
import com.datastax.driver.core.ResultSetFuture;
import com.datastax.driver.core.SimpleStatement;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Random;

/** Compares writes and queries with the index to the same rows without an index: {@code make bench-cql-index}. */
final class Bench {
    private static final int TURNS = 5, IN_FLIGHT = 64;
    /** A box of a tenth of the volume in each of two dimensions is 1 % of uniform rows. */
    private static final String BOX = "x > 0.4 AND x < 0.5 AND y > 0.4 AND y < 0.5 AND z > 0";

    private interface Work {
        void run() throws Exception;
    }

    private Bench() {}

    private static double seconds(Work work) throws Exception {
        long start = System.nanoTime();
        work.run();
        return (System.nanoTime() - start) / 1e9;
    }

    public static void main(String[] arguments) throws Exception {
        int rows = Integer.parseInt(arguments[1]);
        try (Nodes nodes = new Nodes(List.of(arguments[0].split(",")), "bench")) {
            System.out.printf("%,d rows of a table (a int, b int, x, y, z double), %d node%n", rows, nodes.addresses.size());
            System.out.println("\n| key | index | insert, s | flush, s | compaction, s |\n|---|---|---:|---:|---:|");
            for (String kind : new String[] {"narrow", "wide"})
                for (String index : new String[] {"none", "kubist"}) load(nodes, kind, index, rows);
            System.out.println("\n| key | query | index | rows | median, ms |\n|---|---|---|---:|---:|");
            for (String kind : new String[] {"narrow", "wide"}) {
                query(nodes, kind, "all rows", "none", "");
                query(nodes, kind, "1 % of all rows", "kubist", " WHERE expr(" + kind + "_kubist_i, 'precision=0.01')");
                query(nodes, kind, "box of 1 %", "none", " WHERE " + BOX + " ALLOW FILTERING");
                query(nodes, kind, "box of 1 %", "kubist", " WHERE " + BOX);
                query(nodes, kind, "1 % of a box of 1 %", "kubist", " WHERE " + BOX + " AND expr(" + kind + "_kubist_i, 'precision=0.01')");
            }
        }
    }

    private static void load(Nodes nodes, String kind, String index, int rows) throws Exception {
        String table = kind + "_" + index;
        nodes.session.execute("CREATE TABLE " + table + " (a int, b int, x double, y double, z double, PRIMARY KEY "
            + (kind.equals("narrow") ? "((a, b))" : "(a, b)") + ")");
        if (index.equals("kubist"))
            nodes.session.execute("CREATE CUSTOM INDEX " + table + "_i ON " + table + " (x, y, z) USING 'org.kubist.cassandra.KubistIndex'");
        PreparedStatement insert = nodes.session.prepare("INSERT INTO " + table + " (a, b, x, y, z) VALUES (?, ?, ?, ?, ?)");
        Random random = new Random(1);
        double[] took = new double[3];
        // Two halves give two SSTables to compact.
        for (int half = 0; half < 2; half++) {
            int first = half * rows / 2;
            took[0] += seconds(() -> {
                ArrayDeque<ResultSetFuture> waiting = new ArrayDeque<>();
                for (int i = first; i < first + rows / 2; i++) {
                    BoundStatement bound = insert.bind(i / 100, i % 100, random.nextDouble(), random.nextDouble(), random.nextDouble());
                    waiting.add(nodes.session.executeAsync(bound));
                    if (waiting.size() == IN_FLIGHT) waiting.remove().get();
                }
                while (!waiting.isEmpty()) waiting.remove().get();
            });
            took[1] += seconds(() -> nodes.flush("bench", table));
        }
        took[2] = seconds(() -> nodes.compact("bench", table));
        System.out.printf(Locale.ROOT, "| %s | %s | %.1f | %.2f | %.2f |%n", kind, index, took[0], took[1], took[2]);
    }

    private static void query(Nodes nodes, String kind, String name, String index, String where) throws Exception {
        double[] took = new double[TURNS];
        int[] rows = new int[1];
        for (int turn = 0; turn < TURNS; turn++)
            took[turn] = seconds(() -> rows[0] = nodes.session.execute(new SimpleStatement("SELECT * FROM " + kind + "_" + index + where)).all().size());
        Arrays.sort(took);
        System.out.printf(Locale.ROOT, "| %s | %s | %s | %,d | %.1f |%n", kind, name, index, rows[0], 1000 * took[TURNS / 2]);
    }
}
