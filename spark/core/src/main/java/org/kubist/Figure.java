package org.kubist;

/**
 * An estimate with its interval.
 *
 * @param aggregate as it was asked for
 * @param value null where no record says anything about it
 * @param low the lower end of the interval; null where nothing bounds it
 * @param high the upper end; null where nothing bounds it
 * @param whole the value with all digits, as a whole number of its type's unit; null for floats
 * @param rows records that it was computed from
 * @param exact whether it is that of all records
 */
public record Figure(String aggregate, Double value, Double low, Double high, String whole, long rows, boolean exact) {}
