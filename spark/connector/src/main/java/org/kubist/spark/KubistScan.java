package org.kubist.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.kubist.Query;
import org.kubist.Snapshot;
import org.kubist.Split;

/**
 * A question to a table, as many tasks answer it.
 *
 * <p>It does not say that one task has all its rows: Spark 4.1 would take a union of such scans for one task too, and
 * compute it in as many as it has columnar scans, so that a group came twice.
 */
final class KubistScan implements Scan, Batch, SupportsReportStatistics {
    /**
     * A task has at most about so many rows, unless the program says how many tasks. Each task reads the
     * upper cubes, and those at its ends, so that few large ones are less work.
     */
    private static final long ROWS_OF_A_TASK = 4_000_000;
    /** Fewer rows than this are not worth a second task. */
    private static final long ROWS_WORTH_A_TASK = 50_000;
    private static final long MOST_TASKS = 10_000;

    private final KubistTable table;
    private final StructType columns;
    private final Question question;
    /** Of the question; -1 while nobody asked. */
    private long rows = -1;

    KubistScan(KubistTable table, StructType columns, Question question) {
        this.table = table;
        this.columns = columns;
        this.question = question;
    }

    @Override
    public StructType readSchema() {
        return columns;
    }

    @Override
    public String description() {
        return table.name() + " " + question.inWords() + ", Columns: " + List.of(columns.fieldNames());
    }

    @Override
    public Batch toBatch() {
        return this;
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpoint) {
        return new KubistStream(table, columns, question);
    }

    private synchronized long rows() {
        if (rows < 0) {
            rows = expected(table.moment().snapshot());
            if (question.limit() >= 0) {
                rows = Math.min(rows, question.limit());
            }
        }
        return rows;
    }

    /** Counting what conditions select may read much: where they say a part of space, the index knows about how many. */
    private long expected(Snapshot snapshot) {
        if (!question.where().isEmpty()) {
            return question.limit(-1).queries(null, null).stream().mapToLong(snapshot::expected).sum();
        }
        return (long) Math.ceil(snapshot.rows() * question.sampled());
    }

    @Override
    public Statistics estimateStatistics() {
        long width = 8L + columns.defaultSize();
        return new Statistics() {
            @Override
            public OptionalLong sizeInBytes() {
                return OptionalLong.of(rows() * width);
            }

            @Override
            public OptionalLong numRows() {
                return OptionalLong.of(rows());
            }
        };
    }

    @Override
    public InputPartition[] planInputPartitions() {
        return planned(table, table.moment().snapshot(), columns, question, rows());
    }

    /** The parts of a question, one a task. */
    static InputPartition[] planned(
            KubistTable table, Snapshot snapshot, StructType columns, Question question, long rows) {
        String location = table.options().location();
        List<Query> queries = question.queries(columns, table.options().inclusion());
        if (question.limit() >= 0) {
            // A limit takes the lowest priorities of all: one task finds them.
            Split whole = new Split(queries.get(0).toString(), rows, List.of());
            return new InputPartition[] {new KubistReader.Part(location, whole, snapshot.token())};
        }
        List<InputPartition> planned = new ArrayList<>();
        int parts = parts(table, rows);
        for (int index = 0; index < queries.size(); index++) {
            // Windows share the parts by their widths, and each has one at least.
            int of = (int) Math.max(1, Math.round(parts * question.share(index)));
            for (Split split : snapshot.splits(queries.get(index), of)) {
                planned.add(new KubistReader.Part(location, split, null));
            }
        }
        return planned.toArray(InputPartition[]::new);
    }

    private static int parts(KubistTable table, long rows) {
        if (table.options().partitions() > 0) {
            return table.options().partitions();
        }
        int cores = SparkSession.active().sparkContext().defaultParallelism();
        long most = Math.max(1, rows / ROWS_WORTH_A_TASK);
        // All cores end at about the same time.
        long turns = Math.max(1, (rows + ROWS_OF_A_TASK * cores - 1) / (ROWS_OF_A_TASK * cores));
        return (int) Math.min(Math.min(turns * cores, most), MOST_TASKS);
    }

    @Override
    public CustomMetric[] supportedCustomMetrics() {
        return KubistMetrics.all();
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return new KubistReader.Factory(columns);
    }
}
