//! The command line: names, help, and nothing that acts.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use kubist::{PerCell, Replication};

use crate::location::Location;
use crate::parse::{self, Domains, Ranges, Types, Units};
use crate::plot::colormap::Colormap;

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    the table, or what it holds, is not sound (also: verify found something)
  2    wrong usage or wrong input: nothing of the failing input was written
  3    something is not there, or is already there
  4    the operating system or another process said no (full disk, permissions, busy)
  130  interrupted (Ctrl-C): what was committed stays, whole";

/// A store for particles and other point-like records: any region, at any
/// precision, while it is being written.
#[derive(Debug, Parser)]
#[command(name = "kubist", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Kubist {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Ingest(Ingest),
    Query(Query),
    Estimate(Estimate),
    Explain(Explain),
    Info(Info),
    Verify(Verify),
    Salvage(Salvage),
    Plot(Plot),
    Optimize(Optimize),
    Tail(Tail),
    Clean(Clean),
    Alter(Alter),
    Copy(Copy),
    Drop(Drop),
    View(View),
    #[command(subcommand)]
    Model(Model),
    /// Print where ParaView's plug-in lies, for Tools > Manage Plugins > Load New
    ParaviewPath,
}

/// Put files into a table; makes the table if there is none
///
/// Reads Parquet, Arrow IPC (files and streams), CSV (also TSV, also gzipped, with
/// a header line) and NPZ (arrays of one length are columns, an array u of shape
/// (n,k) gives u_0 to u_{k-1}, a single number is repeated). Every file is checked
/// against the table before the first one is read. Each file is committed when it
/// is read: it is then in the table whole, and survives whatever comes after.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist ingest airway.kubist step_*.parquet --dimensions x,y,z,time --identity pid,time
  kubist ingest airway.kubist step_28.csv
  kubist ingest sky.kubist stars.npz --dimensions ra,dec --domain ra=0:360,dec=-90:90 --unit ra=deg,dec=deg
  kubist ingest run.kubist out.parquet --dimensions x,y,z --domain z=quantile --columns x,y,z,vel_0

Exit codes: see kubist --help")]
pub struct Ingest {
    /// The table's directory, or cassandra://hosts/keyspace/table
    pub table: Location,
    /// The files, in the order they are committed
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// 1 to 8 columns to index, of a new table
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub dimensions: Vec<String>,
    /// The columns that tell records apart, of a new table: what a sample keeps or drops together
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub identity: Vec<String>,
    /// Columns by whose values records are found without a scan, of a new table
    ///
    /// A query with --where "pid = 17", or with a list of values, joined by AND with
    /// whatever else, then reads only where such records are.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub lookup: Vec<String>,
    /// Where a dimension's values lie: x=0:1, z=quantile or t=learned (repeatable)
    ///
    /// Records outside are kept and found all the same. Without it a domain is
    /// learned from the first commit and widened.
    #[arg(long, value_name = "DOMAIN")]
    pub domain: Vec<Domains>,
    /// How many records a cube wants to keep, of a new table
    #[arg(long, value_name = "RECORDS")]
    pub capacity: Option<u32>,
    /// Decides which records a sample holds, of a new table [default: 0]
    #[arg(long)]
    pub seed: Option<u64>,
    /// What the optimizer copies into deeper cubes, of a new table: none, outlook, outlook(BOOST),
    /// full or full(HEIGHT) [default: outlook(-1)]
    ///
    /// Copies make small boxes cheaper and the table larger.
    #[arg(long, value_name = "POLICY")]
    pub replication: Option<Replication>,
    /// Column types of a new table, where the files' own are not wanted: pid=int64,x=float32
    #[arg(long, value_name = "TYPES")]
    pub types: Option<Types>,
    /// Units of columns, of a new table: x=m,v=m/s (repeatable)
    #[arg(long, value_name = "UNITS")]
    pub unit: Vec<Units>,
    /// Something to keep with a new table, as JSON or else text (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse::entry)]
    pub set: Vec<(String, serde_json::Value)>,
    /// The columns to take; the others are left out
    #[arg(long, value_delimiter = ',')]
    pub columns: Option<Vec<String>>,
    /// Between the fields of a CSV file: a character or tab [default: seen from the first line]
    #[arg(long, value_parser = parse::delimiter)]
    pub delimiter: Option<u8>,
    /// The writer's name [default: the first free one of writer-1, writer-2, ...]
    #[arg(long, value_name = "NAME")]
    pub writer: Option<String>,
    /// One commit per file (the default)
    #[arg(long, conflicts_with = "commit_rows")]
    pub commit_each_file: bool,
    /// A commit after so many rows, and at each file's end
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(1..))]
    pub commit_rows: Option<u64>,
    /// Restore the layout behind the commits, with a part of one core
    #[arg(long)]
    pub optimize: bool,
    /// How much of a commit is held in memory before it spills to disk, like 256MiB
    #[arg(long, value_name = "SIZE", value_parser = parse::bytes)]
    pub memory: Option<usize>,
    /// Print what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// Which records: shared by query and plot.
#[derive(Debug, Args)]
pub struct Region {
    /// Closed ranges: x=0.1:0.2,y=:0.5,pid=7 (repeatable; all must hold)
    ///
    /// LOW..HIGH where an end has colons itself: time=2024-01-01T10:00..2024-01-01T11:00
    #[arg(long = "box", value_name = "RANGES")]
    pub ranges: Vec<Ranges>,
    /// An SQL condition: "diameter > 2e-5 AND NOT deposited"
    #[arg(long = "where", value_name = "SQL")]
    pub filter: Option<String>,
    /// The share of the records to sample: 0.01 or 1%
    #[arg(long, value_name = "SHARE", value_parser = parse::precision)]
    pub precision: Option<f64>,
}

/// Get the records of a region, all or a sample
///
/// Prints a table on a terminal and CSV into a pipe. What the query cost goes to
/// standard error. An output file gets its name only when it is whole.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist query airway.kubist --box x=0.1:0.2,y=:0.5 --precision 1%
  kubist query airway.kubist --where 'diameter > 2e-5' --limit 1000 -o big.parquet
  kubist query airway.kubist --box time=0.3 --columns x,y,z,ux --json -o now.arrow
  kubist query airway.kubist --per-cell 1:x=0.001,y=0.001 --format csv | head
  kubist query airway.kubist --box x=0:0.1 --count

Exit codes: see kubist --help")]
pub struct Query {
    /// The table's directory, or cassandra://hosts/keyspace/table
    pub table: Location,
    #[command(flatten)]
    pub region: Region,
    /// Only records whose priority lies in it: 0:0.01, then 0.01:0.08, ... never repeats one
    #[arg(long, value_name = "LO:HI", value_parser = parse::window)]
    pub window: Option<(f64, f64)>,
    /// The columns to return, in this order
    #[arg(long, value_delimiter = ',')]
    pub columns: Option<Vec<String>>,
    /// At most so many records: those of lowest priority, a uniform sample
    #[arg(long, value_name = "RECORDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// At most K records from each cell of a regular grid
    #[arg(long, value_name = "K:COLUMN=WIDTH,...", value_parser = parse::per_cell)]
    pub per_cell: Option<PerCell>,
    /// Where the records go: a .parquet, .arrow, .arrows or .csv file, or - for standard output
    #[arg(short, long, value_name = "FILE", default_value = "-", hide_default_value = true)]
    pub output: PathBuf,
    /// What the records become, where the output's name does not say it
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Print only how many records there are
    #[arg(long, conflicts_with_all = ["output", "format", "columns"])]
    pub count: bool,
    /// Print the cost as JSON: on standard output if the records go to a file
    #[arg(long)]
    pub json: bool,
}

/// Run a query and say where its time went
///
/// The answer is thrown away. Stages overlap: times of requests are of all of them together.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist explain airway.kubist --box x=0.1:0.2
  kubist explain cassandra://host1/science/droplets --precision 1% --fit droplets.fit.json --plot stages.png

Exit codes: see kubist --help")]
pub struct Explain {
    /// The table's directory, or cassandra://hosts/keyspace/table
    pub table: Location,
    #[command(flatten)]
    pub region: Region,
    /// The columns to return
    #[arg(long, value_delimiter = ',')]
    pub columns: Option<Vec<String>>,
    /// At most so many records: those of lowest priority, a uniform sample
    #[arg(long, value_name = "RECORDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// What `kubist model fit -o` wrote for this place: says how long it should have taken
    #[arg(long, value_name = "FILE")]
    pub fit: Option<PathBuf>,
    /// Draw when each request was in which stage into a PNG file
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Print it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Estimate aggregates from a sample, with error bars
///
/// Reads as little as the goal needs; what is read completely is exact, and says so.
/// Aggregates: count() count(x) sum(x) mean(x) variance(x) std(x) min(x) max(x) median(x)
/// p95(x) quantile(x, 0.95) share(condition) ratio(a, b) cov(x, y) corr(x, y)
/// count_distinct(x) histogram(x, 20) histogram2d(x, y, 64, 64). Without a goal and
/// without a bound the goal is --error 1%.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist estimate airway.kubist 'mean(ux), p95(diameter)' --box x=0.1:0.2 --error 1%
  kubist estimate airway.kubist 'count()' 'mean(deposited)' --group-by kind --within 0.5
  kubist estimate airway.kubist 'mean(sqrt(ux*ux + uy*uy))' --absolute 0.01 --json
  kubist estimate airway.kubist 'histogram(diameter, 20)' --precision 1%

Exit codes: see kubist --help")]
pub struct Estimate {
    /// The table's directory, or cassandra://hosts/keyspace/table
    pub table: Location,
    /// What to estimate, like 'mean(x), max(y)'
    #[arg(required = true)]
    pub aggregates: Vec<String>,
    #[command(flatten)]
    pub region: Region,
    /// Columns by whose values records are grouped
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub group_by: Vec<String>,
    /// Stop when half of each interval is at most this share of its value: 1% or 0.01
    #[arg(long, value_name = "SHARE", value_parser = parse::share)]
    pub error: Option<f64>,
    /// Stop when half of each interval is at most this, in the unit of the value
    #[arg(long, value_name = "VALUE")]
    pub absolute: Option<f64>,
    /// Answer in this time
    #[arg(long, value_name = "SECONDS", value_parser = parse::seconds)]
    pub within: Option<std::time::Duration>,
    /// Read about so many records at most
    #[arg(long, value_name = "RECORDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub rows: Option<u64>,
    /// Read about so much at most, like 64MiB
    #[arg(long, value_name = "SIZE", value_parser = parse::bytes)]
    pub bytes: Option<usize>,
    /// How often intervals hold the truth
    #[arg(long, value_name = "SHARE", value_parser = parse::share, default_value = "95%")]
    pub confidence: f64,
    /// Read this share at either end of the values whatever its priority: for heavy tails
    #[arg(long, value_name = "SHARE", value_parser = parse::share)]
    pub tails: Option<f64>,
    /// Show each estimate as it comes, with intervals that hold whenever you stop (Ctrl-C)
    #[arg(long)]
    pub watch: bool,
    /// Print the figures as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Format {
    /// For people: the first 40 records, or as many as --limit says
    Table,
    /// Comma-separated text with a header
    Csv,
    Parquet,
    /// Arrow IPC file (also Feather 2)
    Arrow,
    /// Arrow IPC stream
    Arrows,
}

/// Say what a table holds
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist info airway.kubist
  kubist info airway.kubist --json | jq .rows

Exit codes: see kubist --help")]
pub struct Info {
    /// The table's directory, or cassandra://hosts/keyspace/table
    pub table: Location,
    /// Print it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Look whether a table is sound
///
/// Reads the header, the logs, the rewrites, the checkpoints and the bounds of all
/// records, and sees that every file is there. With --deep it reads every record and
/// checks all that queries rely on. Prints each finding on a line of its own, with
/// what it costs; the exit code is then 1. See kubist salvage for what to do about it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist verify airway.kubist
  kubist verify airway.kubist --deep --json > report.json

Exit codes: see kubist --help")]
pub struct Verify {
    /// The table's directory, or cassandra://hosts/keyspace/table
    pub table: Location,
    /// Read every record
    #[arg(long)]
    pub deep: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Save what is sound of a damaged table into a new one
///
/// Takes every page that can be read, lost records from replicas where there are any,
/// and older states where newer ones cannot be read. Says for each damaged place what
/// it cost, and what cannot be known; the exit code is then 1. The damaged table is
/// not changed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist salvage airway.kubist saved.kubist
  kubist salvage airway.kubist saved.kubist --json > lost.json; kubist verify saved.kubist --deep

Exit codes: see kubist --help")]
pub struct Salvage {
    /// The damaged table's directory, or cassandra://hosts/keyspace/table
    pub table: Location,
    /// The new table's directory, or cassandra://hosts/keyspace/table
    pub other: Location,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Draw a picture of a region
///
/// Every point is a small disc; where discs meet, their values are averaged, so
/// that the picture does not depend on the order of the records. Without --color
/// the colour is the density. The sample is as large as --points allows.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist plot airway.kubist --axes x,y --color ux -o airway.png
  kubist plot airway.kubist --axes x,z --color diameter --log --box time=0.3 --colormap magma -o now.png
  kubist plot sky.kubist --axes ra,dec --points 1000000 --size 1600x900 --title Gaia -o sky.png

Exit codes: see kubist --help")]
pub struct Plot {
    /// The table's directory, or cassandra://hosts/keyspace/table
    pub table: Location,
    /// The two columns to draw: across, up
    #[arg(long, value_name = "X,Y", value_delimiter = ',', required = true)]
    pub axes: Vec<String>,
    /// The column that colours the points [default: the density of the points]
    #[arg(long, value_name = "COLUMN")]
    pub color: Option<String>,
    /// The picture, a PNG file
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    #[command(flatten)]
    pub region: Region,
    /// At most so many points, a uniform sample [default: 200000, without --precision]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub points: Option<u64>,
    /// Colours on a logarithmic scale
    #[arg(long)]
    pub log: bool,
    /// What the colours span: 0:5, :5 or 0: [default: nearly all values; arrows mark those beyond]
    #[arg(long, value_name = "LO:HI", value_parser = parse::number_range, allow_hyphen_values = true)]
    pub range: Option<(Option<f64>, Option<f64>)>,
    #[arg(long, value_enum, default_value_t = Colormap::Viridis)]
    pub colormap: Colormap,
    /// Width and height in pixels [default: 1200 wide, as high as the data asks]
    #[arg(long, value_name = "WxH", value_parser = parse::size)]
    pub size: Option<(u32, u32)>,
    /// Whether one unit is as long across as up; auto: yes for spatial axes of one unit
    #[arg(long, value_enum, default_value_t = Aspect::Auto)]
    pub aspect: Aspect,
    /// A point's radius in pixels [default: smaller the more points]
    #[arg(long, value_name = "PIXELS")]
    pub point_size: Option<f32>,
    /// Light on dark
    #[arg(long)]
    pub dark: bool,
    #[arg(long)]
    pub title: Option<String>,
    /// Print the cost and what was drawn as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Aspect {
    Auto,
    Equal,
    Fill,
}

/// Improve the layout after many small commits
///
/// Small commits rest high in the tree, and cubes gather many runs; queries then
/// read more than they return. This places such records anew. Others may write and
/// read meanwhile, and it can be stopped at any moment.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist optimize airway.kubist
  kubist optimize airway.kubist --watch --debt 50%
  kubist optimize airway.kubist --replication outlook

Exit codes: see kubist --help")]
pub struct Optimize {
    /// The table's directory, or cassandra://hosts/keyspace/table
    pub table: Location,
    /// Rewrite a part once so large a share of its records lies in the wrong place
    /// (usually 5%, and 50% with --watch, which writes less)
    #[arg(long, value_name = "SHARE", value_parser = parse::precision)]
    pub debt: Option<f64>,
    /// What to copy into deeper cubes [default: as the table was created]: none, outlook,
    /// outlook(BOOST), full or full(HEIGHT)
    #[arg(long, value_name = "POLICY")]
    pub replication: Option<Replication>,
    /// Go on as the table grows, with a part of one core, until interrupted
    #[arg(long)]
    pub watch: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Follow the commits of a table as they land
///
/// Prints a line for each change, until interrupted: how many records there are,
/// and which writers committed how many.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist tail airway.kubist
  kubist tail airway.kubist --json | jq .rows

Exit codes: see kubist --help")]
pub struct Tail {
    /// The table's directory, or cassandra://hosts/keyspace/table
    pub table: Location,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
    /// Stop after so many changes
    #[arg(long, value_name = "CHANGES")]
    pub changes: Option<u64>,
}

/// Delete files that no snapshot needs any more
///
/// After the optimizer rewrote records, their old files stay for readers that are
/// still at work. This notes what is not needed, and deletes what was noted longer
/// ago than the retention time.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist clean airway.kubist
  kubist clean airway.kubist --retention-hours 0

Exit codes: see kubist --help")]
pub struct Clean {
    /// The table's directory, or cassandra://hosts/keyspace/table
    pub table: Location,
    /// How long readers may go on with an old snapshot
    #[arg(long, value_name = "HOURS", default_value_t = 24.0)]
    pub retention_hours: f64,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Add columns to a table, or say something about it
///
/// Records that are there, and records of files that lack an added column, have its
/// default. Whoever is reading or writing meanwhile sees the change at their next
/// step. Columns cannot be taken away, and an added one cannot be a dimension.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist alter airway.kubist --add-column age:float64=0 --add-column note:string
  kubist alter airway.kubist --unit x=m,diameter=um --no-unit pid
  kubist alter airway.kubist --set solver=alya --set 'inlet={\"flow\": 0.5}' --unset draft
  kubist alter airway.kubist --of x --set axis=streamwise

Exit codes: see kubist --help")]
pub struct Alter {
    /// The table's directory, or cassandra://hosts/keyspace/table
    pub table: Location,
    /// A column to add; without a default it is null where there is no value (repeatable)
    #[arg(long, value_name = "NAME:TYPE[=DEFAULT]", value_parser = parse::new_column)]
    pub add_column: Vec<parse::ColumnText>,
    /// The columns that are added must never be null
    #[arg(long, requires = "add_column")]
    pub required: bool,
    /// Units of columns: x=m,v=m/s (repeatable)
    #[arg(long, value_name = "UNITS")]
    pub unit: Vec<Units>,
    /// Columns whose units are to be forgotten
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub no_unit: Vec<String>,
    /// Something to keep with the table, as JSON or else text (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse::entry)]
    pub set: Vec<(String, serde_json::Value)>,
    /// Something to forget (repeatable)
    #[arg(long, value_name = "KEY")]
    pub unset: Vec<String>,
    /// What --set and --unset are about: this column instead of the table
    #[arg(long, value_name = "COLUMN")]
    pub of: Option<String>,
}

/// Copy all records into a new table, perhaps with another grid
///
/// The copy is of one moment, whoever is writing, and there whole or not at all. It
/// keeps columns, identity, samples, steps, units and metadata; what writers
/// committed when, and which writers steps wait for, stays behind.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist copy airway.kubist backup.kubist
  kubist copy airway.kubist better.kubist --domain x=0:0.2,z=quantile --capacity 4096
  kubist copy airway.kubist by_time.kubist --dimensions time,x,y,z

Exit codes: see kubist --help")]
pub struct Copy {
    /// The table's directory, or cassandra://hosts/keyspace/table
    pub table: Location,
    /// Where the copy will be, a directory or cassandra://hosts/keyspace/table; nothing may be there yet
    pub other: Location,
    /// The columns to index [default: the same]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub dimensions: Option<Vec<String>>,
    /// Where a dimension's values lie: x=0:1, z=quantile or t=learned (repeatable)
    /// [default: the same grid]
    #[arg(long, value_name = "DOMAIN")]
    pub domain: Vec<Domains>,
    /// How many records a cube wants to keep [default: the same]
    #[arg(long, value_name = "RECORDS")]
    pub capacity: Option<u32>,
    /// Only up to this step of the simulation, which must be complete
    #[arg(long, allow_hyphen_values = true)]
    pub step: Option<i64>,
    /// How much is held in memory before it spills to disk, like 256MiB
    #[arg(long, value_name = "SIZE", value_parser = parse::bytes)]
    pub memory: Option<usize>,
    /// Print what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// Delete a table
///
/// Deletes the files of the table and then its directory, if nothing else is in it.
/// Asks first on a terminal. Refuses while a writer is at work. Where it was
/// interrupted, it can be done again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist drop old.kubist
  kubist drop old.kubist --yes

Exit codes: see kubist --help")]
pub struct Drop {
    /// The table's directory, or cassandra://hosts/keyspace/table
    pub table: Location,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Although a writer is at work: what it commits is lost
    #[arg(long)]
    pub force: bool,
    /// Print what was deleted as JSON
    #[arg(long)]
    pub json: bool,
}

/// Fit the scalability model to a cluster, and ask it
#[derive(Debug, Subcommand)]
pub enum Model {
    Fit(Fit),
    Advise(Advise),
}

/// Measure what requests cost here, and fit the scalability model to it
///
/// Takes about 20 s, writes some 20 MiB beside the location, and deletes them.
/// Measure when nobody else is at work. What the figures mean is in docs/scalability.md.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist model fit cassandra://host1,host2/science/droplets -o droplets.fit.json
  kubist model fit /scratch/run.kubist --plot fit.png

Exit codes: see kubist --help")]
pub struct Fit {
    /// A directory or cassandra://hosts/keyspace/table; there need be no table
    pub location: Location,
    /// Where the fit goes, as JSON, for `kubist model advise` and `kubist explain`
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Draw measured and fitted times into a PNG file
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Print the fit as JSON
    #[arg(long)]
    pub json: bool,
}

/// Say which sizes and how many requests at once are best for so many nodes
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist model advise droplets.fit.json --nodes 16
  kubist model advise cassandra://host1/science/droplets --nodes 8 --rows 1000000 --plot advice.png

Exit codes: see kubist --help")]
pub struct Advise {
    /// What `kubist model fit -o` wrote, or a location to measure now
    pub fit: Location,
    /// Nodes to be, all like those that were measured
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub nodes: u32,
    /// Records that a query returns [default: those of the table, or a million]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub rows: Option<u64>,
    /// Stored bytes of a record [default: the table's, or 36]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    pub row_bytes: Option<u32>,
    /// Draw predicted times by size and nodes into a PNG file
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Print the advice as JSON
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Kubist::command().debug_assert();
    }
}

/// Look at tables in the browser
///
/// Serves the explorer page and the tables, for reading only, on this machine alone, and
/// prints the address. What programs can ask there is in docs/http.md.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist view airway.kubist --open
  kubist view run-1.kubist run-2.kubist --port 8080
  kubist view ssh://ada@cluster.example/scratch/ada/run.kubist

With ssh:// the tables are read where they lie: your own ssh logs in (with your keys and
~/.ssh/config), starts kubist view there, and brings its port here; Ctrl-C ends both. The
path is from the root; ssh://cluster/~/run.kubist is in your home.

Exit codes: see kubist --help")]
pub struct View {
    /// The tables' directories, here or as ssh://[user@]host[:port]/path
    #[arg(required = true)]
    pub tables: Vec<Location>,
    /// Where to listen; 0: any free port
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// The address to listen on; any but this machine's own demands a token
    #[arg(long, default_value = "127.0.0.1")]
    pub address: std::net::IpAddr,
    /// What who asks must show: at least 16 letters and digits
    ///
    /// With - it is the first line of standard input, which other users of this machine
    /// cannot see; the server then ends when standard input does.
    #[arg(long)]
    pub token: Option<String>,
    /// The command over there, if it is not on the path that ssh gives
    #[arg(long, value_name = "COMMAND", default_value = "kubist")]
    pub remote_kubist: String,
    /// Start the browser
    ///
    /// It gets the address with the token on its command line, which other users of this
    /// machine can see: where there are such, open the printed address yourself.
    #[arg(long)]
    pub open: bool,
}
