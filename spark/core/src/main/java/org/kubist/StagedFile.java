package org.kubist;

/** A file of rows that wait for a commit. */
public final class StagedFile extends Handle {
    StagedFile(long number) {
        super(number);
    }

    /**
     * Writes rows to the file.
     *
     * @param rows all columns of the table, in order
     */
    public void append(Rows rows) {
        rows.hand(array -> Native.stageAppend(number(), array));
    }

    /** Finishes and syncs the file. */
    public void finish() {
        Native.stageFinish(number());
    }
}
