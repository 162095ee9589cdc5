package org.kubist.bench;

import java.nio.file.Path;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;

/** One store of the comparison: how its rows are written and opened. */
interface Store {
    /** The name of its folder, or of its Iceberg table. */
    String name();

    /** Its name in result tables. */
    String title();

    /** Writes all rows of a source, in the store's best layout. */
    void write(Dataset<Row> source);

    /** Deletes the old files of a rewrite, with the rows in their first order. */
    default void tidy() {}

    Dataset<Row> open();

    /** The mean of the diameters, to 1 % where the store can estimate it. */
    default Dataset<Row> mean() {
        return open().agg(functions.avg("diameter"));
    }

    /** All stores in a folder. Files have about 100 MB of Parquet, as recommended for Spark. */
    static List<Store> all(SparkSession spark, Path folder, int files) {
        return List.of(
                new Kubist(spark, folder.resolve("kubist").toString()),
                new Parquet(spark, folder.resolve("parquet").toString(), files),
                new Delta(spark, folder.resolve("delta").toString()),
                new Iceberg(spark));
    }

    record Kubist(SparkSession spark, String location) implements Store {
        @Override
        public String name() {
            return "kubist";
        }

        @Override
        public String title() {
            return "Kubist";
        }

        @Override
        public void write(Dataset<Row> source) {
            source.write().format("kubist").option("dimensions", "x,y,z").option("identity", "pid").mode("append").save(location);
        }

        @Override
        public Dataset<Row> open() {
            return spark.read().format("kubist").load(location);
        }

        @Override
        public Dataset<Row> mean() {
            return spark.sql("SELECT value FROM kubist_estimate('" + location + "', 'mean(diameter)', NULL, 0.01)");
        }
    }

    /** Parquet files, sorted along a Morton curve. */
    record Parquet(SparkSession spark, String location, int files) implements Store {
        @Override
        public String name() {
            return "parquet";
        }

        @Override
        public String title() {
            return "Parquet, sorted";
        }

        @Override
        public void write(Dataset<Row> source) {
            source.withColumn("key", Particles.mortonKey())
                    .repartitionByRange(files, functions.col("key"))
                    .sortWithinPartitions("key")
                    .drop("key")
                    .write()
                    .parquet(location);
        }

        @Override
        public Dataset<Row> open() {
            return spark.read().parquet(location);
        }
    }

    /** A Delta table, rewritten in Z-order. */
    record Delta(SparkSession spark, String location) implements Store {
        @Override
        public String name() {
            return "delta";
        }

        @Override
        public String title() {
            return "Delta, z-order";
        }

        @Override
        public void write(Dataset<Row> source) {
            source.write().format("delta").save(location);
            spark.sql("OPTIMIZE delta.`" + location + "` ZORDER BY (x, y, z)").collectAsList();
        }

        @Override
        public void tidy() {
            spark.sql("VACUUM delta.`" + location + "` RETAIN 0 HOURS").collectAsList();
        }

        @Override
        public Dataset<Row> open() {
            return spark.read().format("delta").load(location);
        }
    }

    /** An Iceberg table, rewritten in Z-order. */
    record Iceberg(SparkSession spark) implements Store {
        @Override
        public String name() {
            return "iceberg";
        }

        @Override
        public String title() {
            return "Iceberg, z-order";
        }

        @Override
        public void write(Dataset<Row> source) {
            source.writeTo("iceberg.bench.particles").using("iceberg").createOrReplace();
            spark.sql("CALL iceberg.system.rewrite_data_files(table => 'bench.particles', strategy => 'sort',"
                            + " sort_order => 'zorder(x, y, z)', options => map('rewrite-all', 'true',"
                            + " 'target-file-size-bytes', '67108864', 'max-file-group-size-bytes', '1099511627776'))")
                    .collectAsList();
        }

        @Override
        public void tidy() {
            spark.sql("CALL iceberg.system.expire_snapshots(table => 'bench.particles',"
                            + " older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)")
                    .collectAsList();
        }

        @Override
        public Dataset<Row> open() {
            return spark.table("iceberg.bench.particles");
        }
    }
}
