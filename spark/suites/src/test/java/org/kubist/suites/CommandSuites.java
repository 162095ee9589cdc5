package org.kubist.suites;

import java.util.List;
import java.util.function.Supplier;
import org.apache.spark.SparkConf;
import org.apache.spark.sql.execution.command.v2.CreateNamespaceSuite;
import org.apache.spark.sql.execution.command.v2.DropNamespaceSuite;
import org.apache.spark.sql.execution.command.v2.DropTableSuite;
import org.apache.spark.sql.execution.command.v2.ShowNamespacesSuite;
import org.apache.spark.sql.execution.command.v2.ShowTablesSuite;
import org.scalatest.Suite;

/** Spark's suites of catalog commands for data source version 2, each with a Kubist catalog. */
final class CommandSuites {
    private static final String CATALOG = "test_catalog";

    private CommandSuites() {}

    static List<Supplier<Suite>> all() {
        return List.of(ShowTables::new, DropTable::new, CreateNamespace::new, DropNamespace::new, ShowNamespaces::new);
    }

    public static class ShowTables extends ShowTablesSuite {
        @Override
        public SparkConf sparkConf() {
            return Catalog.in(super.sparkConf(), CATALOG, "id");
        }
    }

    public static class DropTable extends DropTableSuite {
        @Override
        public SparkConf sparkConf() {
            return Catalog.in(super.sparkConf(), CATALOG, "c");
        }
    }

    public static class CreateNamespace extends CreateNamespaceSuite {
        @Override
        public SparkConf sparkConf() {
            return Catalog.in(super.sparkConf(), CATALOG, "id");
        }
    }

    public static class DropNamespace extends DropNamespaceSuite {
        @Override
        public SparkConf sparkConf() {
            return Catalog.in(super.sparkConf(), CATALOG, "id");
        }
    }

    public static class ShowNamespaces extends ShowNamespacesSuite {
        @Override
        public SparkConf sparkConf() {
            return Catalog.in(super.sparkConf(), CATALOG, "id");
        }
    }
}
