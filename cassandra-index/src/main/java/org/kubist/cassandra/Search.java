package org.kubist.cassandra;

import java.util.List;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.PartitionRangeReadCommand;
import org.apache.cassandra.db.ReadCommand;
import org.apache.cassandra.db.ReadExecutionController;
import org.apache.cassandra.db.SinglePartitionReadCommand;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ClusteringIndexFilter;
import org.apache.cassandra.db.filter.ClusteringIndexNamesFilter;
import org.apache.cassandra.db.filter.ClusteringIndexSliceFilter;
import org.apache.cassandra.db.filter.DataLimits;
import org.apache.cassandra.db.filter.RowFilter;
import org.apache.cassandra.db.partitions.AbstractUnfilteredPartitionIterator;
import org.apache.cassandra.db.partitions.SingletonUnfilteredPartitionIterator;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.AbstractUnfilteredRowIterator;
import org.apache.cassandra.db.rows.EncodingStats;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.transform.Transformation;
import org.apache.cassandra.index.Index;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.btree.BTreeSet;

/**
 * The rows of a query on this node.
 *
 * <p>Candidates' rows are read on request in token order, so memory is bounded by a batch of rows, and a
 * page costs only its own rows. A query of one partition reads the partition. A sample of a large fraction
 * without a box scans all rows, because that is faster.
 */
final class Search implements Index.Searcher {
    /** Above it, a scan is faster, because reading a row by its key costs several times a row of a scan. */
    private static final double SCAN_FRACTION = 0.06;
    private static final int FIRST_BATCH = 16, LARGEST_BATCH = 256;

    private final KubistIndex index;
    private final ReadCommand command;
    private final Sample sample;
    private final Dimensions.Box box;
    private final boolean hasBox;

    Search(KubistIndex index, ReadCommand command) {
        this.index = index;
        this.command = command;
        RowFilter filter = command.rowFilter();
        sample = index.sample(filter);
        box = index.dimensions.box(filter);
        hasBox = !index.dimensions.conditions(filter).isEmpty();
    }

    @Override
    public ReadCommand command() {
        return command;
    }

    @Override
    public UnfilteredPartitionIterator search(ReadExecutionController controller) {
        UnfilteredPartitionIterator rows;
        if (command instanceof SinglePartitionReadCommand single)
            rows = new SingletonUnfilteredPartitionIterator(single.queryMemtableAndDisk(index.cfs, controller));
        else if (!hasBox && sample.fraction() > SCAN_FRACTION)
            rows = ((PartitionRangeReadCommand) command).queryStorage(index.cfs, controller);
        else
            rows = new Partitions(controller, ((PartitionRangeReadCommand) command).dataRange());
        return Transformation.apply(rows, new Selection());
    }

    /** Keeps the rows of the sample; if replicas are compared, also applies the conditions to points. */
    private final class Selection extends Transformation<UnfilteredRowIterator> {
        private final List<RowFilter.Expression> conditions =
            command.rowFilter().isStrict() ? List.of() : index.dimensions.conditions(command.rowFilter());
        private DecoratedKey key;
        private long priority;

        @Override
        protected UnfilteredRowIterator applyToPartition(UnfilteredRowIterator partition) {
            key = partition.partitionKey();
            priority = index.priority.ofPartition(key.getKey());
            return Transformation.apply(partition, this);
        }

        @Override
        protected Row applyToRow(Row row) {
            if (!sample.holds(index.priority.ofRow(priority, row.clustering()))) return null;
            // Another replica may have the rest of a loose row, so the coordinator decides.
            if (!conditions.isEmpty() && index.dimensions.isLivePoint(row, command.nowInSec()))
                for (RowFilter.Expression condition : conditions)
                    if (!condition.isSatisfiedBy(index.table(), key, row, command.nowInSec())) return null;
            return row;
        }
    }

    private final class Partitions extends AbstractUnfilteredPartitionIterator {
        private final ReadExecutionController controller;
        private final DataRange range;
        private final Candidates candidates;
        private boolean hasCandidate;
        private int batch = FIRST_BATCH;
        private DecoratedKey lastKey;

        Partitions(ReadExecutionController controller, DataRange range) {
            this.controller = controller;
            this.range = range;
            candidates = new Candidates(index, range, sample, box);
            try {
                hasCandidate = !sample.isEmpty() && candidates.advance();
            } catch (RuntimeException e) {
                candidates.close();
                throw e;
            }
        }

        @Override
        public TableMetadata metadata() {
            return index.table();
        }

        @Override
        public boolean hasNext() {
            // A partition that was closed early has candidates left.
            while (hasCandidate && candidates.key().equals(lastKey)) hasCandidate = candidates.advance();
            return hasCandidate;
        }

        @Override
        public UnfilteredRowIterator next() {
            if (!hasNext()) throw new java.util.NoSuchElementException();
            lastKey = candidates.key();
            return new Rows(lastKey, batch());
        }

        /** Reads the rows of the next candidates of the current partition. */
        private UnfilteredRowIterator batch() {
            DecoratedKey key = candidates.key();
            ClusteringIndexFilter filter;
            if (index.table().comparator.size() == 0) {
                hasCandidate = candidates.advance();
                filter = new ClusteringIndexSliceFilter(Slices.ALL, false);
            } else {
                BTreeSet.Builder<Clustering<?>> names = BTreeSet.builder(index.table().comparator);
                int count = 0;
                do {
                    names.add(candidates.row());
                    hasCandidate = candidates.advance();
                } while (++count < batch && hasCandidate && candidates.key().equals(key));
                batch = Math.min(2 * batch, LARGEST_BATCH);
                filter = new ClusteringIndexNamesFilter(names.build(), false);
            }
            return SinglePartitionReadCommand
                .create(index.table(), command.nowInSec(), command.columnFilter(), RowFilter.none(), DataLimits.NONE, key, filter)
                .queryMemtableAndDisk(index.cfs, controller);
        }

        @Override
        public void close() {
            candidates.close();
        }

        /** The rows of a partition in batches, without deleted ranges, which batches could split. */
        private final class Rows extends AbstractUnfilteredRowIterator {
            private UnfilteredRowIterator rows;

            Rows(DecoratedKey key, UnfilteredRowIterator first) {
                // Later batches may have columns that the first lacks.
                super(index.table(), key, first.partitionLevelDeletion(), command.columnFilter().fetchedColumns(),
                    first.staticRow(), false, EncodingStats.NO_STATS);
                rows = first;
            }

            @Override
            protected Unfiltered computeNext() {
                while (true) {
                    while (rows.hasNext()) {
                        Unfiltered next = rows.next();
                        if (next.isRow()) return next;
                    }
                    if (!hasCandidate || !candidates.key().equals(partitionKey)) return endOfData();
                    rows.close();
                    rows = batch();
                }
            }

            @Override
            public void close() {
                rows.close();
            }
        }
    }
}
