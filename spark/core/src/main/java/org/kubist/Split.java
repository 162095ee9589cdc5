package org.kubist;

import java.io.Serializable;
import java.util.List;

/**
 * One of the disjoint parts of a query from {@link Snapshot#splits}, for any process that can open the table.
 *
 * @param text for {@link Table#read}
 * @param rows the approximate number of records
 * @param hosts hosts that store most of its data, best first; none for a directory
 */
public record Split(String text, long rows, List<String> hosts) implements Serializable {}
