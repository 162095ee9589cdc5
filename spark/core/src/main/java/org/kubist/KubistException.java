package org.kubist;

import java.nio.charset.StandardCharsets;

/** An error of the engine. Its kind says what the caller can do; its message has details. */
public final class KubistException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** Kinds of errors. The native library depends on the order of the constants. */
    public enum Kind {
        /** Fix the input and call again; nothing was written. */
        INVALID_INPUT,
        /** Stored bytes are damaged. */
        CORRUPT,
        /** The storage does not respond, or an operation failed: try again. */
        UNAVAILABLE,
        /** The disk or the quota is full: free space. */
        NO_SPACE,
        /** The user lacks permission. */
        PERMISSION,
        /** Another process holds it: wait, or use another name. */
        BUSY,
        /** The handle or snapshot is no longer valid: open a new one. */
        EXPIRED,
        /** The caller cancelled it. */
        CANCELLED,
        /** This version of Kubist, or this machine, does not support it. */
        UNSUPPORTED,
        /** There is no table at this location. */
        NOT_FOUND,
        /** Something already exists at this location. */
        EXISTS,
        /** A bug in Kubist: report it. */
        INTERNAL,
        /** Another table, or another history of this one from a backup, is at the location: open it again. */
        REPLACED,
        /** A partial copy does not hold the data: fetch it, or ask for less. */
        NOT_HERE
    }

    private final Kind kind;

    /**
     * An error of a kind.
     *
     * @param kind the kind
     * @param message the details
     */
    public KubistException(Kind kind, String message) {
        super(message);
        this.kind = kind;
    }

    KubistException(Kind kind, String message, Throwable cause) {
        super(message, cause);
        this.kind = kind;
    }

    /** Called by the native library. */
    static KubistException of(int kind, byte[] message) {
        Kind[] kinds = Kind.values();
        Kind known = kind >= 0 && kind < kinds.length ? kinds[kind] : Kind.INTERNAL;
        return new KubistException(known, new String(message, StandardCharsets.UTF_8));
    }

    /** {@return the kind of error} */
    public Kind kind() {
        return kind;
    }
}
