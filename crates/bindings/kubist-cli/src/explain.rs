//! `kubist explain`: the plan of a query and the time per stage.

use std::fmt::Write as _;
use std::path::Path;

use kubist::{Cancel, Explanation, Query, RequestTimes, RunOptions, Stats, Table};
use kubist_plot::{Chart, Color, Scale, Series};
use serde_json::json;

use crate::cost::cost;
use crate::external::output_of;
use crate::failure::{Failure, Result};
use crate::output::{PendingFile, print, print_json};
use crate::{args, human, index, model, picture};

/// Name, colour, start and end of a request's stage.
type Stage = (&'static str, Color, fn(&RequestTimes) -> f64, fn(&RequestTimes) -> f64);

const STAGES: [Stage; 4] = [
    ("planned", [186, 196, 222], |_| 0.0, |request| request.asked),
    ("queued", [230, 120, 20], |request| request.asked, |request| request.sent),
    ("in the store", [31, 119, 180], |request| request.sent, |request| request.answered),
    ("decoded", [44, 140, 60], |request| request.answered, |request| request.decoded),
];

/// Uncounted runs before the run to compare with a prediction.
const LOADS: usize = 3;

pub fn run(command: &args::Explain, cancel: &Cancel) -> Result<()> {
    if kubist_blocks::is_array_file(Path::new(&*command.table)) {
        return index::explain(command, cancel);
    }
    let fitted = command.fit.as_deref().map(model::read).transpose()?;
    let picture = command.plot.as_deref().map(PendingFile::create).transpose()?;
    let snapshot = Table::open(&command.table)?.snapshot()?;
    let query = RunOptions::with_cancel(cancel).of(command.query.spec(&snapshot.schema())?);
    let plan = snapshot.plan(&query)?;
    if !command.json {
        print(&format!("{plan}\n\n"))?;
    }
    // The prediction is for decoded data in memory.
    for _ in 0..if command.predict { LOADS } else { 0 } {
        snapshot.plan(&query)?.explain(None)?;
    }
    let explanation = plan.explain(fitted.as_ref())?;
    if let Some(picture) = picture {
        let title = format!("{} of {}", human::counted(explanation.stats.rows_returned, "record"), command.table);
        picture::write_charts(&[stages(&explanation)], &title, picture, cancel)?;
    }
    let expected = match command.predict {
        true => Some(expected(&command.table, &query.spec, &explanation.stats, cancel)?),
        false => None,
    };
    if command.json {
        return print_json(&Report { explanation: &explanation, expected });
    }
    let mut page = page(&explanation);
    if let Some(expected) = expected {
        let interval = format!("{} to {}", human::duration(expected.low), human::duration(expected.high));
        let seconds = human::duration(expected.seconds);
        let _ = writeln!(page, "{:<14}{seconds} ({interval}); it took {:+.0} %", "expected", 100.0 * expected.error);
    }
    print(&page)
}

#[derive(serde::Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    explanation: &'a Explanation,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<Expected>,
}

/// Seconds on this machine, and an interval for 95 % of single runs.
#[derive(serde::Serialize, serde::Deserialize)]
struct Expected {
    seconds: f64,
    low: f64,
    high: f64,
    /// 0.1 means that the query took 10 % longer than predicted.
    error: f64,
}

/// Calls the Python package, which measures this machine.
fn expected(table: &str, query: &Query, stats: &Stats, cancel: &Cancel) -> Result<Expected> {
    let asked = json!({ "table": table, "question": query, "stats": stats });
    let answer = output_of("a prediction", "kubist._speed_command", &asked, cancel)?;
    serde_json::from_str(&answer).map_err(|error| Failure::usage(format!("kubist._speed_command: {error}")))
}

fn page(explanation: &Explanation) -> String {
    let Explanation { stats, fraction, stages, traffic, predicted, .. } = explanation;
    let mut page = cost(stats, *fraction) + "\n";
    let mut line = |name: &str, text: String| {
        let _ = writeln!(page, "{name:<14}{}", kubist_types::shown::printable(&text));
    };
    let each = |seconds: f64| match stages.requests {
        0 => human::duration(seconds),
        requests => format!("{}, {} each", human::duration(seconds), human::duration(seconds / requests as f64)),
    };
    let hosts: Vec<String> = stages.hosts.iter().map(|(host, requests)| format!("{host} {requests}")).collect();
    let hosts = if hosts.is_empty() { String::new() } else { format!(" ({})", hosts.join(", ")) };
    line(
        "requests",
        match stages.requests {
            0 => "none".to_string(),
            requests => format!(
                "{} of {}{hosts} in {}",
                human::count(requests),
                human::bytes(stages.bytes / requests),
                human::counted(stages.round_trips, "round trip")
            ),
        },
    );
    if stages.bytes_cached > 0 {
        line("cached", human::bytes(stages.bytes_cached));
    }
    line("planned", human::duration(stages.planned_seconds));
    line("queued", each(stages.queued_seconds));
    line("in the store", each(stages.store_seconds));
    line("decoded", human::duration(stages.decoded_seconds));
    if let Some(traffic) = traffic {
        let cache = match traffic.cache_hits + traffic.cache_misses {
            0 => String::new(),
            _ => format!(
                "; in the cache {} ({}), not in it {}",
                human::count(traffic.cache_hits),
                human::bytes(traffic.cache_bytes),
                human::count(traffic.cache_misses)
            ),
        };
        line(
            "since opening",
            format!(
                "{}, {}, {}{cache}",
                human::counted(traffic.round_trips, "round trip"),
                human::counted(traffic.requests, "request"),
                human::bytes(traffic.bytes_read)
            ),
        );
    }
    if let Some(predicted) = predicted {
        let prediction = &predicted.prediction;
        line(
            "predicted",
            format!(
                "{} (nodes {}, sending {}, fetching {}); it took {:+.0} %",
                human::duration(predicted.seconds),
                human::duration(prediction.nodes_ms / 1e3),
                human::duration(prediction.sending_ms / 1e3),
                human::duration(prediction.fetching_ms / 1e3),
                100.0 * predicted.error
            ),
        );
    }
    page
}

/// Thesis, figure 2.16.
fn stages(explanation: &Explanation) -> Chart {
    let mut requests: Vec<&RequestTimes> = explanation.requests.iter().collect();
    requests.sort_by(|a, b| a.host.cmp(&b.host).then(a.asked.total_cmp(&b.asked)));
    let spans = |(name, color, begin, end): Stage| {
        let rows = requests.iter().enumerate();
        Series::spans(name, color, rows.map(|(row, of)| (1e3 * begin(of), 1e3 * end(of), row as f64)))
    };
    Chart {
        title: "When each request was where".into(),
        x: ("ms".into(), Scale::Linear),
        y: ("request, by host".into(), Scale::Linear),
        series: STAGES.map(spans).into(),
    }
}

#[cfg(test)]
mod tests {
    use kubist::{HandleTraffic, Stages, Stats};
    use kubist_read::plan::PlanOutline;

    use super::*;

    #[test]
    fn an_explanation_reads_well() {
        let request = |host: &str, asked: f64| RequestTimes {
            asked,
            sent: asked + 0.001,
            answered: asked + 0.003,
            decoded: 0.02,
            bytes: 65536,
            host: Some(host.into()),
        };
        let explanation = Explanation {
            plan: PlanOutline::default(),
            stats: Stats { rows_returned: 1000, seconds: 0.02, ..Stats::default() },
            fraction: 1.0,
            stages: Stages {
                planned_seconds: 0.001,
                round_trips: 1,
                requests: 2,
                bytes: 131_072,
                bytes_cached: 1 << 20,
                queued_seconds: 0.002,
                store_seconds: 0.004,
                decoded_seconds: 0.003,
                hosts: [("10.0.0.1".into(), 1), ("10.0.0.2".into(), 1)].into(),
            },
            requests: vec![request("10.0.0.2", 0.001), request("10.0.0.1", 0.002)],
            traffic: Some(HandleTraffic {
                round_trips: 5,
                requests: 9,
                bytes_read: 2048,
                cache_hits: 8,
                cache_bytes: 1 << 20,
                ..HandleTraffic::default()
            }),
            predicted: None,
        };
        let text = page(&explanation);
        assert!(text.contains("\nrequests      2 of 64.0 KiB (10.0.0.1 1, 10.0.0.2 1) in 1 round trip\n"), "{text}");
        assert!(text.contains("\ncached        1.0 MiB\n"), "{text}");
        let since = "\nsince opening 5 round trips, 9 requests, 2.0 KiB; in the cache 8 (1.0 MiB), not in it 0\n";
        assert!(text.contains(since), "{text}");
        assert!(text.contains("\nin the store  4.0 ms, 2.0 ms each\n"), "{text}");
        assert_eq!(stages(&explanation).series.len(), 4);
    }
}
