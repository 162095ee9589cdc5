package org.kubist.spark;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Sample;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Moves a sample below filters, projections and sorts of a table of Kubist, where Spark pushes it down.
 *
 * <p>A record is in a sample by its priority alone, so a sample of what a filter leaves is what the
 * filter leaves of a sample. Spark's own samples have no such law, and stay where they are.
 */
final class SampleBelow extends Rule<LogicalPlan> {
    @Override
    public LogicalPlan apply(LogicalPlan plan) {
        return (LogicalPlan) plan.transformDown(new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
            @Override
            public boolean isDefinedAt(LogicalPlan node) {
                return moves(node);
            }

            @Override
            public LogicalPlan apply(LogicalPlan node) {
                return moved((Sample) node);
            }
        });
    }

    private static boolean moves(LogicalPlan node) {
        return node instanceof Sample sample
                && !sample.withReplacement()
                && passes(sample.child())
                && isOfKubist(sample.child());
    }

    /** The child, with the sample below it. */
    private static LogicalPlan moved(Sample sample) {
        LogicalPlan child = sample.child();
        LogicalPlan below = child.children().head();
        LogicalPlan sampled = (LogicalPlan) sample.withNewChildren(CollectionConverters.asScala(List.of(below)).toSeq());
        return (LogicalPlan) child.withNewChildren(CollectionConverters.asScala(List.of(sampled)).toSeq());
    }

    private static boolean passes(LogicalPlan node) {
        boolean perRow = node instanceof Filter || node instanceof Project || node instanceof Sort;
        if (!perRow) {
            return false;
        }
        for (Expression expression : CollectionConverters.asJava(node.expressions())) {
            if (!expression.deterministic()) {
                return false;
            }
        }
        return true;
    }

    private static boolean isOfKubist(LogicalPlan plan) {
        LogicalPlan node = plan;
        while (passes(node)) {
            node = node.children().head();
        }
        return node instanceof DataSourceV2Relation relation
                && relation.table() instanceof KubistTable table
                && table.options().seed() != Options.Seed.REFUSE;
    }
}
