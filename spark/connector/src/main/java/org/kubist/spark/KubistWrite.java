package org.kubist.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.UUID;
import java.util.stream.Stream;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.types.StructType;
import org.kubist.KubistException;
import org.kubist.Snapshot;
import org.kubist.Table;

/**
 * Writes all rows of a job in one commit, or no rows.
 *
 * <p>Each task attempt writes its own file next to the table. The driver appends the files of committed attempts, for a
 * batch while other tasks still run, and never reads the others. It commits once, with a token. A stream's token
 * contains the epoch, so a repeated batch counts once.
 */
final class KubistWrite {
    private static final int MOST_ATTEMPTS = 10;

    private KubistWrite() {}

    record Staged(String path, long rows) implements WriterCommitMessage {
        private static final long serialVersionUID = 1;
    }

    record Factory(String location, String folder, StructType columns) implements DataWriterFactory, StreamingDataWriterFactory {
        private static final long serialVersionUID = 1;

        @Override
        public DataWriter<InternalRow> createWriter(int partition, long task) {
            return new KubistDataWriter(location, columns, file(partition, task));
        }

        @Override
        public DataWriter<InternalRow> createWriter(int partition, long task, long epoch) {
            return createWriter(partition, task);
        }

        /** The driver created the folder. A task that starts after the job was aborted finds none, and fails. */
        private Path file(int partition, long task) {
            return Path.of(folder(), "part-" + partition + "-" + task + "-" + UUID.randomUUID() + ".arrows");
        }
    }

    private static Factory factory(String location, String folder, StructType columns) {
        try {
            Files.createDirectories(Path.of(folder));
        } catch (IOException error) {
            throw new UncheckedIOException("cannot create the folder for staged rows", error);
        }
        return new Factory(location, folder, columns);
    }

    /** The folder of a job's files; fails if the location has none. */
    static String folder(String location, Options options, String job) {
        String staging = options.staging();
        if (staging == null) {
            if (location.contains("://")) {
                throw Options.invalid("option staging: set a folder that driver and executors share, for staged rows of "
                        + location);
            }
            staging = location + ".staging";
        }
        return Path.of(staging, job).toAbsolutePath().toString();
    }

    static BatchWrite batch(String location, Options options, StructType columns, String job, boolean created) {
        String folder = folder(location, options, job);
        Appending appending = new Appending(location, options.writer());
        return new BatchWrite() {
            @Override
            public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
                return factory(location, folder, columns);
            }

            @Override
            public void onDataWriterCommit(WriterCommitMessage message) {
                appending.begin(message);
            }

            @Override
            public void commit(WriterCommitMessage[] messages) {
                try (appending) {
                    appending.commit(messages, job);
                }
                remove(folder);
            }

            @Override
            public void abort(WriterCommitMessage[] messages) {
                appending.close();
                remove(folder);
                if (created && isUntouched(location)) {
                    Table.drop(location);
                }
            }
        };
    }

    static StreamingWrite stream(String location, Options options, StructType columns, String query) {
        // Tokens of epochs are unique within a writer, so each query has its own writer.
        String writer = options.writer() == null ? "spark-" + query : options.writer();
        return new StreamingWrite() {
            private String folder(String run) {
                return KubistWrite.folder(location, options, query + "-" + run);
            }

            private final String run = UUID.randomUUID().toString();

            @Override
            public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
                refuseContinuous(location);
                return factory(location, folder(run), columns);
            }

            @Override
            public void commit(long epoch, WriterCommitMessage[] messages) {
                try (Appending appending = new Appending(location, writer)) {
                    appending.commit(messages, query + "/" + epoch);
                }
                remove(folder(run));
            }

            @Override
            public void abort(long epoch, WriterCommitMessage[] messages) {
                remove(folder(run));
            }
        };
    }

    /** Spark has no other way to find the kind of query. */
    private static void refuseContinuous(String location) {
        if ("true".equals(SparkSession.active().sparkContext().getLocalProperty("__is_continuous_processing"))) {
            throw new KubistException(
                    KubistException.Kind.UNSUPPORTED,
                    location + " does not support continuous triggers: use Trigger.ProcessingTime or AvailableNow");
        }
    }

    /** True if nobody has committed to the table that the job created. */
    private static boolean isUntouched(String location) {
        try (Table table = Table.open(location);
                Snapshot now = table.snapshot()) {
            return ((List<?>) now.description().get("writers")).isEmpty();
        }
    }

    /** Removes a job's files, and the common folder if it is empty; remaining files do no harm. */
    private static void remove(String folder) {
        Path job = Path.of(folder);
        for (int attempt = 1; Files.exists(job); attempt++) {
            try {
                empty(job);
            } catch (DirectoryNotEmptyException late) {
                // An aborted attempt has created a file in the meantime.
                if (attempt == MOST_ATTEMPTS) {
                    stays(folder, late);
                    return;
                }
            } catch (IOException | UncheckedIOException error) {
                stays(folder, error);
                return;
            }
        }
        try {
            Files.deleteIfExists(job.getParent());
        } catch (DirectoryNotEmptyException others) {
            // Other jobs are writing.
            return;
        } catch (IOException error) {
            stays(folder, error);
        }
    }

    private static void empty(Path folder) throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            for (Path file : files.toList()) {
                Files.deleteIfExists(file);
            }
        }
        Files.deleteIfExists(folder);
    }

    static void stays(String folder, Exception error) {
        System.getLogger(KubistWrite.class.getName())
                .log(System.Logger.Level.WARNING, "cannot delete the files of a finished job in " + folder, error);
    }

    /** Opens the table in a task, with a Spark-specific message if there is none. */
    static Table openThere(String location) {
        try {
            return Table.open(location);
        } catch (KubistException error) {
            if (error.kind() != KubistException.Kind.NOT_FOUND) {
                throw error;
            }
            throw new KubistException(
                    error.kind(), error.getMessage() + " (as this executor sees it: all of them need access to it)");
        }
    }
}
