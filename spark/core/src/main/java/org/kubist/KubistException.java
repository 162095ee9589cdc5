package org.kubist;

import java.nio.charset.StandardCharsets;

/** A failure of the engine. Its kind says what the caller can do, its message what it is about. */
public final class KubistException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** What a caller can do about a failure. The native half knows the order of these constants. */
    public enum Kind {
        /** Fix the input and call again; nothing was written. */
        INVALID_INPUT,
        /** Stored bytes are not what was written. */
        CORRUPT,
        /** The storage does not answer, or an operation of it failed: try again. */
        UNAVAILABLE,
        /** The disk or the quota is full: make room. */
        NO_SPACE,
        /** Who runs this may not do that. */
        PERMISSION,
        /** Someone else holds it: wait, or use another name. */
        BUSY,
        /** A handle or a snapshot that cannot be used any more: take a fresh one. */
        EXPIRED,
        /** The caller stopped it. */
        CANCELLED,
        /** This version of Kubist, or this machine, cannot do it. */
        UNSUPPORTED,
        /** There is no table here. */
        NOT_FOUND,
        /** Something is already here. */
        EXISTS,
        /** A mistake in Kubist itself: report it. */
        INTERNAL,
        /** Another table, or another history of this one from a backup, is at the location: open it again. */
        REPLACED
    }

    private final Kind kind;

    /**
     * A failure of a kind.
     *
     * @param kind what the caller can do
     * @param message what it is about
     */
    public KubistException(Kind kind, String message) {
        super(message);
        this.kind = kind;
    }

    KubistException(Kind kind, String message, Throwable cause) {
        super(message, cause);
        this.kind = kind;
    }

    /** Called by the native half. */
    static KubistException of(int kind, byte[] message) {
        Kind[] kinds = Kind.values();
        Kind known = kind >= 0 && kind < kinds.length ? kinds[kind] : Kind.INTERNAL;
        return new KubistException(known, new String(message, StandardCharsets.UTF_8));
    }

    /**
     * What the caller can do.
     *
     * @return the kind
     */
    public Kind kind() {
        return kind;
    }
}
