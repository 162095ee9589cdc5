package org.kubist.cassandra;

import com.datastax.driver.core.Cluster;
import com.datastax.driver.core.Session;
import com.datastax.driver.core.policies.RoundRobinPolicy;
import com.datastax.driver.core.policies.WhiteListPolicy;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import javax.management.Attribute;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;
import org.junit.jupiter.api.Assumptions;

/** The running nodes with the jar, which scripts/cassandra_index.py starts, and calls of nodetool. */
final class Nodes implements AutoCloseable {
    final List<String> addresses;
    final Session session;
    private final Cluster cluster;

    /** Skips the test if there are no nodes. */
    Nodes(String keyspace) {
        this(named(), keyspace);
    }

    private static List<String> named() {
        String named = System.getProperty("nodes", "");
        Assumptions.assumeFalse(named.isEmpty() || named.startsWith("${"), "no nodes: make cassandra-index-test");
        return List.of(named.split(","));
    }

    Nodes(List<String> addresses, String keyspace) {
        this.addresses = addresses;
        // The first node coordinates, because the test stops others.
        cluster = Cluster.builder().addContactPoint(addresses.get(0)).withoutMetrics().withoutJMXReporting()
            .withLoadBalancingPolicy(new WhiteListPolicy(new RoundRobinPolicy(), List.of(new InetSocketAddress(addresses.get(0), 9042))))
            .build();
        cluster.getConfiguration().getSocketOptions().setReadTimeoutMillis(60_000);
        session = cluster.connect();
        session.execute("DROP KEYSPACE IF EXISTS " + keyspace);
        session.execute("CREATE KEYSPACE " + keyspace + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': "
            + addresses.size() + "}");
        session.execute("USE " + keyspace);
    }

    private interface Call<T> {
        T on(MBeanServerConnection server) throws Exception;
    }

    private static <T> T jmx(String address, Call<T> call) throws Exception {
        String[] numbers = address.split("\\.");
        int port = 7200 + 10 * Integer.parseInt(numbers[2]) + Integer.parseInt(numbers[3]);
        JMXServiceURL url = new JMXServiceURL("service:jmx:rmi:///jndi/rmi://127.0.0.1:" + port + "/jmxrmi");
        try (JMXConnector connector = JMXConnectorFactory.connect(url)) {
            return call.on(connector.getMBeanServerConnection());
        }
    }

    /** Calls an operation of a node's StorageService, as nodetool does. */
    private static void call(String address, String operation, Object[] arguments, String... types) throws Exception {
        jmx(address, server -> server.invoke(new ObjectName("org.apache.cassandra.db:type=StorageService"), operation, arguments, types));
    }

    /** Without hints, a node that was down keeps missing the writes. */
    void disableHints() throws Exception {
        for (String address : addresses)
            jmx(address, server -> {
                server.setAttribute(new ObjectName("org.apache.cassandra.db:type=StorageProxy"), new Attribute("HintedHandoffEnabled", false));
                return null;
            });
    }

    /** Stops or continues the process of a node. */
    void signal(String address, String signal) throws Exception {
        Path folder = Path.of(System.getProperty("home"), "node-" + address.substring(address.lastIndexOf('.') + 1));
        String pid = Files.readString(folder.resolve("pid")).trim();
        if (new ProcessBuilder("kill", "-" + signal, pid).start().waitFor() != 0) throw new IllegalStateException("no process " + pid);
    }

    private static final String STRING = "java.lang.String", STRINGS = "[Ljava.lang.String;";

    void flush(String keyspace, String table) throws Exception {
        for (String address : addresses)
            call(address, "forceKeyspaceFlush", new Object[] {keyspace, new String[] {table}}, STRING, STRINGS);
    }

    void compact(String keyspace, String table) throws Exception {
        for (String address : addresses)
            call(address, "forceKeyspaceCompaction", new Object[] {false, keyspace, new String[] {table}}, "boolean", STRING, STRINGS);
    }

    void rebuild(String keyspace, String table, String index) throws Exception {
        for (String address : addresses)
            call(address, "rebuildSecondaryIndex", new Object[] {keyspace, table, new String[] {index}}, STRING, STRING, STRINGS);
    }

    /** The data folders of a node. */
    String[] folders(String address) throws Exception {
        return jmx(address, server -> (String[]) server
            .getAttribute(new ObjectName("org.apache.cassandra.db:type=StorageService"), "AllDataFileLocations"));
    }

    @Override
    public void close() {
        cluster.close();
    }
}
