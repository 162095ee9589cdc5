package org.kubist.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.Row;
import com.datastax.driver.core.SimpleStatement;
import com.datastax.driver.core.exceptions.NoHostAvailableException;
import com.datastax.driver.core.exceptions.QueryConsistencyException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.marshal.ByteBufferAccessor;
import org.apache.cassandra.db.marshal.CompositeType;
import org.apache.cassandra.db.marshal.DoubleType;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.ReversedType;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.Test;

/**
 * Random tables on real nodes. With the index, each query returns the rows that a filter in the client
 * selects from all rows, read without the index, each once and in every page size.
 */
class OracleTest {
    private static final int QUERIES = Integer.getInteger("queries", 400);
    private static final long FIRST_SEED = Long.getLong("seed", 1);
    private static final int QUERIES_A_STATE = 20;
    private static final int[] PAGES = {1, 2, 7, 50, 500, 5000};

    private enum Key {
        NARROW("a int, PRIMARY KEY (a)", "a"),
        WIDE("a int, b double, PRIMARY KEY (a, b)", "a, b"),
        COMPOSITE("a int, t text, b double, PRIMARY KEY ((a, t), b)) WITH CLUSTERING ORDER BY (b DESC", "a, t, b");

        final String definition, columns;

        Key(String definition, String columns) {
            this.definition = definition;
            this.columns = columns;
        }

        Priority priority(long seed) {
            TableMetadata.Builder table = TableMetadata.builder("k", "t").partitioner(Murmur3Partitioner.instance)
                .addPartitionKeyColumn("a", Int32Type.instance);
            if (this == COMPOSITE) table.addPartitionKeyColumn("t", UTF8Type.instance);
            if (this == WIDE) table.addClusteringColumn("b", DoubleType.instance);
            if (this == COMPOSITE) table.addClusteringColumn("b", ReversedType.getInstance(DoubleType.instance));
            return new Priority(table.build(), seed);
        }
    }

    private record Condition(String column, String operator, double value) {
        boolean holds(Row row) {
            if (row.isNull(column)) return false;
            double found = ((Number) row.getObject(column)).doubleValue();
            return switch (operator) {
                case "=" -> found == value;
                case "<" -> found < value;
                case "<=" -> found <= value;
                case ">" -> found > value;
                default -> found >= value;
            };
        }
    }

    /** One table: its writes and queries, from one seed. */
    private static final class Table {
        final Nodes nodes;
        final Random random;
        final String name;
        final Key key;
        final Priority priority;
        final List<String> dimensions = new ArrayList<>(), types = new ArrayList<>();
        final ConsistencyLevel writes, reads;
        final int keys;
        long timestamp = 1_000_000;

        Table(Nodes nodes, long seed) {
            this.nodes = nodes;
            random = new Random(seed);
            name = "t" + seed;
            key = Key.values()[(int) (seed % 3)];
            keys = 20 + random.nextInt(200);
            long tableSeed = random.nextInt(100);
            priority = key.priority(tableSeed);
            boolean isMany = nodes.addresses.size() > 1;
            writes = isMany && random.nextBoolean() ? ConsistencyLevel.ALL : ConsistencyLevel.QUORUM;
            reads = !isMany ? ConsistencyLevel.ONE
                : writes == ConsistencyLevel.ALL ? pick(ConsistencyLevel.ONE, ConsistencyLevel.QUORUM, ConsistencyLevel.ALL)
                : pick(ConsistencyLevel.QUORUM, ConsistencyLevel.ALL);
            for (int i = 0; i <= random.nextInt(3); i++) {
                dimensions.add("xyz".substring(i, i + 1));
                types.add(pick("double", "float", "int", "bigint", "smallint"));
            }
            StringBuilder columns = new StringBuilder();
            for (int i = 0; i < dimensions.size(); i++) columns.append(dimensions.get(i) + " " + types.get(i) + ", ");
            String with = key == Key.COMPOSITE ? ") AND " : ") WITH ";
            nodes.session.execute("CREATE TABLE " + name + " (" + columns + "m int, s int" + (key == Key.NARROW ? "" : " static")
                + ", " + key.definition + with + "read_repair = 'NONE'");
            if (random.nextBoolean()) createIndex(tableSeed);
            else {
                for (int i = 0; i < 100; i++) write(true);
                createIndex(tableSeed);
            }
        }

        @SafeVarargs
        private <T> T pick(T... choices) {
            return choices[random.nextInt(choices.length)];
        }

        private void createIndex(long tableSeed) {
            nodes.session.execute("CREATE CUSTOM INDEX " + name + "_i ON " + name + " (" + String.join(", ", dimensions)
                + ") USING 'org.kubist.cassandra.KubistIndex' WITH OPTIONS = {'seed': '" + tableSeed + "'}");
        }

        private String keyCondition() {
            int a = random.nextInt(keys);
            if (key == Key.NARROW) return "a = " + a;
            String partition = "a = " + a % 12 + (key == Key.COMPOSITE ? " AND t = 't" + a % 2 + "'" : "");
            return partition + " AND b = " + random.nextInt(40);
        }

        private Object value(String type) {
            boolean isWhole = !type.equals("double") && !type.equals("float");
            return isWhole ? (Object) (random.nextInt(40) - 20) : (Object) (random.nextInt(160) / 4.0 - 20);
        }

        private void execute(String statement) {
            nodes.session.execute(new SimpleStatement(statement).setConsistencyLevel(writes));
        }

        /** Without an index, a write may have some dimensions only. */
        void write(boolean isPartialPossible) {
            // With equal timestamps Cassandra mixes the values of two writes.
            if (random.nextInt(4) > 0) timestamp++;
            String using = " USING TIMESTAMP " + timestamp, where = " WHERE " + keyCondition();
            int kind = random.nextInt(20);
            if (kind == 0) execute("DELETE FROM " + name + using + where);
            else if (kind == 1 && key != Key.NARROW)
                execute("DELETE FROM " + name + using + where.substring(0, where.indexOf(" AND b")) + " AND b > " + random.nextInt(40)
                    + " AND b < " + random.nextInt(40));
            else if (kind == 2) execute("DELETE FROM " + name + using + where.replaceAll(" AND b = .*", ""));
            else if (kind == 3) execute("UPDATE " + name + using + " SET m = " + random.nextInt(3) + where);
            else if (kind == 4) execute("DELETE m FROM " + name + using + where);
            else {
                List<String> sets = new ArrayList<>();
                for (int i = 0; i < dimensions.size(); i++)
                    if (!isPartialPossible || random.nextBoolean())
                        sets.add(dimensions.get(i) + " = " + (random.nextInt(30) == 0 ? null : value(types.get(i))));
                if (sets.isEmpty() || random.nextBoolean()) sets.add("m = " + random.nextInt(3));
                String expiring = random.nextInt(12) == 0 ? " AND TTL " + pick(1, 100_000) : "";
                execute("UPDATE " + name + using + expiring + " SET " + String.join(", ", sets) + where);
            }
        }

        /** Waits until all replicas answer. */
        void waitForAll() {
            SimpleStatement statement = new SimpleStatement("SELECT a FROM " + name);
            for (int attempt = 0; ; attempt++) {
                try {
                    nodes.session.execute(statement.setConsistencyLevel(ConsistencyLevel.ALL)).all();
                    return;
                } catch (NoHostAvailableException | QueryConsistencyException e) {
                    if (attempt == 1000) throw e;
                }
            }
        }

        /** Reads the table without the index. */
        private List<Row> all(String selection) {
            return nodes.session.execute(new SimpleStatement(selection).setConsistencyLevel(reads)).all();
        }

        private boolean isSampled(Row row, Sample sample) {
            ByteBuffer a = Int32Type.instance.decompose(row.getInt("a"));
            if (key == Key.NARROW) return sample.holds(priority.ofRow(priority.ofPartition(a), Clustering.EMPTY));
            ByteBuffer partition = key == Key.WIDE ? a : CompositeType.build(ByteBufferAccessor.instance, a,
                UTF8Type.instance.decompose(row.getString("t")));
            Clustering<?> clustering = Clustering.make(DoubleType.instance.decompose(row.getDouble("b")));
            return sample.holds(priority.ofRow(priority.ofPartition(partition), clustering));
        }

        void query() {
            List<Condition> conditions = new ArrayList<>();
            for (int i = 0; i < dimensions.size(); i++) {
                if (random.nextInt(4) == 0) continue;
                double low = ((Number) value(types.get(i))).doubleValue(), high = ((Number) value(types.get(i))).doubleValue();
                String column = dimensions.get(i);
                if (random.nextInt(8) == 0) conditions.add(new Condition(column, "=", low));
                else {
                    if (random.nextInt(4) > 0) conditions.add(new Condition(column, pick(">", ">="), Math.min(low, high)));
                    if (random.nextInt(4) > 0) conditions.add(new Condition(column, pick("<", "<="), Math.max(low, high)));
                }
            }
            List<String> texts = new ArrayList<>();
            for (Condition condition : conditions) {
                boolean isWhole = condition.value == Math.rint(condition.value);
                texts.add(condition.column + " " + condition.operator + " " + (isWhole
                    ? String.valueOf((long) condition.value) : String.format(Locale.ROOT, "%.2f", condition.value)));
            }
            Sample sample = Sample.ALL;
            List<Object> bound = new ArrayList<>();
            if (conditions.isEmpty() || random.nextInt(3) > 0) {
                double first = pick(0.0, 0.01, 0.05, 0.3, 0.5, 1.0), last = pick(0.02, 0.3, 0.7, 1.0);
                String text = first < last && random.nextBoolean() ? "precision=" + first + ".." + last : "precision=" + last;
                sample = Sample.parse(text);
                bound.add(text + pick("", ":suffix"));
                texts.add("expr(" + name + "_i, ?)");
            }
            int partition = random.nextInt(12);
            boolean isOnePartition = random.nextInt(6) == 0;
            if (isOnePartition) texts.add("a = " + partition + (key == Key.COMPOSITE ? " AND t = 't1'" : ""));
            boolean isRange = !isOnePartition && random.nextInt(5) == 0;
            String token = "token(" + (key == Key.COMPOSITE ? "a, t" : "a") + ")";
            long split = random.nextLong();
            if (isRange) texts.add(token + " > " + split);
            boolean hasPayload = random.nextInt(5) == 0;
            if (hasPayload) texts.add("m = 1");
            int limit = random.nextInt(5) == 0 ? 1 + random.nextInt(30) : Integer.MAX_VALUE;
            String selection = "SELECT " + token + " AS place, " + key.columns + ", m, " + String.join(", ", dimensions) + " FROM " + name;
            String statement = selection + " WHERE " + String.join(" AND ", texts)
                + (limit < Integer.MAX_VALUE ? " LIMIT " + limit : "") + (hasPayload ? " ALLOW FILTERING" : "");
            SimpleStatement query = new SimpleStatement(statement, bound.toArray());
            int page = pick(PAGES[0], PAGES[1], PAGES[2], PAGES[3], PAGES[4], PAGES[5]);
            query.setConsistencyLevel(reads).setFetchSize(page);

            List<Row> before, found, after;
            // Tries again if rows expire while they are read.
            do {
                before = all(selection);
                found = nodes.session.execute(query).all();
                after = all(selection);
            } while (!before.toString().equals(after.toString()));

            TreeSet<String> expected = new TreeSet<>();
            for (Row row : before) {
                boolean isSelected = isSampled(row, sample) && (!hasPayload || !row.isNull("m") && row.getInt("m") == 1);
                if (key != Key.NARROW && row.isNull("b")) continue;
                for (Condition condition : conditions) isSelected = isSelected && condition.holds(row);
                if (isOnePartition)
                    isSelected = isSelected && row.getInt("a") == partition && (key != Key.COMPOSITE || row.getString("t").equals("t1"));
                if (isRange) isSelected = isSelected && row.getLong("place") > split;
                if (isSelected) expected.add(row.toString());
            }
            List<String> rows = found.stream().map(Row::toString).toList();
            Set<String> distinct = new TreeSet<>(rows);
            String context = "page " + page + ", " + reads + ", " + bound + ": " + statement;
            assertEquals(rows.size(), distinct.size(), () -> "a row twice: " + context);
            if (limit == Integer.MAX_VALUE) assertEquals(expected, distinct, context);
            else {
                assertTrue(expected.containsAll(distinct), context);
                assertEquals(Math.min(limit, expected.size()), rows.size(), context);
            }
            for (int i = 1; i < found.size(); i++)
                assertTrue(found.get(i - 1).getLong("place") <= found.get(i).getLong("place"), "order: " + context);
        }
    }

    @Test
    void queriesEqualAFilterInTheClient() throws Exception {
        try (Nodes nodes = new Nodes("oracle")) {
            DatabaseDescriptor.clientInitialization();
            if (nodes.addresses.size() > 1) nodes.disableHints();
            int queries = 0;
            long seed = FIRST_SEED;
            while (queries < QUERIES) {
                Table table = new Table(nodes, seed++);
                for (int state = 0; state < 5 && queries < QUERIES; state++) {
                    // Replicas differ after a write that one of them misses.
                    boolean isOneStopped = table.writes == ConsistencyLevel.QUORUM && nodes.addresses.size() > 2;
                    String victim = nodes.addresses.get(isOneStopped ? 1 + table.random.nextInt(2) : 0);
                    if (isOneStopped) nodes.signal(victim, "STOP");
                    try {
                        for (int i = 0; i < 120; i++) table.write(false);
                    } finally {
                        if (isOneStopped) nodes.signal(victim, "CONT");
                    }
                    table.waitForAll();
                    switch (table.random.nextInt(4)) {
                        case 0 -> nodes.flush("oracle", table.name);
                        case 1 -> {
                            nodes.flush("oracle", table.name);
                            nodes.compact("oracle", table.name);
                        }
                        default -> {}
                    }
                    for (int i = 0; i < QUERIES_A_STATE; i++, queries++) {
                        try {
                            table.query();
                        } catch (Exception | AssertionError e) {
                            throw new AssertionError("seed " + (seed - 1) + ", state " + state, e);
                        }
                    }
                }
                nodes.session.execute("DROP TABLE " + table.name);
            }
            System.out.println("oracle: " + queries + " queries, none wrong");
        }
    }
}
