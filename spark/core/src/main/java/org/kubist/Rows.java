package org.kubist;

import static org.kubist.Memory.UNSAFE;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.function.LongConsumer;

/**
 * Rows to write, column by column, in memory outside the heap. Each row sets every column once, and
 * {@link #end} completes it. The buffer can be filled again after {@link #clear}.
 */
public final class Rows implements AutoCloseable {
    private static final int FIRST_ROWS = 1024;
    /** Bytes of {@code struct ArrowArray}. */
    private static final int ARRAY = 80;

    private static final class Buffer {
        long address;
        long size;

        void reserve(long wanted) {
            if (wanted > size) {
                long larger = Math.max(wanted, size * 2);
                address = UNSAFE.reallocateMemory(address, larger);
                UNSAFE.setMemory(address + size, larger - size, (byte) 0);
                size = larger;
            }
        }

        void free() {
            UNSAFE.freeMemory(address);
            address = 0;
            size = 0;
        }
    }

    private static final class Values {
        final Field field;
        final Buffer validity = new Buffer();
        final Buffer values = new Buffer();
        final Buffer data = new Buffer();
        long nulls;
        long length;

        Values(Field field) {
            this.field = field;
        }
    }

    private final Values[] columns;
    private int rows;

    /**
     * Creates an empty buffer of rows.
     *
     * @param fields of {@link Snapshot#fields}
     */
    public Rows(List<Field> fields) {
        columns = fields.stream().map(Values::new).toArray(Values[]::new);
        for (Values column : columns) {
            if (column.field.type() == null) {
                throw new KubistException(
                        KubistException.Kind.UNSUPPORTED,
                        "column \"" + column.field.name() + "\": the type " + column.field.stored()
                                + " has no counterpart in Java");
            }
        }
        reserve(FIRST_ROWS);
    }

    private void reserve(long count) {
        for (Values column : columns) {
            column.validity.reserve((count + 7) / 8);
            switch (column.field.type().kind()) {
                case BOOLEAN -> column.values.reserve((count + 7) / 8);
                case STRING, BINARY -> {
                    column.values.reserve((count + 1) * 4);
                    column.data.reserve(count);
                }
                default -> column.values.reserve(count * column.field.type().width());
            }
        }
    }

    /** {@return the number of complete rows} */
    public int rows() {
        return rows;
    }

    /** {@return the approximate size of the rows in bytes} */
    public long bytes() {
        long bytes = 0;
        for (Values column : columns) {
            bytes += column.length + (long) rows * Math.max(1, column.field.type().width());
        }
        return bytes;
    }

    /** Ends a row. */
    public void end() {
        rows++;
        if (rows % FIRST_ROWS == 0) {
            reserve((long) rows + FIRST_ROWS);
        }
    }

    /** Removes all rows and keeps the memory. */
    public void clear() {
        rows = 0;
        for (Values column : columns) {
            UNSAFE.setMemory(column.validity.address, column.validity.size, (byte) 0);
            UNSAFE.setMemory(column.values.address, column.values.size, (byte) 0);
            column.nulls = 0;
            column.length = 0;
        }
    }

    private Values valid(int index) {
        Values column = columns[index];
        set(column.validity.address, rows);
        return column;
    }

    private static void set(long bits, long index) {
        long place = bits + (index >>> 3);
        UNSAFE.putByte(place, (byte) (UNSAFE.getByte(place) | 1 << (index & 7)));
    }

    /**
     * Sets null.
     *
     * @param index of the column
     */
    public void setNull(int index) {
        Values column = columns[index];
        column.nulls++;
        if (column.field.type().width() == 0 && column.field.type().kind() != ColumnType.Kind.BOOLEAN) {
            UNSAFE.putInt(column.values.address + (rows + 1L) * 4, (int) column.length);
        }
    }

    /**
     * Sets a boolean.
     *
     * @param index of the column
     * @param value of the row
     */
    public void setBoolean(int index, boolean value) {
        Values column = valid(index);
        if (value) {
            set(column.values.address, rows);
        }
    }

    /**
     * Sets an 8-bit integer.
     *
     * @param index of the column
     * @param value of the row
     */
    public void setByte(int index, byte value) {
        UNSAFE.putByte(valid(index).values.address + rows, value);
    }

    /**
     * Sets a 16-bit integer.
     *
     * @param index of the column
     * @param value of the row
     */
    public void setShort(int index, short value) {
        UNSAFE.putShort(valid(index).values.address + rows * 2L, value);
    }

    /**
     * Sets a 32-bit integer, or the days of a date.
     *
     * @param index of the column
     * @param value of the row
     */
    public void setInt(int index, int value) {
        UNSAFE.putInt(valid(index).values.address + rows * 4L, value);
    }

    /**
     * Sets a 64-bit integer, or the microseconds of a timestamp.
     *
     * @param index of the column
     * @param value of the row
     */
    public void setLong(int index, long value) {
        UNSAFE.putLong(valid(index).values.address + rows * 8L, value);
    }

    /**
     * Sets a 32-bit float.
     *
     * @param index of the column
     * @param value of the row
     */
    public void setFloat(int index, float value) {
        UNSAFE.putFloat(valid(index).values.address + rows * 4L, value);
    }

    /**
     * Sets a 64-bit float.
     *
     * @param index of the column
     * @param value of the row
     */
    public void setDouble(int index, double value) {
        UNSAFE.putDouble(valid(index).values.address + rows * 8L, value);
    }

    /**
     * Sets a UTF-8 string, or a binary.
     *
     * @param index of the column
     * @param value of the row
     */
    public void setBytes(int index, byte[] value) {
        Values column = valid(index);
        long end = column.length + value.length;
        if (end > Integer.MAX_VALUE) {
            throw new KubistException(
                    KubistException.Kind.INVALID_INPUT,
                    "column \"" + column.field.name() + "\": more than 2 GiB of text in one batch");
        }
        column.data.reserve(end);
        UNSAFE.copyMemory(value, Memory.BYTES, null, column.data.address + column.length, value.length);
        column.length = end;
        UNSAFE.putInt(column.values.address + (rows + 1L) * 4, (int) end);
    }

    /**
     * Sets a string.
     *
     * @param index of the column
     * @param value of the row
     */
    public void setString(int index, String value) {
        setBytes(index, value.getBytes(StandardCharsets.UTF_8));
    }

    /**
     * Sets a decimal.
     *
     * @param index of the column
     * @param value of the row
     * @throws KubistException {@code INVALID_INPUT} if it does not fit the column's precision
     */
    public void setDecimal(int index, BigDecimal value) {
        ColumnType type = columns[index].field.type();
        BigDecimal scaled = value.stripTrailingZeros();
        int wholeDigits = scaled.precision() - scaled.scale();
        if (value.signum() != 0 && (scaled.scale() > type.scale() || wholeDigits > type.digits() - type.scale())) {
            throw new KubistException(
                    KubistException.Kind.INVALID_INPUT,
                    "column \"" + columns[index].field.name() + "\", row " + rows + " of the batch: " + value + " does not fit a"
                            + " decimal of " + type.digits() + " digits, " + type.scale() + " of them behind the point");
        }
        Values column = valid(index);
        BigInteger whole = value.setScale(type.scale()).unscaledValue();
        long place = column.values.address + rows * 16L;
        UNSAFE.putLong(place, whole.longValue());
        UNSAFE.putLong(place + 8, whole.shiftRight(64).longValue());
    }

    /** Passes the rows to a call as a struct array, valid during the call. */
    void hand(LongConsumer use) {
        int buffers = (ARRAY + 24) * (columns.length + 1);
        long block = UNSAFE.allocateMemory(buffers + 8L * columns.length);
        try {
            UNSAFE.setMemory(block, buffers + 8L * columns.length, (byte) 0);
            long children = block + buffers;
            for (int index = 0; index < columns.length; index++) {
                Values column = columns[index];
                long child = block + (long) (ARRAY + 24) * (index + 1);
                boolean offsets = column.data.address != 0;
                array(child, column.nulls, offsets ? 3 : 2, 0, 0);
                UNSAFE.putLong(child + ARRAY, column.validity.address);
                UNSAFE.putLong(child + ARRAY + 8, column.values.address);
                UNSAFE.putLong(child + ARRAY + 16, column.data.address);
                UNSAFE.putLong(children + 8L * index, child);
            }
            array(block, 0, 1, columns.length, children);
            use.accept(block);
        } finally {
            UNSAFE.freeMemory(block);
        }
    }

    private void array(long place, long nulls, long buffers, long children, long list) {
        UNSAFE.putLong(place, rows);
        UNSAFE.putLong(place + 8, nulls);
        UNSAFE.putLong(place + 24, buffers);
        UNSAFE.putLong(place + 32, children);
        UNSAFE.putLong(place + 40, place + ARRAY);
        UNSAFE.putLong(place + 48, list);
        UNSAFE.putLong(place + 64, Native.releaser());
    }

    /** Frees the memory; repeated calls are allowed. */
    @Override
    public void close() {
        for (Values column : columns) {
            column.validity.free();
            column.values.free();
            column.data.free();
        }
    }
}
