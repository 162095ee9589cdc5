package org.kubist;

import static org.kubist.Memory.UNSAFE;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;

/**
 * A column of a {@link Batch}, read from the raw buffers of Arrow's C data interface. It checks neither row numbers nor
 * whether the batch is closed, and the value is undefined where {@link #isNull} is true.
 */
public final class Column {
    private final ColumnType type;
    private final long offset;
    private final long nulls;
    private final long validity;
    private final long values;
    private final long data;

    /** @param array the address of a {@code struct ArrowArray} of this type */
    Column(long array, ColumnType type, long parentOffset) {
        this.type = type;
        offset = UNSAFE.getLong(array + 16) + parentOffset;
        long buffers = UNSAFE.getLong(array + 40);
        validity = UNSAFE.getLong(buffers);
        nulls = validity == 0 ? 0 : UNSAFE.getLong(array + 8);
        values = UNSAFE.getLong(buffers + 8);
        data = UNSAFE.getLong(array + 24) > 2 ? UNSAFE.getLong(buffers + 16) : 0;
    }

    private Column(Column all, int first) {
        type = all.type;
        offset = all.offset + first;
        validity = all.validity;
        // The nulls of a view are counted on demand.
        nulls = all.nulls == 0 ? 0 : -1;
        values = all.values;
        data = all.data;
    }

    /**
     * {@return a view of the rows from {@code first} on, valid while the batch is open}
     *
     * @param first the row of this column that is row 0 of the view
     */
    public Column from(int first) {
        return new Column(this, first);
    }

    /** {@return the type of the values} */
    public ColumnType type() {
        return type;
    }

    /** {@return false only if there are no nulls} */
    public boolean hasNulls() {
        return nulls != 0;
    }

    /**
     * {@return the number of nulls}
     *
     * @param rows of the batch
     */
    public int nullCount(int rows) {
        int count = (int) nulls;
        if (nulls < 0) {
            count = 0;
            for (int row = 0; row < rows; row++) {
                count += isNull(row) ? 1 : 0;
            }
        }
        return count;
    }

    private static boolean bit(long bits, long index) {
        return (UNSAFE.getByte(bits + (index >>> 3)) >>> (index & 7) & 1) != 0;
    }

    /**
     * {@return true if the value is null}
     *
     * @param row the row
     */
    public boolean isNull(int row) {
        return nulls != 0 && !bit(validity, offset + row);
    }

    /**
     * {@return a boolean}
     *
     * @param row the row
     */
    public boolean getBoolean(int row) {
        return bit(values, offset + row);
    }

    /**
     * {@return an 8-bit integer}
     *
     * @param row the row
     */
    public byte getByte(int row) {
        return UNSAFE.getByte(values + offset + row);
    }

    /**
     * {@return a 16-bit integer}
     *
     * @param row the row
     */
    public short getShort(int row) {
        return UNSAFE.getShort(values + (offset + row) * 2);
    }

    /**
     * {@return a 32-bit integer, or the days of a date}
     *
     * @param row the row
     */
    public int getInt(int row) {
        return UNSAFE.getInt(values + (offset + row) * 4);
    }

    /**
     * {@return a 64-bit integer, or the microseconds of a timestamp}
     *
     * @param row the row
     */
    public long getLong(int row) {
        return UNSAFE.getLong(values + (offset + row) * 8);
    }

    /**
     * {@return a 32-bit float}
     *
     * @param row the row
     */
    public float getFloat(int row) {
        return UNSAFE.getFloat(values + (offset + row) * 4);
    }

    /**
     * {@return a 64-bit float}
     *
     * @param row the row
     */
    public double getDouble(int row) {
        return UNSAFE.getDouble(values + (offset + row) * 8);
    }

    /**
     * {@return the address of a string's or binary's bytes, valid while the batch is open}
     *
     * @param row the row
     */
    public long getAddress(int row) {
        return data + UNSAFE.getInt(values + (offset + row) * 4);
    }

    /**
     * {@return the number of bytes of a string or binary}
     *
     * @param row the row
     */
    public int getLength(int row) {
        long place = values + (offset + row) * 4;
        return UNSAFE.getInt(place + 4) - UNSAFE.getInt(place);
    }

    /**
     * {@return a copy of the bytes of a string or binary}
     *
     * @param row the row
     */
    public byte[] getBytes(int row) {
        return Memory.bytes(getAddress(row), getLength(row));
    }

    /**
     * {@return a string}
     *
     * @param row the row
     */
    public String getString(int row) {
        return new String(getBytes(row), StandardCharsets.UTF_8);
    }

    /**
     * {@return true if a decimal fits 64 bits, so that {@link #getUnscaled} is exact}
     *
     * @param row the row
     */
    public boolean isShort(int row) {
        long place = values + (offset + row) * 16;
        return UNSAFE.getLong(place + 8) == UNSAFE.getLong(place) >> 63;
    }

    /**
     * {@return the lower 64 bits of a decimal's unscaled value}
     *
     * @param row the row
     */
    public long getUnscaled(int row) {
        return UNSAFE.getLong(values + (offset + row) * 16);
    }

    /**
     * {@return a decimal}
     *
     * @param row the row
     */
    public BigDecimal getDecimal(int row) {
        if (isShort(row)) {
            return BigDecimal.valueOf(getUnscaled(row), type.scale());
        }
        byte[] bytes = Memory.bytes(values + (offset + row) * 16, 16);
        for (int low = 0, high = 15; low < high; low++, high--) {
            byte swapped = bytes[low];
            bytes[low] = bytes[high];
            bytes[high] = swapped;
        }
        return new BigDecimal(new BigInteger(bytes), type.scale());
    }

    /**
     * A value as a Java object: {@code Boolean}, {@code Byte} to {@code Long}, {@code Float}, {@code Double},
     * {@code String}, {@code byte[]}, {@code BigDecimal}; days of a date as {@code Integer}, microseconds of
     * a timestamp as {@code Long}.
     *
     * @param row the row
     * @return the value, or null
     */
    public Object get(int row) {
        if (isNull(row)) {
            return null;
        }
        return switch (type.kind()) {
            case BOOLEAN -> getBoolean(row);
            case INT8 -> getByte(row);
            case INT16 -> getShort(row);
            case INT32, DATE -> getInt(row);
            case INT64, TIMESTAMP, TIMESTAMP_NTZ -> getLong(row);
            case FLOAT32 -> getFloat(row);
            case FLOAT64 -> getDouble(row);
            case STRING -> getString(row);
            case BINARY -> getBytes(row);
            case DECIMAL -> getDecimal(row);
        };
    }
}
