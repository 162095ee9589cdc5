package org.kubist;

import java.io.Serializable;
import java.util.List;

/**
 * One of the disjoint parts that {@link Snapshot#splits} cuts a question into: text that any process
 * can read which can open the table.
 *
 * @param text what {@link Table#read} wants
 * @param rows about how many records it holds
 * @param hosts that keep most of its data, the best first; none for a directory
 */
public record Split(String text, long rows, List<String> hosts) implements Serializable {}
