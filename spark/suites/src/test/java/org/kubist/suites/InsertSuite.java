package org.kubist.suites;

import org.apache.spark.SparkConf;
import org.apache.spark.sql.DataFrameWriter;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.connector.InsertIntoTests;

/** INSERT INTO and INSERT OVERWRITE, by SQL and by DataFrames: what Spark asks of every source. */
public class InsertSuite extends InsertIntoTests {
    /** Partitions of columns, which dynamic overwrites replace, are none of Kubist's. */
    public InsertSuite() {
        super(false, true);
    }

    @Override
    public SparkConf sparkConf() {
        return Catalog.in(super.sparkConf(), "k", "id");
    }

    /** Spark's own catalog forgets its tables when a test ends. */
    @Override
    public void afterEach() {
        spark().sql("DROP TABLE IF EXISTS k.tbl");
        super.afterEach();
    }

    @Override
    public String catalogAndNamespace() {
        return "k.";
    }

    @Override
    public String v2Format() {
        return "kubist";
    }

    @Override
    public void doInsert(String table, Dataset<Row> rows, SaveMode mode) {
        DataFrameWriter<Row> writer = rows.write();
        (mode == null ? writer : writer.mode(mode)).insertInto(table);
    }

    @Override
    public void verifyTable(String table, Dataset<Row> expected) {
        checkAnswer(() -> spark().table(table), expected);
    }
}
