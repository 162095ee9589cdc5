package org.kubist;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Answers as of one moment, whatever is committed afterwards. Questions have the same
 * parameters as in Python and over HTTP: {@code new Query().box("x", 0, 1).where("y > 2").sample(0.01)}.
 */
public final class Snapshot extends Handle {
    private final String token;
    private final List<Field> fields;
    private final long rows;
    private final List<Long> steps;

    @SuppressWarnings("unchecked")
    Snapshot(long number) {
        super(number);
        Map<String, Object> about = (Map<String, Object>) Json.read(Native.text(Native.about(number)));
        token = (String) about.get("token");
        fields = Field.all(about.get("columns"));
        rows = ((Number) about.get("rows")).longValue();
        steps = List.copyOf((List<Long>) about.get("steps"));
    }

    /**
     * Names this moment, also to other processes: {@link Table#at} comes back to it.
     *
     * @return the token
     */
    public String token() {
        return token;
    }

    /**
     * The columns.
     *
     * @return in order
     */
    public List<Field> fields() {
        return fields;
    }

    /**
     * All records.
     *
     * @return how many
     */
    public long rows() {
        return rows;
    }

    /**
     * Steps that every declared writer has committed or abandoned.
     *
     * @return ascending
     */
    public List<Long> steps() {
        return steps;
    }

    /**
     * What the table is, and what was committed to it.
     *
     * @return by name
     */
    @SuppressWarnings("unchecked")
    public Map<String, Object> description() {
        return (Map<String, Object>) Json.read(Native.text(Native.description(number())));
    }

    /**
     * The records that match.
     *
     * @param query which records
     * @return their batches
     */
    public Answer query(Query query) {
        return new Answer(Native.query(number(), Native.bytes(query.toString())));
    }

    /**
     * How many records match.
     *
     * @param query which records
     * @return the count, which is exact
     */
    public long count(Query query) {
        return Native.count(number(), Native.bytes(query.toString()));
    }

    /**
     * About how many records match, from metadata alone: what a condition asks of columns that are no
     * dimensions is not counted in.
     *
     * @param query which records, without {@code limit} and {@code per_cell}
     * @return a guess, which may be too high or too low
     */
    public long expected(Query query) {
        return Native.expected(number(), Native.bytes(query.toString()));
    }

    /**
     * Fails as a question with that condition would, and reads nothing.
     *
     * @param condition the text of {@code where}
     */
    public void check(String condition) {
        Native.check(number(), Native.bytes(condition));
    }

    /**
     * Cuts a question into disjoint ones of about equal rows.
     *
     * @param query which records, without {@code limit}, {@code per_cell} and {@code order_by}
     * @param parts how many
     * @return together the records of the question, each once
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
     * Aggregates of a sample, with intervals.
     *
     * @param aggregates as {@code mean(x)}
     * @param query which records
     * @param error half of each interval is at most this share of its value, above 0; null is 1 %.
     *     What a sample cannot reach is read whole
     * @return a figure an aggregate
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
