package org.kubist;

/**
 * An estimate with its interval.
 *
 * @param aggregate its text in the request
 * @param value null if no record determines it
 * @param low the lower end of the interval; null if unbounded
 * @param high the upper end; null if unbounded
 * @param whole the value with all digits, as an integer in its type's unit; null for floats
 * @param rows the number of records that it was computed from
 * @param exact true if it is the value of all records
 */
public record Figure(String aggregate, Double value, Double low, Double high, String whole, long rows, boolean exact) {}
