package org.kubist.suites;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import org.apache.spark.SparkConf;
import org.kubist.spark.KubistCatalog;

/** A Kubist catalog in place of the in-memory one of Spark's suites. */
final class Catalog {
    private Catalog() {}

    /**
     * Every suite has its own folder.
     *
     * @param dimension a column of the suite's tables, which declare none themselves
     */
    static SparkConf in(SparkConf session, String catalog, String dimension) {
        try {
            String key = "spark.sql.catalog." + catalog;
            return session.set(key, KubistCatalog.class.getName())
                    .set(key + ".location", Files.createTempDirectory("suite").toString())
                    .set(key + ".dimensions", dimension)
                    .set("spark.sql.extensions", "org.kubist.spark.KubistExtensions");
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
