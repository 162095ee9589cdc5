//! Coverage: intervals contain the true value as often as they state.

use super::*;

/// Compares the number of 95 % intervals with the true value to binomial bounds, which fail with a
/// probability of 1 in 100,000.
fn holds(seeds: u64, steps: i64, identity: &[&str], options: &EstimateOptions, least: f64, most: f64, watched: bool) {
    let world = world(11, 20_000, steps);
    let mut truth = None;
    let (mut held, mut errors) = (0u32, Vec::new());
    for seed in 0..seeds {
        let snapshot = table(&world, identity, seed);
        let truth = *truth.get_or_insert_with(|| {
            let exact = EstimateOptions {
                query: Query { sample: Some(1.0), ..options.query.clone() },
                error: None,
                ..options.clone()
            };
            let exact = snapshot.estimate(&exact, &mut |_| {}).unwrap();
            assert!(exact.figures[0].exact);
            exact.figures[0].value.unwrap()
        });
        let estimates: Vec<Estimate> = match watched {
            true => snapshot.estimates(options).unwrap().map(Result::unwrap).collect(),
            false => vec![snapshot.estimate(options, &mut |_| {}).unwrap()],
        };
        let inside = |estimate: &Estimate| estimate.figures[0].low <= truth && truth <= estimate.figures[0].high;
        held += estimates.iter().all(inside) as u32;
        errors.push(estimates.last().unwrap().figures[0].value.unwrap() - truth);
    }
    let n = errors.len() as f64;
    let slack = 4.4 * (0.95 * 0.05 / n).sqrt();
    let share = held as f64 / n;
    let what = &options.aggregates[0];
    assert!(share >= least - slack && share <= most + slack, "{what}: {share} of {seeds} intervals hold the truth");
    let mean = errors.iter().sum::<f64>() / n;
    let deviation = (errors.iter().map(|error| (error - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    assert!(mean.abs() <= 4.4 * deviation / n.sqrt(), "{what}: errors of {mean} on average lean to a side");
}

fn sampled(aggregate: &str, sample: f64, filter: Option<&str>) -> EstimateOptions {
    let mut options = wish(&[aggregate]);
    options.query.sample = Some(sample);
    options.query.filter = filter.map(str::to_string);
    options
}

#[test]
fn intervals_hold_as_often_as_they_say() {
    for (aggregate, sample, filter) in [
        ("mean(value)", 0.02, None),
        ("sum(value)", 0.03, Some("kind < 4")),
        ("sum(x)", 0.03, None),
        ("count()", 0.02, Some("kind < 4")),
        ("mean(on)", 0.02, None),
        ("std(value)", 0.05, None),
        ("corr(x, value)", 0.05, None),
        ("covar(x, value)", 0.05, None),
        ("weighted_mean(value, x)", 0.03, Some("kind < 4")),
        ("median(value)", 0.02, None),
    ] {
        // Counts, proportions and quantiles are discrete, so their coverage may be higher.
        let most = if matches!(aggregate, "count()" | "mean(on)" | "median(value)") { 0.99 } else { 0.96 };
        holds(150, 10, &["row"], &sampled(aggregate, sample, filter), 0.94, most, false);
    }
}

#[test]
fn whole_trajectories_are_one_draw_each() {
    for aggregate in ["mean(value)", "sum(x)", "count()", "median(x)", "weighted_mean(value, x)"] {
        holds(150, 25, &["pid"], &sampled(aggregate, 0.15, Some("kind >= 0")), 0.93, 0.985, false);
    }
}

fn trajectories(value: impl Fn(f64) -> f64) -> World {
    let count = 400;
    let mut world = world(12, 10 * count, 10);
    let quantile = |pid: usize| Normal::standard().inverse_cdf((pid as f64 + 0.5) / count as f64);
    world.value = world.pid.iter().map(|pid| Some(value(quantile(*pid as usize)))).collect();
    world
}

fn held_and_warned(seeds: u64, world: &World, aggregate: &str, read: f64, warning: &str) -> (f64, f64) {
    let options = sampled(aggregate, read / 400.0, None);
    let exact = table(world, &["pid"], 0).estimate(&all(&[aggregate]), &mut |_| {}).unwrap();
    let truth = exact.figures[0].value.unwrap();
    let (mut held, mut warned) = (0, 0);
    for seed in 0..seeds {
        let estimate = table(world, &["pid"], seed).estimate(&options, &mut |_| {}).unwrap();
        let figure = &estimate.figures[0];
        held += (figure.low <= truth && truth <= figure.high) as u32;
        warned += estimate.warnings.iter().any(|found| found.contains(warning)) as u32;
    }
    (held as f64 / seeds as f64, warned as f64 / seeds as f64)
}

#[test]
fn few_trajectories_have_intervals_that_hold_or_a_warning() {
    let (normal, skewed) = (trajectories(|z| 10.0 + 3.0 * z), trajectories(f64::exp));
    for (world, aggregate) in
        [(&normal, "mean(value)"), (&normal, "std(value)"), (&skewed, "mean(value)"), (&skewed, "std(value)")]
    {
        let (_, warned) = held_and_warned(20, world, aggregate, 15.0, "fewer than 30 of `pid` were read: read more");
        assert_eq!(warned, 1.0, "{aggregate}");
        let (held, warned) = held_and_warned(300, world, aggregate, 35.0, "a few of `pid` decide it");
        assert!(held >= 0.935, "{aggregate}: {held}");
        let is_skewed = std::ptr::eq(world, &skewed);
        assert!(if is_skewed { warned > 0.6 } else { warned < 0.4 }, "{aggregate}: {warned} are warned of");
    }
    let (held, _) = held_and_warned(100, &normal, "p95(value)", 35.0, "");
    assert!(held >= 0.935, "p95(value): {held}");
    let grouped = EstimateOptions { group_by: vec!["pid % 2".into()], ..sampled("mean(value)", 0.05, None) };
    let estimate = table(&normal, &["pid"], 0).estimate(&grouped, &mut |_| {}).unwrap();
    assert_eq!(estimate.warnings, ["mean(value): fewer than 30 of `pid` were read in 2 groups: read more records"]);
}

#[test]
fn stopping_at_a_goal_or_at_will_spoils_nothing() {
    let goal = EstimateOptions { error: Some(0.02), ..wish(&["mean(value)"]) };
    holds(150, 10, &["row"], &goal, 0.93, 0.97, false);
    holds(150, 10, &["row"], &goal, 0.95, 1.0, true);
}

#[test]
fn intervals_of_parts_of_a_known_number_hold_as_often() {
    for aggregate in ["count()", "count(value)", "sum(value)"] {
        let mut goal = EstimateOptions { error: Some(0.03), ..wish(&[aggregate]) };
        goal.query.filter = Some("kind < 4".into());
        holds(150, 10, &["row"], &goal, 0.94, 0.99, false);
        holds(150, 10, &["pid"], &goal, 0.93, 0.99, false);
    }
    let goal = EstimateOptions { error: Some(0.03), group_by: vec!["kind < 4".into()], ..wish(&["sum(x)"]) };
    holds(150, 10, &["row"], &goal, 0.93, 0.98, false);
}

/// Some boundary runs give the number of rows in a box. Intervals have the coverage of a sample and read
/// less than half of its rows.
#[test]
fn the_number_in_a_box_comes_from_some_runs_at_its_edge() {
    let world = world(21, 150_000, 10);
    let inside = |row: usize| (0.05..=0.95).contains(&world.x[row]) && (0.1..=0.9).contains(&world.y[row]);
    let query = Query { bounds: bounds((0.05, 0.95), (0.1, 0.9)), ..Query::default() };
    let rows: Vec<usize> = (0..world.x.len()).filter(|row| inside(*row)).collect();
    let large = rows.iter().filter(|row| world.value[**row].is_some_and(|value| value > 4.0)).count() as f64;
    let sum = world.values(inside).iter().sum::<f64>();
    let of_kinds = |kinds: bool| rows.iter().filter(|row| (world.kind[**row] < 3) == kinds).count() as f64;
    let questions = [
        ("sum(value)", None, "", vec![sum], 0.5),
        ("count()", Some("value > 4"), "", vec![large], 0.6),
        ("2 * sum(value) + 10 * count()", None, "", vec![2.0 * sum + 10.0 * rows.len() as f64], 0.5),
        ("count()", None, "kind < 3", vec![of_kinds(false), of_kinds(true)], 0.8),
    ];
    let (seeds, error) = (60, 0.02);
    let mut held = vec![0; questions.len()];
    let (mut read, mut alone) = (vec![0; questions.len()], vec![0; questions.len()]);
    for seed in 0..seeds {
        let snapshot = table(&world, &["row"], seed);
        for (number, (aggregate, filter, group_by, truths, _)) in questions.iter().enumerate() {
            let filter = filter.map(str::to_string);
            let group_by = [*group_by].iter().filter(|by| !by.is_empty()).map(|by| by.to_string()).collect();
            let query = Query { filter, ..query.clone() };
            let options = EstimateOptions { error: Some(error), query, group_by, ..wish(&[aggregate]) };
            let found = snapshot.estimate(&options, &mut |_| {}).unwrap();
            assert_eq!((found.stopped, found.figures.len()), (Stop::Goal, truths.len()), "{aggregate}");
            for (figure, truth) in found.figures.iter().zip(truths) {
                assert!(!figure.exact && figure.high - figure.low <= 2.001 * error * truth * 1.1, "{figure:?} {truth}");
                held[number] += (figure.low <= *truth && *truth <= figure.high) as u64;
            }
            let window = Some((0.0, 0.9999));
            let options = EstimateOptions { query: Query { window, ..options.query.clone() }, ..options };
            read[number] += found.stats.rows_read;
            alone[number] += snapshot.estimate(&options, &mut |_| {}).unwrap().stats.rows_read;
        }
    }
    for (number, (aggregate, .., truths, most)) in questions.iter().enumerate() {
        let (tries, part) = ((seeds * truths.len() as u64) as f64, read[number] as f64 / alone[number] as f64);
        let share = held[number] as f64 / tries;
        // Binomial bound with a probability of 1 in 100,000; the second group is the complement of the first.
        let slack = 4.4 * (0.95 * 0.05 / seeds as f64).sqrt();
        assert!(share >= 0.94 - slack, "{aggregate}: {share} of the intervals hold the truth");
        assert!(part < *most, "{aggregate}: {part} of what a sample alone reads");
    }
}

#[test]
fn counts_under_conditions_are_those_of_all_records() {
    let mut world = world(22, 40_000, 10);
    for row in (0..world.x.len()).step_by(97) {
        world.x[row] = [f64::NAN, f64::INFINITY, -3.0, 7.0][row % 4];
    }
    let snapshot = table(&world, &["row"], 3);
    let (x, y) = (|row: usize| world.x[row], |row: usize| world.y[row]);
    let value = |row: usize| world.value[row].filter(|value| !value.is_nan());
    type Meets<'a> = Box<dyn Fn(usize) -> bool + 'a>;
    let conditions: Vec<(&str, Meets)> = vec![
        ("x < 0.3", Box::new(|row| x(row) < 0.3)),
        ("NOT (x > 0.31)", Box::new(|row| x(row) <= 0.31)),
        ("x BETWEEN 0.305 AND 0.7 AND y > 0.2", Box::new(|row| x(row) >= 0.305 && x(row) <= 0.7 && y(row) > 0.2)),
        ("x < 0.1 OR y < 0.1", Box::new(|row| x(row) < 0.1 || y(row) < 0.1)),
        ("x >= 0 AND x <= 1", Box::new(|row| x(row) >= 0.0 && x(row) <= 1.0)),
        ("x > 5", Box::new(|row| x(row) > 5.0)),
        ("x > 0.2 AND x > 2", Box::new(|row| x(row) > 2.0)),
        ("x * x < 0.1", Box::new(|row| x(row) * x(row) < 0.1)),
        ("row < 10000", Box::new(|row| row < 10_000)),
        ("row < 30000 AND x > 0.2", Box::new(|row| row < 30_000 && x(row) > 0.2)),
        ("value < 7 AND y < 0.9", Box::new(|row| value(row).is_some_and(|value| value < 7.0) && y(row) < 0.9)),
        ("kind IN (0, 4) AND x < 0.9", Box::new(|row| matches!(world.kind[row], 0 | 4) && x(row) < 0.9)),
        (
            "y > 0.5 AND (x < 0.3 OR value IS NULL)",
            Box::new(|row| y(row) > 0.5 && (x(row) < 0.3 || world.value[row].is_none())),
        ),
    ];
    for (condition, meets) in conditions {
        let truth = (0..world.x.len()).filter(|row| meets(*row)).count();
        let query = Query { filter: Some(condition.into()), ..Query::default() };
        assert_eq!(snapshot.count(&query).unwrap(), truth as u64, "{condition}");
        for error in [0.01, 0.1] {
            let options = EstimateOptions { error: Some(error), query: query.clone(), ..wish(&["count()", "sum(y)"]) };
            let found = snapshot.estimate(&options, &mut |_| {}).unwrap();
            let count = figure(&found, "count()");
            let away = (count.value.unwrap() - truth as f64).abs();
            assert!(away <= 2.5 * (count.high - count.low) / 2.0, "{condition} to {error}: {count:?} of {truth}");
            assert!(!count.exact || away == 0.0, "{condition} to {error}: {count:?} of {truth}");
        }
    }
}
