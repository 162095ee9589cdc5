package org.kubist.spark;

import org.apache.spark.sql.SparkSessionExtensions;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * {@code spark.sql.extensions=org.kubist.spark.KubistExtensions}: pushes samples below filters, and adds
 * the function kubist_estimate.
 */
public final class KubistExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
    /** Spark creates it by name. */
    public KubistExtensions() {}

    @Override
    public BoxedUnit apply(SparkSessionExtensions extensions) {
        extensions.injectOptimizerRule(session -> new SampleBelow());
        extensions.injectTableFunction(EstimateFunction.described());
        return BoxedUnit.UNIT;
    }
}
