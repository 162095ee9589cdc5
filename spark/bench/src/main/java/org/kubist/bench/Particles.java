package org.kubist.bench;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;

/** Particles in and around 16 clusters in a unit cube, the same in each run. */
final class Particles {
    /** Bits per coordinate in a Morton key. */
    private static final int BITS = 20;

    private Particles() {}

    /** A pseudorandom number in [0, 1) from the row and {@code which}. */
    private static String uniform(int which) {
        return "shiftrightunsigned(xxhash64(id, " + which + "), 11) * 1.1102230246251565E-16D";
    }

    /** Half of the rows are near the centre of their cluster, the others anywhere. */
    private static String coordinate(String name, int which) {
        String centre = "(xxhash64(id % 16, " + which + ") & 1023) / 1024D";
        String near = "(" + uniform(which) + " + " + uniform(which + 10) + " + " + uniform(which + 20) + " - 1.5D) * 0.15D";
        return "CAST(CASE WHEN xxhash64(id) % 2 = 0 THEN pmod(" + centre + " + " + near + ", 1D) ELSE "
                + uniform(which + 30) + " END AS FLOAT) AS " + name;
    }

    private static String velocity(String name, int which) {
        return "CAST((" + uniform(which) + " + " + uniform(which + 10) + " - 1D) AS FLOAT) AS " + name;
    }

    static Dataset<Row> made(SparkSession spark, long rows, int tasks) {
        return spark.range(0, rows, 1, tasks).selectExpr(
                "id AS pid",
                "CAST(xxhash64(id, 99) & 63 AS INT) AS step",
                coordinate("x", 1),
                coordinate("y", 2),
                coordinate("z", 3),
                "CAST(1e-6D + 1e-5D * pow(" + uniform(50) + ", 3) AS FLOAT) AS diameter",
                velocity("u", 60),
                velocity("v", 61),
                velocity("w", 62));
    }

    private static Column spread(String name) {
        String bits = "CAST(" + name + " * " + (1 << BITS) + "D AS BIGINT)";
        long[][] steps = {
            {32, 0x1f00000000ffffL}, {16, 0x1f0000ff0000ffL}, {8, 0x100f00f00f00f00fL}, {4, 0x10c30c30c30c30c3L},
            {2, 0x1249249249249249L}
        };
        for (long[] step : steps) {
            bits = "((" + bits + " | shiftleft(" + bits + ", " + step[0] + ")) & " + step[1] + "L)";
        }
        return functions.expr(bits);
    }

    static Column mortonKey() {
        return spread("x").bitwiseOR(functions.shiftleft(spread("y"), 1)).bitwiseOR(functions.shiftleft(spread("z"), 2));
    }
}
