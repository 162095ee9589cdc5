package org.kubist.spark;

import java.util.Map;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.kubist.Json;
import org.kubist.KubistException;
import org.kubist.Table;

/** Rows that Spark writes; a table that is not there yet is made of their columns. */
record KubistWriteBuilder(KubistTable table, LogicalWriteInfo info) implements WriteBuilder {
    @Override
    public Write build() {
        return new Write() {
            @Override
            public String description() {
                return table.name();
            }

            @Override
            public BatchWrite toBatch() {
                return KubistWrite.batch(place(), options(), info.schema(), info.queryId(), createdHere());
            }

            @Override
            public StreamingWrite toStreaming() {
                return KubistWrite.stream(place(), options(), info.schema(), info.queryId());
            }
        };
    }

    private Options options() {
        return table.options();
    }

    private boolean createdHere() {
        return table.moment() == null;
    }

    private String place() {
        String location = options().location();
        if (createdHere()) {
            // Before there is a table: without a folder no row gets into it.
            KubistWrite.folder(location, options(), info.queryId());
            create(location);
        }
        return location;
    }

    private void create(String location) {
        Map<String, Object> creation = options().creation();
        creation.put("columns", KubistTable.columns(info.schema()));
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
