package org.kubist.spark;

import java.util.Map;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.kubist.Answer;

/** The cost of reading, for Spark's UI and listeners. */
public final class KubistMetrics {
    private static final String BYTES = "bytesRead";
    private static final String ROWS = "rowsExamined";

    private KubistMetrics() {}

    /** Bytes read from the store. */
    public static final class Bytes extends CustomSumMetric {
        /** Spark creates it by name. */
        public Bytes() {}

        @Override
        public String name() {
            return BYTES;
        }

        @Override
        public String description() {
            return "bytes read by Kubist";
        }
    }

    /** Rows examined, including those that do not match. */
    public static final class Rows extends CustomSumMetric {
        /** Spark creates it by name. */
        public Rows() {}

        @Override
        public String name() {
            return ROWS;
        }

        @Override
        public String description() {
            return "rows examined by Kubist";
        }
    }

    private record Value(String name, long value) implements CustomTaskMetric {}

    static CustomMetric[] all() {
        return new CustomMetric[] {new Bytes(), new Rows()};
    }

    /** The cost of a result so far. */
    static CustomTaskMetric[] of(Answer answer) {
        Map<String, Object> stats = answer.stats();
        return new CustomTaskMetric[] {
            new Value(BYTES, ((Number) stats.get("bytes_read")).longValue()),
            new Value(ROWS, ((Number) stats.get("rows_read")).longValue())
        };
    }
}
