package org.kubist;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** JSON for the native library; a JSON library could conflict with Spark's version. */
public final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /**
     * Parses JSON.
     *
     * @param text JSON
     * @return maps, lists, strings, {@code Long}, {@code Double}, booleans or null
     */
    public static Object read(String text) {
        Json json = new Json(text);
        Object value = json.value();
        json.blanks();
        if (json.at != text.length()) {
            throw json.wrong("the end");
        }
        return value;
    }

    /**
     * Writes a value as JSON. NaN and infinities are refused.
     *
     * @param value maps, lists, strings, numbers, booleans or null
     * @return JSON
     */
    public static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private static void write(Object value, StringBuilder out) {
        if (value == null || value instanceof Boolean) {
            out.append(value);
        } else if (value instanceof Double number && (number.isNaN() || number.isInfinite())) {
            throw new KubistException(KubistException.Kind.INVALID_INPUT, "JSON cannot represent " + number);
        } else if (value instanceof Number) {
            out.append(value);
        } else if (value instanceof Map<?, ?> map) {
            String between = "{";
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                out.append(between);
                write(entry.getKey().toString(), out);
                out.append(':');
                write(entry.getValue(), out);
                between = ",";
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Iterable<?> list) {
            String between = "[";
            for (Object item : list) {
                out.append(between);
                write(item, out);
                between = ",";
            }
            out.append(between.equals("[") ? "[]" : "]");
        } else {
            quote(value.toString(), out);
        }
    }

    private static void quote(String text, StringBuilder out) {
        out.append('"');
        for (char letter : text.toCharArray()) {
            if (letter == '"' || letter == '\\') {
                out.append('\\').append(letter);
            } else if (letter < ' ') {
                out.append(String.format("\\u%04x", (int) letter));
            } else {
                out.append(letter);
            }
        }
        out.append('"');
    }

    private KubistException wrong(String wanted) {
        return new KubistException(
                KubistException.Kind.INVALID_INPUT, "not JSON: " + wanted + " is missing at character " + at);
    }

    private void blanks() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private boolean take(String word) {
        if (text.startsWith(word, at)) {
            at += word.length();
            return true;
        }
        return false;
    }

    private Object value() {
        blanks();
        if (take("{")) {
            return map();
        }
        if (take("[")) {
            return list();
        }
        if (take("\"")) {
            return string();
        }
        if (take("true")) {
            return true;
        }
        if (take("false")) {
            return false;
        }
        return take("null") ? null : number();
    }

    private Map<String, Object> map() {
        Map<String, Object> map = new LinkedHashMap<>();
        blanks();
        if (take("}")) {
            return map;
        }
        do {
            blanks();
            if (!take("\"")) {
                throw wrong("a name");
            }
            String name = string();
            blanks();
            if (!take(":")) {
                throw wrong("a colon");
            }
            map.put(name, value());
            blanks();
        } while (take(","));
        if (!take("}")) {
            throw wrong("a closing brace");
        }
        return map;
    }

    private List<Object> list() {
        List<Object> list = new ArrayList<>();
        blanks();
        if (take("]")) {
            return list;
        }
        do {
            list.add(value());
            blanks();
        } while (take(","));
        if (!take("]")) {
            throw wrong("a closing bracket");
        }
        return list;
    }

    private String string() {
        StringBuilder out = new StringBuilder();
        while (at < text.length()) {
            char letter = text.charAt(at++);
            if (letter == '"') {
                return out.toString();
            }
            out.append(letter == '\\' ? escaped() : letter);
        }
        throw wrong("a closing quote");
    }

    private char escaped() {
        if (at >= text.length()) {
            throw wrong("a letter");
        }
        char letter = text.charAt(at++);
        int simple = "\"\\/bfnrt".indexOf(letter);
        if (simple >= 0) {
            return "\"\\/\b\f\n\r\t".charAt(simple);
        }
        if (letter != 'u' || at + 4 > text.length()) {
            throw wrong("an escape");
        }
        at += 4;
        try {
            return (char) Integer.parseInt(text.substring(at - 4, at), 16);
        } catch (NumberFormatException error) {
            throw wrong("four digits");
        }
    }

    private Object number() {
        int begin = at;
        while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        String digits = text.substring(begin, at);
        try {
            boolean whole = digits.chars().allMatch(digit -> digit == '-' || Character.isDigit(digit));
            // Integers of more than 63 bits become floats.
            boolean fits = whole && new BigInteger(digits).bitLength() < Long.SIZE;
            return fits ? (Object) Long.valueOf(digits) : (Object) Double.valueOf(digits);
        } catch (NumberFormatException error) {
            at = begin;
            throw wrong("a value");
        }
    }
}
