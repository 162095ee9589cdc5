package org.kubist.suites;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.scalatest.Args$;
import org.scalatest.Reporter;
import org.scalatest.Suite;
import org.scalatest.events.TestFailed;
import org.scalatest.events.TestSucceeded;
import scala.Option;

/**
 * Spark's own suites for data sources and catalogs pass, except tests of features that Kubist lacks, which their error
 * identifies.
 */
class SparksOwnSuitesTest {
    /** The errors of tests that are expected to fail. */
    private static final List<String> ABSENT = List.of(
            // Tables are partitioned by their dimensions. (ScalaTest puts brackets where two texts differ.)
            "Kubist has no column partitions",
            "PARTITION_MANAGEMENT_IS_UNSUPPORTE",
            // A table without the column that the catalog's option names.
            "the dimension column ",
            // A namespace is a folder whose location the catalog decides.
            "a namespace is a folder of the catalog's, and keeps no ",
            // The suites' own catalog lists a missing namespace as empty; an error is allowed.
            "[SCHEMA_NOT_FOUND] The schema `dummy` cannot be found",
            // Spark prints the namespace without its catalog in this error.
            "Map(\"schemaName\" -> \"`nonexist`\") did not equal");
    /** The smallest number of passed tests, because a suite that does not run passes none. */
    private static final int LEAST_PASSED = 40;

    @TestFactory
    Stream<DynamicTest> suites() {
        List<Supplier<Suite>> suites = new ArrayList<>(CommandSuites.all());
        suites.add(InsertSuite::new);
        List<DynamicTest> tests = new ArrayList<>();
        int passed = 0;
        for (Supplier<Suite> suite : suites) {
            Map<String, String> outcomes = run(suite.get());
            passed += (int) outcomes.values().stream().filter(String::isEmpty).count();
            outcomes.forEach((name, failure) -> tests.add(DynamicTest.dynamicTest(name, () -> {
                boolean isAbsent = ABSENT.stream().anyMatch(failure::contains);
                assumeFalse(isAbsent, failure);
                assertEquals("", failure);
            })));
        }
        assertTrue(passed >= LEAST_PASSED, "only " + passed + " tests of Spark's passed");
        return tests.stream();
    }

    private static Map<String, String> run(Suite suite) {
        String prefix = suite.getClass().getSimpleName() + ": ";
        Map<String, String> outcomes = new TreeMap<>();
        Reporter reporter = event -> {
            if (event instanceof TestSucceeded passed) {
                outcomes.put(prefix + passed.testName(), "");
            } else if (event instanceof TestFailed failed) {
                outcomes.put(prefix + failed.testName(), failed.message());
            }
        };
        Args$ all = Args$.MODULE$;
        suite.run(Option.empty(), all.apply(
                        reporter, all.apply$default$2(), all.apply$default$3(), all.apply$default$4(), all.apply$default$5(),
                        all.apply$default$6(), all.apply$default$7(), all.apply$default$8(), all.apply$default$9(),
                        all.apply$default$10()))
                .waitUntilCompleted();
        return outcomes;
    }
}
