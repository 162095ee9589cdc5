package org.kubist.cassandra;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The sample that {@code expr(index, 'precision=0.1..0.3')} selects: priorities from {@code low} to below
 * {@code high}.
 *
 * <p>Bounds are integers from 0 to 2^64. A fraction is rounded up to such a bound, as in Kubist, so that
 * the same fraction selects the same rows. Text after a colon is ignored, because Hecuba appends an
 * identifier there.
 */
record Sample(BigInteger low, BigInteger high) {
    private static final BigInteger END = BigInteger.ONE.shiftLeft(64);
    private static final Pattern EXPRESSION =
        Pattern.compile("\\s*precision\\s*=\\s*([0-9.eE+-]+?)(?:\\s*\\.\\.\\s*([0-9.eE+-]+))?\\s*(?::.*)?", Pattern.DOTALL);

    static final Sample ALL = new Sample(BigInteger.ZERO, END);

    /** Throws {@link IllegalArgumentException} with a message for the user. */
    static Sample parse(String expression) {
        Matcher matcher = EXPRESSION.matcher(expression);
        if (!matcher.matches())
            throw new IllegalArgumentException("expression '" + expression
                + "': use precision=FRACTION or precision=FROM..TO with fractions from 0 to 1");
        BigInteger first = bound(matcher.group(1), expression);
        if (matcher.group(2) == null) return new Sample(BigInteger.ZERO, first);
        BigInteger last = bound(matcher.group(2), expression);
        if (first.compareTo(last) > 0)
            throw new IllegalArgumentException("expression '" + expression + "': the first fraction is above the second");
        return new Sample(first, last);
    }

    private static BigInteger bound(String text, String expression) {
        double fraction;
        try {
            fraction = Double.parseDouble(text);
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException("expression '" + expression + "': '" + text + "' is not a number");
        }
        if (!(fraction >= 0 && fraction <= 1))
            throw new IllegalArgumentException("expression '" + expression + "': the fraction " + text + " is not from 0 to 1");
        return new BigDecimal(fraction).multiply(new BigDecimal(END)).setScale(0, RoundingMode.CEILING).toBigInteger();
    }

    boolean isEmpty() {
        return low.equals(high);
    }

    double fraction() {
        return high.subtract(low).doubleValue() * 0x1p-64;
    }

    /** The lowest selected priority of a sample that is not empty, as an unsigned integer. */
    long first() {
        return low.longValue();
    }

    /** The highest selected priority of a sample that is not empty, as an unsigned integer. */
    long last() {
        return high.subtract(BigInteger.ONE).longValue();
    }

    boolean holds(long priority) {
        return !isEmpty() && Long.compareUnsigned(priority, first()) >= 0 && Long.compareUnsigned(priority, last()) <= 0;
    }
}
