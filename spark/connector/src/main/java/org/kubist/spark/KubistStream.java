package org.kubist.spark;

import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.types.StructType;
import org.kubist.Json;
import org.kubist.KubistException;
import org.kubist.Snapshot;

/** Follows the steps of a table; each batch has the rows of the steps completed since the last batch. */
final class KubistStream implements MicroBatchStream, SupportsTriggerAvailableNow {
    /**
     * The last step that a stream has read, and a snapshot's token, which identifies the table and its history, so a
     * checkpoint cannot continue on another table at the same location.
     */
    static final class Step extends Offset {
        private final long step;
        private final String token;

        Step(long step, String token) {
            this.step = step;
            this.token = token;
        }

        @Override
        public String json() {
            return token == null ? "{\"step\":" + step + "}" : "{\"step\":" + step + ",\"snapshot\":\"" + token + "\"}";
        }

        static Step of(String json) {
            if (Json.read(json) instanceof Map<?, ?> offset && offset.get("step") instanceof Number step) {
                return new Step(step.longValue(), (String) offset.get("snapshot"));
            }
            throw new IllegalArgumentException(json);
        }
    }

    /** Before the first possible step. */
    private static final Step BEFORE = new Step(Long.MIN_VALUE, null);

    private final KubistTable table;
    private final StructType columns;
    private final Question question;
    /** The end of a query that reads only the steps available at its start; null if it continues. */
    private Offset end;

    KubistStream(KubistTable table, StructType columns, Question question) {
        if (table.options().version() != null) {
            throw Options.invalid("a stream follows the newest steps: options snapshot, versionAsOf and step are not allowed");
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
            return steps.isEmpty() ? BEFORE : new Step(steps.get(steps.size() - 1), now.token());
        }
    }

    /** Without this method Spark runs only one batch, which after a crash is the interrupted one. */
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
        Step step;
        try {
            step = Step.of(json);
        } catch (RuntimeException error) {
            throw Options.invalid("the checkpoint has the offset " + json + ", and not a step of a Kubist table: it is of"
                    + " another source");
        }
        checkHistory(step);
        return step;
    }

    /**
     * Refuses a checkpoint of another table or history, whose steps may have other rows. If the files of its snapshot
     * were cleaned, the history cannot be compared and is accepted.
     */
    private void checkHistory(Step step) {
        if (step.token == null) {
            return;
        }
        try {
            table.moment().table().at(step.token).close();
        } catch (KubistException error) {
            if (error.kind() == KubistException.Kind.REPLACED) {
                throw new KubistException(
                        KubistException.Kind.REPLACED,
                        error.getMessage() + "; the stream has read step " + step.step + " of it: start the query with a new"
                                + " checkpointLocation");
            }
            if (error.kind() != KubistException.Kind.EXPIRED) {
                throw error;
            }
        }
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
        if (((Step) start).step >= ((Step) end).step) {
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
