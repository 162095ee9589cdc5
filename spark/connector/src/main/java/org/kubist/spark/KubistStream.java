package org.kubist.spark;

import java.util.List;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.types.StructType;
import org.kubist.Snapshot;

/** Follows the steps of a table: each batch has the rows of the steps that were completed since the last. */
final class KubistStream implements MicroBatchStream, SupportsTriggerAvailableNow {
    /** Up to which step a stream has read. */
    static final class Step extends Offset {
        private final long step;

        Step(long step) {
            this.step = step;
        }

        @Override
        public String json() {
            return Long.toString(step);
        }
    }

    /** Before the first step that there can be. */
    private static final Step BEFORE = new Step(Long.MIN_VALUE);

    private final KubistTable table;
    private final StructType columns;
    private final Question question;
    /** Where a query ends that reads what is there when it begins; null if it goes on. */
    private Offset end;

    KubistStream(KubistTable table, StructType columns, Question question) {
        if (table.options().version() != null) {
            throw Options.invalid("a stream follows the table: snapshot, versionAsOf and step have no place there");
        }
        this.table = table;
        this.columns = columns;
        this.question = question;
    }

    @Override
    public Offset initialOffset() {
        return BEFORE;
    }

    @Override
    public Offset latestOffset() {
        try (Snapshot now = table.moment().table().snapshot()) {
            List<Long> steps = now.steps();
            return steps.isEmpty() ? BEFORE : new Step(steps.get(steps.size() - 1));
        }
    }

    /** Without it Spark runs one batch alone, which after a crash is the one that was begun. */
    @Override
    public void prepareForTriggerAvailableNow() {
        end = latestOffset();
    }

    @Override
    public Offset latestOffset(Offset start, ReadLimit limit) {
        return end == null ? latestOffset() : end;
    }

    @Override
    public Offset deserializeOffset(String json) {
        try {
            return new Step(Long.parseLong(json.trim()));
        } catch (NumberFormatException error) {
            throw Options.invalid("the checkpoint says \"" + json + "\", and not a step: it is of another source");
        }
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
        if (((Step) start).step >= ((Step) end).step) {
            // No step is complete yet.
            return new InputPartition[0];
        }
        try (Snapshot now = table.moment().table().snapshot()) {
            Question steps = question.steps(((Step) start).step + 1, ((Step) end).step);
            long rows = now.count(steps.queries(null, null).get(0));
            return KubistScan.planned(table, now, columns, steps, rows);
        }
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return new KubistReader.Factory(columns);
    }

    @Override
    public void commit(Offset end) {}

    @Override
    public void stop() {}
}
