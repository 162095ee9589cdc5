package org.kubist.spark;

import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;
import org.kubist.Figure;
import org.kubist.Query;
import scala.Option;
import scala.Tuple3;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * {@code SELECT * FROM kubist_estimate(table, aggregates [, condition [, error]])}: figures with intervals, from the
 * smallest sample that reaches the error.
 *
 * <p>The table is a catalog table, a view, or a location. The driver computes the figures when the query runs.
 */
final class EstimateFunction extends AbstractFunction1<Seq<Expression>, LogicalPlan> {
    private static final String NAME = "kubist_estimate";
    private static final String USAGE = NAME + "(table, aggregates [, condition [, error]])";
    private static final StructType COLUMNS = StructType.fromDDL(
            "aggregate STRING NOT NULL, value DOUBLE, low DOUBLE, high DOUBLE, rows BIGINT NOT NULL, exact BOOLEAN NOT NULL");

    private EstimateFunction() {}

    static Tuple3<FunctionIdentifier, ExpressionInfo, scala.Function1<Seq<Expression>, LogicalPlan>> described() {
        ExpressionInfo info = new ExpressionInfo(
                EstimateFunction.class.getName(), null, NAME, USAGE + " - Figures of a table of Kubist with intervals.", "");
        return new Tuple3<>(new FunctionIdentifier(NAME), info, new EstimateFunction());
    }

    /** The request. By default all records are selected, and the error is 1 %. */
    private record Goal(Moment moment, String named, List<String> aggregates, String where, Double error) {
        String inWords() {
            return "kubist " + named + " Estimates: " + aggregates + (where == null ? "" : ", Where: " + where)
                    + (error == null ? "" : ", Error: " + error);
        }

        InternalRow[] rows() {
            Query query = where == null ? new Query() : new Query().where(where);
            List<InternalRow> rows = new ArrayList<>();
            for (Figure figure : moment.snapshot().estimate(aggregates, query, error)) {
                rows.add(new GenericInternalRow(new Object[] {
                    UTF8String.fromString(figure.aggregate()), figure.value(), figure.low(), figure.high(), figure.rows(),
                    figure.exact()
                }));
            }
            return rows.toArray(InternalRow[]::new);
        }
    }

    @Override
    public LogicalPlan apply(Seq<Expression> arguments) {
        List<Expression> said = CollectionConverters.asJava(arguments);
        if (said.size() < 2 || said.size() > 4) {
            throw Options.invalid("say " + USAGE);
        }
        String named = text(said, 0);
        List<String> aggregates = List.of(text(said, 1));
        String where = said.size() > 2 && value(said, 2) != null ? text(said, 2) : null;
        Double error = said.size() > 3 && value(said, 3) != null ? number(said, 3) : null;
        Goal goal = new Goal(moment(named), named, aggregates, where, error);
        return DataSourceV2Relation.create(new Figured(goal), Option.empty(), Option.empty());
    }

    private static Object value(List<Expression> said, int index) {
        if (!said.get(index).foldable()) {
            throw Options.invalid("argument " + (index + 1) + " of " + NAME + " is not a constant: say " + USAGE);
        }
        return said.get(index).eval(null);
    }

    private static String text(List<Expression> said, int index) {
        if (value(said, index) instanceof UTF8String text) {
            return text.toString();
        }
        throw Options.invalid("argument " + (index + 1) + " of " + NAME + " is not a string: say " + USAGE);
    }

    private static Double number(List<Expression> said, int index) {
        try {
            return Double.valueOf(value(said, index).toString());
        } catch (NumberFormatException error) {
            throw Options.invalid("argument " + (index + 1) + " of " + NAME + " is not a number: say " + USAGE);
        }
    }

    /** A name has a plan, which may be a view of a table; a location contains slashes. */
    private static Moment moment(String named) {
        if (named.contains("/")) {
            return Moment.of(named, null);
        }
        LogicalPlan plan = SparkSession.active().table(named).queryExecution().analyzed();
        while (plan instanceof SubqueryAlias || plan instanceof View) {
            plan = plan.children().head();
        }
        if (plan instanceof DataSourceV2Relation relation && relation.table() instanceof KubistTable table) {
            return table.moment();
        }
        throw Options.invalid(named + " is not a table of Kubist, and no view of all of one");
    }

    private record Figured(Goal goal) implements SupportsRead {
        @Override
        public String name() {
            return goal.inWords();
        }

        @Override
        @Deprecated
        public StructType schema() {
            return COLUMNS;
        }

        @Override
        public Set<TableCapability> capabilities() {
            return EnumSet.of(TableCapability.BATCH_READ);
        }

        @Override
        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap ignored) {
            return () -> new Answered(goal);
        }
    }

    private record Answered(Goal goal) implements LocalScan {
        @Override
        public StructType readSchema() {
            return COLUMNS;
        }

        @Override
        public String description() {
            return goal.inWords();
        }

        @Override
        public InternalRow[] rows() {
            return goal.rows();
        }
    }
}
