package org.kubist.cassandra;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.cql3.Operator;
import org.apache.cassandra.db.filter.RowFilter;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.ByteType;
import org.apache.cassandra.db.marshal.DoubleType;
import org.apache.cassandra.db.marshal.FloatType;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.LongType;
import org.apache.cassandra.db.marshal.ShortType;
import org.apache.cassandra.db.marshal.SimpleDateType;
import org.apache.cassandra.db.marshal.TimeType;
import org.apache.cassandra.db.marshal.TimestampType;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.schema.ColumnMetadata;

/**
 * The indexed columns, and the map from their values to ordinals.
 *
 * <p>An ordinal is a long in the order in which CQL compares the values of a column. A row of a memtable or
 * an SSTable is a <em>point</em> if it has a value of every dimension, all written at one timestamp; other
 * rows are <em>loose</em>. The map must be monotone but may be coarse, because it only prunes and the
 * values are compared again.
 */
final class Dimensions {
    /** The timestamp of loose rows. A row with this timestamp is loose too, which costs only speed. */
    static final long LOOSE = Long.MIN_VALUE;

    final List<ColumnMetadata> columns;

    Dimensions(List<ColumnMetadata> columns) {
        this.columns = List.copyOf(columns);
    }

    int count() {
        return columns.size();
    }

    /** The index of a column, or -1. */
    int indexOf(ColumnMetadata column) {
        for (int i = 0; i < columns.size(); i++) if (columns.get(i).name.equals(column.name)) return i;
        return -1;
    }

    static boolean isSupported(AbstractType<?> type) {
        return type == DoubleType.instance || type == FloatType.instance || type == LongType.instance
            || type == Int32Type.instance || type == ShortType.instance || type == ByteType.instance
            || type == TimestampType.instance || type == SimpleDateType.instance || type == TimeType.instance;
    }

    static long ordinal(AbstractType<?> type, ByteBuffer value) {
        int at = value.position();
        if (type == DoubleType.instance) return ordinal(value.getDouble(at));
        if (type == FloatType.instance) return ordinal(value.getFloat(at));
        if (type == Int32Type.instance) return value.getInt(at);
        if (type == ShortType.instance) return value.getShort(at);
        if (type == ByteType.instance) return value.get(at);
        if (type == SimpleDateType.instance) return value.getInt(at) & 0xFFFFFFFFL;
        return value.getLong(at);
    }

    /** The order of {@code Double.compare}: -0.0 is below 0.0, and NaN above all. */
    private static long ordinal(double value) {
        long bits = Double.doubleToLongBits(value);
        return bits ^ bits >> 63 & Long.MAX_VALUE;
    }

    /** Fills the ordinals of a row and returns the timestamp of its point, or {@link #LOOSE}. */
    long point(Row row, long[] ordinals) {
        long timestamp = LOOSE;
        for (int i = 0; i < ordinals.length; i++) {
            ColumnMetadata column = columns.get(i);
            Cell<?> cell = row.getCell(column);
            if (cell == null || cell.isTombstone() || cell.valueSize() == 0) return LOOSE;
            if (i > 0 && cell.timestamp() != timestamp) return LOOSE;
            timestamp = cell.timestamp();
            ordinals[i] = ordinal(column.type, cell.buffer());
        }
        return timestamp;
    }

    /** Whether a row has a live value of each dimension, all of one timestamp. */
    boolean isLivePoint(Row row, long nowInSec) {
        long timestamp = LOOSE;
        for (int i = 0; i < columns.size(); i++) {
            Cell<?> cell = row.getCell(columns.get(i));
            if (cell == null || !cell.isLive(nowInSec) || i > 0 && cell.timestamp() != timestamp) return false;
            timestamp = cell.timestamp();
        }
        return true;
    }

    /** The closed bounds of ordinals from a query's conditions on dimensions. */
    Box box(RowFilter filter) {
        Box box = new Box(count());
        for (RowFilter.Expression expression : filter.getExpressions()) {
            int dimension = isCondition(expression) ? indexOf(expression.column()) : -1;
            // Cassandra compares with an empty value of a number.
            if (dimension < 0 || !expression.getIndexValue().hasRemaining()) continue;
            long ordinal = ordinal(columns.get(dimension).type, expression.getIndexValue());
            Operator operator = expression.operator();
            if (operator != Operator.LT && operator != Operator.LTE) box.raise(dimension, ordinal);
            if (operator != Operator.GT && operator != Operator.GTE) box.lower(dimension, ordinal);
        }
        return box;
    }

    /** Whether this is a condition on a dimension that the index prunes by. */
    boolean isCondition(RowFilter.Expression expression) {
        return !expression.isCustom() && isComparison(expression.operator()) && indexOf(expression.column()) >= 0;
    }

    static boolean isComparison(Operator operator) {
        return operator == Operator.EQ || operator == Operator.LT || operator == Operator.LTE
            || operator == Operator.GT || operator == Operator.GTE;
    }

    List<RowFilter.Expression> conditions(RowFilter filter) {
        List<RowFilter.Expression> found = new ArrayList<>();
        for (RowFilter.Expression expression : filter.getExpressions())
            if (isCondition(expression)) found.add(expression);
        return found;
    }

    /** Closed bounds of each dimension's ordinals. */
    static final class Box {
        final long[] low, high;

        Box(int dimensions) {
            low = new long[dimensions];
            high = new long[dimensions];
            java.util.Arrays.fill(low, Long.MIN_VALUE);
            java.util.Arrays.fill(high, Long.MAX_VALUE);
        }

        void raise(int dimension, long ordinal) {
            low[dimension] = Math.max(low[dimension], ordinal);
        }

        void lower(int dimension, long ordinal) {
            high[dimension] = Math.min(high[dimension], ordinal);
        }

        boolean contains(long[] point) {
            for (int i = 0; i < point.length; i++) if (point[i] < low[i] || point[i] > high[i]) return false;
            return true;
        }

        boolean meets(long[] minimum, long[] maximum) {
            for (int i = 0; i < low.length; i++) if (maximum[i] < low[i] || minimum[i] > high[i]) return false;
            return true;
        }
    }
}
