package org.kubist;

/**
 * The Java type of a column's values.
 *
 * @param kind the kind of type
 * @param digits precision of a decimal
 * @param scale digits after the decimal point
 */
public record ColumnType(Kind kind, int digits, int scale) {
    /** The kinds of types. */
    public enum Kind {
        /** One bit. */
        BOOLEAN,
        /** 8-bit integer. */
        INT8,
        /** 16-bit integer. */
        INT16,
        /** 32-bit integer. */
        INT32,
        /** 64-bit integer. */
        INT64,
        /** 32-bit float. */
        FLOAT32,
        /** 64-bit float. */
        FLOAT64,
        /** UTF-8. */
        STRING,
        /** Bytes. */
        BINARY,
        /** Days since 1970. */
        DATE,
        /** Microseconds since 1970 UTC. */
        TIMESTAMP,
        /** Microseconds since 1970 of a clock without a time zone. */
        TIMESTAMP_NTZ,
        /** At most 38 digits, in 128 bits. */
        DECIMAL
    }

    /** Bytes of a value; 0 for booleans and types with offsets. */
    int width() {
        return switch (kind) {
            case BOOLEAN, STRING, BINARY -> 0;
            case INT8 -> 1;
            case INT16 -> 2;
            case INT32, FLOAT32, DATE -> 4;
            case INT64, FLOAT64, TIMESTAMP, TIMESTAMP_NTZ -> 8;
            case DECIMAL -> 16;
        };
    }

    static ColumnType of(String name) {
        if (name.startsWith("decimal(")) {
            String[] parts = name.substring("decimal(".length(), name.length() - 1).split(",");
            return new ColumnType(Kind.DECIMAL, Integer.parseInt(parts[0]), Integer.parseInt(parts[1]));
        }
        return new ColumnType(Kind.valueOf(name.toUpperCase(java.util.Locale.ROOT)), 0, 0);
    }
}
