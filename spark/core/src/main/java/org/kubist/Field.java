package org.kubist;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * A column of a table.
 *
 * @param name its name
 * @param type the Java type of its values; null if there is none
 * @param stored the name of its stored type
 * @param nullable true if it may have nulls
 * @param exact true if conditions have the same result on converted and stored values; nanoseconds lose
 * digits
 */
public record Field(String name, ColumnType type, String stored, boolean nullable, boolean exact) {
    static List<Field> all(Object said) {
        List<Field> fields = new ArrayList<>();
        for (Object item : (List<?>) said) {
            Map<?, ?> field = (Map<?, ?>) item;
            Object type = field.get("type");
            fields.add(new Field(
                    (String) field.get("name"),
                    type == null ? null : ColumnType.of((String) type),
                    (String) field.get("stored"),
                    (Boolean) field.get("nullable"),
                    (Boolean) field.get("exact")));
        }
        return List.copyOf(fields);
    }
}
