package org.kubist;

import java.util.LinkedHashMap;
import java.util.Map;

/** Appends rows and commits them. Closing it drops what was not committed. */
public final class Writer extends Handle {
    Writer(long number) {
        super(number);
    }

    /**
     * Appends rows, which are copied.
     *
     * @param rows all columns of the table, in order
     */
    public void append(Rows rows) {
        rows.hand(array -> Native.append(number(), array));
    }

    /**
     * Appends the rows of a file that {@link StagedFile#finish} ended.
     *
     * @param path of the file
     */
    public void appendStaged(String path) {
        Native.appendStaged(number(), Native.bytes(path));
    }

    /**
     * Commits what was appended: it is durable, and visible as a whole.
     *
     * @param step of a simulation, or null; goes up with each commit
     * @param token names the commit within this writer, so that a second one does nothing; or null
     * @return how many rows, under {@code rows}; {@code repeated} if the token was known
     */
    @SuppressWarnings("unchecked")
    public Map<String, Object> commit(Long step, String token) {
        Map<String, Object> options = new LinkedHashMap<>();
        options.put("step", step);
        options.put("token", token);
        return (Map<String, Object>) Json.read(Native.text(Native.commit(number(), Native.bytes(Json.write(options)))));
    }

    /** Gives the name back; what was not committed is dropped. */
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
