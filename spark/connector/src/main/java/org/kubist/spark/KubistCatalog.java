package org.kubist.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.kubist.Json;
import org.kubist.KubistException;

/**
 * Tables of one folder, or of one keyspace of a cluster, by their names: {@code
 * spark.sql.catalog.k=org.kubist.spark.KubistCatalog}, {@code spark.sql.catalog.k.location=folder}.
 */
public final class KubistCatalog implements TableCatalog {
    private static final String ENDING = ".kubist";

    private String name;
    private String root;
    /** Options for all tables, as that of seeds. */
    private final Map<String, String> shared = new HashMap<>();

    /** Spark makes it by its name. */
    public KubistCatalog() {}

    @Override
    public void initialize(String name, CaseInsensitiveStringMap options) {
        this.name = name;
        root = options.get("location");
        if (root == null) {
            throw Options.invalid("spark.sql.catalog." + name + ".location must say the folder of the tables");
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

    /** A table named {@code run} is the folder {@code run}, or {@code run.kubist}. */
    private String location(Identifier table) {
        String plain = root + "/" + table.name();
        boolean ends = isFolder() && !Files.exists(Path.of(plain)) && Files.exists(Path.of(plain + ENDING));
        return ends ? plain + ENDING : plain;
    }

    private Table load(Identifier identifier, String version) throws NoSuchTableException {
        if (identifier.namespace().length > 0) {
            throw new NoSuchTableException(identifier);
        }
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

    /** A moment by the token of a snapshot, or by the number of a step. */
    @Override
    public Table loadTable(Identifier identifier, String version) throws NoSuchTableException {
        return load(identifier, version);
    }

    @Override
    public Identifier[] listTables(String[] namespace) {
        if (!isFolder()) {
            throw new UnsupportedOperationException("tables of " + root + " cannot be listed: name them");
        }
        if (namespace.length > 0) {
            return new Identifier[0];
        }
        try (Stream<Path> inside = Files.list(Path.of(root))) {
            return inside.filter(path -> Files.isRegularFile(path.resolve("table")))
                    .map(path -> path.getFileName().toString())
                    .map(file -> file.endsWith(ENDING) ? file.substring(0, file.length() - ENDING.length()) : file)
                    .sorted()
                    .map(file -> Identifier.of(namespace, file))
                    .toArray(Identifier[]::new);
        } catch (IOException error) {
            throw new UncheckedIOException("cannot list " + root, error);
        }
    }

    @Override
    @Deprecated
    public Table createTable(
            Identifier identifier, StructType schema, Transform[] partitions, Map<String, String> properties)
            throws TableAlreadyExistsException {
        if (partitions.length > 0) {
            throw Options.invalid("Kubist has no partitions of columns: its dimensions divide the rows");
        }
        Map<String, String> options = new HashMap<>(properties);
        options.put("path", location(identifier));
        Options creating = new Options(options);
        if (!creating.creates()) {
            throw Options.invalid("say the dimensions: TBLPROPERTIES (dimensions = 'x,y')");
        }
        Map<String, Object> creation = new LinkedHashMap<>(creating.creation());
        creation.put("columns", KubistTable.columns(schema));
        try (org.kubist.Table made = org.kubist.Table.create(creating.location(), Json.write(creation))) {
            return KubistTable.open(new Options(Map.of("path", made.location())), null);
        } catch (KubistException error) {
            if (error.kind() == KubistException.Kind.EXISTS) {
                throw new TableAlreadyExistsException(identifier);
            }
            throw error;
        }
    }

    @Override
    public Table alterTable(Identifier identifier, TableChange... changes) {
        throw new UnsupportedOperationException("columns of " + identifier + " are added by kubist, not by Spark");
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
        throw new UnsupportedOperationException("a table of Kubist is renamed by moving its folder");
    }
}
