package org.kubist;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A query of a table, by default for all rows. The parameters have the same names and meaning in
 * Python, the command and HTTP.
 *
 * <p>{@code make generate} writes this file from crates/core/kubist-types/src/query.rs: changes belong
 * there.
 */
public final class Query {
    private final Map<String, Object> said;

    /** Creates a query for all rows. */
    public Query() {
        this(new LinkedHashMap<>());
    }

    private Query(Map<String, Object> said) {
        this.said = said;
    }

    /**
     * Parses a query from JSON.
     *
     * @param text as {@code {"box": {"x": [0, 1]}, "where": "y > 2", "sample": 0.01}}
     * @return the query
     */
    public static Query json(String text) {
        if (!(Json.read(text) instanceof Map<?, ?> map)) {
            throw new KubistException(KubistException.Kind.INVALID_INPUT, "a query is an object of JSON: " + text);
        }
        Map<String, Object> said = new LinkedHashMap<>();
        map.forEach((name, value) -> said.put((String) name, value));
        return new Query(said);
    }

    /**
     * Only records with a value in a closed range, in addition to the ranges before.
     *
     * @param column its name
     * @param low a number, text or a boolean; null is open
     * @param high the same
     * @return this query
     */
    public Query box(String column, Object low, Object high) {
        @SuppressWarnings("unchecked")
        Map<String, Object> box = (Map<String, Object>) said.computeIfAbsent("box", name -> new LinkedHashMap<>());
        box.put(column, Arrays.asList(low, high));
        return this;
    }

    /**
     * A fraction in (0, 1]: only records with a priority below it, which are a uniform sample.
     *
     * @param value a number
     * @return this query
     */
    public Query sample(double value) {
        return put("sample", value);
    }

    /**
     * Only records with <code>low &lt;= priority &lt; high</code>, where <code>0 &lt;= low &lt; high &lt;=
     * 1</code>.
     *
     * @param low the lower end
     * @param high the upper end
     * @return this query
     */
    public Query window(double low, double high) {
        return put("window", List.of(low, high));
    }

    /**
     * The maximum number of records, applied after <code>sample</code>, <code>window</code> and
     * <code>per_cell</code>. With <code>order_by</code> it keeps the first records in that order. Without
     * it, it keeps the records of lowest priority, which are a uniform sample.
     *
     * @param value a whole number
     * @return this query
     */
    public Query limit(long value) {
        return put("limit", value);
    }

    /**
     * The order of the result: columns, each optionally followed by <code>asc</code> (the default) or
     * <code>desc</code>, or <code>priority</code>. NaN comes after all numbers and null after NaN, in both
     * directions. Priority orders equal records. Without an order, results of <code>limit</code> and
     * <code>per_cell</code> are ordered by priority, trajectories by time, and other records not at all.
     *
     * @param values in their order
     * @return this query
     */
    public Query orderBy(String... values) {
        return put("order_by", List.of(values));
    }

    /**
     * Only the records of lowest priority in each cell of a regular grid. It applies before
     * <code>order_by</code> and <code>limit</code>.
     *
     * @param rows of a cell at most
     * @param widths column to the width of a cell: a number, or text with a unit
     * @return this query
     */
    public Query perCell(long rows, Map<String, ?> widths) {
        return put("per_cell", Map.of("rows", rows, "widths", widths));
    }

    /**
     * The columns and expressions to return, in this order; without it all columns. <code>AS</code> names
     * an expression, as in <code>sqrt(vx*vx + vy*vy) AS speed</code>; without a name it has its own text.
     * <code>*</code> stands for all columns.
     *
     * @param values in their order
     * @return this query
     */
    public Query columns(String... values) {
        return put("columns", List.of(values));
    }

    /**
     * An SQL condition over any columns.
     *
     * @param value text
     * @return this query
     */
    public Query where(String value) {
        return put("where", value);
    }

    /**
     * A region of space or of the sky, as docs/regions.md describes it. Rows outside of it are not
     * returned.
     *
     * @param value as JSON describes it: the kind to its values
     * @return this query
     */
    public Query region(Map<String, ?> value) {
        return put("region", value);
    }

    /**
     * A closed range of steps, where <code>null</code> is an open bound. Only records of complete steps
     * are returned.
     *
     * @param low the lower end; null is open
     * @param high the upper end; null is open
     * @return this query
     */
    public Query steps(Long low, Long high) {
        return put("steps", Arrays.asList(low, high));
    }

    /**
     * The name of an additional column with the probability that each record is selected, independently of
     * all others. It is null if a limit kept only some of the records that share a priority; estimates
     * leave these out.
     *
     * @param value text
     * @return this query
     */
    public Query inclusion(String value) {
        return put("inclusion", value);
    }

    private Query put(String name, Object value) {
        said.put(name, value);
        return this;
    }

    /**
     * The query as JSON.
     *
     * @return JSON
     */
    @Override
    public String toString() {
        return Json.write(said);
    }
}
