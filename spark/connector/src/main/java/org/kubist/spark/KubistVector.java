package org.kubist.spark;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;
import org.kubist.Column;

/** A column of a batch, which Spark reads from the engine's buffers without Arrow's Java library. */
final class KubistVector extends ColumnVector {
    private final Column column;
    private final int rows;

    KubistVector(DataType type, Column column, int rows) {
        super(type);
        this.column = column;
        this.rows = rows;
    }

    /** The reader closes the batch. */
    @Override
    public void close() {}

    @Override
    public boolean hasNull() {
        return column.hasNulls();
    }

    @Override
    public int numNulls() {
        return column.nullCount(rows);
    }

    @Override
    public boolean isNullAt(int row) {
        return column.isNull(row);
    }

    @Override
    public boolean getBoolean(int row) {
        return column.getBoolean(row);
    }

    @Override
    public byte getByte(int row) {
        return column.getByte(row);
    }

    @Override
    public short getShort(int row) {
        return column.getShort(row);
    }

    @Override
    public int getInt(int row) {
        return column.getInt(row);
    }

    @Override
    public long getLong(int row) {
        return column.getLong(row);
    }

    @Override
    public float getFloat(int row) {
        return column.getFloat(row);
    }

    @Override
    public double getDouble(int row) {
        return column.getDouble(row);
    }

    @Override
    public Decimal getDecimal(int row, int precision, int scale) {
        if (isNullAt(row)) {
            return null;
        }
        if (precision <= Decimal.MAX_LONG_DIGITS()) {
            return Decimal.createUnsafe(column.getUnscaled(row), precision, scale);
        }
        return Decimal.apply(column.getDecimal(row), precision, scale);
    }

    @Override
    public UTF8String getUTF8String(int row) {
        return isNullAt(row) ? null : UTF8String.fromAddress(null, column.getAddress(row), column.getLength(row));
    }

    @Override
    public byte[] getBinary(int row) {
        return isNullAt(row) ? null : column.getBytes(row);
    }

    @Override
    public ColumnarArray getArray(int row) {
        throw new UnsupportedOperationException("Kubist has no arrays");
    }

    @Override
    public ColumnarMap getMap(int row) {
        throw new UnsupportedOperationException("Kubist has no maps");
    }

    @Override
    public ColumnVector getChild(int ordinal) {
        throw new UnsupportedOperationException("Kubist has no structs");
    }
}
