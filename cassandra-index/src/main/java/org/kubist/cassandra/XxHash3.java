package org.kubist.cassandra;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;

/** XXH3-64 with a seed (xxhash.com, specification 0.2), which Cassandra's own libraries lack. */
final class XxHash3 {
    private static final VarHandle LONG = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle INT = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);

    private static final long PRIME32_1 = 0x9E3779B1L, PRIME32_2 = 0x85EBCA77L, PRIME32_3 = 0xC2B2AE3DL;
    private static final long PRIME64_1 = 0x9E3779B185EBCA87L, PRIME64_2 = 0xC2B2AE3D27D4EB4FL;
    private static final long PRIME64_3 = 0x165667B19E3779F9L, PRIME64_4 = 0x85EBCA77C2B2AE63L;
    private static final long PRIME64_5 = 0x27D4EB2F165667C5L;
    private static final long PRIME_MX1 = 0x165667919E3779F9L, PRIME_MX2 = 0x9FB21C651E98DF25L;

    private static final int STRIPE = 64;
    /** Each stripe of a block starts 8 bytes further in the secret. */
    private static final int SECRET_STEP = 8;

    /** The default secret of the specification. */
    private static final byte[] SECRET = java.util.HexFormat.of().parseHex(
        "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
            + "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
            + "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
            + "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e");

    private XxHash3() {}

    static long hash(byte[] input, int length, long seed) {
        if (length <= 16) return upTo16(input, length, seed);
        if (length <= 128) return upTo128(input, length, seed);
        if (length <= 240) return upTo240(input, length, seed);
        return any(input, length, seed);
    }

    private static long longAt(byte[] bytes, int at) {
        return (long) LONG.get(bytes, at);
    }

    private static long intAt(byte[] bytes, int at) {
        return (int) INT.get(bytes, at) & 0xFFFFFFFFL;
    }

    private static long foldedProduct(long a, long b) {
        return a * b ^ Math.multiplyHigh(a, b) + (a >> 63 & b) + (b >> 63 & a);
    }

    private static long avalanche(long hash) {
        hash = (hash ^ hash >>> 37) * PRIME_MX1;
        return hash ^ hash >>> 32;
    }

    private static long avalanche64(long hash) {
        hash = (hash ^ hash >>> 33) * PRIME64_2;
        hash = (hash ^ hash >>> 29) * PRIME64_3;
        return hash ^ hash >>> 32;
    }

    private static long upTo16(byte[] input, int length, long seed) {
        if (length > 8) {
            long low = longAt(input, 0) ^ (longAt(SECRET, 24) ^ longAt(SECRET, 32)) + seed;
            long high = longAt(input, length - 8) ^ (longAt(SECRET, 40) ^ longAt(SECRET, 48)) - seed;
            return avalanche(length + Long.reverseBytes(low) + high + foldedProduct(low, high));
        }
        if (length >= 4) {
            long mixed = seed ^ (long) Integer.reverseBytes((int) seed) << 32;
            long word = intAt(input, length - 4) + (intAt(input, 0) << 32);
            long hash = word ^ (longAt(SECRET, 8) ^ longAt(SECRET, 16)) - mixed;
            hash ^= Long.rotateLeft(hash, 49) ^ Long.rotateLeft(hash, 24);
            hash *= PRIME_MX2;
            hash = (hash ^ (hash >>> 35) + length) * PRIME_MX2;
            return hash ^ hash >>> 28;
        }
        if (length > 0) {
            long word = (input[0] & 0xFFL) << 16 | (input[length >> 1] & 0xFFL) << 24 | input[length - 1] & 0xFFL
                | (long) length << 8;
            return avalanche64(word ^ (intAt(SECRET, 0) ^ intAt(SECRET, 4)) + seed);
        }
        return avalanche64(seed ^ longAt(SECRET, 56) ^ longAt(SECRET, 64));
    }

    private static long mix16(byte[] input, int at, int secret, long seed) {
        return foldedProduct(longAt(input, at) ^ longAt(SECRET, secret) + seed,
            longAt(input, at + 8) ^ longAt(SECRET, secret + 8) - seed);
    }

    private static long upTo128(byte[] input, int length, long seed) {
        long sum = length * PRIME64_1;
        for (int i = (length - 1) / 32; i >= 0; i--) {
            sum += mix16(input, 16 * i, 32 * i, seed);
            sum += mix16(input, length - 16 * (i + 1), 32 * i + 16, seed);
        }
        return avalanche(sum);
    }

    private static long upTo240(byte[] input, int length, long seed) {
        long sum = length * PRIME64_1;
        for (int i = 0; i < 8; i++) sum += mix16(input, 16 * i, 16 * i, seed);
        sum = avalanche(sum);
        for (int i = 8; i < length / 16; i++) sum += mix16(input, 16 * i, 16 * (i - 8) + 3, seed);
        sum += mix16(input, length - 16, 136 - 17, seed);
        return avalanche(sum);
    }

    private static long any(byte[] input, int length, long seed) {
        byte[] secret = SECRET;
        if (seed != 0) {
            secret = new byte[SECRET.length];
            for (int at = 0; at < SECRET.length; at += 16) {
                LONG.set(secret, at, longAt(SECRET, at) + seed);
                LONG.set(secret, at + 8, longAt(SECRET, at + 8) - seed);
            }
        }
        long[] sums = {PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1};
        int stripes = (SECRET.length - STRIPE) / SECRET_STEP;
        int block = STRIPE * stripes;
        int blocks = (length - 1) / block;
        for (int i = 0; i < blocks; i++) {
            for (int stripe = 0; stripe < stripes; stripe++)
                accumulate(sums, input, i * block + stripe * STRIPE, secret, stripe * SECRET_STEP);
            scramble(sums, secret, SECRET.length - STRIPE);
        }
        int rest = (length - 1 - blocks * block) / STRIPE;
        for (int stripe = 0; stripe < rest; stripe++)
            accumulate(sums, input, blocks * block + stripe * STRIPE, secret, stripe * SECRET_STEP);
        accumulate(sums, input, length - STRIPE, secret, SECRET.length - STRIPE - 7);
        long hash = length * PRIME64_1;
        for (int i = 0; i < 4; i++)
            hash += foldedProduct(sums[2 * i] ^ longAt(secret, 11 + 16 * i), sums[2 * i + 1] ^ longAt(secret, 19 + 16 * i));
        return avalanche(hash);
    }

    private static void accumulate(long[] sums, byte[] input, int at, byte[] secret, int secretAt) {
        for (int i = 0; i < 8; i++) {
            long word = longAt(input, at + 8 * i);
            long keyed = word ^ longAt(secret, secretAt + 8 * i);
            sums[i ^ 1] += word;
            sums[i] += (keyed & 0xFFFFFFFFL) * (keyed >>> 32);
        }
    }

    private static void scramble(long[] sums, byte[] secret, int secretAt) {
        for (int i = 0; i < 8; i++)
            sums[i] = (sums[i] ^ sums[i] >>> 47 ^ longAt(secret, secretAt + 8 * i)) * PRIME32_1;
    }
}
