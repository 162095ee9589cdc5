package org.kubist.spark;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.kubist.KubistException;
import org.kubist.Table;
import org.kubist.Writer;

/** The driver's part of a job: appends the files of finished tasks while others still run, and commits once. */
final class Appending implements AutoCloseable {
    private final String location;
    private final String name;
    private final ExecutorService thread = Executors.newSingleThreadExecutor(work -> {
        Thread made = new Thread(work, "kubist-append");
        made.setDaemon(true);
        return made;
    });
    private final List<Future<?>> begun = new ArrayList<>();
    private final Set<String> paths = new HashSet<>();
    private Table table;
    private volatile Writer writer;

    /** @param name the writer's name; null for a free one */
    Appending(String location, String name) {
        this.location = location;
        this.name = name;
    }

    /** Accepts a task attempt, and appends its file after the earlier ones. */
    synchronized void begin(WriterCommitMessage message) {
        KubistWrite.Staged staged = (KubistWrite.Staged) message;
        if (paths.add(staged.path()) && staged.rows() > 0) {
            begun.add(thread.submit(() -> append(staged.path())));
        }
    }

    private void append(String path) {
        Writer opened = open();
        if (!thread.isShutdown()) {
            opened.appendStaged(path);
        }
    }

    private Writer open() {
        if (writer == null) {
            table = Table.open(location);
            writer = table.writer(name);
        }
        return writer;
    }

    /** Commits the rows of the accepted attempts only. */
    synchronized void commit(WriterCommitMessage[] messages, String token) {
        for (WriterCommitMessage message : messages) {
            begin(message);
        }
        if (paths.size() != messages.length) {
            throw new IllegalStateException(
                    "Spark announced " + paths.size() + " attempts that count for " + location + ", and commits " + messages.length);
        }
        begun.add(thread.submit(() -> open().commit(null, token)));
        begun.forEach(Appending::finish);
    }

    private static void finish(Future<?> work) {
        try {
            work.get();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new KubistException(KubistException.Kind.CANCELLED, "the commit was interrupted");
        } catch (ExecutionException error) {
            if (error.getCause() instanceof RuntimeException cause) {
                throw cause;
            }
            throw new IllegalStateException(error.getCause());
        }
    }

    @Override
    public void close() {
        thread.shutdownNow();
        if (writer != null) {
            writer.close();
        }
        try {
            thread.awaitTermination(Long.MAX_VALUE, TimeUnit.NANOSECONDS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        if (writer != null) {
            writer.close();
        }
        if (table != null) {
            table.close();
        }
    }
}
