package org.kubist.cassandra;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.AsciiType;
import org.apache.cassandra.db.marshal.BooleanType;
import org.apache.cassandra.db.marshal.ByteType;
import org.apache.cassandra.db.marshal.BytesType;
import org.apache.cassandra.db.marshal.CompositeType;
import org.apache.cassandra.db.marshal.DoubleType;
import org.apache.cassandra.db.marshal.FloatType;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.LongType;
import org.apache.cassandra.db.marshal.ShortType;
import org.apache.cassandra.db.marshal.SimpleDateType;
import org.apache.cassandra.db.marshal.TimeType;
import org.apache.cassandra.db.marshal.TimeUUIDType;
import org.apache.cassandra.db.marshal.TimestampType;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.db.marshal.UUIDType;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;

/**
 * The priority of a row, which never changes: Kubist's hash of its primary key (FORMAT.md, "Priorities"),
 * an unsigned 64-bit integer.
 *
 * <p>A Kubist table with the same seed and the columns of the primary key as identity, in the same order,
 * has equal priorities, and so gives the same sample.
 */
final class Priority {
    private static final byte NULL = 0, BOOLEAN = 1, INTEGER = 2, FLOAT = 4, NAN = 5, TEXT = 7, BINARY = 8;
    private static final byte DATE = 9, TIME = 10, TIMESTAMP = 11;
    private static final long MILLISECONDS_PER_DAY = 86_400_000, NANOSECONDS_PER_MILLISECOND = 1_000_000;

    private final List<Part> partitionKey = new ArrayList<>();
    private final List<Part> clustering = new ArrayList<>();
    private final boolean isComposite;
    private final long start;

    /** Folds a value into the hash. */
    private interface Part {
        long fold(long hash, ByteBuffer value);
    }

    Priority(TableMetadata table, long seed) {
        for (ColumnMetadata column : table.partitionKeyColumns()) partitionKey.add(part(column));
        for (ColumnMetadata column : table.clusteringColumns()) clustering.add(part(column));
        isComposite = table.partitionKeyType instanceof CompositeType;
        byte[] first = "kubist priority 1".getBytes(StandardCharsets.US_ASCII);
        start = XxHash3.hash(first, first.length, seed);
    }

    /** The hash after the partition key, which the rows of a partition continue. */
    long ofPartition(ByteBuffer key) {
        if (!isComposite) return partitionKey.get(0).fold(start, key);
        long hash = start;
        for (int i = 0; i < partitionKey.size(); i++)
            hash = partitionKey.get(i).fold(hash, CompositeType.extractComponent(key, i));
        return hash;
    }

    long ofRow(long partition, Clustering<?> row) {
        long hash = partition;
        for (int i = 0; i < clustering.size(); i++) hash = clustering.get(i).fold(hash, row.bufferAt(i));
        return hash;
    }

    static boolean isSupported(ColumnMetadata column) {
        return partOrNull(column.type.unwrap()) != null;
    }

    private static Part part(ColumnMetadata column) {
        Part part = partOrNull(column.type.unwrap());
        if (part == null) throw new IllegalArgumentException("column " + column.name + " has no priority");
        // CQL allows empty values of numbers, which are no number.
        return (hash, value) ->
            value == null || !value.hasRemaining() && !isBytes(column.type.unwrap()) ? fold(hash, NULL) : part.fold(hash, value);
    }

    private static boolean isBytes(AbstractType<?> type) {
        return type == UTF8Type.instance || type == AsciiType.instance || type == BytesType.instance;
    }

    private static Part partOrNull(AbstractType<?> type) {
        if (type == Int32Type.instance) return (hash, v) -> fold(hash, INTEGER, v.getInt(v.position()));
        if (type == LongType.instance) return (hash, v) -> fold(hash, INTEGER, v.getLong(v.position()));
        if (type == ShortType.instance) return (hash, v) -> fold(hash, INTEGER, v.getShort(v.position()));
        if (type == ByteType.instance) return (hash, v) -> fold(hash, INTEGER, v.get(v.position()));
        if (type == DoubleType.instance) return (hash, v) -> fold(hash, v.getDouble(v.position()));
        if (type == FloatType.instance) return (hash, v) -> fold(hash, (double) v.getFloat(v.position()));
        if (type == UTF8Type.instance || type == AsciiType.instance) return (hash, v) -> fold(hash, TEXT, v);
        if (type == BytesType.instance || type == UUIDType.instance || type == TimeUUIDType.instance)
            return (hash, v) -> fold(hash, BINARY, v);
        if (type == BooleanType.instance)
            return (hash, v) -> fold(hash, new byte[] {BOOLEAN, (byte) (v.get(v.position()) == 0 ? 0 : 1)});
        if (type == TimestampType.instance) return (hash, v) -> timestamp(hash, v.getLong(v.position()));
        // Days are stored with 2^31 as 1 January 1970.
        if (type == SimpleDateType.instance)
            return (hash, v) -> fold(hash, DATE, (v.getInt(v.position()) ^ Integer.MIN_VALUE) * MILLISECONDS_PER_DAY);
        if (type == TimeType.instance) return (hash, v) -> fold(hash, TIME, v.getLong(v.position()));
        return null;
    }

    private static long timestamp(long hash, long milliseconds) {
        long high = Math.multiplyHigh(milliseconds, NANOSECONDS_PER_MILLISECOND);
        long low = milliseconds * NANOSECONDS_PER_MILLISECOND;
        if (high == low >> 63) return fold(hash, TIMESTAMP, low);
        byte[] part = new byte[17];
        part[0] = TIMESTAMP;
        ByteBuffer.wrap(part).order(java.nio.ByteOrder.LITTLE_ENDIAN).putLong(1, low).putLong(9, high);
        return fold(hash, part);
    }

    private static long fold(long hash, double value) {
        if (Double.isNaN(value)) return fold(hash, NAN);
        // Adding 0.0 turns -0.0 into 0.0 and changes nothing else.
        return fold(hash, FLOAT, Double.doubleToRawLongBits(value + 0.0));
    }

    private static long fold(long hash, byte tag, long word) {
        byte[] part = new byte[9];
        part[0] = tag;
        ByteBuffer.wrap(part).order(java.nio.ByteOrder.LITTLE_ENDIAN).putLong(1, word);
        return fold(hash, part);
    }

    private static long fold(long hash, byte tag, ByteBuffer bytes) {
        byte[] part = new byte[1 + bytes.remaining()];
        part[0] = tag;
        bytes.get(bytes.position(), part, 1, bytes.remaining());
        return fold(hash, part);
    }

    private static long fold(long hash, byte tag) {
        return fold(hash, new byte[] {tag});
    }

    private static long fold(long hash, byte[] part) {
        return XxHash3.hash(part, part.length, hash);
    }
}
