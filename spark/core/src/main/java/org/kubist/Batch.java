package org.kubist;

import java.util.List;

/** Rows of a result, in native memory until it is closed. */
public final class Batch implements AutoCloseable {
    private long array;
    private final int rows;
    private final Column[] columns;

    /** @param array the address of a struct array, which is released once */
    Batch(long array, List<Field> fields) {
        this.array = array;
        rows = Math.toIntExact(Memory.UNSAFE.getLong(array));
        long offset = Memory.UNSAFE.getLong(array + 16);
        long children = Memory.UNSAFE.getLong(array + 48);
        columns = new Column[fields.size()];
        for (int index = 0; index < columns.length; index++) {
            long child = Memory.UNSAFE.getLong(children + 8L * index);
            columns[index] = new Column(child, fields.get(index).type(), offset);
        }
    }

    /** {@return the number of rows} */
    public int rows() {
        return rows;
    }

    /**
     * A column, by its position in the result.
     *
     * @param index from 0
     * @return the column, which must not be used after the batch is closed
     */
    public Column column(int index) {
        return columns[index];
    }

    /** Frees the memory; repeated calls are allowed. */
    @Override
    public void close() {
        if (array != 0) {
            Native.release(array);
            array = 0;
        }
    }
}
