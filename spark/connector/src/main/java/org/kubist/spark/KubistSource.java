package org.kubist.spark;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** {@code spark.read.format("kubist").load(location)} and {@code df.write.format("kubist")}. */
public final class KubistSource implements TableProvider, DataSourceRegister {
    /** The table whose columns Spark has requested; Spark requests it next, with the same options. */
    private KubistTable described;

    /** Spark creates it by name. */
    public KubistSource() {}

    @Override
    public String shortName() {
        return "kubist";
    }

    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        described = KubistTable.open(new Options(options.asCaseSensitiveMap()), null);
        return described.schema();
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        if (partitioning.length > 0) {
            throw Options.invalid("Kubist has no column partitions: its dimensions partition the rows");
        }
        Options options = new Options(properties);
        boolean isDescribed = described != null && described.options().equals(options);
        KubistTable table = isDescribed ? described : KubistTable.open(options, schema);
        described = null;
        return table;
    }

    /** A new table gets the columns of the written rows. */
    @Override
    public boolean supportsExternalMetadata() {
        return true;
    }
}
