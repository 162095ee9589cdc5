package org.kubist.spark;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
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
 * Pushes a sample below filters, projections and sorts of a Kubist table, where Spark can push it down to
 * the table.
 *
 * <p>A record is in a sample by its priority alone, so samples and filters commute. This does not hold for
 * Spark's own samples, which stay in place.
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
        if (!(node instanceof Sample sample) || sample.withReplacement() || !passes(sample.child())) {
            return false;
        }
        KubistTable table = tableBelow(sample.child());
        return table != null
                && table.options().seed() != Options.Seed.REFUSE
                && !names(sample.child(), table.options().inclusion());
    }

    /** True if a node uses the column. A sample must not pass the inclusion column, which depends on it. */
    private static boolean names(LogicalPlan node, String column) {
        for (Expression expression : CollectionConverters.asJava(node.expressions())) {
            for (Attribute used : CollectionConverters.asJava(expression.references().toSeq())) {
                if (used.name().equals(column)) {
                    return true;
                }
            }
        }
        return false;
    }

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

    /** The Kubist table below nodes that a sample can pass; null if there is none. */
    private static KubistTable tableBelow(LogicalPlan plan) {
        LogicalPlan node = plan;
        while (passes(node)) {
            node = node.children().head();
        }
        boolean isOfKubist =
                node instanceof DataSourceV2Relation relation && relation.table() instanceof KubistTable;
        return isOfKubist ? (KubistTable) ((DataSourceV2Relation) node).table() : null;
    }
}
