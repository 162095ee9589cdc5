//! The table of aggregates; each has its own file. A test compares the rows with docs/estimates.md and
//! prints the expected text.

mod correlation;
mod count;
mod count_distinct;
mod covariance;
mod exact_sum;
mod extremes;
mod formula;
mod histogram;
mod mean;
mod quantile;
mod ratio;
mod share;
mod sum;
mod variance;
mod weighted_mean;

use arrow_schema::Schema;
use kubist_expr::{nearest, split};
use kubist_types::error::{Error, Result};

use crate::aggregate::{Bound, Definition};
use crate::call::Call;

const TABLE: [Definition; 13] = [
    count::DEFINITION,
    sum::DEFINITION,
    mean::DEFINITION,
    share::DEFINITION,
    variance::DEFINITION,
    extremes::DEFINITION,
    quantile::DEFINITION,
    histogram::DEFINITION,
    count_distinct::DEFINITION,
    ratio::DEFINITION,
    covariance::DEFINITION,
    correlation::DEFINITION,
    weighted_mean::DEFINITION,
];

pub fn bind(text: &str, schema: &Schema) -> Result<Bound> {
    let at_fault = |what: String| Error::invalid(format!("{text}: {what}"));
    let known = || TABLE.map(|definition| definition.listed).join(", ");
    let shape = || at_fault(format!("expected an aggregate like mean(x); known are {}", known()));
    let definition = |name: &str| {
        let name = name.to_ascii_lowercase();
        TABLE.into_iter().find(|definition| (definition.is_named)(&name))
    };
    let Some((name, arguments)) = only_call(text) else {
        let formula = formula::bind(text, schema, |name| definition(name).is_some()).map_err(at_fault)?;
        return formula.ok_or_else(shape);
    };
    let call = Call { name: name.to_ascii_lowercase(), arguments, schema };
    match definition(name) {
        Some(definition) => (definition.bind)(&call).map_err(at_fault),
        // A function of aggregates, such as sqrt(mean(x * x)).
        None => match formula::bind(text, schema, |name| definition(name).is_some()).map_err(at_fault)? {
            Some(formula) => Ok(formula),
            None => {
                let words = TABLE.iter().flat_map(|definition| definition.listed.split([',', ' ', '(', ')']));
                let near = nearest(name, words.filter(|word| definition(word).is_some()));
                let meant = near.first().map_or(String::new(), |near| format!("; did you mean {near}?"));
                Err(at_fault(format!("there is no aggregate {name:?}{meant}; known are {}", known())))
            }
        },
    }
}

fn only_call(text: &str) -> Option<(&str, Vec<&str>)> {
    let (name, rest) = text.trim().split_once('(')?;
    let arguments = split(rest.strip_suffix(')')?)?;
    let name = name.trim();
    let is_word = name.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '.'));
    is_word.then_some((name, arguments))
}

pub fn documentation() -> String {
    let row =
        |cells: [&str; 3]| format!("{} |\n", cells.map(|cell| format!("| {cell}")).join(" ").replace("|  ", "| "));
    let rows = TABLE.iter().map(|definition| row(definition.documented));
    let head = [row(["aggregate", "definition", "interval"]), row(["---"; 3])];
    head.into_iter().chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::{Accumulator, Pilot, Records, Rows, Shift};
    use crate::distribution::student;
    use crate::interval::{Conditions, Interval, bent};
    use arrow_schema::{DataType, Field};
    use kubist_population::Number;

    const EXACT: Conditions =
        Conditions { p: 1.0, alpha: 0.05, rows: None, frame: None, clustered: false, stratified: false, control: None };

    fn schema() -> Schema {
        Schema::new(vec![
            Field::new("x", DataType::Float32, true),
            Field::new("n", DataType::Int64, true),
            Field::new("on", DataType::Boolean, true),
            Field::new("name", DataType::Utf8, true),
        ])
    }

    fn refused(text: &str) -> String {
        bind(text, &schema()).unwrap_err().to_string()
    }

    fn accumulated(text: &str, values: &[&[f64]], shifts: &[f64], priorities: Option<&[u64]>) -> Box<dyn Accumulator> {
        let shifts: Vec<Shift> = shifts.iter().map(|by| Shift { by: *by, scale: 1.0 }).collect();
        accumulated_beside(text, values, &shifts, priorities)
    }

    fn accumulated_beside(
        text: &str,
        values: &[&[f64]],
        shifts: &[Shift],
        priorities: Option<&[u64]>,
    ) -> Box<dyn Accumulator> {
        let bound = bind(text, &schema()).unwrap();
        let ends = vec![Some((0.0, 1.0)); values.len()];
        let mut accumulator =
            bound.aggregate.accumulator(&Pilot { shifts, ends: &ends, positive: &[], clustered: false, groups: 1024 });
        let rows = values[0].len();
        let values = &values[..values.len().min(bound.arguments.len())];
        let features = bound.aggregate.features(values, shifts, rows);
        if let (Some(features), None) = (&features, priorities) {
            accumulator.add_totals(&features.iter().map(|feature| feature.iter().sum()).collect::<Vec<f64>>());
            return accumulator;
        }
        let features = features.as_ref().map_or(values.to_vec(), |made| made.iter().map(Vec::as_slice).collect());
        accumulator.add(&Records { features, wholes: None, distinct: None }, Rows::All(0..rows), priorities);
        accumulator
    }

    fn found(accumulator: &mut dyn Accumulator, conditions: &Conditions) -> Interval {
        accumulator.figures(conditions).remove(0).interval
    }

    #[test]
    fn the_documentation_repeats_the_table() {
        let (expected, found) = (documentation(), include_str!("../../../../docs/estimates.md"));
        assert!(found.contains(&format!("\n\n{expected}\n")), "docs/estimates.md should have this table:\n{expected}");
        for call in TABLE.iter().flat_map(|definition| definition.documented[0].split('`').skip(1).step_by(2)) {
            let name = call.split('(').next().unwrap();
            assert!(TABLE.iter().any(|definition| (definition.is_named)(name)), "{call} is documented, but unknown");
        }
    }

    #[test]
    fn a_name_is_of_one_aggregate() {
        let listed = TABLE.map(|definition| definition.listed).join(", ");
        let others = ["avg", "var", "stddev", "covar", "covariance", "correlation", "p5", "p99.9"];
        for name in listed.split([',', ' ', '(', ')']).chain(others).filter(|word| word.len() > 2) {
            let named = TABLE.iter().filter(|definition| (definition.is_named)(name)).count();
            let argument = ["any", "pNN", "bins", "bins_x", "bins_y"].contains(&name);
            assert_eq!(named, !argument as usize, "{name}");
        }
    }

    #[test]
    fn aggregates_are_understood() {
        for (text, expected, arguments) in [
            ("count()", "Count { of_all: true }", 0),
            ("count(*)", "Count { of_all: true }", 0),
            ("COUNT(x)", "Count { of_all: false }", 1),
            ("avg(x)", "Mean", 1),
            (" mean ( sqrt(x*x + n) )", "Mean", 1),
            ("mean(on)", "Share", 1),
            ("share(x > 2 AND name = 'a,(b')", "Share", 1),
            ("var(x)", "Variance { root: false }", 1),
            ("stddev(x)", "Variance { root: true }", 1),
            ("median(x)", "Quantile { share: 0.5, divisor: 1.0, values: Floats }", 1),
            ("p99.9(x)", "Quantile { share: 0.9990000000000001, divisor: 1.0, values: Floats }", 1),
            ("quantile(greatest(x, n), 0.25)", "Quantile { share: 0.25, divisor: 1.0, values: Floats }", 1),
            ("count(distinct name)", "CountDistinct", 0),
            ("ratio(n * x, n)", "Ratio", 2),
            ("covar(x, n)", "Covariance", 2),
            ("corr(x, n)", "Correlation", 2),
            ("weighted_mean(x, n)", "WeightedMean", 2),
            (
                "histogram(x, 5, 0, 1)",
                "Binned { bins: [Bins { count: 5, width: None, range: Some((0.0, 1.0)), form: Form { log: false, round: false } }] }",
                1,
            ),
            (
                "histogram2d(x, n, 4, 8)",
                "Binned { bins: [Bins { count: 4, width: None, range: None, form: Form { log: false, round: false } }, Bins { count: 8, width: None, range: None, form: Form { log: false, round: false } }] }",
                2,
            ),
        ] {
            let bound = bind(text, &schema()).unwrap();
            assert_eq!(format!("{:?}", bound.aggregate), expected, "{text}");
            assert_eq!(bound.arguments.len(), arguments, "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("x", "expected an aggregate like mean(x)"),
            ("mode(x)", "there is no aggregate \"mode\"; known are count, sum, mean (avg)"),
            ("stdev(x)", "did you mean stddev?"),
            ("agv(x)", "did you mean avg?"),
            ("mean(name)", "column `name` of type Utf8 is not a number"),
            ("mean(speed)", "no column `speed`"),
            ("mean(x, n)", "takes one argument, found 2"),
            ("mean()", "found 0"),
            ("quantile(x, 1.5)", "must be in [0, 1]"),
            ("quantile(x, high)", "is not a number"),
            ("p101(x)", "no aggregate"),
            ("histogram(x, 0)", "1 to 65536 bins"),
            ("histogram(x, 10, 1, 0)", "lower end must be below"),
            ("count_distinct(speed)", "no column `speed`"),
            ("share(x)", "needs a condition"),
            ("100 * share(x)", "needs a condition"),
            (&["sum(x)"; 33].join(" + "), "at most 32 aggregates"),
            ("mean(x))", "at character 8: `)` is not expected here"),
            ("mean(x) mean(n)", "at character 9: mean(n) is not expected here"),
            ("é + mean(x) 5", "at character 13: the number 5 is not expected here"),
            ("mean(x) + sum(n) 5", "at character 18: the number 5 is not expected here"),
            ("mean(x) +", "expected a value after `+` at character 10"),
            ("mean((x)", "a parenthesis is not closed"),
            ("mean x", "expected an aggregate"),
            ("mean(x) + median(x)", "median cannot be part of a formula: only sum, count, mean (avg) and share can"),
        ] {
            let message = refused(text);
            assert!(message.contains(part) && message.starts_with(text), "{text}: {message}");
        }
    }

    #[test]
    fn whole_populations_have_their_textbook_values() {
        let x: Vec<f64> = vec![1.0, 2.0, 4.0, 7.0, f64::NAN, 11.0];
        let y: Vec<f64> = vec![2.0, 1.0, 5.0, 8.0, 3.0, 9.0];
        let check = |text: &str, values: &[&[f64]], shifts: &[f64], expected: f64| {
            let interval = found(&mut *accumulated(text, values, shifts, None), &EXACT);
            assert!(interval.low == interval.high || (interval.high - interval.low).abs() < 1e-12, "{interval:?}");
            let value = interval.value.unwrap();
            assert!((value - expected).abs() < 1e-12, "{text}: {value} is not {expected}");
        };
        for shift in [0.0, 5.5] {
            check("count(x)", &[&x], &[shift], 5.0);
            check("sum(x)", &[&x], &[shift], 25.0);
            check("mean(x)", &[&x], &[shift], 5.0);
            check("variance(x)", &[&x], &[shift], 16.5);
            check("std(x)", &[&x], &[shift], 16.5f64.sqrt());
            check("min(x)", &[&x], &[shift], 1.0);
            check("max(x)", &[&x], &[shift], 11.0);
            check("2 * sum(x) / count(x) - mean(n)", &[&x, &y], &[shift; 2], 10.0 - 28.0 / 6.0);
            check("sum  (x) / count (x) + 0 * sum(x)", &[&x], &[shift], 5.0);
            check("ratio(x, n)", &[&x, &y], &[shift, shift], 1.0);
            check("cov(x, n)", &[&x, &y], &[shift, -shift], 13.5);
            check("corr(x, n)", &[&x, &y], &[shift, -shift], 13.5 / (16.5f64 * 12.5).sqrt());
            check("weighted_mean(x, n)", &[&x, &y], &[shift, -shift], 179.0 / 25.0);
        }
    }

    #[test]
    fn extreme_populations_have_the_values_of_plain_ones() {
        let plain: [&[f64]; 2] = [&[1.0, 2.0, -3.0, 1.75], &[3.0, -1.0, 2.0, 5.0]];
        for power in [1021, 600, 101, -101, -600, -1000] {
            // In two steps, because one power alone may not be representable.
            let size = |value: f64| value * 2f64.powi(power / 2) * 2f64.powi(power - power / 2);
            let values: Vec<Vec<f64>> = plain.iter().map(|values| values.iter().map(|v| size(*v)).collect()).collect();
            let values: Vec<&[f64]> = values.iter().map(Vec::as_slice).collect();
            let shift = |values: &[f64]| {
                let largest = values.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
                Shift::new(values[0] / 2.0, largest)
            };
            let shifts = [shift(values[0]), shift(values[1])];
            for (text, degree) in [
                ("mean(x)", 1),
                ("std(x)", 1),
                ("sum(x)", 1),
                ("corr(x, n)", 0),
                ("ratio(x, n)", 0),
                ("weighted_mean(x, n)", 1),
                ("mean(x) / mean(n)", 0),
            ] {
                let of = bind(text, &schema()).unwrap().arguments.len();
                let exact = |values: &[&[f64]], shifts: &[Shift]| {
                    found(&mut *accumulated_beside(text, &values[..of], &shifts[..of], None), &EXACT).value.unwrap()
                };
                let expected = exact(&plain, &[Shift::NONE; 2]);
                let expected = if degree == 1 { size(expected) } else { expected };
                let value = exact(&values, &shifts);
                assert!((value / expected - 1.0).abs() < 1e-12, "{text} of 2^{power}: {value} is not {expected}");
                let drawn = Conditions { p: 0.5, ..EXACT };
                let priorities = [0, 1, 2, 3];
                let accumulated = &mut *accumulated_beside(text, &values[..of], &shifts[..of], Some(&priorities));
                let interval = found(accumulated, &drawn);
                let is_bounded = interval.low.is_finite() && interval.high.is_finite();
                assert!(power > 1000 || is_bounded, "{text} of 2^{power}: {interval:?}");
            }
        }
    }

    #[test]
    fn gradients_are_derivatives() {
        let x = [1.0, 2.5, -4.0, 7.0, 3.0, 0.5];
        let y = [2.0, 1.0, 5.0, -8.0, 3.5, 9.0];
        let shifts = [0.3, -0.2];
        let linear: fn(f64) -> f64 = |value| value;
        for (text, scale) in [
            ("mean(x)", linear),
            ("variance(x)", f64::ln),
            ("ratio(x, n)", linear),
            ("cov(x, n)", linear),
            ("corr(x, n)", f64::atanh),
            ("weighted_mean(x, n)", linear),
            ("sum(x) / sum(n)", linear),
            ("mean(x) * mean(n) / 10", linear),
        ] {
            let both: [&[f64]; 2] = [&x, &y];
            let values = &both[..bind(text, &schema()).unwrap().arguments.len()];
            let alone: Vec<u64> = (0..6).collect();
            let error = {
                let conditions = Conditions { p: 1e-6, ..EXACT };
                let found = found(&mut *accumulated(text, values, &shifts, Some(&alone)), &conditions);
                let quantile = student(0.05, 5.0);
                (scale(found.high) - scale(found.low))
                    / (bent(quantile, found.skewness) - bent(-quantile, found.skewness))
            };
            // Infinitesimal jackknife: each record in turn weighs a little more.
            let value_with = |heavier: Option<usize>| {
                let rows: Vec<usize> =
                    (0..6).flat_map(|row| vec![row; if Some(row) == heavier { 10_001 } else { 10_000 }]).collect();
                let of = |values: &[f64]| rows.iter().map(|row| values[*row]).collect::<Vec<f64>>();
                let weighted: Vec<Vec<f64>> = values.iter().map(|values| of(values)).collect();
                let weighted: Vec<&[f64]> = weighted.iter().map(Vec::as_slice).collect();
                scale(found(&mut *accumulated(text, &weighted, &shifts, None), &EXACT).value.unwrap())
            };
            let squares: f64 = (0..6).map(|row| ((value_with(Some(row)) - value_with(None)) * 1e4).powi(2)).sum();
            let expected = (squares * 6.0 / 5.0).sqrt();
            let most = if text == "variance(x)" { 0.2 } else { 0.02 };
            assert!((error / expected - 1.0).abs() < most, "{text}: {error} is not {expected}");
        }
    }

    #[test]
    fn nothing_found_is_not_nothing_there() {
        let conditions = Conditions { p: 0.1, ..EXACT };
        let nothing = |text: &str, conditions: &Conditions| {
            found(&mut *accumulated(text, &[&[], &[]], &[0.0, 0.0], Some(&[])), conditions)
        };
        let count = nothing("count()", &conditions);
        assert_eq!((count.value, count.low), (Some(0.0), 0.0));
        assert!(count.high >= 35.0 && count.high < 37.0, "{count:?}");
        let clustered = Conditions { clustered: true, ..conditions };
        assert_eq!(nothing("count()", &clustered).high, f64::INFINITY);
        for text in ["mean(x)", "share(on)", "std(x)", "ratio(x, n)", "cov(x, n)", "corr(x, n)", "weighted_mean(x, n)"]
        {
            assert_eq!(nothing(text, &conditions), Interval::unknown(), "{text}");
        }
    }

    #[test]
    fn formulas_of_counted_records_are_exact() {
        let priorities: Vec<u64> = (0..20).collect();
        let mut sums = accumulated("count() / 1000", &[&[1.0; 20]], &[0.0], Some(&priorities));
        let sampled = found(&mut *sums, &Conditions { p: 0.1, ..EXACT });
        assert!(sampled.low < 0.2 && sampled.high > 0.2, "{sampled:?}");
        let counted = Conditions { p: 0.1, rows: Some(Number::exact(250)), ..EXACT };
        assert_eq!(found(&mut *sums, &counted), Interval::exact(0.25));
        let about = Conditions { p: 0.1, rows: Some(Number { rows: 250.0, error: 5.0 }), ..EXACT };
        let interval = found(&mut *sums, &about);
        let half = student(about.alpha, 19.0) * 0.005;
        assert!(interval.value == Some(0.25), "{interval:?}");
        assert!(
            (interval.low - 0.25 + half).abs() < 1e-6 && (interval.high - 0.25 - half).abs() < 1e-6,
            "{interval:?}"
        );
    }

    #[test]
    fn formulas_that_cannot_be_computed_say_why() {
        let mut sums = accumulated("CAST(sum(x) AS tinyint)", &[&[100.0, 100.0]], &[0.0], None);
        assert_eq!(found(&mut *sums, &EXACT), Interval::unknown());
        assert!(sums.remark(&EXACT).unwrap().contains("CAST: 200 does not fit Int8"));
    }

    #[test]
    fn weights_that_cancel_have_no_mean() {
        let mut sums = accumulated("weighted_mean(x, n)", &[&[1.0, 5.0], &[2.0, -2.0]], &[0.0, 0.0], None);
        assert_eq!(found(&mut *sums, &EXACT), Interval::unknown());
    }

    /// A constant sample gives no bounds unless something else bounds the other records.
    #[test]
    fn alike_values_bound_nothing() {
        let alike = [3.0; 50];
        let priorities: Vec<u64> = (0..50).collect();
        let conditions = Conditions { p: 0.1, ..EXACT };
        for (text, low) in [("std(x)", 0.0), ("weighted_mean(x, n)", f64::NEG_INFINITY)] {
            let mut sums = accumulated(text, &[&alike, &alike], &[3.0, 3.0], Some(&priorities));
            let interval = found(&mut *sums, &conditions);
            assert!(interval.constant, "{text}: {interval:?}");
            assert_eq!((interval.low, interval.high), (low, f64::INFINITY), "{text}");
        }
    }
}
