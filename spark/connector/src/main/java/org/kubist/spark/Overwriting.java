package org.kubist.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.kubist.Field;
import org.kubist.KubistException;
import org.kubist.Snapshot;
import org.kubist.Table;
import org.kubist.Writer;

/**
 * Replaces all rows of a table: fills a new table next to it, then exchanges both folders in one step. The old table
 * stays unchanged until then, so a failed job changes nothing.
 */
final class Overwriting {
    private final String location;
    private final String filled;
    private final Map<String, Object> creation;
    private boolean isReplacing;

    private Overwriting(String location, String filled, Map<String, Object> creation) {
        this.location = location;
        this.filled = filled;
        this.creation = creation;
    }

    /** Fails if the table cannot be replaced, or if a writer is active. */
    static Overwriting of(KubistTable table, String job) {
        String location = table.options().location();
        Snapshot snapshot = table.moment().snapshot();
        Map<String, Object> info = snapshot.description();
        if (location.contains("://") || (Boolean) info.get("shared")) {
            throw new KubistException(
                    KubistException.Kind.UNSUPPORTED,
                    location + " cannot be overwritten: only tables in a folder of one machine can be; drop the table first");
        }
        refuseBusy(table.moment().table(), info);
        Path beside = Path.of(location + ".staging").toAbsolutePath();
        try {
            Files.createDirectories(beside);
        } catch (IOException error) {
            throw new UncheckedIOException("cannot create the folder for the table that replaces " + location, error);
        }
        return new Overwriting(location, beside.resolve(job + ".table").toString(), likeThis(table.options(), snapshot, info));
    }

    private static void refuseBusy(Table table, Map<String, Object> info) {
        for (Object said : (List<?>) info.get("writers")) {
            try (Writer writer = table.writer((String) ((Map<?, ?>) said).get("name"))) {
                assert writer != null;
            }
        }
    }

    /** The program's options, then those of the old table except its domains, which are learned again. */
    private static Map<String, Object> likeThis(Options options, Snapshot snapshot, Map<String, Object> info) {
        Map<String, Object> creation = new LinkedHashMap<>();
        for (String kept : List.of("identity", "lookup", "capacity", "seed", "metadata")) {
            creation.put(kept, info.get(kept));
        }
        List<Object> dimensions = new ArrayList<>();
        for (Object said : (List<?>) info.get("dimensions")) {
            dimensions.add(((Map<?, ?>) said).get("column"));
        }
        creation.put("dimensions", dimensions);
        Map<Object, Map<?, ?>> known = new LinkedHashMap<>();
        Map<Object, Object> accuracy = new LinkedHashMap<>();
        for (Object said : (List<?>) info.get("columns")) {
            Map<?, ?> column = (Map<?, ?>) said;
            known.put(column.get("name"), column);
            if (column.get("accuracy") != null) {
                accuracy.put(column.get("name"), column.get("accuracy"));
            }
        }
        creation.put("accuracy", accuracy);
        if (options.creates()) {
            creation.putAll(options.creation());
        }
        List<Map<String, Object>> columns = new ArrayList<>();
        for (Field field : snapshot.fields()) {
            Map<String, Object> column = new LinkedHashMap<>();
            column.put("name", field.name());
            column.put("type", field.stored());
            column.put("nullable", field.nullable());
            column.put("unit", known.get(field.name()).get("unit"));
            columns.add(column);
        }
        creation.put("columns", columns);
        return creation;
    }

    /** The location of the new table before the exchange. */
    String filled() {
        return filled;
    }

    Map<String, Object> creation() {
        return creation;
    }

    /** @param filling the job that fills the new table */
    BatchWrite after(BatchWrite filling) {
        return new BatchWrite() {
            @Override
            public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
                return filling.createBatchWriterFactory(info);
            }

            @Override
            public void onDataWriterCommit(WriterCommitMessage message) {
                filling.onDataWriterCommit(message);
            }

            @Override
            public void commit(WriterCommitMessage[] messages) {
                filling.commit(messages);
                isReplacing = true;
                replace();
            }

            @Override
            public void abort(WriterCommitMessage[] messages) {
                if (!isReplacing) {
                    filling.abort(messages);
                    tidy();
                }
            }
        };
    }

    private void replace() {
        try {
            Table.exchange(filled, location);
            dropOld();
        } catch (KubistException error) {
            Table.drop(filled);
            throw error;
        } finally {
            tidy();
        }
    }

    /** If a writer has started in the meantime, the job fails and the writer's commits are kept. */
    private void dropOld() {
        try {
            Table.drop(filled);
        } catch (KubistException error) {
            if (error.kind() == KubistException.Kind.BUSY) {
                Table.exchange(filled, location);
            }
            throw error;
        }
    }

    private void tidy() {
        Path beside = Path.of(filled).getParent();
        try {
            Files.deleteIfExists(beside);
        } catch (DirectoryNotEmptyException others) {
            // Other jobs are writing.
            return;
        } catch (IOException error) {
            KubistWrite.stays(beside.toString(), error);
        }
    }
}
