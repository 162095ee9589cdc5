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
 * A query of a table, divided into tasks.
 *
 * <p>It does not report a single partition, because Spark 4.1 would treat a union of such scans as one partition too,
 * but run one task for each columnar scan, so that groups would appear twice.
 */
final class KubistScan implements Scan, Batch, SupportsReportStatistics {
    /**
     * Approximate limit of rows in a task, unless the program sets the number of tasks. Large tasks do less work,
     * because each also reads the upper cubes and those at its boundaries.
     */
    private static final long ROWS_OF_A_TASK = 4_000_000;
    /** Fewer rows are not worth a second task. */
    private static final long ROWS_WORTH_A_TASK = 50_000;
    private static final long MOST_TASKS = 10_000;

    private final KubistTable table;
    private final StructType columns;
    private final Question question;
    /** Rows of the query; -1 until requested. */
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

    /** The number from the index if the condition bounds a region, because an exact count may read much. */
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

    static InputPartition[] planned(
            KubistTable table, Snapshot snapshot, StructType columns, Question question, long rows) {
        String location = table.options().location();
        List<Query> queries = question.queries(columns, table.options().inclusion());
        if (question.limit() >= 0) {
            // A limit selects the lowest priorities of all rows, which needs a single task.
            Split whole = new Split(queries.get(0).toString(), rows, List.of());
            return new InputPartition[] {new KubistReader.Part(location, whole, snapshot.token())};
        }
        List<InputPartition> planned = new ArrayList<>();
        int parts = parts(table, rows);
        for (int index = 0; index < queries.size(); index++) {
            // Windows get parts in proportion to their width, at least one each.
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
        // A multiple of the cores, so that all end at about the same time.
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
