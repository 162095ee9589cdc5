package org.kubist.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PointFileTest {
    private record Entry(String key, long priority, long timestamp, List<Long> point, String clustering) {}

    @TempDir Path folder;

    private static List<Entry> entries(int partitions, int rows, Random random) {
        List<Entry> entries = new ArrayList<>();
        for (int p = 0; p < partitions; p++)
            for (int r = 0; r < 1 + random.nextInt(rows); r++)
                entries.add(new Entry("key" + p, random.nextLong(), random.nextInt(5) == 0 ? Dimensions.LOOSE : random.nextLong(),
                    List.of(random.nextLong(), (long) random.nextInt(9)), "c".repeat(random.nextInt(9)) + r));
        return entries;
    }

    private static void write(Path path, List<Entry> entries) throws IOException {
        PointFile.Writer writer = new PointFile.Writer(path, "definition", 2);
        String last = null;
        for (Entry entry : entries) {
            if (!entry.key.equals(last)) writer.partition(entry.key.getBytes());
            last = entry.key;
            writer.row(entry.priority, entry.timestamp, new long[] {entry.point.get(0), entry.point.get(1)},
                ByteBuffer.wrap(entry.clustering.getBytes()));
        }
        writer.finish();
    }

    private static String text(ByteBuffer bytes) {
        byte[] own = new byte[bytes.remaining()];
        bytes.get(own);
        return new String(own);
    }

    private static List<Entry> read(Path path) throws IOException {
        List<Entry> found = new ArrayList<>();
        try (PointFile file = new PointFile(path, "definition", 2)) {
            for (PointFile.Extent extent : file.extents) {
                PointFile.Block block = file.block(extent);
                assertEquals(extent.rows, block.rows);
                for (int i = 0; i < block.rows; i++)
                    found.add(new Entry(text(block.key(block.partition(i))), block.priority(i), block.timestamp(i),
                        List.of(block.ordinal(0, i), block.ordinal(1, i)), text(block.clustering(i))));
            }
            assertEquals(file.rows, found.size());
        }
        return found;
    }

    private static List<Entry> withoutLoosePoints(List<Entry> entries) {
        return entries.stream().map(e -> e.timestamp != Dimensions.LOOSE ? e
            : new Entry(e.key, e.priority, e.timestamp, List.of(0L, 0L), e.clustering)).toList();
    }

    @Test
    void rowsComeBack() throws IOException {
        for (int[] size : new int[][] {{0, 1}, {1, 1}, {3000, 1}, {3, 9000}, {500, 60}}) {
            List<Entry> entries = entries(size[0], size[1], new Random(size[0]));
            Path path = folder.resolve("file");
            write(path, entries);
            assertEquals(withoutLoosePoints(entries), read(path));
        }
    }

    @Test
    void everyFlippedByteAndEveryCutIsNoticed() throws IOException {
        Path path = folder.resolve("file"), damaged = folder.resolve("damaged");
        write(path, entries(4, 4, new Random(1)));
        byte[] bytes = Files.readAllBytes(path);
        // The first eight bytes are for people; the same word at the end is checked.
        for (int at = 8; at < bytes.length; at++) {
            byte[] other = bytes.clone();
            other[at] ^= 1 << at % 8;
            Files.write(damaged, other);
            assertThrows(PointFile.Unusable.class, () -> read(damaged));
        }
        for (int length = 0; length < bytes.length; length++) {
            Files.write(damaged, java.util.Arrays.copyOf(bytes, length));
            assertThrows(PointFile.Unusable.class, () -> read(damaged));
        }
    }

    @Test
    void anotherDefinitionIsRefused() throws IOException {
        Path path = folder.resolve("file");
        write(path, entries(2, 2, new Random(1)));
        assertThrows(PointFile.Unusable.class, () -> new PointFile(path, "other", 2));
    }
}
