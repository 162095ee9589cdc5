package org.kubist.spark;

import java.util.Map;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.kubist.Json;
import org.kubist.KubistException;
import org.kubist.Table;

/** Builds a write; creates the table from the columns of the rows if necessary. */
final class KubistWriteBuilder implements SupportsTruncate {
    private final KubistTable table;
    private final LogicalWriteInfo info;
    private boolean overwrites;

    KubistWriteBuilder(KubistTable table, LogicalWriteInfo info) {
        this.table = table;
        this.info = info;
    }

    @Override
    public WriteBuilder truncate() {
        overwrites = table.moment() != null;
        return this;
    }

    @Override
    public Write build() {
        return new Write() {
            @Override
            public String description() {
                return table.name();
            }

            @Override
            public BatchWrite toBatch() {
                return overwrites ? overwriting() : appending();
            }

            @Override
            public StreamingWrite toStreaming() {
                if (overwrites) {
                    throw Options.invalid("a stream appends to " + table.name() + ": output mode complete would overwrite it");
                }
                String location = table.options().location();
                if (createdHere()) {
                    make(location, creation());
                }
                return KubistWrite.stream(location, table.options(), info.schema(), info.queryId());
            }
        };
    }

    private boolean createdHere() {
        return table.moment() == null;
    }

    private BatchWrite appending() {
        String location = table.options().location();
        if (createdHere()) {
            make(location, creation());
        }
        return KubistWrite.batch(location, table.options(), info.schema(), info.queryId(), createdHere());
    }

    /** Fills a new table, which then replaces the old one. */
    private BatchWrite overwriting() {
        Overwriting overwriting = Overwriting.of(table, info.queryId());
        make(overwriting.filled(), overwriting.creation());
        BatchWrite filling = KubistWrite.batch(overwriting.filled(), table.options(), info.schema(), info.queryId(), true);
        return overwriting.after(filling);
    }

    private Map<String, Object> creation() {
        Map<String, Object> creation = table.options().creation();
        creation.put("columns", KubistTable.columns(info.schema()));
        return creation;
    }

    private void make(String location, Map<String, Object> creation) {
        // Before the table is created, because without a folder no row can be written.
        KubistWrite.folder(location, table.options(), info.queryId());
        try (Table made = Table.create(location, Json.write(creation))) {
            assert made.location().equals(location);
        } catch (KubistException error) {
            if (error.kind() != KubistException.Kind.EXISTS) {
                throw error;
            }
            throw new KubistException(error.kind(), error.getMessage() + "; load it again, and append");
        }
    }
}
