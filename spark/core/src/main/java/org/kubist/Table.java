package org.kubist;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** An open table. Threads may share it; close it after use. */
public final class Table extends Handle {
    private static final System.Logger LOG = System.getLogger(Table.class.getName());

    private final String location;

    private Table(long number, String location) {
        super(number);
        this.location = location;
    }

    /**
     * Opens the table at a location.
     *
     * @param location a directory, {@code s3://bucket/prefix}, or {@code cassandra://hosts/keyspace/table}
     * @return the table
     * @throws KubistException {@code NOT_FOUND} if there is no table
     */
    public static Table open(String location) {
        return new Table(Native.tableOpen(Native.bytes(location)), location);
    }

    /**
     * Creates a table. Unknown units are logged as warnings.
     *
     * <p>The options are JSON: {@code {"columns": [{"name": "x", "type": "float64"}, ...], "dimensions": {"x":
     * [0, 1], "y": null}, "identity": [...], "lookup": [...], "capacity": n, "seed": n, "accuracy": {"x":
     * "1e-6", "u": "1e-4 rel"}}}.
     *
     * <ul>
     * <li>{@code columns}: a column may also have a {@code "unit"}.
     * <li>{@code dimensions}: the columns to index, each with its domain. A domain is a pair of bounds, null if
     * the data determines it, or {@code "quantile"}.
     * <li>{@code identity}: the columns that identify a row.
     * <li>{@code lookup}: the columns with a secondary index.
     * <li>{@code capacity}: the number of rows in a cube of the index.
     * <li>{@code accuracy}: the error bounds of stored values, absolute or relative.
     * </ul>
     *
     * @param location as for {@link #open}
     * @param options the columns and other options, as JSON
     * @return the table
     * @throws KubistException {@code EXISTS} if the location is not empty
     */
    public static Table create(String location, String options) {
        Table table = new Table(Native.tableCreate(Native.bytes(location), Native.bytes(options)), location);
        for (Object note : (List<?>) Json.read(Native.text(Native.unitNotes(table.number())))) {
            LOG.log(System.Logger.Level.WARNING, "{0}: {1}", location, note);
        }
        return table;
    }

    /**
     * Deletes the table at a location.
     *
     * @param location as for {@link #open}
     */
    public static void drop(String location) {
        Native.tableDrop(Native.bytes(location));
    }

    /**
     * Exchanges the locations of two tables in one atomic step, so a process always finds a table at both.
     *
     * @param one a directory
     * @param other a directory on the same file system
     * @throws KubistException {@code UNSUPPORTED} if the file system cannot exchange names; nothing changes then
     */
    public static void exchange(String one, String other) {
        Native.exchange(Native.bytes(one), Native.bytes(other));
    }

    /**
     * Counts the native resources of this class loader, to find leaks.
     *
     * @return {@code handles}, the number of open handles, and {@code arrays}, the number of open batches
     */
    @SuppressWarnings("unchecked")
    public static Map<String, Object> held() {
        return (Map<String, Object>) Json.read(Native.text(Native.held()));
    }

    /** {@return the location that was passed to {@link #open} or {@link #create}} */
    public String location() {
        return location;
    }

    /** {@return the newest snapshot} */
    public Snapshot snapshot() {
        return moment(null, null);
    }

    /**
     * Opens the snapshot of a token.
     *
     * @param token a result of {@link Snapshot#token}
     * @return the snapshot
     * @throws KubistException {@code EXPIRED} if cleaning deleted its files; {@code REPLACED} if the token belongs to
     * another table, or to rows that this table lost when it was restored or created again
     */
    public Snapshot at(String token) {
        return moment(token, null);
    }

    /**
     * {@return a snapshot with all steps up to a step, and the rows without a step}
     *
     * @param step the last step to include, which all declared writers must have finished
     */
    public Snapshot atStep(long step) {
        return moment(null, step);
    }

    private Snapshot moment(String token, Long step) {
        Map<String, Object> moment = new LinkedHashMap<>();
        moment.put("token", token);
        moment.put("step", step);
        return new Snapshot(Native.snapshot(number(), Native.bytes(Json.write(moment))));
    }

    /**
     * {@return the rows of a split, in batches}
     *
     * @param split a part of a query of this table, possibly from another process
     */
    public Answer read(Split split) {
        return new Answer(Native.readSplit(number(), Native.bytes(split.text())));
    }

    /**
     * Opens a writer; only one writer at a time can have a name.
     *
     * @param name the writer's name, or null for the first free name
     * @return the writer
     * @throws KubistException {@code BUSY} if another writer has the name
     */
    public Writer writer(String name) {
        Map<String, Object> options = new LinkedHashMap<>();
        options.put("name", name);
        return new Writer(Native.writerOpen(number(), Native.bytes(Json.write(options))));
    }

    /**
     * Declares the writers that every step waits for: a step is complete once each writer has committed or abandoned
     * it. The declaration can be repeated, but not changed.
     *
     * @param names the names of the writers
     * @throws KubistException {@code EXISTS} if other writers were declared before
     */
    public void declareWriters(List<String> names) {
        Native.declareWriters(number(), Native.bytes(Json.write(Map.of("names", names))));
    }

    /**
     * Creates a file for rows of this table. A writer commits the file later, possibly in another process.
     *
     * @param path the path of a new file
     * @return the file
     */
    public StagedFile stage(String path) {
        return new StagedFile(Native.stage(number(), Native.bytes(path)));
    }
}
