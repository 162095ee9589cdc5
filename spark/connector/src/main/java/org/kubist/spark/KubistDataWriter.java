package org.kubist.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.StructType;
import org.kubist.ColumnType;
import org.kubist.Field;
import org.kubist.Rows;
import org.kubist.Snapshot;
import org.kubist.StagedFile;
import org.kubist.Table;

/** An attempt of a task, which writes its rows to a file that the driver reads if the attempt counts. */
final class KubistDataWriter implements DataWriter<InternalRow> {
    private static final int MOST_ROWS = 65_536;
    private static final long MOST_BYTES = 32 << 20;

    private final Path path;
    private final Table table;
    private final StagedFile file;
    private final Rows rows;
    private final ColumnType[] types;
    private long written;

    /** @param given the columns of the rows, which must equal the table's */
    KubistDataWriter(String location, StructType given, Path path) {
        this.path = path;
        table = KubistWrite.openThere(location);
        try (Snapshot now = table.snapshot()) {
            List<Field> fields = now.fields();
            check(location, fields, given);
            types = fields.stream().map(Field::type).toArray(ColumnType[]::new);
            file = table.stage(path.toString());
            rows = new Rows(fields);
        } catch (RuntimeException error) {
            table.close();
            throw error;
        }
    }

    /** Rows have no column names, so an extra column or another order would be misread. */
    private static void check(String location, List<Field> fields, StructType given) {
        String there = inWords(Types.schema(fields));
        String written = inWords(given);
        if (!there.equals(written)) {
            throw Options.invalid(location + " has the columns " + there + ", and the job writes " + written);
        }
    }

    private static String inWords(StructType columns) {
        return Arrays.stream(columns.fields())
                .map(column -> column.name() + " " + column.dataType().sql())
                .collect(Collectors.joining(", "));
    }

    @Override
    public void write(InternalRow row) {
        for (int index = 0; index < types.length; index++) {
            if (row.isNullAt(index)) {
                rows.setNull(index);
            } else {
                set(row, index);
            }
        }
        rows.end();
        if (rows.rows() >= MOST_ROWS || rows.bytes() >= MOST_BYTES) {
            flush();
        }
    }

    private void set(InternalRow row, int index) {
        ColumnType type = types[index];
        switch (type.kind()) {
            case BOOLEAN -> rows.setBoolean(index, row.getBoolean(index));
            case INT8 -> rows.setByte(index, row.getByte(index));
            case INT16 -> rows.setShort(index, row.getShort(index));
            case INT32, DATE -> rows.setInt(index, row.getInt(index));
            case INT64, TIMESTAMP, TIMESTAMP_NTZ -> rows.setLong(index, row.getLong(index));
            case FLOAT32 -> rows.setFloat(index, row.getFloat(index));
            case FLOAT64 -> rows.setDouble(index, row.getDouble(index));
            case STRING -> rows.setBytes(index, row.getUTF8String(index).getBytes());
            case BINARY -> rows.setBytes(index, row.getBinary(index));
            case DECIMAL -> rows.setDecimal(
                    index, row.getDecimal(index, type.digits(), type.scale()).toJavaBigDecimal());
        }
    }

    private void flush() {
        if (rows.rows() > 0) {
            file.append(rows);
            written += rows.rows();
            rows.clear();
        }
    }

    @Override
    public WriterCommitMessage commit() {
        flush();
        file.finish();
        return new KubistWrite.Staged(path.toString(), written);
    }

    @Override
    public void abort() throws IOException {
        Files.deleteIfExists(path);
    }

    @Override
    public void close() {
        rows.close();
        file.close();
        table.close();
    }
}
