package org.kubist.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.spark.sql.types.StructType;
import org.kubist.Query;

/**
 * The parts of a plan that a scan computes.
 *
 * @param where conditions that all must hold
 * @param windows disjoint ranges of priorities: the sample; null without one
 * @param limit maximum number of rows; -1 without one
 * @param steps the first and the last step of a stream's batch; null for all rows
 */
record Question(List<String> where, List<double[]> windows, int limit, long[] steps) {
    private static final int MOST_SHOWN = 1000;

    static final Question ALL = new Question(List.of(), null, -1, null);

    Question and(List<String> more) {
        List<String> all = new ArrayList<>(where);
        all.addAll(more);
        return new Question(all, windows, limit, steps);
    }

    static String joined(List<String> conditions) {
        return conditions.stream().map(one -> "(" + one + ")").collect(Collectors.joining(" AND "));
    }

    Question windows(List<double[]> sampled) {
        return new Question(where, sampled, limit, steps);
    }

    /** The fraction of all records in the sample. */
    double sampled() {
        return windows == null ? 1 : windows.stream().mapToDouble(Question::width).sum();
    }

    /** The fraction of the sample in one of {@link #queries}. */
    double share(int query) {
        return windows == null ? 1 : width(windows.get(query)) / sampled();
    }

    private static double width(double[] window) {
        return window[1] - window[0];
    }

    Question limit(int rows) {
        return new Question(where, windows, rows, steps);
    }

    Question steps(long first, long last) {
        return new Question(where, windows, limit, new long[] {first, last});
    }

    /** Engine queries, one for each window. Null columns select all. */
    List<Query> queries(StructType columns, String inclusion) {
        if (windows == null) {
            return List.of(query(columns, inclusion));
        }
        return windows.stream()
                .map(window -> query(columns, inclusion).window(window[0], window[1]))
                .toList();
    }

    private Query query(StructType columns, String inclusion) {
        Query query = new Query();
        if (!where.isEmpty()) {
            query.where(joined(where));
        }
        if (limit >= 0) {
            query.limit(limit);
        }
        if (steps != null) {
            query.steps(steps[0], steps[1]);
        }
        if (columns != null) {
            List<String> names = new ArrayList<>(List.of(columns.fieldNames()));
            if (inclusion != null && names.remove(inclusion)) {
                query.inclusion(inclusion);
            }
            query.columns(names.toArray(String[]::new));
        }
        return query;
    }

    /** Shortens long value lists for readable plans. */
    private static String shown(String condition) {
        return condition.length() <= MOST_SHOWN ? condition : condition.substring(0, MOST_SHOWN) + "...";
    }

    /** For {@code explain}. */
    String inWords() {
        List<String> words = new ArrayList<>();
        if (windows != null) {
            words.add("PushedSample: " + windows.stream()
                    .map(window -> "[" + window[0] + ", " + window[1] + ")")
                    .collect(Collectors.joining(" + ")));
        }
        words.add("PushedWhere: [" + where.stream().map(Question::shown).collect(Collectors.joining("; ")) + "]");
        if (limit >= 0) {
            words.add("PushedLimit: " + limit);
        }
        if (steps != null) {
            words.add("Steps: " + steps[0] + " to " + steps[1]);
        }
        return String.join(", ", words);
    }
}
