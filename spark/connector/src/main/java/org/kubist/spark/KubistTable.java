package org.kubist.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.kubist.KubistException;

/** A table for Spark: pinned to a snapshot when it is loaded, or not yet created. */
final class KubistTable implements SupportsRead, SupportsWrite {
    private final Options options;
    /** Null if a write will create the table. */
    private final Moment moment;
    private final StructType schema;

    private KubistTable(Options options, Moment moment, StructType schema) {
        this.options = options;
        this.moment = moment;
        this.schema = schema;
    }

    /** @param wanted the columns that the program expects or writes; null if unspecified */
    static KubistTable open(Options options, StructType wanted) {
        Moment moment;
        try {
            moment = Moment.of(options.location(), options.version());
        } catch (KubistException error) {
            boolean absent = error.kind() == KubistException.Kind.NOT_FOUND;
            if (absent && wanted != null && options.creates()) {
                return new KubistTable(options, null, wanted);
            }
            throw error;
        }
        StructType schema = Types.schema(moment.snapshot().fields());
        if (options.inclusion() != null) {
            if (Arrays.asList(schema.fieldNames()).contains(options.inclusion())) {
                throw Options.invalid("option inclusion: the table has a column \"" + options.inclusion() + "\"");
            }
            schema = schema.add(DataTypes.createStructField(options.inclusion(), DataTypes.DoubleType, true));
        }
        return new KubistTable(options, moment, schema);
    }

    Options options() {
        return options;
    }

    Moment moment() {
        return moment;
    }

    /** A reloaded table equals this one until the next commit, so Spark's cache finds it. */
    @Override
    public boolean equals(Object other) {
        return other instanceof KubistTable table && options.equals(table.options) && Objects.equals(token(), table.token());
    }

    @Override
    public int hashCode() {
        return Objects.hash(options, token());
    }

    private String token() {
        return moment == null ? null : moment.snapshot().token();
    }

    @Override
    public String name() {
        return "kubist " + options.location();
    }

    @Override
    @Deprecated
    public StructType schema() {
        return schema;
    }

    @Override
    public Set<TableCapability> capabilities() {
        return EnumSet.of(
                TableCapability.BATCH_READ,
                TableCapability.MICRO_BATCH_READ,
                TableCapability.BATCH_WRITE,
                TableCapability.TRUNCATE,
                TableCapability.STREAMING_WRITE);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap ignored) {
        if (moment == null) {
            throw new KubistException(KubistException.Kind.NOT_FOUND, options.location() + " does not exist yet");
        }
        return new KubistScanBuilder(this, schema);
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return new KubistWriteBuilder(this, info);
    }

    /** Columns of a new table, in the form of {@code Table.create}. */
    static List<Map<String, Object>> columns(StructType schema) {
        List<Map<String, Object>> columns = new ArrayList<>();
        for (StructField field : schema.fields()) {
            columns.add(Map.of("name", field.name(), "type", Types.stored(field), "nullable", field.nullable()));
        }
        return columns;
    }
}
