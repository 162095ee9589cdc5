package org.kubist.spark;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructType;
import org.kubist.Field;
import org.kubist.Figure;
import org.kubist.Query;
import org.kubist.Snapshot;

/**
 * Aggregates of a whole table that the engine computes exactly from metadata: counts, also of samples and
 * conditions, and extremes of integers, dates, times and decimals.
 */
record Figures(StructType readSchema, InternalRow row, String description) implements LocalScan {
    /** Only a full read reaches this error, so zone maps provide the extremes. */
    private static final double EXACT = 1e-12;

    private static Field column(Expression expression, Map<String, Field> fields) {
        boolean isPlain = expression instanceof NamedReference reference && reference.fieldNames().length == 1;
        return isPlain ? fields.get(((NamedReference) expression).fieldNames()[0]) : null;
    }

    private static Map<String, Field> fields(KubistTable table) {
        Map<String, Field> fields = new HashMap<>();
        table.moment().snapshot().fields().forEach(field -> fields.put(field.name(), field));
        return fields;
    }

    static boolean areKnown(Aggregation aggregation, KubistTable table, Question question) {
        Map<String, Field> fields = fields(table);
        boolean whole = question.where().isEmpty() && question.windows() == null;
        return aggregation.groupByExpressions().length == 0
                && Arrays.stream(aggregation.aggregateExpressions()).allMatch(one -> isKnown(one, fields, whole));
    }

    private static boolean isKnown(AggregateFunc function, Map<String, Field> fields, boolean whole) {
        if (function instanceof CountStar) {
            return true;
        }
        if (function instanceof Count count) {
            return !count.isDistinct() && column(count.column(), fields) != null;
        }
        Field field = null;
        if (function instanceof Min least) {
            field = column(least.column(), fields);
        } else if (function instanceof Max greatest) {
            field = column(greatest.column(), fields);
        }
        if (field == null || !whole || !field.exact()) {
            return false;
        }
        return switch (field.type().kind()) {
            case INT8, INT16, INT32, INT64, DATE, TIMESTAMP, TIMESTAMP_NTZ, DECIMAL -> true;
            // NaN is an extreme in Spark but not in Kubist.
            default -> false;
        };
    }

    /** The figures, or null unless all are exact. */
    static Figures of(Aggregation aggregation, KubistTable table, Question question) {
        Map<String, Field> fields = fields(table);
        Snapshot snapshot = table.moment().snapshot();
        StructType schema = new StructType();
        List<Object> values = new ArrayList<>();
        for (AggregateFunc function : aggregation.aggregateExpressions()) {
            DataType type = DataTypes.LongType;
            if (function instanceof CountStar) {
                values.add(count(snapshot, question));
            } else if (function instanceof Count count) {
                String there = quoted(column(count.column(), fields)) + " IS NOT NULL";
                values.add(count(snapshot, question.and(List.of(there))));
            } else {
                boolean least = function instanceof Min;
                Field field = column(function.children()[0], fields);
                type = Types.ofSpark(field.type());
                String aggregate = (least ? "min(" : "max(") + quoted(field) + ")";
                Figure figure = snapshot.estimate(List.of(aggregate), new Query(), EXACT).get(0);
                if (!figure.exact()) {
                    return null;
                }
                values.add(value(figure, field));
            }
            schema = schema.add(function.describe(), type, true);
        }
        String words = "kubist " + table.options().location() + " PushedAggregates: "
                + Arrays.toString(aggregation.aggregateExpressions()) + ", " + question.inWords();
        return new Figures(schema, new GenericInternalRow(values.toArray()), words);
    }

    private static String quoted(Field field) {
        return "\"" + field.name().replace("\"", "\"\"") + "\"";
    }

    private static long count(Snapshot snapshot, Question question) {
        return question.queries(null, null).stream().mapToLong(snapshot::count).sum();
    }

    /** An exact extreme in Spark's representation; null without any value. */
    private static Object value(Figure figure, Field field) {
        if (figure.whole() == null) {
            return null;
        }
        BigInteger whole = new BigInteger(figure.whole());
        return switch (field.type().kind()) {
            case INT8 -> whole.byteValueExact();
            case INT16 -> whole.shortValueExact();
            case INT32, DATE -> whole.intValueExact();
            case DECIMAL -> Decimal.apply(
                    new java.math.BigDecimal(whole, field.type().scale()), field.type().digits(), field.type().scale());
            default -> whole.longValueExact();
        };
    }

    @Override
    public InternalRow[] rows() {
        return new InternalRow[] {row};
    }
}
