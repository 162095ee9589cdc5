//! `kubist model`: the scalability model of a location, and its advice.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::path::Path;

use kubist::Cancel;
use kubist_model::{Advice, Bound, Fit, Fitted, Model, ReplicaSelection, Workload};
use kubist_plot::{Chart, Scale, Series};
use serde::Serialize;

use crate::args;
use crate::failure::{Failure, Result};
use crate::output::{PendingFile, json, print, print_json, remark};
use crate::{human, picture, table};

const KIB: f64 = 1024.0;
/// Sizes of measured requests, beyond which the model does not extrapolate.
const SMALLEST: f64 = 4.0 * KIB;
const LARGEST: f64 = 1024.0 * KIB;
const ROWS: u64 = 1_000_000;
const ROW_BYTES: f64 = 36.0;
/// Largest fraction of a client's time for choosing replicas.
const CHOOSING: f64 = 0.1;

pub fn fit(command: &args::Fit, cancel: &Cancel) -> Result<()> {
    let pending = command.output.as_deref().map(PendingFile::create).transpose()?;
    let picture = command.plot.as_deref().map(PendingFile::create).transpose()?;
    let fitted = measure(&command.location, cancel)?;
    if let (Some(pending), Some(path)) = (pending, &command.output) {
        let written = pending.writer()?.write_all((json(&fitted)? + "\n").as_bytes());
        written.map_err(|error| Failure::io(path, &error))?;
        pending.publish()?;
    }
    if let Some(picture) = picture {
        picture::write_charts(&fit_charts(&fitted.fit), &format!("Requests to {}", fitted.location), picture, cancel)?;
    }
    if command.json { print_json(&fitted) } else { print(&fit_page(&fitted)) }
}

fn measure(location: &str, cancel: &Cancel) -> Result<Fitted> {
    remark("measuring for about 20 s");
    Ok(kubist_fit::measure(location, cancel)?)
}

pub fn read(path: &Path) -> Result<Fitted> {
    let mut text = Vec::new();
    let read = kubist_files::open(path)?.read_to_end(&mut text);
    read.map_err(|error| Failure::io(path, &error))?;
    let why = |error| {
        Failure::usage(format!(
            "{}: this file is not a fit ({error}); make one with kubist model fit -o FILE",
            path.display()
        ))
    };
    serde_json::from_slice(&text).map_err(why)
}

fn fit_page(fitted: &Fitted) -> String {
    let (fit, model) = (&fitted.fit, &fitted.fit.model);
    let mut page = String::new();
    let mut line = |name: &str, text: String| {
        let _ = writeln!(page, "{name:<12}{}", kubist_types::shown::printable(&text));
    };
    let kind = match fitted.hosts.len() {
        0 => "a directory".to_string(),
        nodes => human::counted(nodes as u64, "node"),
    };
    line("location", format!("{}, {kind}", fitted.location));
    let law = |line: &kubist_model::Line| {
        format!("{} + {} ms/KiB", human::duration(line.ms / 1e3), human::fraction(line.ms_per_element * KIB))
    };
    let mut request = law(&model.request.line);
    if let Some((bend, beyond)) = &model.request.beyond {
        request += &format!("; beyond {}: {}", human::bytes(*bend as u64), law(beyond));
    }
    line("request", format!("{request}; mean error {}", percent(fit.error())));
    let speedup = &model.speedup;
    let at_one_kib = speedup.at_one_element + speedup.per_ln_element * KIB.ln();
    line(
        "speed-up",
        format!(
            "{at_one_kib:.2} {} {:.3} ln(KiB), at least {:.2}, of each node",
            if speedup.per_ln_element < 0.0 { "-" } else { "+" },
            speedup.per_ln_element.abs(),
            speedup.least
        ),
    );
    let decode = fitted.decode_ms_per_byte * KIB;
    let take = model.fetch.ms_per_element * KIB;
    line(
        "client",
        format!(
            "{:.1} µs to send a request, {} ms/KiB to receive, including {} to decode",
            model.send_ms * 1e3,
            human::fraction(take),
            human::fraction(decode)
        ),
    );
    page.push('\n');
    let header = ["request", "alone", "model", "error", "at once", "speed-up", "model", "client", "model"];
    let rows = fit.requests.iter().zip(&fit.levels).zip(&fit.client).map(|((alone, level), client)| {
        vec![
            human::bytes(alone.size as u64),
            format!("{:.3} ms", alone.measured_ms),
            format!("{:.3} ms", alone.fitted_ms),
            format!("{:+.0} %", 100.0 * (alone.fitted_ms / alone.measured_ms - 1.0)),
            level.in_flight.to_string(),
            format!("{:.2}", level.speedup),
            format!("{:.2}", level.fitted),
            format!("{:.3} ms", client.measured_ms),
            format!("{:.3} ms", client.fitted_ms),
        ]
    });
    page + &table::aligned(&header, &[true; 9], &rows.collect::<Vec<_>>())
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

#[derive(Serialize)]
struct Counsel {
    rows: u64,
    row_bytes: f64,
    #[serde(flatten)]
    best: Advice,
    records_of_request: f64,
    /// Concurrent requests from one client to all nodes.
    parallel: u32,
    /// Reading such a cube is a request of the best size.
    capacity: u32,
    table_capacity: Option<u32>,
    /// 0.1 means 10 % longer query times because of the table's capacity.
    table_capacity_loss: Option<f64>,
    replica_selection_limit: u32,
    by_nodes: Vec<Advice>,
}

pub fn advise(command: &args::Advise, cancel: &Cancel) -> Result<()> {
    let picture = command.plot.as_deref().map(PendingFile::create).transpose()?;
    let path = Path::new(&*command.fit);
    let is_location = path.is_dir() || command.fit.contains("://");
    let fitted = if is_location { measure(&command.fit, cancel)? } else { read(path)? };
    let (counsel, work) = counsel(&fitted, command);
    if let Some(picture) = picture {
        let charts = advice_charts(&fitted.fit.model, &counsel, &work);
        let title = format!("{} of {}", human::counted(counsel.rows, "record"), fitted.location);
        picture::write_charts(&charts, &title, picture, cancel)?;
    }
    if command.json { print_json(&counsel) } else { print(&advice_page(&counsel)) }
}

fn counsel(fitted: &Fitted, command: &args::Advise) -> (Counsel, Workload) {
    let (fit, model, nodes) = (&fitted.fit, &fitted.fit.model, command.nodes);
    let rows = command.rows.or(fitted.table.map(|table| table.rows)).unwrap_or(ROWS);
    let of_table = fitted.table.map(|table| table.bytes_per_row);
    let row_bytes = command.row_bytes.map(f64::from).or(of_table).unwrap_or(ROW_BYTES);
    let work = Workload { elements: rows as f64 * row_bytes, smallest: SMALLEST, largest: LARGEST };
    let best = kubist_model::advise(model, &work, nodes);
    let parallel = fit.in_flight(best.size, nodes);
    // Little's law, for nodes that are never idle.
    let in_flight = f64::from(parallel) / f64::from(nodes);
    let selection = ReplicaSelection { in_flight, request_ms: in_flight * model.node_ms(best.size) };
    let table_capacity = fitted.table.map(|table| table.capacity);
    let with_capacity = |capacity: u32| {
        let size = (f64::from(capacity) * row_bytes).clamp(SMALLEST, LARGEST);
        model.predict(work.elements, size, f64::from(nodes)).ms() / best.predicted.ms() - 1.0
    };
    let mut by_nodes: Vec<u32> = (0..).map(|power| 1u32 << power).take_while(|some| *some < 4 * nodes).collect();
    by_nodes.push(nodes);
    by_nodes.sort_unstable();
    by_nodes.dedup();
    let counsel = Counsel {
        rows,
        row_bytes,
        records_of_request: best.size / row_bytes,
        parallel,
        capacity: (best.size / row_bytes).round().max(1.0) as u32,
        table_capacity,
        table_capacity_loss: table_capacity.map(with_capacity),
        replica_selection_limit: selection.most_nodes(model.send_ms, CHOOSING) as u32,
        by_nodes: by_nodes.into_iter().map(|nodes| kubist_model::advise(model, &work, nodes)).collect(),
        best,
    };
    (counsel, work)
}

fn advice_page(counsel: &Counsel) -> String {
    let Advice { nodes, predicted, .. } = counsel.best;
    let mut page = String::new();
    let mut line = |name: &str, text: String| {
        let _ = writeln!(page, "{name:<12}{}", kubist_types::shown::printable(&text));
    };
    let ms = |ms: f64| human::duration(ms / 1e3);
    line(
        "query",
        format!(
            "{}, {:.1} bytes each, on {}",
            human::counted(counsel.rows, "record"),
            counsel.row_bytes,
            human::counted(nodes.into(), "node")
        ),
    );
    line(
        "requests",
        format!(
            "of {}: {} of them, {} each",
            human::bytes(counsel.best.size as u64),
            human::count(predicted.requests.ceil() as u64),
            human::counted(counsel.records_of_request as u64, "record")
        ),
    );
    let decides = match predicted.bound() {
        Bound::Nodes => "the fullest node decides",
        Bound::Sending => "sending decides",
        Bound::Fetching => "receiving decides",
    };
    line(
        "time",
        format!(
            "{}: {decides} (nodes {}, sending {}, fetching {})",
            ms(predicted.ms()),
            ms(predicted.nodes_ms),
            ms(predicted.sending_ms),
            ms(predicted.fetching_ms)
        ),
    );
    line(
        "loss",
        format!(
            "{} compared with ideal speed-up over the nodes; {} by imbalance",
            percent(counsel.best.loss),
            percent(counsel.best.imbalance)
        ),
    );
    line("parallel", format!("{} at once, from one client", human::counted(counsel.parallel.into(), "request")));
    let of_table = match (counsel.table_capacity, counsel.table_capacity_loss) {
        (Some(capacity), Some(loss)) => {
            format!("; the table's {} take {} longer", human::count(capacity.into()), percent(loss))
        }
        _ => String::new(),
    };
    line("capacity", format!("{} a cube{of_table}", human::counted(counsel.capacity.into(), "record")));
    line(
        "one client",
        match counsel.best.single_client_limit {
            Some(limit) if limit <= nodes => "is the bottleneck: more nodes do not help".to_string(),
            Some(limit) => format!("is the bottleneck from {limit} nodes on"),
            None => "is not the bottleneck".to_string(),
        },
    );
    line(
        "replicas",
        format!(
            "one client can select replicas on up to {}",
            human::counted(counsel.replica_selection_limit.into(), "node")
        ),
    );
    page.push('\n');
    let header = ["nodes", "request", "time", "loss", "imbalance", "decides"];
    let rows = counsel.by_nodes.iter().map(|advice| {
        vec![
            advice.nodes.to_string(),
            human::bytes(advice.size as u64),
            ms(advice.predicted.ms()),
            percent(advice.loss),
            percent(advice.imbalance),
            format!("{:?}", advice.predicted.bound()).to_lowercase(),
        ]
    });
    page + &table::aligned(&header, &[true, true, true, true, true], &rows.collect::<Vec<_>>())
}

const BLUE: [u8; 3] = [31, 119, 180];
const ORANGE: [u8; 3] = [230, 120, 20];
const GREEN: [u8; 3] = [44, 140, 60];
const GREY: [u8; 3] = [120, 124, 132];
const SHADES: [[u8; 3]; 5] = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [230, 170, 20]];

/// Ascending, with logarithmic spacing.
fn sizes() -> impl Iterator<Item = f64> {
    const STEPS: i32 = 160;
    (0..=STEPS).map(|step| SMALLEST * (LARGEST / SMALLEST).powf(f64::from(step) / f64::from(STEPS)))
}

/// Thesis figures 2.18 and 2.19.
fn fit_charts(fit: &Fit) -> Vec<Chart> {
    let kib = |size: f64| size / KIB;
    let request = Chart {
        title: "Time of one request, alone".into(),
        x: ("KiB".into(), Scale::Log),
        y: ("ms".into(), Scale::Log),
        series: vec![
            Series::line("model", BLUE, sizes().map(|size| (kib(size), fit.model.request.at(size)))),
            Series::dots("measured", ORANGE, fit.requests.iter().map(|one| (kib(one.size), one.measured_ms))),
        ],
    };
    let speedup = Chart {
        title: "Speed-up of each node by concurrent requests".into(),
        x: ("KiB".into(), Scale::Log),
        y: ("times".into(), Scale::Linear),
        series: vec![
            Series::line("model", BLUE, sizes().map(|size| (kib(size), fit.model.speedup.at(size)))),
            Series::dots("measured", ORANGE, fit.levels.iter().map(|one| (kib(one.size), one.speedup))),
        ],
    };
    vec![request, speedup]
}

/// Thesis figures 2.21, 2.22 and 2.23.
fn advice_charts(model: &Model, counsel: &Counsel, work: &Workload) -> Vec<Chart> {
    let shown = counsel.by_nodes.iter().rev().step_by(counsel.by_nodes.len().div_ceil(SHADES.len()));
    let mut by_size: Vec<Series> = shown
        .zip(SHADES)
        .map(|(advice, color)| {
            let of_size = |size: f64| model.predict(work.elements, size, f64::from(advice.nodes)).ms();
            let name = human::counted(advice.nodes.into(), "node");
            Series::line(&name, color, sizes().map(|size| (size / KIB, of_size(size))))
        })
        .collect();
    let best = counsel.by_nodes.iter().map(|advice| (advice.size / KIB, advice.predicted.ms()));
    by_size.push(Series::dots("best", ORANGE, best));
    let by_nodes = |figure: fn(&Advice) -> f64| {
        counsel.by_nodes.iter().map(move |advice| (f64::from(advice.nodes), figure(advice))).collect::<Vec<_>>()
    };
    vec![
        Chart {
            title: "Predicted time by size of requests".into(),
            x: ("KiB".into(), Scale::Log),
            y: ("ms".into(), Scale::Log),
            series: by_size,
        },
        Chart {
            title: "Loss compared with ideal speed-up".into(),
            x: ("nodes".into(), Scale::Log),
            y: ("%".into(), Scale::Linear),
            series: vec![
                Series::line("all", BLUE, by_nodes(|advice| 100.0 * advice.loss)),
                Series::line("imbalance", GREEN, by_nodes(|advice| 100.0 * advice.imbalance)),
            ],
        },
        Chart {
            title: "Predicted time by nodes".into(),
            x: ("nodes".into(), Scale::Log),
            y: ("ms".into(), Scale::Log),
            series: vec![
                Series::line("fullest node", BLUE, by_nodes(|advice| advice.predicted.nodes_ms)),
                Series::line("sending", ORANGE, by_nodes(|advice| advice.predicted.sending_ms)),
                Series::line("fetching", GREEN, by_nodes(|advice| advice.predicted.fetching_ms)),
                Series::line("ideal", GREY, by_nodes(|advice| advice.ideal_ms)),
            ],
        },
    ]
}
