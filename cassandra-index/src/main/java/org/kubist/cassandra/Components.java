package org.kubist.cassandra;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.compaction.CompactionInfo;
import org.apache.cassandra.db.compaction.CompactionInterruptedException;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.index.SecondaryIndexBuilder;
import org.apache.cassandra.io.sstable.Component;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.ISSTableScanner;
import org.apache.cassandra.io.sstable.SSTableFlushObserver;
import org.apache.cassandra.io.sstable.format.SSTableFormat;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.TimeUUID;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The index's component of each SSTable. Without a usable one, queries read the SSTable itself, only slower. */
final class Components {
    private static final Logger LOG = LoggerFactory.getLogger(Components.class);

    private final KubistIndex index;
    final Component component;
    /** SSTables whose component failed a checksum during a query; queries read them until a rebuild. */
    private final Set<Descriptor> damaged = ConcurrentHashMap.newKeySet();

    Components(KubistIndex index) {
        this.index = index;
        component = Component.parse("Kubist+" + index.getIndexMetadata().name + ".db", DatabaseDescriptor.getSelectedSSTableFormat());
    }

    private Path path(Descriptor descriptor) {
        return descriptor.fileFor(component).toPath();
    }

    /** The component of an SSTable, or null if it has no usable one. */
    PointFile open(SSTableReader sstable) {
        // The component is incomplete while a compaction still writes the SSTable.
        if (sstable.openReason == SSTableReader.OpenReason.EARLY || damaged.contains(sstable.descriptor)) return null;
        Path path = path(sstable.descriptor);
        if (!Files.exists(path)) return null;
        try {
            return new PointFile(path, index.definition, index.dimensions.count());
        } catch (IOException e) {
            markDamaged(sstable, e);
            return null;
        }
    }

    void markDamaged(SSTableReader sstable, IOException why) {
        if (damaged.add(sstable.descriptor))
            LOG.error("Index {} of {}: {}. Queries read the SSTable itself until nodetool rebuild_index.",
                index.getIndexMetadata().name, index.table(), why.getMessage());
        damaged.removeIf(descriptor -> !descriptor.fileFor(SSTableFormat.Components.DATA).exists());
    }

    /** Whether the component exists and its footer, or all of it, is intact. */
    boolean isUsable(SSTableReader sstable, boolean wholly) {
        try (PointFile file = open(sstable)) {
            if (file != null && wholly) file.verify();
            return file != null;
        } catch (IOException e) {
            markDamaged(sstable, e);
            return false;
        }
    }

    SSTableFlushObserver observer(Descriptor descriptor) {
        return new Observer(path(descriptor));
    }

    /** Writes the component of an existing SSTable, and adds it to its table of contents. */
    void build(SSTableReader sstable, Runnable check) {
        LOG.info("Index {}: builds the component of {}", index.getIndexMetadata().name, sstable);
        Observer observer = new Observer(path(sstable.descriptor));
        try (ISSTableScanner scanner = sstable.getScanner()) {
            while (scanner.hasNext()) {
                check.run();
                try (UnfilteredRowIterator rows = scanner.next()) {
                    observer.startPartition(rows.partitionKey(), -1, -1);
                    while (rows.hasNext()) observer.nextUnfilteredCluster(rows.next());
                }
            }
            observer.complete();
        } catch (RuntimeException | Error e) {
            observer.abort(e);
            throw e;
        }
        damaged.remove(sstable.descriptor);
        sstable.registerComponents(Set.of(component), index.cfs.getTracker());
    }

    /** Removes all components, when the index is dropped. */
    void remove(Collection<SSTableReader> sstables) {
        for (SSTableReader sstable : sstables) {
            sstable.unregisterComponents(Set.of(component), index.cfs.getTracker());
            sstable.descriptor.fileFor(component).deleteIfExists();
        }
    }

    private final class Observer implements SSTableFlushObserver {
        private final Path path;
        private PointFile.Writer writer;
        private long priority;
        private final long[] point = new long[index.dimensions.count()];

        Observer(Path path) {
            this.path = path;
        }

        @Override
        public void begin() {}

        private PointFile.Writer writer() throws IOException {
            if (writer == null) writer = new PointFile.Writer(path, index.definition, index.dimensions.count());
            return writer;
        }

        @Override
        public void startPartition(DecoratedKey key, long position, long indexPosition) {
            try {
                writer().partition(ByteBufferUtil.getArray(key.getKey()));
                priority = index.priority.ofPartition(key.getKey());
            } catch (IOException e) {
                throw new java.io.UncheckedIOException(e);
            }
        }

        @Override
        public void staticRow(Row row) {}

        @Override
        public void nextUnfilteredCluster(Unfiltered unfiltered) {
            if (!unfiltered.isRow() || KubistIndex.hasNoData((Row) unfiltered)) return;
            Row row = (Row) unfiltered;
            try {
                long timestamp = index.dimensions.point(row, point);
                writer.row(index.priority.ofRow(priority, row.clustering()), timestamp, point,
                    KubistIndex.bytes(row.clustering()));
            } catch (IOException e) {
                throw new java.io.UncheckedIOException(e);
            }
        }

        /** Cassandra calls it more than once for some SSTables. */
        @Override
        public void complete() {
            if (writer == null) return;
            try {
                writer.finish();
                writer = null;
            } catch (IOException e) {
                throw new java.io.UncheckedIOException(e);
            }
        }

        @Override
        public void abort(Throwable why) {
            if (writer != null) writer.abort();
            writer = null;
        }
    }

    /** Builds the components of SSTables; {@code nodetool compactionstats} shows its progress. */
    static final class Builder extends SecondaryIndexBuilder {
        private final Components components;
        private final Collection<SSTableReader> sstables;
        private final boolean isFull;
        private final TimeUUID id = TimeUUID.Generator.nextTimeUUID();
        private volatile long completed;

        Builder(Components components, Collection<SSTableReader> sstables, boolean isFull) {
            this.components = components;
            this.sstables = sstables;
            this.isFull = isFull;
        }

        /** After an interruption it skips finished components, unless all are to be built. */
        @Override
        public void build() {
            for (SSTableReader sstable : sstables) {
                var reference = sstable.tryRef();
                // A compaction has replaced it, and has written the component of the new one.
                if (reference == null) continue;
                try {
                    if (isFull || !components.isUsable(sstable, false)) components.build(sstable, this::checkStop);
                } finally {
                    reference.release();
                }
                completed += sstable.uncompressedLength();
            }
        }

        private void checkStop() {
            if (isStopRequested()) throw new CompactionInterruptedException(getCompactionInfo());
        }

        @Override
        public CompactionInfo getCompactionInfo() {
            long total = sstables.stream().mapToLong(SSTableReader::uncompressedLength).sum();
            return new CompactionInfo(components.index.table(), OperationType.INDEX_BUILD, completed, total, total, id, sstables);
        }

        @Override
        public boolean isGlobal() {
            return false;
        }
    }
}
