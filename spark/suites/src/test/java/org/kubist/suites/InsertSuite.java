package org.kubist.suites;

import org.apache.spark.SparkConf;
import org.apache.spark.sql.DataFrameWriter;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.connector.InsertIntoTests;

/** Spark's suite of INSERT INTO and INSERT OVERWRITE, by SQL and by DataFrames. */
public class InsertSuite extends InsertIntoTests {
    /** Kubist has no column partitions, which dynamic overwrites replace. */
    public InsertSuite() {
        super(false, true);
    }

    @Override
    public SparkConf sparkConf() {
        return Catalog.in(super.sparkConf(), "k", "id");
    }

    /** Spark's own catalog drops its tables at the end of a test. */
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
