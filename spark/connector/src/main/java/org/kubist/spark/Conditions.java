package org.kubist.spark;

import java.math.BigDecimal;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;
import org.kubist.ColumnType.Kind;
import org.kubist.Field;

/**
 * Translates Spark predicates to Kubist conditions with exactly the same meaning.
 *
 * <p>The systems differ for NaN: Spark treats it as equal to itself and greater than all numbers, while a Kubist
 * comparison with it is unknown. There are therefore two translations, which use no NOT of a comparison: {@link #holds}
 * is true where the predicate is true, and {@link #fails} where it is false. Null makes neither true.
 */
final class Conditions {
    private final Map<String, Field> fields;

    /** @param fields the columns that conditions can use, by name */
    Conditions(Map<String, Field> fields) {
        this.fields = fields;
    }

    private static final class Beyond extends Exception {
        private static final long serialVersionUID = 1;

        Beyond() {
            super(null, null, false, false);
        }
    }

    /** The condition, or null if there is no equivalent one. */
    String of(Predicate predicate) {
        try {
            return holds(predicate);
        } catch (Beyond error) {
            return null;
        }
    }

    private String holds(Expression expression) throws Beyond {
        return said(expression, true);
    }

    private String fails(Expression expression) throws Beyond {
        return said(expression, false);
    }

    private String said(Expression expression, boolean holds) throws Beyond {
        if (expression instanceof NamedReference) {
            Field field = field(expression);
            if (field.type().kind() != Kind.BOOLEAN) {
                throw new Beyond();
            }
            return quoted(field) + (holds ? " = TRUE" : " = FALSE");
        }
        if (expression instanceof Literal<?> literal && literal.value() instanceof Boolean value) {
            return value == holds ? "TRUE" : "FALSE";
        }
        if (!(expression instanceof Predicate predicate)) {
            throw new Beyond();
        }
        Expression[] parts = predicate.children();
        return switch (predicate.name()) {
            case "ALWAYS_TRUE" -> holds ? "TRUE" : "FALSE";
            case "ALWAYS_FALSE" -> holds ? "FALSE" : "TRUE";
            case "NOT" -> said(parts[0], !holds);
            case "AND" -> joined(parts, holds ? " AND " : " OR ", holds);
            case "OR" -> joined(parts, holds ? " OR " : " AND ", holds);
            case "IS_NULL" -> quoted(field(parts[0])) + (holds ? " IS NULL" : " IS NOT NULL");
            case "IS_NOT_NULL" -> quoted(field(parts[0])) + (holds ? " IS NOT NULL" : " IS NULL");
            case "IN" -> list(parts, holds);
            case "STARTS_WITH" -> like(parts, "", "%", holds);
            case "ENDS_WITH" -> like(parts, "%", "", holds);
            case "CONTAINS" -> like(parts, "%", "%", holds);
            case "=", "<>", "<", "<=", ">", ">=", "<=>" -> compared(predicate.name(), parts, holds);
            default -> throw new Beyond();
        };
    }

    private String joined(Expression[] parts, String word, boolean holds) throws Beyond {
        return "(" + said(parts[0], holds) + ")" + word + "(" + said(parts[1], holds) + ")";
    }

    private Field field(Expression expression) throws Beyond {
        if (expression instanceof NamedReference reference && reference.fieldNames().length == 1) {
            Field field = fields.get(reference.fieldNames()[0]);
            if (field != null && field.exact()) {
                return field;
            }
        }
        throw new Beyond();
    }

    private static String quoted(Field field) {
        return "\"" + field.name().replace("\"", "\"\"") + "\"";
    }

    private static boolean isFloat(Field field) {
        return field.type().kind() == Kind.FLOAT32 || field.type().kind() == Kind.FLOAT64;
    }

    private static String turned(String comparison) {
        return switch (comparison) {
            case "<" -> ">";
            case "<=" -> ">=";
            case ">" -> "<";
            case ">=" -> "<=";
            default -> comparison;
        };
    }

    private static String opposite(String comparison) {
        return switch (comparison) {
            case "=" -> "<>";
            case "<>" -> "=";
            case "<" -> ">=";
            case "<=" -> ">";
            case ">" -> "<=";
            default -> "<";
        };
    }

    private String compared(String name, Expression[] parts, boolean holds) throws Beyond {
        if (parts[0] instanceof Literal && parts[1] instanceof Literal) {
            throw new Beyond();
        }
        if (parts[0] instanceof Literal) {
            return compared(turned(name), new Expression[] {parts[1], parts[0]}, holds);
        }
        Field field = field(parts[0]);
        if (!(parts[1] instanceof Literal<?> literal)) {
            throw new Beyond();
        }
        String column = quoted(field);
        if (name.equals("<=>")) {
            if (literal.value() == null) {
                return column + (holds ? " IS NULL" : " IS NOT NULL");
            }
            String equal = compared("=", parts, holds);
            return holds ? equal : "(" + equal + ") OR " + column + " IS NULL";
        }
        if (literal.value() == null) {
            // Neither true nor false for any row.
            return "FALSE";
        }
        String comparison = holds ? name : opposite(name);
        if (isNan(literal.value())) {
            return switch (comparison) {
                case "=", ">=" -> "isnan(" + column + ")";
                case "<>", "<" -> column + " IS NOT NULL AND NOT isnan(" + column + ")";
                case "<=" -> column + " IS NOT NULL";
                default -> "FALSE";
            };
        }
        String plain = column + " " + comparison + " " + literal(field, literal.value());
        // In Spark, NaN is greater than any number, and equal to none.
        boolean ofNan = comparison.startsWith(">") || comparison.equals("<>");
        return isFloat(field) && ofNan ? plain + " OR isnan(" + column + ")" : plain;
    }

    private static boolean isNan(Object value) {
        return value instanceof Double wide && wide.isNaN() || value instanceof Float narrow && narrow.isNaN();
    }

    private String list(Expression[] parts, boolean holds) throws Beyond {
        Field field = field(parts[0]);
        List<String> values = new ArrayList<>();
        boolean holdsNull = false;
        for (int index = 1; index < parts.length; index++) {
            if (!(parts[index] instanceof Literal<?> literal)) {
                throw new Beyond();
            }
            Object value = literal.value();
            // A Java set distinguishes -0.0 from 0.0, but a comparison does not.
            boolean isZero = isFloat(field) && value instanceof Number number && number.doubleValue() == 0;
            if (isNan(value) || isZero) {
                throw new Beyond();
            }
            if (value == null) {
                holdsNull = true;
            } else {
                values.add(literal(field, value));
            }
        }
        if (values.isEmpty() || holdsNull && !holds) {
            if (!holdsNull) {
                throw new Beyond();
            }
            return "FALSE";
        }
        String column = quoted(field);
        String in = column + (holds ? " IN (" : " NOT IN (") + String.join(", ", values) + ")";
        return isFloat(field) && !holds ? in + " OR isnan(" + column + ")" : in;
    }

    private String like(Expression[] parts, String before, String after, boolean holds) throws Beyond {
        Field field = field(parts[0]);
        boolean isText = field.type().kind() == Kind.STRING;
        if (!isText || !(parts[1] instanceof Literal<?> literal) || !(literal.value() instanceof UTF8String text)) {
            throw new Beyond();
        }
        String escaped = exact(text).replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_");
        return quoted(field) + (holds ? " LIKE " : " NOT LIKE ") + text(before + escaped + after) + " ESCAPE '\\'";
    }

    /** A string of valid UTF-8; others have no literal. */
    private static String exact(UTF8String text) throws Beyond {
        String value = text.toString();
        if (!UTF8String.fromString(value).equals(text)) {
            throw new Beyond();
        }
        return value;
    }

    private static String text(String value) {
        return "'" + value.replace("'", "''") + "'";
    }

    /** A value in Spark's representation, as an exact literal of this column. */
    private static String literal(Field field, Object value) throws Beyond {
        Kind kind = field.type().kind();
        if (value instanceof Boolean truth && kind == Kind.BOOLEAN) {
            return truth ? "TRUE" : "FALSE";
        }
        if (value instanceof Float || value instanceof Double) {
            double number = ((Number) value).doubleValue();
            if (Double.isInfinite(number)) {
                return number > 0 ? "inf" : "-inf";
            }
            return value.toString();
        }
        if (value instanceof Decimal decimal) {
            BigDecimal exact = decimal.toJavaBigDecimal();
            return exact.toPlainString();
        }
        if (value instanceof UTF8String text && kind == Kind.STRING) {
            return text(exact(text));
        }
        if (value instanceof byte[] bytes && kind == Kind.BINARY) {
            return "X'" + HexFormat.of().withUpperCase().formatHex(bytes) + "'";
        }
        if (value instanceof Integer days && kind == Kind.DATE) {
            return "DATE '" + inWords(LocalDate.ofEpochDay(days)) + "'";
        }
        if (value instanceof Long micros && (kind == Kind.TIMESTAMP || kind == Kind.TIMESTAMP_NTZ)) {
            long second = Math.floorDiv(micros, 1_000_000L);
            LocalDate day = LocalDate.ofEpochDay(Math.floorDiv(second, 86_400L));
            long clock = Math.floorMod(second, 86_400L);
            String time = String.format(
                    Locale.ROOT, "%02d:%02d:%02d.%06d", clock / 3600, clock / 60 % 60, clock % 60, Math.floorMod(micros, 1_000_000L));
            return "TIMESTAMP '" + inWords(day) + "T" + time + (kind == Kind.TIMESTAMP ? "Z'" : "'");
        }
        boolean isNumber = kind != Kind.BOOLEAN && kind != Kind.STRING && kind != Kind.BINARY && field.type().kind() != Kind.DATE;
        if (value instanceof Number number && isNumber && kind != Kind.TIMESTAMP && kind != Kind.TIMESTAMP_NTZ) {
            return number.toString();
        }
        throw new Beyond();
    }

    private static String inWords(LocalDate day) throws Beyond {
        if (day.getYear() < 1 || day.getYear() > 9999) {
            throw new Beyond();
        }
        return day.toString();
    }
}
