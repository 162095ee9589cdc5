package org.kubist;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A pinned state of a table, so queries always return the same rows. Queries have the parameters of Python and HTTP:
 * {@code new Query().box("x", 0, 1).where("y > 2").sample(0.01)}.
 */
public final class Snapshot extends Handle {
    private final String token;
    private final List<Field> fields;
    private final long rows;
    private final List<Long> steps;
    private final boolean uniform;

    @SuppressWarnings("unchecked")
    Snapshot(long number) {
        super(number);
        Map<String, Object> about = (Map<String, Object>) Json.read(Native.text(Native.about(number)));
        token = (String) about.get("token");
        fields = Field.all(about.get("columns"));
        rows = ((Number) about.get("rows")).longValue();
        steps = List.copyOf((List<Long>) about.get("steps"));
        uniform = (Boolean) about.get("uniform");
    }

    /**
     * Whether all records are equally likely in samples; otherwise {@link Query#inclusion} adds the probabilities.
     *
     * @return true without a weight or strata
     */
    public boolean isUniform() {
        return uniform;
    }

    /** {@return the token of this snapshot, which {@link Table#at} opens in any process} */
    public String token() {
        return token;
    }

    /** {@return the columns, in order} */
    public List<Field> fields() {
        return fields;
    }

    /** {@return the number of all records} */
    public long rows() {
        return rows;
    }

    /** {@return the steps that every declared writer has committed or abandoned, ascending} */
    public List<Long> steps() {
        return steps;
    }

    /** {@return a description of the table, by name} */
    @SuppressWarnings("unchecked")
    public Map<String, Object> description() {
        return (Map<String, Object>) Json.read(Native.text(Native.description(number())));
    }

    /**
     * {@return batches of the matching records}
     *
     * @param query which records
     */
    public Answer query(Query query) {
        return new Answer(Native.query(number(), Native.bytes(query.toString())));
    }

    /**
     * {@return the exact number of matching records}
     *
     * @param query which records
     */
    public long count(Query query) {
        return Native.count(number(), Native.bytes(query.toString()));
    }

    /**
     * The approximate number of matching records, from metadata alone, without conditions on columns that are no
     * dimensions.
     *
     * @param query which records, without {@code limit} and {@code per_cell}
     * @return an estimate, which may be too high or too low
     */
    public long expected(Query query) {
        return Native.expected(number(), Native.bytes(query.toString()));
    }

    /**
     * Checks a condition without reading rows; fails as a query with it would.
     *
     * @param condition the text of {@code where}
     */
    public void check(String condition) {
        Native.check(number(), Native.bytes(condition));
    }

    /**
     * Splits a query into disjoint queries of about equal size.
     *
     * @param query which records, without {@code limit}, {@code per_cell} and {@code order_by}
     * @param parts their number
     * @return splits that together return each record once
     */
    public List<Split> splits(Query query, int parts) {
        List<Split> splits = new ArrayList<>();
        for (Object item : (List<?>) Json.read(Native.text(Native.splits(number(), Native.bytes(query.toString()), parts)))) {
            Map<?, ?> said = (Map<?, ?>) item;
            List<String> hosts = new ArrayList<>();
            ((List<?>) said.get("hosts")).forEach(host -> hosts.add((String) host));
            splits.add(new Split((String) said.get("split"), ((Number) said.get("rows")).longValue(), List.copyOf(hosts)));
        }
        return splits;
    }

    /**
     * Estimates aggregates from a sample, with intervals.
     *
     * @param aggregates such as {@code mean(x)}
     * @param query which records
     * @param error largest half-width of an interval relative to its value, above 0; null is 1 %; all records are read
     * if no sample reaches it
     * @return a figure for each aggregate
     */
    public List<Figure> estimate(List<String> aggregates, Query query, Double error) {
        Map<String, Object> goal = new LinkedHashMap<>();
        goal.put("aggregates", aggregates);
        goal.put("query", Json.read(query.toString()));
        goal.put("error", error);
        byte[] answer = Native.estimate(number(), Native.bytes(Json.write(goal)));
        List<Figure> figures = new ArrayList<>();
        for (Object item : (List<?>) ((Map<?, ?>) Json.read(Native.text(answer))).get("figures")) {
            Map<?, ?> said = (Map<?, ?>) item;
            figures.add(new Figure(
                    (String) said.get("aggregate"),
                    number(said.get("value")),
                    number(said.get("low")),
                    number(said.get("high")),
                    (String) said.get("whole"),
                    ((Number) said.get("rows")).longValue(),
                    (Boolean) said.get("exact")));
        }
        return figures;
    }

    private static Double number(Object said) {
        return said == null ? null : Double.valueOf(((Number) said).doubleValue());
    }
}
