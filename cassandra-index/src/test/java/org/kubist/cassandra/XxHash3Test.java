package org.kubist.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class XxHash3Test {
    /** Expected values are from the library xxhash 0.8.4; each hash is the seed of the next. */
    @Test
    void hashesOfAllLengthClassesEqualTheLibrary() {
        byte[] data = new byte[3000];
        for (int i = 0; i < data.length; i++) data[i] = (byte) (i * 2654435761L >>> 13);
        long[][] expected = {{0, 0xed1373acacbf3cbeL}, {1, 0x6b7f74ce4a159c8eL}, {-1, 0xc21df423e0f1b0f6L}};
        int[] long_ = {1023, 1024, 1025, 1088, 1089, 2047, 2048, 2049, 3000};
        for (long[] pair : expected) {
            long hash = pair[0];
            for (int length = 0; length < 600; length++) hash = XxHash3.hash(data, length, hash);
            for (int length : long_) hash = XxHash3.hash(data, length, hash);
            assertEquals(Long.toHexString(pair[1]), Long.toHexString(hash));
        }
    }
}
