package org.kubist.cassandra;

import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32;

/**
 * The index component of an SSTable: priority, ordinals and primary key of each row.
 *
 * <p>Rows are in the order of the SSTable, in blocks of up to 4,096, so a query reads only from the block
 * where its page starts. A block has one array per column. Each block and the footer have a CRC-32. All
 * numbers are big-endian:
 *
 * <pre>
 * file:   magic, blocks, footer, offset of the footer (8), its length (4), its CRC (4), magic
 * block:  rows (4), partitions (4), bytes of clusterings (4),
 *         priorities (8 each), timestamps of points (8 each), ordinals by dimension (8 each),
 *         partition of each row (4 each), ends of clusterings (4 each), clusterings,
 *         ends of partition keys (4 each), partition keys
 * footer: definition of the index, lowest and highest timestamp of points, rows,
 *         and for each block: offset, length, CRC, rows, lowest and highest ordinals, first and last partition key
 * </pre>
 *
 * <p>The class is independent of Cassandra: keys and clusterings are bytes.
 */
final class PointFile implements Closeable {
    private static final byte[] MAGIC = "KubistC1".getBytes(StandardCharsets.US_ASCII);
    private static final int TAIL = 8 + 4 + 4 + MAGIC.length;
    static final int BLOCK_ROWS = 4096;
    private static final int BLOCK_BYTES = 1 << 20;

    /** The file is incomplete, damaged, or of another index, as the message says. */
    static final class Unusable extends IOException {
        Unusable(String message) {
            super(message);
        }
    }

    /** A block's description in the footer. */
    static final class Extent {
        long offset;
        int length, crc, rows;
        long[] minimum, maximum;
        /** A loose row can match any box. */
        boolean hasLoose;
        byte[] firstKey, lastKey;
    }

    final String definition;
    final List<Extent> extents;
    final long lowestTimestamp, highestTimestamp, rows;
    private final FileChannel channel;
    private final Path path;
    private final int dimensions;

    /** Opens a file and checks its footer. */
    PointFile(Path path, String definition, int dimensions) throws IOException {
        this.path = path;
        this.dimensions = dimensions;
        channel = FileChannel.open(path, StandardOpenOption.READ);
        try {
            long size = channel.size();
            if (size < MAGIC.length + TAIL) throw new Unusable(path + " is incomplete");
            ByteBuffer tail = read(size - TAIL, TAIL);
            long offset = tail.getLong();
            int length = tail.getInt(), crc = tail.getInt();
            byte[] magic = new byte[MAGIC.length];
            tail.get(magic);
            if (!java.util.Arrays.equals(magic, MAGIC)) throw new Unusable(path + " is incomplete");
            if (offset < 0 || length < 0 || offset + length != size - TAIL) throw new Unusable(path + ": damaged footer");
            ByteBuffer footer = read(offset, length);
            if (crc(footer) != crc) throw new Unusable(path + ": damaged footer");
            this.definition = new String(bytes(footer), StandardCharsets.UTF_8);
            if (!this.definition.equals(definition))
                throw new Unusable(path + " was written for the index " + this.definition + ", not " + definition);
            lowestTimestamp = footer.getLong();
            highestTimestamp = footer.getLong();
            rows = footer.getLong();
            int blocks = footer.getInt();
            extents = new ArrayList<>(blocks);
            for (int i = 0; i < blocks; i++) extents.add(extent(footer));
        } catch (BufferUnderflowException e) {
            channel.close();
            throw new Unusable(path + ": damaged footer");
        } catch (IOException e) {
            channel.close();
            throw e;
        }
    }

    private Extent extent(ByteBuffer footer) {
        Extent extent = new Extent();
        extent.offset = footer.getLong();
        extent.length = footer.getInt();
        extent.crc = footer.getInt();
        extent.rows = footer.getInt();
        extent.hasLoose = footer.get() != 0;
        extent.minimum = new long[dimensions];
        extent.maximum = new long[dimensions];
        for (int i = 0; i < dimensions; i++) {
            extent.minimum[i] = footer.getLong();
            extent.maximum[i] = footer.getLong();
        }
        extent.firstKey = bytes(footer);
        extent.lastKey = bytes(footer);
        return extent;
    }

    private static byte[] bytes(ByteBuffer from) {
        byte[] found = new byte[from.getInt()];
        from.get(found);
        return found;
    }

    private ByteBuffer read(long offset, int length) throws IOException {
        ByteBuffer buffer = ByteBuffer.allocate(length);
        while (buffer.hasRemaining())
            if (channel.read(buffer, offset + buffer.position()) < 0) throw new Unusable(path + " is incomplete");
        return buffer.flip();
    }

    private static int crc(ByteBuffer buffer) {
        CRC32 crc = new CRC32();
        crc.update(buffer.duplicate());
        return (int) crc.getValue();
    }

    /** Reads a block and checks its CRC. */
    Block block(Extent extent) throws IOException {
        ByteBuffer buffer = read(extent.offset, extent.length);
        if (crc(buffer) != extent.crc) throw new Unusable(path + ": damaged block at byte " + extent.offset);
        return new Block(buffer, dimensions);
    }

    void verify() throws IOException {
        for (Extent extent : extents) block(extent);
    }

    @Override
    public void close() {
        try {
            channel.close();
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    /** The rows of a block, by their number. */
    static final class Block {
        final int rows;
        private final ByteBuffer buffer;
        private final int timestamps, ordinals, partitions, clusteringEnds, clusterings, keyEnds, keys;

        private Block(ByteBuffer buffer, int dimensions) {
            this.buffer = buffer;
            rows = buffer.getInt(0);
            int keyCount = buffer.getInt(4), clusteringBytes = buffer.getInt(8);
            timestamps = 12 + 8 * rows;
            ordinals = timestamps + 8 * rows;
            partitions = ordinals + 8 * rows * dimensions;
            clusteringEnds = partitions + 4 * rows;
            clusterings = clusteringEnds + 4 * rows;
            keyEnds = clusterings + clusteringBytes;
            keys = keyEnds + 4 * keyCount;
        }

        long priority(int row) {
            return buffer.getLong(12 + 8 * row);
        }

        /** {@link Dimensions#LOOSE} for loose rows. */
        long timestamp(int row) {
            return buffer.getLong(timestamps + 8 * row);
        }

        long ordinal(int dimension, int row) {
            return buffer.getLong(ordinals + 8 * (dimension * rows + row));
        }

        int partition(int row) {
            return buffer.getInt(partitions + 4 * row);
        }

        ByteBuffer clustering(int row) {
            return slice(clusteringEnds, clusterings, row);
        }

        ByteBuffer key(int partition) {
            return slice(keyEnds, keys, partition);
        }

        private ByteBuffer slice(int ends, int from, int index) {
            int start = index == 0 ? 0 : buffer.getInt(ends + 4 * (index - 1));
            return buffer.slice(from + start, buffer.getInt(ends + 4 * index) - start);
        }
    }

    /** Writes a file, which appears at its path only when it is complete. */
    static final class Writer {
        private final Path path, temporary;
        private final int dimensions;
        private final String definition;
        private FileChannel channel;
        private long offset;
        private long lowestTimestamp = Long.MAX_VALUE, highestTimestamp = Long.MIN_VALUE, rows;
        private final List<Extent> extents = new ArrayList<>();

        private int count;
        private final long[] priorities = new long[BLOCK_ROWS], timestamps = new long[BLOCK_ROWS];
        private final long[][] ordinals;
        private final int[] partitions = new int[BLOCK_ROWS], clusteringEnds = new int[BLOCK_ROWS];
        private final ByteArrayOutputStream clusterings = new ByteArrayOutputStream();
        private final List<byte[]> keys = new ArrayList<>();
        private byte[] key;
        private boolean isNewKey;
        private int bytes;

        Writer(Path path, String definition, int dimensions) throws IOException {
            this.path = path;
            this.dimensions = dimensions;
            this.definition = definition;
            temporary = path.resolveSibling(path.getFileName() + ".tmp");
            ordinals = new long[dimensions][BLOCK_ROWS];
            channel = FileChannel.open(temporary, StandardOpenOption.CREATE, StandardOpenOption.WRITE,
                StandardOpenOption.TRUNCATE_EXISTING);
            write(ByteBuffer.wrap(MAGIC));
        }

        void partition(byte[] key) {
            this.key = key;
            isNewKey = true;
        }

        void row(long priority, long timestamp, long[] point, ByteBuffer clustering) throws IOException {
            if (isNewKey || count == 0) {
                keys.add(key);
                bytes += key.length;
                isNewKey = false;
            }
            priorities[count] = priority;
            timestamps[count] = timestamp;
            for (int i = 0; i < dimensions; i++) ordinals[i][count] = timestamp == Dimensions.LOOSE ? 0 : point[i];
            partitions[count] = keys.size() - 1;
            clusterings.write(clustering.array(), clustering.arrayOffset() + clustering.position(), clustering.remaining());
            clusteringEnds[count] = clusterings.size();
            bytes += clustering.remaining();
            count++;
            if (count == BLOCK_ROWS || bytes > BLOCK_BYTES) endBlock();
        }

        private void write(ByteBuffer buffer) throws IOException {
            while (buffer.hasRemaining()) offset += channel.write(buffer);
        }

        private void endBlock() throws IOException {
            if (count == 0) return;
            Extent extent = new Extent();
            extent.minimum = new long[dimensions];
            extent.maximum = new long[dimensions];
            java.util.Arrays.fill(extent.minimum, Long.MAX_VALUE);
            java.util.Arrays.fill(extent.maximum, Long.MIN_VALUE);
            int keyBytes = keys.stream().mapToInt(k -> k.length).sum();
            int length = 12 + count * (8 + 8 + 8 * dimensions + 4 + 4) + clusterings.size() + 4 * keys.size() + keyBytes;
            ByteBuffer buffer = ByteBuffer.allocate(length);
            buffer.putInt(count).putInt(keys.size()).putInt(clusterings.size());
            for (int row = 0; row < count; row++) buffer.putLong(priorities[row]);
            for (int row = 0; row < count; row++) {
                buffer.putLong(timestamps[row]);
                if (timestamps[row] == Dimensions.LOOSE) {
                    extent.hasLoose = true;
                } else {
                    lowestTimestamp = Math.min(lowestTimestamp, timestamps[row]);
                    highestTimestamp = Math.max(highestTimestamp, timestamps[row]);
                    for (int i = 0; i < dimensions; i++) {
                        extent.minimum[i] = Math.min(extent.minimum[i], ordinals[i][row]);
                        extent.maximum[i] = Math.max(extent.maximum[i], ordinals[i][row]);
                    }
                }
            }
            for (long[] column : ordinals) for (int row = 0; row < count; row++) buffer.putLong(column[row]);
            for (int row = 0; row < count; row++) buffer.putInt(partitions[row]);
            for (int row = 0; row < count; row++) buffer.putInt(clusteringEnds[row]);
            buffer.put(clusterings.toByteArray());
            int end = 0;
            for (byte[] each : keys) buffer.putInt(end += each.length);
            for (byte[] each : keys) buffer.put(each);
            buffer.flip();
            extent.offset = offset;
            extent.length = length;
            extent.crc = crc(buffer);
            extent.rows = count;
            extent.firstKey = keys.get(0);
            extent.lastKey = keys.get(keys.size() - 1);
            extents.add(extent);
            write(buffer);
            rows += count;
            count = bytes = 0;
            clusterings.reset();
            keys.clear();
        }

        void finish() throws IOException {
            endBlock();
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            try (DataOutputStream footer = new DataOutputStream(bytes)) {
                put(footer, definition.getBytes(StandardCharsets.UTF_8));
                footer.writeLong(lowestTimestamp);
                footer.writeLong(highestTimestamp);
                footer.writeLong(rows);
                footer.writeInt(extents.size());
                for (Extent extent : extents) {
                    footer.writeLong(extent.offset);
                    footer.writeInt(extent.length);
                    footer.writeInt(extent.crc);
                    footer.writeInt(extent.rows);
                    footer.writeBoolean(extent.hasLoose);
                    for (int i = 0; i < dimensions; i++) {
                        footer.writeLong(extent.minimum[i]);
                        footer.writeLong(extent.maximum[i]);
                    }
                    put(footer, extent.firstKey);
                    put(footer, extent.lastKey);
                }
            }
            ByteBuffer footer = ByteBuffer.wrap(bytes.toByteArray());
            ByteBuffer tail = ByteBuffer.allocate(TAIL);
            tail.putLong(offset).putInt(footer.remaining()).putInt(crc(footer)).put(MAGIC).flip();
            write(footer);
            write(tail);
            channel.force(true);
            channel.close();
            channel = null;
            Files.move(temporary, path, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        }

        private static void put(DataOutputStream out, byte[] bytes) throws IOException {
            out.writeInt(bytes.length);
            out.write(bytes);
        }

        /** Removes an unfinished file. Does nothing after {@link #finish}. */
        void abort() {
            if (channel == null) return;
            try {
                channel.close();
                Files.deleteIfExists(temporary);
            } catch (IOException e) {
                throw new java.io.UncheckedIOException(e);
            }
            channel = null;
        }
    }
}
