package org.kubist;

import java.nio.charset.StandardCharsets;

/** The functions of the native library, crates/bindings/kubist-jni. Handles are numbers; 0 is none. */
final class Native {
    static {
        Library.load();
    }

    private Native() {}

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    static native void close(long handle);

    static native byte[] held();

    static native long tableCreate(byte[] location, byte[] options);

    static native byte[] unitNotes(long table);

    static native long tableOpen(byte[] location);

    static native void tableDrop(byte[] location);

    static native void declareWriters(long table, byte[] writers);

    static native void exchange(byte[] one, byte[] other);

    static native long snapshot(long table, byte[] moment);

    static native byte[] about(long snapshot);

    static native byte[] description(long snapshot);

    static native long query(long snapshot, byte[] spec);

    static native long count(long snapshot, byte[] spec);

    static native long expected(long snapshot, byte[] spec);

    static native byte[] estimate(long snapshot, byte[] goal);

    static native void check(long snapshot, byte[] condition);

    static native byte[] splits(long snapshot, byte[] spec, int parts);

    static native long readSplit(long table, byte[] split);

    static native byte[] columns(long answer);

    static native byte[] stats(long answer);

    static native long next(long answer, int millis);

    static native void release(long array);

    static native long releaser();

    static native long writerOpen(long table, byte[] options);

    static native void append(long writer, long array);

    static native void appendStaged(long writer, byte[] path);

    static native byte[] commit(long writer, byte[] options);

    static native void writerClose(long writer);

    static native long stage(long table, byte[] path);

    static native void stageAppend(long staged, long array);

    static native void stageFinish(long staged);
}
