package org.kubist;

import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;

/** The batches of a query result, for one thread. An interrupt ends the call; closing stops the query. */
public final class Answer extends Handle {
    /** Longest native call, after which an interrupt is noticed. */
    private static final int PATIENCE_MILLIS = 100;

    private final List<Field> fields;

    Answer(long number) {
        super(number);
        fields = Field.all(Json.read(Native.text(Native.columns(number))));
    }

    /** {@return the columns of the result, in order} */
    public List<Field> fields() {
        return fields;
    }

    /** {@return the next batch, which the caller closes; null at the end} */
    public Batch next() {
        return next(() -> false);
    }

    /**
     * The next batch, unless {@code stopped} becomes true.
     *
     * @param stopped called several times a second
     * @return null at the end
     * @throws KubistException {@code CANCELLED} if the thread was interrupted or {@code stopped} returned
     * true
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

    /** {@return the cost so far by name: rows examined, bytes read} */
    @SuppressWarnings("unchecked")
    public Map<String, Object> stats() {
        return (Map<String, Object>) Json.read(Native.text(Native.stats(number())));
    }
}
