package org.kubist.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.kubist.Json;
import org.kubist.KubistException;

/**
 * A catalog of the tables in a folder and its subfolders, or in a keyspace of a cluster: {@code
 * spark.sql.catalog.k=org.kubist.spark.KubistCatalog}, {@code spark.sql.catalog.k.location=folder}.
 */
public final class KubistCatalog implements TableCatalog, SupportsNamespaces {
    private static final String ENDING = ".kubist";

    private String name;
    private String root;
    /** Options of all tables, such as the meaning of seeds. */
    private final Map<String, String> shared = new HashMap<>();

    /** Spark creates it by name. */
    public KubistCatalog() {}

    @Override
    public void initialize(String name, CaseInsensitiveStringMap options) {
        this.name = name;
        root = options.get("location");
        if (root == null) {
            throw Options.invalid("spark.sql.catalog." + name + ".location must be set to the folder of the tables");
        }
        shared.putAll(options.asCaseSensitiveMap());
        shared.remove("location");
    }

    @Override
    public String name() {
        return name;
    }

    private boolean isFolder() {
        return !root.contains("://");
    }

    /** The folder of a namespace; fails if a name would lead out of the catalog. */
    private String folder(String[] namespace) {
        StringBuilder folder = new StringBuilder(root);
        for (String part : namespace) {
            folder.append('/').append(plain(part));
        }
        return folder.toString();
    }

    private static String plain(String name) {
        if (name.isEmpty() || name.equals(".") || name.equals("..") || name.contains("/")) {
            throw Options.invalid("\"" + name + "\" is not the name of a table or of a namespace");
        }
        return name;
    }

    /** A table {@code run} is the folder {@code run}, or {@code run.kubist}. */
    private String location(Identifier table) {
        String plain = folder(table.namespace()) + "/" + plain(table.name());
        boolean ends = isFolder() && !Files.exists(Path.of(plain)) && Files.exists(Path.of(plain + ENDING));
        return ends ? plain + ENDING : plain;
    }

    private Table load(Identifier identifier, String version) throws NoSuchTableException {
        Map<String, String> options = new HashMap<>(shared);
        options.put("path", location(identifier));
        if (version != null) {
            options.put("versionAsOf", version);
        }
        try {
            return KubistTable.open(new Options(options), null);
        } catch (KubistException error) {
            if (error.kind() == KubistException.Kind.NOT_FOUND) {
                throw new NoSuchTableException(identifier);
            }
            throw error;
        }
    }

    @Override
    public Table loadTable(Identifier identifier) throws NoSuchTableException {
        return load(identifier, null);
    }

    /** A snapshot by its token, or by the number of a step. */
    @Override
    public Table loadTable(Identifier identifier, String version) throws NoSuchTableException {
        return load(identifier, version);
    }

    /** Snapshots have no timestamps. */
    @Override
    public Table loadTable(Identifier identifier, long timestamp) {
        throw Options.timeless();
    }

    private static boolean isTable(Path folder) {
        return Files.isRegularFile(folder.resolve("table"));
    }

    /** The folders in a namespace: tables or namespaces. */
    private List<String> inside(String[] namespace, boolean tables) throws NoSuchNamespaceException {
        if (!isFolder()) {
            throw new UnsupportedOperationException("tables of " + root + " cannot be listed: name them");
        }
        Path folder = Path.of(folder(namespace));
        if (!Files.isDirectory(folder) || isTable(folder)) {
            throw new NoSuchNamespaceException(namespace);
        }
        try (Stream<Path> inside = Files.list(folder)) {
            return inside.filter(path -> Files.isDirectory(path) && isTable(path) == tables)
                    .map(path -> path.getFileName().toString())
                    .sorted()
                    .toList();
        } catch (IOException error) {
            throw new UncheckedIOException("cannot list " + folder, error);
        }
    }

    @Override
    public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
        return inside(namespace, true).stream()
                .map(file -> file.endsWith(ENDING) ? file.substring(0, file.length() - ENDING.length()) : file)
                .map(file -> Identifier.of(namespace, file))
                .toArray(Identifier[]::new);
    }

    @Override
    public String[][] listNamespaces() throws NoSuchNamespaceException {
        return isFolder() ? listNamespaces(new String[0]) : new String[0][];
    }

    @Override
    public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
        return inside(namespace, false).stream()
                .filter(name -> !name.endsWith(".staging"))
                .map(name -> Stream.concat(Stream.of(namespace), Stream.of(name)).toArray(String[]::new))
                .toArray(String[][]::new);
    }

    @Override
    public Map<String, String> loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
        String folder = folder(namespace);
        if (isFolder() ? !Files.isDirectory(Path.of(folder)) || isTable(Path.of(folder)) : namespace.length > 0) {
            throw new NoSuchNamespaceException(namespace);
        }
        return Map.of(SupportsNamespaces.PROP_LOCATION, folder);
    }

    @Override
    public void createNamespace(String[] namespace, Map<String, String> metadata) throws NamespaceAlreadyExistsException {
        if (!isFolder()) {
            throw new UnsupportedOperationException("a namespace is a folder, and " + root + " has none");
        }
        for (String property : metadata.keySet()) {
            // Spark always sets the owner.
            if (!property.equals(SupportsNamespaces.PROP_OWNER)) {
                throw new UnsupportedOperationException("a namespace is a folder of the catalog's, and keeps no " + property);
            }
        }
        Path folder = Path.of(folder(namespace));
        if (Files.exists(folder)) {
            throw new NamespaceAlreadyExistsException(namespace);
        }
        try {
            Files.createDirectories(folder);
        } catch (IOException error) {
            throw new UncheckedIOException("cannot make " + folder, error);
        }
    }

    @Override
    public void alterNamespace(String[] namespace, NamespaceChange... changes) {
        throw new UnsupportedOperationException("a namespace is a folder and has no properties");
    }

    /** With {@code cascade} its tables are dropped too; the folder stays if it has other files. */
    @Override
    public boolean dropNamespace(String[] namespace, boolean cascade)
            throws NoSuchNamespaceException, NonEmptyNamespaceException {
        if (cascade) {
            for (Identifier table : listTables(namespace)) {
                dropTable(table);
            }
            for (String[] inner : listNamespaces(namespace)) {
                dropNamespace(inner, true);
            }
        }
        Path folder = Path.of(folder(namespace));
        if (!isFolder() || !Files.isDirectory(folder)) {
            throw new NoSuchNamespaceException(namespace);
        }
        try {
            Files.delete(folder);
        } catch (DirectoryNotEmptyException error) {
            throw new NonEmptyNamespaceException(namespace);
        } catch (IOException error) {
            throw new UncheckedIOException("cannot remove " + folder, error);
        }
        return true;
    }

    @Override
    @Deprecated
    public Table createTable(
            Identifier identifier, StructType schema, Transform[] partitions, Map<String, String> properties)
            throws TableAlreadyExistsException {
        if (partitions.length > 0) {
            throw Options.invalid("Kubist has no column partitions: its dimensions partition the rows");
        }
        Map<String, String> options = new HashMap<>(shared);
        options.putAll(properties);
        // Only results have this column, not written rows.
        options.keySet().removeIf("inclusion"::equalsIgnoreCase);
        options.put("path", location(identifier));
        Options creating = new Options(options);
        if (!creating.creates()) {
            throw Options.invalid("set the dimensions: TBLPROPERTIES (dimensions = 'x,y')");
        }
        Map<String, Object> creation = new LinkedHashMap<>(creating.creation());
        creation.put("columns", KubistTable.columns(schema));
        try (org.kubist.Table made = org.kubist.Table.create(creating.location(), Json.write(creation))) {
            assert made.location().equals(creating.location());
            return KubistTable.open(creating, null);
        } catch (KubistException error) {
            if (error.kind() == KubistException.Kind.EXISTS) {
                throw new TableAlreadyExistsException(identifier);
            }
            throw error;
        }
    }

    @Override
    public Table alterTable(Identifier identifier, TableChange... changes) {
        throw new UnsupportedOperationException(
                "columns of " + identifier + " can be added with the kubist command, not with Spark");
    }

    @Override
    public boolean dropTable(Identifier identifier) {
        try {
            org.kubist.Table.drop(location(identifier));
            return true;
        } catch (KubistException error) {
            if (error.kind() == KubistException.Kind.NOT_FOUND) {
                return false;
            }
            throw error;
        }
    }

    @Override
    public void renameTable(Identifier from, Identifier to) {
        throw new UnsupportedOperationException("Spark cannot rename a Kubist table: move its folder");
    }
}
