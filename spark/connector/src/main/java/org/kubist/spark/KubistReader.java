package org.kubist.spark;

import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.kubist.Answer;
import org.kubist.Batch;
import org.kubist.Field;
import org.kubist.KubistException;
import org.kubist.Query;
import org.kubist.Snapshot;
import org.kubist.Split;
import org.kubist.Table;

/** Reads the rows of a partition in a task. */
final class KubistReader implements PartitionReader<ColumnarBatch> {
    /**
     * The work of a task: a split of a query, or with a token the whole query.
     *
     * @param location of the table
     * @param split its text is the query itself if there is a token
     * @param token the snapshot, or null if the split contains it
     */
    record Part(String location, Split split, String token) implements InputPartition {
        private static final long serialVersionUID = 1;

        @Override
        public String[] preferredLocations() {
            return split.hosts().toArray(String[]::new);
        }
    }

    record Factory(StructType columns) implements PartitionReaderFactory {
        private static final long serialVersionUID = 1;

        @Override
        public PartitionReader<InternalRow> createReader(InputPartition partition) {
            throw new UnsupportedOperationException("Kubist reads columns");
        }

        @Override
        public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
            return new KubistReader((Part) partition, columns);
        }

        @Override
        public boolean supportColumnarReads(InputPartition partition) {
            return true;
        }
    }

    /** Rows per batch, as in Spark's own readers. A cancelled task ends before the next batch. */
    private static final int MOST_ROWS = 4096;

    private final StructType columns;
    private final Table table;
    private final Answer answer;
    private Batch batch;
    private int first;
    private int rows;
    /** Metrics as of the last batch, which Spark requests often, and once more after the close. */
    private CustomTaskMetric[] spent = {};

    private KubistReader(Part part, StructType columns) {
        this.columns = columns;
        table = Table.open(part.location());
        try {
            answer = ask(part);
            check(part.location());
        } catch (RuntimeException error) {
            table.close();
            throw error;
        }
    }

    /** Spark reads columns by position, and values by the planned types. */
    private void check(String location) {
        List<Field> fields = answer.fields();
        boolean isSame = fields.size() == columns.size();
        for (int index = 0; isSame && index < fields.size(); index++) {
            Field field = fields.get(index);
            StructField planned = columns.apply(index);
            isSame = field.name().equals(planned.name()) && Types.ofSpark(field.type()).equals(planned.dataType());
        }
        if (!isSame) {
            answer.close();
            throw new KubistException(
                    KubistException.Kind.EXPIRED,
                    location + " returned the columns " + fields.stream().map(Field::name).toList()
                            + " instead of the planned ones, " + columns.toDDL() + ": load it again");
        }
    }

    private Answer ask(Part part) {
        if (part.token() == null) {
            return table.read(part.split());
        }
        try (Snapshot snapshot = table.at(part.token())) {
            return snapshot.query(Query.json(part.split().text()));
        }
    }

    @Override
    public boolean next() {
        first += rows;
        if (batch == null || first == batch.rows()) {
            free();
            batch = answer.next(KubistReader::isInterrupted);
            first = 0;
            spent = KubistMetrics.of(answer);
        } else if (isInterrupted()) {
            throw new KubistException(KubistException.Kind.CANCELLED, "reading was interrupted");
        }
        rows = batch == null ? 0 : Math.min(batch.rows() - first, MOST_ROWS);
        return batch != null;
    }

    private static boolean isInterrupted() {
        TaskContext task = TaskContext.get();
        return task != null && task.isInterrupted();
    }

    @Override
    public ColumnarBatch get() {
        ColumnVector[] vectors = new ColumnVector[columns.size()];
        for (int index = 0; index < vectors.length; index++) {
            vectors[index] = new KubistVector(columns.apply(index).dataType(), batch.column(index).from(first), rows);
        }
        return new ColumnarBatch(vectors, rows);
    }

    private void free() {
        if (batch != null) {
            batch.close();
            batch = null;
        }
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
        return spent;
    }

    @Override
    public void close() {
        free();
        answer.close();
        table.close();
    }
}
