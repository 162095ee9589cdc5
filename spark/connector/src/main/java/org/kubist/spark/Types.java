package org.kubist.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.kubist.ColumnType;
import org.kubist.Field;
import org.kubist.KubistException;

/** Translates column types between Spark and Kubist. */
final class Types {
    private Types() {}

    static DataType ofSpark(ColumnType type) {
        return switch (type.kind()) {
            case BOOLEAN -> DataTypes.BooleanType;
            case INT8 -> DataTypes.ByteType;
            case INT16 -> DataTypes.ShortType;
            case INT32 -> DataTypes.IntegerType;
            case INT64 -> DataTypes.LongType;
            case FLOAT32 -> DataTypes.FloatType;
            case FLOAT64 -> DataTypes.DoubleType;
            case STRING -> DataTypes.StringType;
            case BINARY -> DataTypes.BinaryType;
            case DATE -> DataTypes.DateType;
            case TIMESTAMP -> DataTypes.TimestampType;
            case TIMESTAMP_NTZ -> DataTypes.TimestampNTZType;
            case DECIMAL -> DataTypes.createDecimalType(type.digits(), type.scale());
        };
    }

    /** The columns of a table; fails with the name of a column that has no Spark type. */
    static StructType schema(List<Field> fields) {
        List<StructField> columns = new ArrayList<>();
        for (Field field : fields) {
            if (field.type() == null) {
                throw new KubistException(
                        KubistException.Kind.UNSUPPORTED,
                        "column \"" + field.name() + "\": Spark has no type for " + field.stored());
            }
            columns.add(DataTypes.createStructField(field.name(), ofSpark(field.type()), field.nullable()));
        }
        return DataTypes.createStructType(columns);
    }

    /** The Kubist type of a new column. */
    static String stored(StructField field) {
        DataType type = field.dataType();
        if (type instanceof DecimalType decimal) {
            return "Decimal128(" + decimal.precision() + ", " + decimal.scale() + ")";
        }
        return switch (type.typeName()) {
            case "boolean" -> "bool";
            case "byte" -> "int8";
            case "short" -> "int16";
            case "integer" -> "int32";
            case "long" -> "int64";
            case "float" -> "float32";
            case "double" -> "float64";
            case "string" -> "string";
            case "binary" -> "binary";
            case "date" -> "date";
            case "timestamp" -> "Timestamp(\u00b5s, \"UTC\")";
            case "timestamp_ntz" -> "timestamp[us]";
            default -> throw new KubistException(
                    KubistException.Kind.UNSUPPORTED,
                    "column \"" + field.name() + "\": Kubist has no type for " + type.sql());
        };
    }
}
