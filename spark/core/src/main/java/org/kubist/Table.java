package org.kubist;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** An open table. Threads may share it. */
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
     * @param location a directory, or {@code cassandra://hosts/keyspace/table}
     * @return the table
     * @throws KubistException {@code NOT_FOUND} if there is none
     */
    public static Table open(String location) {
        return new Table(Native.tableOpen(Native.bytes(location)), location);
    }

    /**
     * Creates a table. Unknown units are logged as warnings.
     *
     * @param location as for {@link #open}
     * @param options JSON: {@code {"columns": [{"name": "x", "type": "float64"}, ...], "dimensions": {"x":
     * [0, 1], "y": null}, "identity": [...], "lookup": [...], "capacity": n, "seed": n, "accuracy": {"x":
     * "1e-6", "u": "1e-4 rel"}}}. Columns may have a {@code "unit"}. {@code "dimensions"} are the columns
     * to index with their domains: a pair, null to learn it, or {@code "quantile"}. {@code "accuracy"} has
     * the error bounds of stored values
     * @return the table
     * @throws KubistException {@code EXISTS} if something exists there
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
     * Exchanges two tables in one atomic step: a process that opens one of the locations always finds a
     * table.
     *
     * @param one a directory
     * @param other a directory on the same file system
     * @throws KubistException {@code UNSUPPORTED} if the file system cannot do it; nothing changes then
     */
    public static void exchange(String one, String other) {
        Native.exchange(Native.bytes(one), Native.bytes(other));
    }

    /**
     * The native resources of this class loader: open handles, and batches that were not closed.
     *
     * @return {@code handles} and {@code arrays}
     */
    @SuppressWarnings("unchecked")
    public static Map<String, Object> held() {
        return (Map<String, Object>) Json.read(Native.text(Native.held()));
    }

    /** {@return the location, as it was opened} */
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
     * @param token of {@link Snapshot#token}
     * @return the snapshot
     * @throws KubistException {@code EXPIRED} if its files were cleaned; {@code REPLACED} if it belongs to
     * another table or another history of this one
     */
    public Snapshot at(String token) {
        return moment(token, null);
    }

    /**
     * {@return the newest snapshot, up to a step}
     *
     * @param step a complete step
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
     * {@return batches of the records of a split}
     *
     * @param split of this table, possibly from another process
     */
    public Answer read(Split split) {
        return new Answer(Native.readSplit(number(), Native.bytes(split.text())));
    }

    /**
     * Opens a writer. Each name has one owner at a time.
     *
     * @param name null for the first free one
     * @return the writer
     * @throws KubistException {@code BUSY} if the name has an owner
     */
    public Writer writer(String name) {
        Map<String, Object> options = new LinkedHashMap<>();
        options.put("name", name);
        return new Writer(Native.writerOpen(number(), Native.bytes(Json.write(options))));
    }

    /**
     * Declares the writers whose commits complete a step. Repeated calls must declare the same.
     *
     * @param names of the writers
     * @throws KubistException {@code EXISTS} if others were declared before
     */
    public void declareWriters(List<String> names) {
        Native.declareWriters(number(), Native.bytes(Json.write(Map.of("names", names))));
    }

    /**
     * Creates a file for rows of this table, which a writer commits later, possibly in another process.
     *
     * @param path of a new file
     * @return the file
     */
    public StagedFile stage(String path) {
        return new StagedFile(Native.stage(number(), Native.bytes(path)));
    }
}
