package org.kubist.spark;

import org.kubist.Snapshot;
import org.kubist.Table;

/** An open table and a snapshot. The garbage collector closes it, as Spark does not report the end of a plan. */
record Moment(Table table, Snapshot snapshot) {
    /** @param version a token, the number of a step, or null for the newest state */
    static Moment of(String location, String version) {
        Table table = Table.open(location);
        try {
            return new Moment(table, snapshot(table, version));
        } catch (RuntimeException error) {
            table.close();
            throw error;
        }
    }

    private static Snapshot snapshot(Table table, String version) {
        if (version == null) {
            return table.snapshot();
        }
        return version.matches("-?\\d{1,18}") ? table.atStep(Long.parseLong(version)) : table.at(version);
    }
}
