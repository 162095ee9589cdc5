package org.kubist.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownTableSample;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructType;
import org.kubist.Field;
import org.kubist.KubistException;

/** Pushes down the parts of Spark's plan that the engine computes exactly. */
class KubistScanBuilder
        implements SupportsPushDownTableSample,
                SupportsPushDownV2Filters,
                SupportsPushDownAggregates,
                SupportsPushDownLimit,
                SupportsPushDownRequiredColumns {
    /** Spark applies larger limits, because its tasks read in parallel. */
    private static final int MOST_LIMITED = 100_000;

    private final KubistTable table;
    private StructType columns;
    private Question question = Question.ALL;
    private Predicate[] pushed = {};
    private Figures figures;

    KubistScanBuilder(KubistTable table, StructType columns) {
        this.table = table;
        this.columns = columns;
    }

    @Override
    public boolean pushTableSample(double lower, double upper, boolean withReplacement, long seed) {
        Options.Seed meaning = table.options().seed();
        double high = Math.min(upper, 1);
        // Spark's samples are uniform.
        if (!table.moment().snapshot().isUniform()) {
            return false;
        }
        if (withReplacement || meaning == Options.Seed.REFUSE || lower < 0 || lower >= high) {
            return false;
        }
        double from = meaning == Options.Seed.WINDOW ? new SplittableRandom(seed).nextDouble() : 0;
        question = question.windows(around(from, lower, high));
        return true;
    }

    /** A window that passes 1 continues at 0. */
    private static List<double[]> around(double from, double lower, double upper) {
        if (from == 0 || upper - lower == 1) {
            return List.of(new double[] {lower, upper});
        }
        double low = (from + lower) % 1;
        double high = (from + upper) % 1;
        if (low < high) {
            return List.of(new double[] {low, high});
        }
        List<double[]> windows = new ArrayList<>();
        windows.add(new double[] {low, 1});
        if (high > 0) {
            windows.add(new double[] {0, high});
        }
        return windows;
    }

    @Override
    public Predicate[] pushPredicates(Predicate[] predicates) {
        Map<String, Field> fields = new HashMap<>();
        table.moment().snapshot().fields().forEach(field -> fields.put(field.name(), field));
        Conditions conditions = new Conditions(fields);
        List<Predicate> understood = new ArrayList<>();
        List<String> where = new ArrayList<>();
        List<Predicate> left = new ArrayList<>();
        for (Predicate predicate : predicates) {
            String condition = conditions.of(predicate);
            if (condition == null) {
                left.add(predicate);
            } else {
                understood.add(predicate);
                where.add(condition);
            }
        }
        int taken = together(where);
        if (taken < where.size()) {
            for (int index = where.size() - 1; index >= 0; index--) {
                if (!isUnderstood(where.get(index))) {
                    left.add(understood.remove(index));
                    where.remove(index);
                }
            }
            taken = together(where);
        }
        left.addAll(understood.subList(taken, understood.size()));
        question = question.and(where.subList(0, taken));
        pushed = understood.subList(0, taken).toArray(Predicate[]::new);
        return left.toArray(Predicate[]::new);
    }

    /** The number of leading conditions that the engine accepts together, because all conditions may be too long. */
    private int together(List<String> where) {
        int fits = 0;
        int tooMany = where.size() + 1;
        // First tries all conditions, which nearly always succeeds.
        for (int count = where.size(); fits + 1 < tooMany; count = (fits + tooMany) / 2) {
            if (isUnderstood(Question.joined(where.subList(0, count)))) {
                fits = count;
            } else {
                tooMany = count;
            }
        }
        return fits;
    }

    /** Spark applies conditions that the engine refuses, such as too long ones. */
    private boolean isUnderstood(String condition) {
        try {
            table.moment().snapshot().check(condition);
            return true;
        } catch (KubistException error) {
            if (error.kind() == KubistException.Kind.INVALID_INPUT) {
                return false;
            }
            throw error;
        }
    }

    @Override
    public Predicate[] pushedPredicates() {
        return pushed;
    }

    @Override
    public boolean supportCompletePushDown(Aggregation aggregation) {
        return Figures.areKnown(aggregation, table, question);
    }

    @Override
    public boolean pushAggregation(Aggregation aggregation) {
        if (!supportCompletePushDown(aggregation)) {
            return false;
        }
        figures = Figures.of(aggregation, table, question);
        return figures != null;
    }

    @Override
    public boolean pushLimit(int limit) {
        boolean whole = question.windows() == null || question.windows().size() == 1;
        if (limit > MOST_LIMITED || !whole) {
            return false;
        }
        question = question.limit(limit);
        return true;
    }

    @Override
    public boolean isPartiallyPushed() {
        return false;
    }

    @Override
    public void pruneColumns(StructType required) {
        columns = required;
    }

    @Override
    public Scan build() {
        return figures == null ? new KubistScan(table, columns, question) : figures;
    }
}
