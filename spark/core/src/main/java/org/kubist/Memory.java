package org.kubist;

import java.lang.reflect.Field;
import sun.misc.Unsafe;

/** Memory outside the Java heap, by address. */
final class Memory {
    static final Unsafe UNSAFE = unsafe();
    static final long BYTES = Unsafe.ARRAY_BYTE_BASE_OFFSET;

    private Memory() {}

    private static Unsafe unsafe() {
        try {
            Field field = Unsafe.class.getDeclaredField("theUnsafe");
            field.setAccessible(true);
            return (Unsafe) field.get(null);
        } catch (ReflectiveOperationException error) {
            throw new KubistException(
                    KubistException.Kind.UNSUPPORTED, "this Java gives no access to memory: " + error, error);
        }
    }

    static byte[] bytes(long address, int length) {
        byte[] copy = new byte[length];
        UNSAFE.copyMemory(null, address, copy, BYTES, length);
        return copy;
    }
}
