package org.kubist;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Random tables of all Java types, with extremes and nulls: each value is returned unchanged, or refused. {@code
 * -Dquestions} is the number of tables, {@code -Dseed} the first seed.
 */
class ValuesTest {
    private static final List<String> TYPES = List.of(
            "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32",
            "float64", "string", "binary", "date", "timestamp[s]", "timestamp[ms]", "timestamp[us]", "timestamp[ns]",
            "Decimal128(38, 0)", "Decimal128(38, 38)", "Decimal128(9, 2)");

    @TempDir Path folder;

    @Test
    void valuesAreExactOrRefused() {
        long first = Long.getLong("seed", 0);
        int refused = 0;
        int stored = 0;
        for (long seed = first; seed < first + Integer.getInteger("questions", 60); seed++) {
            int[] counts = table(seed);
            stored += counts[0];
            refused += counts[1];
        }
        System.out.println(stored + " rows came back, " + refused + " were refused");
        assertTrue(stored > 0 && refused > 0);
    }

    private int[] table(long seed) {
        Random random = new Random(seed);
        List<String> types = new ArrayList<>(List.of("int64"));
        for (int column = random.nextInt(3); column >= 0; column--) {
            types.add(TYPES.get(random.nextInt(TYPES.size())));
        }
        StringBuilder columns = new StringBuilder();
        for (int column = 0; column < types.size(); column++) {
            columns.append(column == 0 ? "" : ", ").append("{\"name\": \"c").append(column).append("\", \"type\": \"")
                    .append(types.get(column)).append("\", \"nullable\": ").append(column > 0).append('}');
        }
        String options = "{\"columns\": [" + columns + "], \"dimensions\": {\"c0\": [0, 100]}, \"identity\": [\"c0\"]}";
        String what = "seed " + seed + ", columns " + types;
        Map<Long, Object[]> given = new HashMap<>();
        int refused = 0;
        try (Table table = Table.create(folder.resolve("t" + seed).toString(), options)) {
            try (Snapshot empty = table.snapshot();
                    Rows rows = new Rows(empty.fields());
                    Writer writer = table.writer("w")) {
                for (long id = 0; id < 12; id++) {
                    Object[] values = new Object[types.size()];
                    values[0] = id;
                    rows.setLong(0, id);
                    try {
                        for (int column = 1; column < values.length; column++) {
                            values[column] = put(rows, column, empty.fields().get(column).type(), random);
                        }
                        rows.end();
                        writer.append(rows);
                        given.put(id, values);
                    } catch (KubistException error) {
                        assertEquals(KubistException.Kind.INVALID_INPUT, error.kind(), what);
                        assertTrue(error.getMessage().contains("c"), what + ": " + error.getMessage());
                        refused++;
                    }
                    rows.clear();
                }
                writer.commit(null, null);
            }
            try (Snapshot now = table.snapshot();
                    Answer answer = now.query(new Query())) {
                int count = 0;
                for (Batch batch = answer.next(); batch != null; batch = answer.next()) {
                    for (int row = 0; row < batch.rows(); row++) {
                        Object[] values = new Object[types.size()];
                        for (int column = 0; column < values.length; column++) {
                            values[column] = batch.column(column).get(row);
                        }
                        Object[] wanted = given.get((Long) values[0]);
                        assertTrue(
                                Arrays.deepEquals(wanted, values),
                                () -> what + ": " + Arrays.deepToString(wanted) + " became " + Arrays.deepToString(values));
                        count++;
                    }
                    batch.close();
                }
                assertEquals(given.size(), count, what);
            }
        }
        return new int[] {given.size(), refused};
    }

    /** Sets a random value of the column's Java type, which the stored type may not hold. */
    private static Object put(Rows rows, int column, ColumnType type, Random random) {
        if (random.nextInt(5) == 0) {
            rows.setNull(column);
            return null;
        }
        switch (type.kind()) {
            case BOOLEAN -> {
                boolean value = random.nextBoolean();
                rows.setBoolean(column, value);
                return value;
            }
            case INT8 -> {
                byte value = (byte) integer(random, 8);
                rows.setByte(column, value);
                return value;
            }
            case INT16 -> {
                short value = (short) integer(random, 16);
                rows.setShort(column, value);
                return value;
            }
            case INT32, DATE -> {
                int value = (int) integer(random, 32);
                rows.setInt(column, value);
                return value;
            }
            case INT64, TIMESTAMP, TIMESTAMP_NTZ -> {
                long value = integer(random, 64);
                rows.setLong(column, value);
                return value;
            }
            case FLOAT32 -> {
                float[] extremes = {Float.MAX_VALUE, Float.MIN_VALUE, -0f, Float.NaN, Float.NEGATIVE_INFINITY};
                float value = random.nextBoolean() ? extremes[random.nextInt(5)] : Float.intBitsToFloat(random.nextInt());
                rows.setFloat(column, value);
                return value;
            }
            case FLOAT64 -> {
                double[] extremes = {Double.MAX_VALUE, Double.MIN_VALUE, -0d, Double.NaN, Double.NEGATIVE_INFINITY};
                double value = random.nextBoolean() ? extremes[random.nextInt(5)] : Double.longBitsToDouble(random.nextLong());
                rows.setDouble(column, value);
                return value;
            }
            case STRING -> {
                String value = List.of("", "\0", "\u00e9\ud83c\udf0d", "null", "x".repeat(random.nextInt(300))).get(random.nextInt(5));
                rows.setString(column, value);
                return value;
            }
            case BINARY -> {
                byte[] value = new byte[random.nextInt(20)];
                random.nextBytes(value);
                rows.setBytes(column, value);
                return value;
            }
            default -> {
                BigInteger unscaled = new BigInteger(random.nextInt(140), random);
                int scale = type.scale() + (random.nextInt(8) == 0 ? 1 : 0);
                BigDecimal value = new BigDecimal(random.nextBoolean() ? unscaled : unscaled.negate(), scale);
                rows.setDecimal(column, value);
                return value.setScale(type.scale());
            }
        }
    }

    private static long integer(Random random, int bits) {
        long most = -1L >>> (65 - bits);
        return switch (random.nextInt(4)) {
            case 0 -> most;
            case 1 -> -most - 1;
            case 2 -> random.nextLong() % 1_000_000_000_000L * 1_000_000L;
            default -> random.nextInt(200) - 50;
        };
    }
}
