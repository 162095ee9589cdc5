package org.kubist;

import java.util.LinkedHashMap;
import java.util.Map;

/** Appends rows and commits them; closing drops uncommitted rows. */
public final class Writer extends Handle {
    Writer(long number) {
        super(number);
    }

    /**
     * Appends a copy of rows.
     *
     * @param rows all columns of the table, in order
     */
    public void append(Rows rows) {
        rows.hand(array -> Native.append(number(), array));
    }

    /**
     * Appends the rows of a file after {@link StagedFile#finish}.
     *
     * @param path of the file
     */
    public void appendStaged(String path) {
        Native.appendStaged(number(), Native.bytes(path));
    }

    /**
     * Commits the appended rows, which are then durable and become visible together.
     *
     * @param step of a simulation, or null; increases with each commit
     * @param token identifies the commit within this writer, so that a second commit does nothing; or null
     * @return the number of rows under {@code rows}; {@code repeated} if the token was already committed
     */
    @SuppressWarnings("unchecked")
    public Map<String, Object> commit(Long step, String token) {
        Map<String, Object> options = new LinkedHashMap<>();
        options.put("step", step);
        options.put("token", token);
        return (Map<String, Object>) Json.read(Native.text(Native.commit(number(), Native.bytes(Json.write(options)))));
    }

    /** Frees the name; uncommitted rows are dropped. */
    @Override
    public void close() {
        try {
            Native.writerClose(number());
        } catch (KubistException error) {
            if (error.kind() != KubistException.Kind.EXPIRED) {
                throw error;
            }
        } finally {
            super.close();
        }
    }
}
