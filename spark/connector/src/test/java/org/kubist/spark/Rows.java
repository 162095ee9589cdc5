package org.kubist.spark;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.types.StructType;

/** Random rows of all types that Spark and Kubist share, with nulls, NaN, infinities and both zeros. */
final class Rows {
    static final StructType SCHEMA = StructType.fromDDL(
            "id BIGINT NOT NULL, x DOUBLE NOT NULL, y FLOAT NOT NULL, b BOOLEAN, t TINYINT, s SMALLINT, i INT, n BIGINT,"
                    + " f FLOAT, d DOUBLE, e DECIMAL(12,3), g DECIMAL(30,2), c STRING, z BINARY, j DATE, m TIMESTAMP,"
                    + " w TIMESTAMP_NTZ");

    static final String[] WORDS = {"", "a", "A", "ab", "a%b", "a_b", "a\\b", "it's", "\u00e9t\u00e9", "\ud83d\ude00", "zz"};

    private final Random random;

    Rows(long seed) {
        random = new Random(seed);
    }

    static double odd(Random random, double plain) {
        double[] odd = {Double.NaN, 0.0, -0.0, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, 0.5, 1.0};
        return random.nextInt(4) == 0 ? odd[random.nextInt(odd.length)] : plain;
    }

    private Object maybe(Object value) {
        return random.nextInt(6) == 0 ? null : value;
    }

    List<Row> some(long first, int count) {
        List<Row> rows = new ArrayList<>();
        for (long id = first; id < first + count; id++) {
            rows.add(one(id));
        }
        return rows;
    }

    private Row one(long id) {
        Instant moment = Instant.ofEpochSecond(random.nextInt(200_000_000), random.nextInt(1000) * 1000L);
        return RowFactory.create(
                id,
                random.nextDouble(),
                random.nextFloat(),
                maybe(random.nextBoolean()),
                maybe((byte) (random.nextInt(20) - 10)),
                maybe((short) (random.nextInt(2000) - 1000)),
                maybe(random.nextInt(10) == 0 ? Integer.MIN_VALUE : random.nextInt(50)),
                maybe(random.nextInt(10) == 0 ? Long.MAX_VALUE : (Object) (random.nextLong() >> 40)),
                maybe((float) odd(random, random.nextInt(20) / 10f)),
                maybe(odd(random, random.nextInt(20) / 10.0)),
                maybe(BigDecimal.valueOf(random.nextInt(5000) - 2500, 3)),
                maybe(new BigDecimal(new BigInteger(80, random), 2)),
                maybe(WORDS[random.nextInt(WORDS.length)]),
                maybe(new byte[] {(byte) random.nextInt(3), (byte) random.nextInt(256)}),
                maybe(LocalDate.ofEpochDay(random.nextInt(4000) - 1000)),
                maybe(moment),
                maybe(LocalDateTime.ofInstant(moment, ZoneOffset.UTC)));
    }
}
