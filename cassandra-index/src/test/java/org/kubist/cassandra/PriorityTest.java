package org.kubist.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.BooleanType;
import org.apache.cassandra.db.marshal.ByteType;
import org.apache.cassandra.db.marshal.ByteBufferAccessor;
import org.apache.cassandra.db.marshal.BytesType;
import org.apache.cassandra.db.marshal.CompositeType;
import org.apache.cassandra.db.marshal.DoubleType;
import org.apache.cassandra.db.marshal.FloatType;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.LongType;
import org.apache.cassandra.db.marshal.ReversedType;
import org.apache.cassandra.db.marshal.ShortType;
import org.apache.cassandra.db.marshal.SimpleDateType;
import org.apache.cassandra.db.marshal.TimestampType;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

class PriorityTest {
    @BeforeAll
    static void configure() {
        DatabaseDescriptor.clientInitialization();
    }

    /** The priorities in the tests of the Rust engine. */
    private static List<String> vectors() throws Exception {
        List<String> found = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(System.getProperty("vectors"))))
            if (!line.startsWith("#")) found.add(line.split(" ")[0]);
        return found;
    }

    private static String priority(long seed, AbstractType<?> type, ByteBuffer value) {
        TableMetadata table = TableMetadata.builder("k", "t").partitioner(Murmur3Partitioner.instance)
            .addPartitionKeyColumn("a", type).build();
        return hex(new Priority(table, seed).ofPartition(value));
    }

    private static String hex(long value) {
        return String.format("%016x", value);
    }

    @Test
    void prioritiesEqualThoseOfKubistTables() throws Exception {
        List<String> expected = vectors();
        ByteBuffer answer = Int32Type.instance.decompose(42), quarter = FloatType.instance.decompose(0.25f);
        assertEquals(expected.get(1), priority(0, Int32Type.instance, answer));
        assertEquals(expected.get(2), priority(1, Int32Type.instance, answer));
        assertEquals(expected.get(5), priority(7, UTF8Type.instance, UTF8Type.instance.decompose("droplet")));
        assertEquals(expected.get(7), priority(0, BooleanType.instance, BooleanType.instance.decompose(true)));
        assertEquals(expected.get(9), priority(0, DoubleType.instance, DoubleType.instance.decompose(Double.NaN)));
        assertEquals(expected.get(10), priority(7, BytesType.instance, UTF8Type.instance.decompose("droplet")));
        assertEquals(expected.get(11),
            priority(0, SimpleDateType.instance, SimpleDateType.instance.decompose(19_000 + Integer.MIN_VALUE)));
        assertEquals(expected.get(12), priority(0, TimestampType.instance, LongType.instance.decompose(1_700_000_000_000L)));

        TableMetadata wide = TableMetadata.builder("k", "t").partitioner(Murmur3Partitioner.instance)
            .addPartitionKeyColumn("a", Int32Type.instance)
            .addClusteringColumn("b", ReversedType.getInstance(FloatType.instance)).build();
        Priority priority = new Priority(wide, 0);
        assertEquals(expected.get(3), hex(priority.ofRow(priority.ofPartition(answer), Clustering.make(quarter))));

        TableMetadata composite = TableMetadata.builder("k", "t").partitioner(Murmur3Partitioner.instance)
            .addPartitionKeyColumn("b", FloatType.instance).addPartitionKeyColumn("a", Int32Type.instance).build();
        ByteBuffer key = CompositeType.build(ByteBufferAccessor.instance, quarter.duplicate(), answer.duplicate());
        assertEquals(expected.get(4), hex(new Priority(composite, 0).ofPartition(key)));
    }

    @Test
    void typesOfEqualValuesHaveOnePriority() {
        String wide = priority(3, LongType.instance, LongType.instance.decompose(-7L));
        assertEquals(wide, priority(3, ShortType.instance, ShortType.instance.decompose((short) -7)));
        assertEquals(wide, priority(3, ByteType.instance, ByteType.instance.decompose((byte) -7)));
        assertEquals(priority(3, DoubleType.instance, DoubleType.instance.decompose(0.0)),
            priority(3, FloatType.instance, FloatType.instance.decompose(-0.0f)));
    }
}
