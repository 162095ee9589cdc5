package org.kubist.spark;

import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.kubist.Answer;
import org.kubist.Batch;
import org.kubist.Snapshot;
import org.kubist.Split;
import org.kubist.Table;

/** Reads the rows of a partition, where a task runs. */
final class KubistReader implements PartitionReader<ColumnarBatch> {
    /**
     * What one task reads: a split of a question, or with a token the whole question.
     *
     * @param location of the table
     * @param split its text is the question itself where there is a token
     * @param token the moment, or null if the split says it
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

    private final StructType columns;
    private final Table table;
    private final Answer answer;
    private Batch batch;

    private KubistReader(Part part, StructType columns) {
        this.columns = columns;
        table = Table.open(part.location());
        try {
            answer = ask(part);
        } catch (RuntimeException error) {
            table.close();
            throw error;
        }
    }

    private Answer ask(Part part) {
        if (part.token() == null) {
            return table.read(part.split());
        }
        try (Snapshot snapshot = table.at(part.token())) {
            return snapshot.query(part.split().text());
        }
    }

    @Override
    public boolean next() {
        free();
        TaskContext task = TaskContext.get();
        batch = answer.next(() -> task != null && task.isInterrupted());
        return batch != null;
    }

    @Override
    public ColumnarBatch get() {
        ColumnVector[] vectors = new ColumnVector[columns.size()];
        for (int index = 0; index < vectors.length; index++) {
            vectors[index] = new KubistVector(columns.apply(index).dataType(), batch.column(index), batch.rows());
        }
        return new ColumnarBatch(vectors, batch.rows());
    }

    private void free() {
        if (batch != null) {
            batch.close();
            batch = null;
        }
    }

    @Override
    public void close() {
        free();
        answer.close();
        table.close();
    }
}
