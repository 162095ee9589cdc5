package org.kubist.cassandra;

import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.lifecycle.View;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.UnfilteredSource;
import org.apache.cassandra.io.sstable.SSTableReadsListener;
import org.apache.cassandra.io.sstable.format.SSTableReader;

/**
 * The primary keys that a query may select, in token order, each once.
 *
 * <p>Guarantee: the keys contain every row that the query selects; {@link Search} reads the rows to decide.
 *
 * <p>A row is pruned in a memtable or SSTable only if it is a point outside the box, and no other source
 * with that partition can have its timestamp. The merged row has either all or none of a point's
 * dimensions, unless Cassandra mixes sources of the same timestamp. Loose rows are never pruned by the box.
 */
final class Candidates implements Closeable {
    private final KubistIndex index;
    private final DataRange range;
    private final Sample sample;
    private final Dimensions.Box box;
    private final ColumnFamilyStore.RefViewFragment view;
    private final List<Source> sources = new ArrayList<>();
    private final PriorityQueue<Source> queue;
    private DecoratedKey key;
    private Clustering<?> row;

    Candidates(KubistIndex index, DataRange range, Sample sample, Dimensions.Box box) {
        this.index = index;
        this.range = range;
        this.sample = sample;
        this.box = box;
        Comparator<Clustering<?>> rows = (a, b) -> index.table().comparator.compare(a, b);
        queue = new PriorityQueue<>(Comparator.<Source, DecoratedKey>comparing(s -> s.key).thenComparing(s -> s.row, rows));
        view = index.cfs.selectAndReference(View.selectLive(range.keyRange()));
        try {
            for (Memtable memtable : view.memtables) if (!memtable.isClean()) sources.add(new MemtableSource(memtable));
            for (SSTableReader sstable : view.sstables) {
                PointFile file = index.components.open(sstable);
                sources.add(file == null ? new ScannedSource(sstable) : new IndexedSource(sstable, file));
            }
            for (Source source : sources) if (source.advance()) queue.add(source);
        } catch (RuntimeException e) {
            close();
            throw e;
        }
    }

    /** Moves to the next key; false at the end. */
    boolean advance() {
        DecoratedKey lastKey = key;
        Clustering<?> lastRow = row;
        while (!queue.isEmpty()) {
            Source source = queue.poll();
            key = source.key;
            row = source.row;
            if (source.advance()) queue.add(source);
            boolean isRepeated =
                lastKey != null && key.equals(lastKey) && index.table().comparator.compare(row, lastRow) == 0;
            if (!isRepeated) return true;
        }
        return false;
    }

    DecoratedKey key() {
        return key;
    }

    Clustering<?> row() {
        return row;
    }

    @Override
    public void close() {
        try {
            sources.forEach(Source::close);
        } finally {
            view.release();
        }
    }

    private abstract class Source {
        DecoratedKey key;
        Clustering<?> row;
        /** Whether another source may have points with timestamps of this one in the current partition. */
        private boolean isShared;
        private long sharedTimestamp = Dimensions.LOOSE;
        private DecoratedKey sharedKey;

        /** Moves to the next candidate; false at the end. */
        abstract boolean advance();

        abstract void close();

        /** Whether it may have points with timestamps from low to high. */
        abstract boolean mayHavePoints(long low, long high);

        abstract boolean mayHold(DecoratedKey key);

        /** Whether another source may have a point of this row with the same timestamp. */
        final boolean isShared(DecoratedKey partition, long timestamp) {
            if (partition == sharedKey && timestamp == sharedTimestamp) return isShared;
            sharedKey = partition;
            sharedTimestamp = timestamp;
            isShared = false;
            for (Source other : sources)
                if (other != this && other.mayHavePoints(timestamp, timestamp) && other.mayHold(partition)) isShared = true;
            return isShared;
        }
    }

    /** Rows of a memtable, or of an SSTable without a usable component, as they are. */
    private abstract class ReadSource extends Source {
        private final UnfilteredPartitionIterator partitions;
        private UnfilteredRowIterator rows;
        private long priority;
        private final long[] point = new long[index.dimensions.count()];

        ReadSource(UnfilteredSource source) {
            partitions = source.partitionIterator(ColumnFilter.all(index.table()), range, SSTableReadsListener.NOOP_LISTENER);
        }

        @Override
        boolean advance() {
            while (true) {
                if (rows == null) {
                    if (!partitions.hasNext()) return false;
                    rows = partitions.next();
                    key = rows.partitionKey();
                    priority = index.priority.ofPartition(key.getKey());
                }
                while (rows.hasNext()) {
                    Unfiltered unfiltered = rows.next();
                    if (!unfiltered.isRow()) continue;
                    Row found = (Row) unfiltered;
                    if (KubistIndex.hasNoData(found) || !sample.holds(index.priority.ofRow(priority, found.clustering())))
                        continue;
                    long timestamp = index.dimensions.point(found, point);
                    if (timestamp == Dimensions.LOOSE || box.contains(point) || isShared(key, timestamp)) {
                        row = found.clustering();
                        return true;
                    }
                }
                rows.close();
                rows = null;
            }
        }

        @Override
        void close() {
            if (rows != null) rows.close();
            partitions.close();
        }
    }

    private final class MemtableSource extends ReadSource {
        private final Memtable memtable;

        MemtableSource(Memtable memtable) {
            super(memtable);
            this.memtable = memtable;
        }

        @Override
        boolean mayHavePoints(long low, long high) {
            long lowest = memtable.getMinTimestamp();
            return lowest == Memtable.NO_MIN_TIMESTAMP || high >= lowest;
        }

        @Override
        boolean mayHold(DecoratedKey partition) {
            try (UnfilteredRowIterator found = memtable.rowIterator(partition)) {
                return found != null;
            }
        }
    }

    private final class ScannedSource extends ReadSource {
        private final SSTableReader sstable;

        ScannedSource(SSTableReader sstable) {
            super(sstable);
            this.sstable = sstable;
        }

        @Override
        boolean mayHavePoints(long low, long high) {
            return high >= sstable.getMinTimestamp() && low <= sstable.getMaxTimestamp();
        }

        @Override
        boolean mayHold(DecoratedKey partition) {
            return Candidates.mayHold(sstable, partition);
        }
    }

    private static boolean mayHold(SSTableReader sstable, DecoratedKey partition) {
        return partition.compareTo(sstable.getFirst()) >= 0 && partition.compareTo(sstable.getLast()) <= 0
            && sstable.mayContainAssumingKeyIsInRange(partition);
    }

    /** Rows of an SSTable from its component. */
    private final class IndexedSource extends Source {
        private final SSTableReader sstable;
        private final PointFile file;
        private final int dimensions = index.dimensions.count();
        private int nextExtent;
        private PointFile.Block block;
        private int next;
        private int partition;
        private DecoratedKey decorated;
        private boolean isInRange;

        IndexedSource(SSTableReader sstable, PointFile file) {
            this.sstable = sstable;
            this.file = file;
            if (range.isWrapAround() || range.startKey().isMinimum()) return;
            // The first block that ends at or after the start of the range.
            int low = 0, high = file.extents.size();
            while (low < high) {
                int middle = low + high >>> 1;
                if (decorate(file.extents.get(middle).lastKey).compareTo(range.startKey()) < 0) low = middle + 1;
                else high = middle;
            }
            nextExtent = low;
        }

        private DecoratedKey decorate(byte[] bytes) {
            return index.table().partitioner.decorateKey(ByteBuffer.wrap(bytes));
        }

        private boolean isAfterRange(PartitionPosition position) {
            return !range.isWrapAround() && !range.stopKey().isMinimum() && position.compareTo(range.stopKey()) > 0;
        }

        @Override
        boolean advance() {
            try {
                while (block != null || nextBlock()) {
                    for (; next < block.rows; next++) {
                        if (isCandidate(next)) {
                            next++;
                            return true;
                        }
                    }
                    block = null;
                }
                return false;
            } catch (IOException e) {
                index.components.markDamaged(sstable, e);
                throw new IllegalStateException("index " + index.getIndexMetadata().name + ": " + e.getMessage()
                    + "; repeat the query, which then reads the SSTable itself, and run nodetool rebuild_index", e);
            }
        }

        private boolean nextBlock() throws IOException {
            while (nextExtent < file.extents.size()) {
                PointFile.Extent extent = file.extents.get(nextExtent++);
                if (isAfterRange(decorate(extent.firstKey))) return false;
                if (!extent.hasLoose && !box.meets(extent.minimum, extent.maximum) && !isAnyShared()) continue;
                block = file.block(extent);
                next = 0;
                partition = -1;
                return true;
            }
            return false;
        }

        /** Whether a point of this file could share its timestamp with another source. */
        private boolean isAnyShared() {
            for (Source other : sources)
                if (other != this && other.mayHavePoints(file.lowestTimestamp, file.highestTimestamp)) return true;
            return false;
        }

        private boolean isCandidate(int i) {
            if (!sample.holds(block.priority(i))) return false;
            long timestamp = block.timestamp(i);
            boolean isOutside = false;
            if (timestamp != Dimensions.LOOSE)
                for (int d = 0; d < dimensions; d++) {
                    long ordinal = block.ordinal(d, i);
                    isOutside |= ordinal < box.low[d] || ordinal > box.high[d];
                }
            if (isOutside && !isAnyAt(timestamp)) return false;
            if (block.partition(i) != partition) {
                partition = block.partition(i);
                ByteBuffer bytes = block.key(partition);
                decorated = index.table().partitioner.decorateKey(copy(bytes));
                isInRange = range.contains(decorated);
            }
            if (!isInRange || isOutside && !isShared(decorated, timestamp)) return false;
            Clustering<?> clustering = KubistIndex.clustering(block.clustering(i), index.table().comparator.size());
            if (!range.clusteringIndexFilter(decorated).selects(clustering)) return false;
            key = decorated;
            row = clustering;
            return true;
        }

        private boolean isAnyAt(long timestamp) {
            for (Source other : sources) if (other != this && other.mayHavePoints(timestamp, timestamp)) return true;
            return false;
        }

        @Override
        boolean mayHavePoints(long low, long high) {
            return high >= file.lowestTimestamp && low <= file.highestTimestamp;
        }

        @Override
        boolean mayHold(DecoratedKey partition) {
            return Candidates.mayHold(sstable, partition);
        }

        @Override
        void close() {
            file.close();
        }
    }

    private static ByteBuffer copy(ByteBuffer bytes) {
        byte[] own = new byte[bytes.remaining()];
        bytes.get(bytes.position(), own);
        return ByteBuffer.wrap(own);
    }
}
