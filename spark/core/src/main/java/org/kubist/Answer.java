package org.kubist;

import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;

/**
 * The batches of a question, as they come. One thread reads. An interrupt of it ends the call; closing
 * the answer stops the work.
 */
public final class Answer extends Handle {
    /** How long a call of the native half lasts at most: as soon is an interrupt noticed. */
    private static final int PATIENCE_MILLIS = 100;

    private final List<Field> fields;

    Answer(long number) {
        super(number);
        fields = Field.all(Json.read(Native.text(Native.columns(number))));
    }

    /**
     * The columns of the answer.
     *
     * @return in order
     */
    public List<Field> fields() {
        return fields;
    }

    /**
     * The next batch, which the caller closes.
     *
     * @return null at the end
     */
    public Batch next() {
        return next(() -> false);
    }

    /**
     * The same, until it is to stop.
     *
     * @param stopped asked some times a second
     * @return null at the end
     * @throws KubistException {@code CANCELLED} once the thread was interrupted, or {@code stopped} says so
     */
    public Batch next(BooleanSupplier stopped) {
        while (true) {
            if (Thread.currentThread().isInterrupted() || stopped.getAsBoolean()) {
                throw new KubistException(KubistException.Kind.CANCELLED, "reading was interrupted");
            }
            long array = Native.next(number(), PATIENCE_MILLIS);
            if (array >= 0) {
                return array == 0 ? null : new Batch(array, fields);
            }
        }
    }

    /**
     * What it cost so far: rows looked at, bytes read, by name.
     *
     * @return the figures
     */
    @SuppressWarnings("unchecked")
    public Map<String, Object> stats() {
        return (Map<String, Object>) Json.read(Native.text(Native.stats(number())));
    }
}
