package org.kubist;

import java.lang.ref.Cleaner;
import java.util.concurrent.atomic.AtomicBoolean;

/** A native object, which Java's garbage collector closes if the program does not. */
abstract class Handle implements AutoCloseable {
    private static final Cleaner CLEANER = Cleaner.create();

    private static final class Number implements Runnable {
        final long value;
        private final AtomicBoolean closed = new AtomicBoolean();

        Number(long value) {
            this.value = value;
        }

        @Override
        public void run() {
            if (closed.compareAndSet(false, true)) {
                Native.close(value);
            }
        }
    }

    private final Number number;
    private final Cleaner.Cleanable cleanable;

    Handle(long value) {
        number = new Number(value);
        cleanable = CLEANER.register(this, number);
    }

    /** The number; the native library refuses a closed one. */
    final long number() {
        return number.value;
    }

    /** Frees the native object; repeated calls are allowed. */
    @Override
    public void close() {
        cleanable.clean();
    }
}
