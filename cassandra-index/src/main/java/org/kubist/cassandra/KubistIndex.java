package org.kubist.cassandra;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.function.Predicate;
import org.apache.cassandra.cql3.ColumnIdentifier;
import org.apache.cassandra.cql3.Operator;
import org.apache.cassandra.cql3.statements.schema.IndexTarget;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.ReadCommand;
import org.apache.cassandra.db.RegularAndStaticColumns;
import org.apache.cassandra.db.WriteContext;
import org.apache.cassandra.db.compaction.CompactionManager;
import org.apache.cassandra.db.filter.RowFilter;
import org.apache.cassandra.db.lifecycle.LifecycleNewTracker;
import org.apache.cassandra.db.lifecycle.SSTableSet;
import org.apache.cassandra.db.lifecycle.View;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.apache.cassandra.exceptions.InvalidRequestException;
import org.apache.cassandra.index.Index;
import org.apache.cassandra.index.IndexRegistry;
import org.apache.cassandra.index.transactions.IndexTransaction;
import org.apache.cassandra.io.sstable.Component;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.SSTableFlushObserver;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.IndexMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.service.ClientState;

/**
 * Boxes and uniform samples of CQL rows: {@code CREATE CUSTOM INDEX i ON t (x, y, z) USING
 * 'org.kubist.cassandra.KubistIndex' WITH OPTIONS = {'seed': '7'}}.
 *
 * <p>Each SSTable has a component with the priorities and coordinates of its rows ({@link PointFile}),
 * written together with the SSTable. A query merges components, memtables and SSTables without a component
 * into candidates ({@link Candidates}), and reads their rows ({@link Search}). A write costs nothing more
 * until its flush.
 */
public final class KubistIndex implements Index {
    private static final int MAXIMUM_DIMENSIONS = 8;
    private static final String SEED = "seed";

    final ColumnFamilyStore cfs;
    private final IndexMetadata metadata;
    final Dimensions dimensions;
    final Priority priority;
    /** Names columns, types and seed; another definition belongs to an earlier index of this name. */
    final String definition;
    final Components components;

    /**
     * Called by Cassandra.
     *
     * @param cfs the table
     * @param metadata the index
     */
    public KubistIndex(ColumnFamilyStore cfs, IndexMetadata metadata) {
        this.cfs = cfs;
        this.metadata = metadata;
        TableMetadata table = cfs.metadata();
        List<ColumnMetadata> columns = columns(metadata.options, table);
        long seed = seed(metadata.options);
        dimensions = new Dimensions(columns);
        priority = new Priority(table, seed);
        StringBuilder text = new StringBuilder("seed " + seed);
        for (ColumnMetadata column : columns) text.append(", ").append(column.name).append(' ').append(column.type.asCQL3Type());
        definition = text.toString();
        components = new Components(this);
    }

    /**
     * Called by Cassandra when an index is created.
     *
     * @param options the options of the statement, and the columns as {@code target}
     * @param table the table
     * @return the options that this index does not know
     */
    public static Map<String, String> validateOptions(Map<String, String> options, TableMetadata table) {
        columns(options, table);
        seed(options);
        Map<String, String> unknown = new java.util.HashMap<>(options);
        unknown.keySet().removeAll(Set.of(IndexTarget.TARGET_OPTION_NAME, SEED));
        return unknown;
    }

    private static long seed(Map<String, String> options) {
        String text = options.getOrDefault(SEED, "0");
        try {
            return Long.parseUnsignedLong(text);
        } catch (NumberFormatException e) {
            throw new ConfigurationException("option seed: '" + text + "' is not an integer from 0 to 2^64 - 1");
        }
    }

    private static List<ColumnMetadata> columns(Map<String, String> options, TableMetadata table) {
        List<ColumnMetadata> columns = new ArrayList<>();
        for (String name : options.getOrDefault(IndexTarget.TARGET_OPTION_NAME, "").split(",")) {
            String plain = name.trim();
            if (plain.isEmpty()) continue;
            if (plain.startsWith("\"")) plain = plain.substring(1, plain.length() - 1).replace("\"\"", "\"");
            ColumnMetadata column = table.getColumn(new ColumnIdentifier(plain, true));
            if (column == null) throw new ConfigurationException("index column " + plain + " is not a column of " + table);
            if (!column.isRegular())
                throw new ConfigurationException("index column " + plain + " is a " + column.kind.toString().toLowerCase().replace('_', ' ')
                    + " column: only regular columns can be dimensions");
            if (!Dimensions.isSupported(column.type))
                throw new ConfigurationException("index column " + plain + " has type " + column.type.asCQL3Type()
                    + ": dimensions are tinyint, smallint, int, bigint, float, double, timestamp, date or time");
            columns.add(column);
        }
        if (columns.isEmpty() || columns.size() > MAXIMUM_DIMENSIONS)
            throw new ConfigurationException("a Kubist index has 1 to " + MAXIMUM_DIMENSIONS + " columns, not " + columns.size());
        for (ColumnMetadata column : table.primaryKeyColumns())
            if (!Priority.isSupported(column))
                throw new ConfigurationException("primary key column " + column.name + " has type " + column.type.asCQL3Type()
                    + ", which has no priority: use integers, floats, text, blob, uuid, boolean, timestamp, date or time");
        return columns;
    }

    TableMetadata table() {
        return cfs.metadata();
    }

    /** A row that is only a deletion. */
    static boolean hasNoData(Row row) {
        return row.primaryKeyLivenessInfo().isEmpty() && row.columnCount() == 0;
    }

    /** A clustering as bytes: the length of each component, -1 for null, and its bytes. */
    static ByteBuffer bytes(Clustering<?> clustering) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        for (int i = 0; i < clustering.size(); i++) {
            ByteBuffer value = clustering.bufferAt(i);
            int length = value == null ? -1 : value.remaining();
            for (int shift = 24; shift >= 0; shift -= 8) bytes.write(length >> shift);
            if (value != null) for (int at = 0; at < length; at++) bytes.write(value.get(value.position() + at));
        }
        return ByteBuffer.wrap(bytes.toByteArray());
    }

    static Clustering<?> clustering(ByteBuffer bytes, int size) {
        if (size == 0) return Clustering.EMPTY;
        ByteBuffer[] values = new ByteBuffer[size];
        for (int i = 0; i < size; i++) {
            int length = bytes.getInt();
            if (length < 0) continue;
            byte[] value = new byte[length];
            bytes.get(value);
            values[i] = ByteBuffer.wrap(value);
        }
        return Clustering.make(values);
    }


    @Override
    public void register(IndexRegistry registry) {
        registry.registerIndex(this, new Group.Key(this), TableGroup::new);
    }

    @Override
    public IndexMetadata getIndexMetadata() {
        return metadata;
    }

    /** Builds missing components. Queries stay correct, because they read SSTables without a component. */
    @Override
    public Callable<?> getInitializationTask() {
        return () -> {
            try (ColumnFamilyStore.RefViewFragment view = cfs.selectAndReference(View.selectFunction(SSTableSet.CANONICAL))) {
                List<SSTableReader> missing = new ArrayList<>();
                for (SSTableReader sstable : view.sstables) if (!components.isUsable(sstable, false)) missing.add(sstable);
                if (!missing.isEmpty())
                    CompactionManager.instance.submitIndexBuild(new Components.Builder(components, missing, false)).get();
            }
            return null;
        };
    }

    @Override
    public IndexBuildingSupport getBuildTaskSupport() {
        return (cfs, indexes, sstables, isFull) -> new Components.Builder(components, sstables, isFull);
    }

    @Override
    public Callable<?> getMetadataReloadTask(IndexMetadata changed) {
        return null;
    }

    @Override
    public Callable<?> getBlockingFlushTask() {
        return null;
    }

    @Override
    public Callable<?> getTruncateTask(long truncatedAt) {
        return null;
    }

    @Override
    public Callable<?> getInvalidateTask() {
        return () -> {
            components.remove(cfs.getLiveSSTables());
            return null;
        };
    }

    /** True lets {@code nodetool rebuild_index} build it. */
    @Override
    public boolean shouldBuildBlocking() {
        return true;
    }

    @Override
    public boolean isSSTableAttached() {
        return true;
    }

    @Override
    public Optional<ColumnFamilyStore> getBackingTable() {
        return Optional.empty();
    }

    @Override
    public Set<Component> getComponents() {
        return Set.of(components.component);
    }


    @Override
    public boolean dependsOn(ColumnMetadata column) {
        return dimensions.indexOf(column) >= 0;
    }

    /** Refuses writes of some dimensions only: replicas that miss one could never find the row. */
    @Override
    public void validate(PartitionUpdate update, ClientState state) {
        for (Row row : update) {
            int set = 0;
            for (ColumnMetadata column : dimensions.columns) if (row.getCell(column) != null) set++;
            if (set != 0 && set != dimensions.count())
                throw new InvalidRequestException("index " + metadata.name + ": a write sets all of its columns " + names()
                    + " or none; this one sets " + set);
        }
    }

    private List<String> names() {
        return dimensions.columns.stream().map(column -> column.name.toString()).toList();
    }

    @Override
    public Indexer indexerFor(DecoratedKey key, RegularAndStaticColumns columns, long nowInSec, WriteContext context,
            IndexTransaction.Type type, Memtable memtable) {
        return null;
    }


    @Override
    public boolean supportsExpression(ColumnMetadata column, Operator operator) {
        // Cassandra shows expr(...) as a column with the name of the index.
        if (column.name.toString().equals(metadata.name)) return true;
        return Dimensions.isComparison(operator) && dimensions.indexOf(column) >= 0;
    }

    @Override
    public AbstractType<?> customExpressionValueType() {
        return UTF8Type.instance;
    }

    @Override
    public RowFilter getPostIndexQueryFilter(RowFilter filter) {
        return filter;
    }

    /** A guess. Cassandra compares it with other indexes, and with 0 would read one token range at a time. */
    @Override
    public long getEstimatedResultRows() {
        return Math.max(1, cfs.getMeanRowCount());
    }

    @Override
    public void validate(ReadCommand command) {
        sample(command.rowFilter());
        if (command.isReversed()) throw new InvalidRequestException("index " + metadata.name + ": ORDER BY is not supported");
    }

    /** The sample of the filter's {@code expr(...)}; all rows without one. */
    Sample sample(RowFilter filter) {
        for (RowFilter.Expression expression : filter.getExpressions()) {
            if (!(expression instanceof RowFilter.CustomExpression custom)) continue;
            if (!custom.getTargetIndex().name.equals(metadata.name)) continue;
            try {
                return Sample.parse(UTF8Type.instance.compose(custom.getValue()));
            } catch (IllegalArgumentException e) {
                throw new InvalidRequestException("index " + metadata.name + ": " + e.getMessage());
            }
        }
        return Sample.ALL;
    }

    @Override
    public Searcher searcherFor(ReadCommand command) {
        return new Search(this, command);
    }

    private final class TableGroup implements Group {
        @Override
        public Set<Index> getIndexes() {
            return Set.of(KubistIndex.this);
        }

        @Override
        public boolean containsIndex(Index index) {
            return index == KubistIndex.this;
        }

        @Override
        public Indexer indexerFor(Predicate<Index> selector, DecoratedKey key, RegularAndStaticColumns columns, long nowInSec,
                WriteContext context, IndexTransaction.Type type, Memtable memtable) {
            return null;
        }

        @Override
        public QueryPlan queryPlanFor(RowFilter filter) {
            for (RowFilter.Expression expression : filter.getExpressions())
                if (supportsExpression(expression.column(), expression.operator())) return new Plan(filter);
            return null;
        }

        @Override
        public SSTableFlushObserver getFlushObserver(Descriptor descriptor, LifecycleNewTracker tracker, TableMetadata table) {
            return components.observer(descriptor);
        }

        @Override
        public Set<Component> getComponents() {
            return KubistIndex.this.getComponents();
        }

        /** Builds missing or damaged components of SSTables that were streamed or imported. */
        @Override
        public boolean validateSSTableAttachedIndexes(Collection<SSTableReader> sstables, boolean throwOnIncomplete,
                boolean validateChecksum) {
            for (SSTableReader sstable : new HashSet<>(sstables))
                if (!components.isUsable(sstable, validateChecksum)) components.build(sstable, () -> {});
            return true;
        }
    }

    /** The index finds candidates, then Cassandra applies the conditions. */
    private final class Plan implements QueryPlan {
        private final RowFilter filter;

        Plan(RowFilter filter) {
            this.filter = filter;
        }

        @Override
        public Set<Index> getIndexes() {
            return Set.of(KubistIndex.this);
        }

        /** Otherwise the estimate of rows would limit how many token ranges are read at a time. */
        @Override
        public boolean shouldEstimateInitialConcurrency() {
            return false;
        }

        @Override
        public Searcher searcherFor(ReadCommand command) {
            return KubistIndex.this.searcherFor(command);
        }

        /** If replicas are compared, {@link Search} applies these conditions, because it must see loose rows. */
        @Override
        public RowFilter postIndexQueryFilter() {
            if (filter.isStrict()) return filter;
            RowFilter rest = filter;
            for (RowFilter.Expression condition : dimensions.conditions(filter))
                if (rest.getExpressions().contains(condition)) rest = rest.without(condition);
            return rest;
        }
    }
}
