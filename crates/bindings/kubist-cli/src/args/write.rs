//! Commands that change what is stored.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kubist::{Compression, Replication, Strata};

use crate::location::Location;
use crate::parse::{self, Bounds, DimensionText, Entry, Units};

/// Ingest files into a table; creates the table if there is none
///
/// Reads Parquet, Arrow IPC (files and streams), CSV (also TSV, fields between blanks, and gzip; the first line
/// or --read names has the column names) and NPZ (arrays of equal length become columns, an array u of shape
/// (n,k) becomes u_0 to u_{k-1}, a single number is repeated). Every file is checked against the table before
/// the first one is read. Each file is one commit, which is stored as a whole and survives later failures. A
/// file whose name and contents the table already has is skipped, unless --again is given.
///
/// The Python package reads trajectories (all formats of MDAnalysis), openPMD, H5MD, H5Part, GADGET,
/// AREPO, SWIFT, LAMMPS dumps, OpenFOAM clouds, VTK, LAS, LAZ, FITS, VOTable, IPAC, ECSV, PLY, XYZ, and
/// arrays of a grid in netCDF, HDF5 or .npy (one record for each point with a value): pip install
/// kubist[md,lidar,astro,openpmd,hdf5,vtk], or only the parts for your formats. The format then defines
/// columns, units, time, identity and dimensions, and files are ingested in order of time.
#[derive(Debug, Args)]
#[command(after_help = "\
Options of --create, for a new table (each its own --create KEY=VALUE):
  lookup=pid,kind    columns with a secondary index, for queries such as --where 'pid = 17'
  units=x=m,v=m/s    units of columns
  accuracy=x=1um     error bounds of stored values: x=1e-6, 'ux=1e-4 rel' or x=1um; a number is in
                     the unit of the column, with rel it is relative to each value
  period=x=25        columns that repeat, with the length in their unit, or the interval of their values:
                     x=-12.5:12.5 (docs/regions.md) [default: the BoxSize of snapshots]; period=none
  sphere=ra,dec      columns of longitude and latitude: regions of the sky use them, and the
                     longitude repeats
  metadata=run=7     metadata of the table, as JSON or text
  capacity=4096      number of records that a cube keeps
  seed=7             seed of the samples [default: 0]
  compression=small  compression level: fast, balanced or small [default: balanced];
                     kubist alter changes it
  strata=windows     order for loaders of random batches (docs/training.md): halvings or windows
                     [default: halvings]; or strata=ptype: samples prefer rare values of these columns
                     (docs/samples.md)
  least=100          with strata=ptype: samples of 1 % have about this many rows of each value or more
  weight=diameter    samples prefer rows in proportion to an expression (docs/samples.md)
  replication=full   copies that the optimizer makes in deeper cubes: none, outlook, outlook(BOOST),
                     full or full(HEIGHT) [default: outlook(-1)]; copies make small boxes cheaper
  shared             several machines write to it: its directory is on NFS, Lustre, GPFS or a similar
                     file system; a new table on a known one is shared without this option

Options of --read:
  columns=x,y        the columns to read; the others are left out
  types=pid=int64    column types of a new table, instead of those of the files
  delimiter=space    the delimiter of CSV: a character, tab, or space for runs of blanks
                     [default: found in the first line]
  names=hip,ra,dec   the column names of CSV files without a line of names
  null=NA,-999       fields of CSV that are missing values in every column, next to empty ones
  decimal=,          the decimal mark of CSV [default: .]; with a comma, the delimiter found is no comma
  format=lammps      the format, if names and first bytes of the files do not show it
  topology=top.pdb   the topology of a trajectory: a file that MDAnalysis reads
  time=2.5           the time of files without one
  hdu=SOURCES        the table of a FITS file, by name or number [default: the first with positions]
  particles=0,1      types of particles of a snapshot: numbers, or names such as PartType0
                     [default: all]
  crs=EPSG:25832     the coordinate system of the table for LAS: positions of other files are
                     transformed into it
  strict             refuse a file if a column, keyword or table of it would be left out
  bad_rows=skip      skip rows without a position, and report their number [default: refuse]
  max_record=16MiB   largest record of a file: its line, or its values; this limit and the next three
                     keep a damaged or hostile file from using all memory
  max_columns=10000  largest number of columns of a file
  max_inflation=100  most bytes of records for each byte of the file, beyond 256 MiB
  max_batch=1GiB     largest part of a file that is read at once: a batch of Arrow IPC after
                     decompression, or pages of Parquet

Options of --writer:
  name=late          the writer's name [default: the first free one of writer-1, writer-2, ...]
  memory_bytes=1GiB  memory of a commit before it spills to disk
  optimize           restore the layout in the background, with a part of one core

Examples:
  kubist ingest airway.kubist step_*.parquet --dimensions x,y,z,time --identity pid,time
  kubist ingest airway.kubist step_28.csv
  kubist ingest sky.kubist stars.dat --read delimiter=space --read names=hip,ra,dec --dimensions ra,dec
  kubist ingest sky.kubist stars.npz --dimensions ra=0:360,dec=-90:90 --create units=ra=deg,dec=deg
  kubist ingest run.kubist out.parquet --dimensions x,y,z=quantile --read columns=x,y,z,vel_0
  kubist ingest run.kubist traj.xtc --read topology=top.pdb
  kubist ingest sky.kubist 'snapshot_*.hdf5' --dry-run
  kubist ingest case.kubist case/ --follow

Exit codes: see kubist --help")]
pub struct Ingest {
    /// A directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub table: Location,
    /// Files, folders and patterns, in the order of their commits
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// 1 to 8 columns to index, of a new table, with the domains of their values: x=0:1,y,z=quantile
    ///
    /// A missing domain is learned from the first commit and widened; with =quantile from quantiles, for skewed
    /// values. Records outside a domain are stored, and queries find them.
    #[arg(long, value_name = "COLUMN[=DOMAIN]", value_delimiter = ',', value_parser = parse::dimension)]
    pub dimensions: Vec<DimensionText>,
    /// The columns that identify a record, of a new table; a sample keeps or drops records with equal values
    /// together
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub identity: Vec<String>,
    /// Options of a new table, such as compression=small; listed below (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse::grouped)]
    pub create: Vec<Entry>,
    /// Options of reading, such as delimiter=space; listed below (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse::grouped)]
    pub read: Vec<Entry>,
    /// Options of the writer, such as name=late; listed below (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse::grouped)]
    pub writer: Vec<Entry>,
    /// Commit after this many records, and at the end of each file [default: one commit per file]
    #[arg(long, value_name = "RECORDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub commit_rows: Option<u64>,
    /// Print columns, units, identity, dimensions and steps, and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Wait for the files and steps of a running simulation, until an interrupt, or until nothing arrived for
    /// this time: --follow=10min
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, value_parser = parse::seconds)]
    pub follow: Option<Option<Duration>>,
    /// Ingest files and steps again that the table already has
    #[arg(long, conflicts_with = "follow")]
    pub again: bool,
    /// Continue with the next file if one cannot be read; none of its rows is written
    #[arg(long)]
    pub keep_going: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Add columns to a table, or change its settings, units and metadata
///
/// Existing rows, and rows of files that lack an added column, get its default. Running readers and writers see
/// the change at their next step. Columns cannot be removed, and an added column cannot be a dimension.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist alter airway.kubist --add-column age:float64=0 --add-column note:string
  kubist alter airway.kubist --unit x=m,diameter=um --no-unit pid
  kubist alter airway.kubist --set solver=alya --set 'inlet={\"flow\": 0.5}' --unset draft
  kubist alter airway.kubist --of x --set axis=streamwise
  kubist alter airway.kubist --compression small
  kubist alter /lustre/run.kubist --shared

Exit codes: see kubist --help")]
pub struct Alter {
    /// A directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub table: Location,
    /// A column to add; without a default, missing values are null (repeatable)
    #[arg(long, value_name = "NAME:TYPE[=DEFAULT]", value_parser = parse::new_column)]
    pub add_column: Vec<parse::ColumnText>,
    /// Make the added columns non-nullable
    #[arg(long, requires = "add_column")]
    pub required: bool,
    /// Error bounds of added columns: age=1e-3, 'age=1e-4 rel' (repeatable)
    #[arg(long, value_name = "BOUNDS", requires = "add_column")]
    pub accuracy: Vec<Bounds>,
    /// Units of columns: x=m,v=m/s (repeatable)
    #[arg(long, value_name = "UNITS")]
    pub unit: Vec<Units>,
    /// Columns whose unit is removed
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub no_unit: Vec<String>,
    /// Set a metadata entry; the value is JSON, or else text (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse::entry)]
    pub set: Vec<(String, serde_json::Value)>,
    /// Remove a metadata entry (repeatable)
    #[arg(long, value_name = "KEY")]
    pub unset: Vec<String>,
    /// Apply --set and --unset to this column instead of the table
    #[arg(long, value_name = "COLUMN")]
    pub of: Option<String>,
    /// The compression level of rows written from now on: fast, balanced or small
    ///
    /// `kubist optimize --recompress` rewrites the existing rows.
    #[arg(long, value_name = "LEVEL")]
    pub compression: Option<Compression>,
    /// The strata of rows written from now on: halvings, or windows for loaders of random batches
    ///
    /// `kubist optimize --recompress` rewrites the existing rows.
    #[arg(long, value_name = "STRATA")]
    pub strata: Option<Strata>,
    /// Allow several machines to write to the table's directory; this cannot be undone
    #[arg(long)]
    pub shared: bool,
}

/// Copy all rows into a new table, optionally with another grid
///
/// Copies one snapshot, while others may write; the copy becomes visible as a whole. It keeps columns,
/// identity, samples, steps, units and metadata, but not the history of commits or the declared writers of
/// steps. `--types` widens columns for later files.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist copy airway.kubist backup.kubist
  kubist copy airway.kubist better.kubist --dimensions x=0:0.2,y,z=quantile --capacity 4096
  kubist copy airway.kubist by_time.kubist --dimensions time,x,y,z
  kubist copy halos.kubist wide.kubist --types id=uint64,mass=float64

Exit codes: see kubist --help")]
pub struct Copy {
    /// A directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub table: Location,
    /// The new table: a directory, s3://bucket/prefix or cassandra://hosts/keyspace/table; it must not exist
    pub other: Location,
    /// The columns to index, with their domains: x=0:1,y,z=quantile [default: the same grid]
    ///
    /// A missing domain is derived from a sample of all rows.
    #[arg(long, value_name = "COLUMN[=DOMAIN]", value_delimiter = ',', value_parser = parse::dimension)]
    pub dimensions: Vec<DimensionText>,
    /// The number of rows that a cube keeps [default: the same]
    #[arg(long, value_name = "ROWS")]
    pub capacity: Option<u32>,
    /// Wider types of columns: integers or floats that hold every value of the column
    #[arg(long, value_name = "COLUMN=TYPE,...")]
    pub types: Option<parse::Types>,
    /// The strata of the copy: halvings, or windows for loaders of random batches [default: the same]
    #[arg(long, value_name = "STRATA")]
    pub strata: Option<Strata>,
    /// Periods of columns: x=25,ra=360, or the interval of the values: x=-12.5:12.5 [default: the same]
    #[arg(long, value_name = "COLUMN=PERIOD,...", allow_hyphen_values = true)]
    pub period: Option<parse::Periods>,
    /// Copy only up to this step of the simulation, which must be complete
    #[arg(long, allow_hyphen_values = true)]
    pub step: Option<i64>,
    /// Memory to use before rows spill to disk, like 256MiB
    #[arg(long, value_name = "SIZE", value_parser = parse::bytes)]
    pub memory: Option<usize>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Exchange the changes of two copies of a table, both ways
///
/// Both sites may meanwhile append, retract steps, add columns and set metadata without a network. If one table
/// does not exist, it becomes a copy of the other. Only missing commits are sent. The command can be killed and
/// repeated.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist sync airway.kubist laptop.kubist
  kubist sync airway.kubist s3://lab/airway --push
  kubist sync /data/airway.kubist laptop.kubist --watch

Exit codes: see kubist --help")]
pub struct Sync {
    /// A directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub table: Location,
    /// The other copy's directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub other: Location,
    /// Only bring changes of the first table to the second
    #[arg(long, conflicts_with = "pull")]
    pub push: bool,
    /// Only take changes of the second table into the first
    #[arg(long)]
    pub pull: bool,
    /// Continue as the tables change, also after a failed connection, until interrupted
    #[arg(long)]
    pub watch: bool,
    /// The time from one exchange to the next, like 30s or 5min [default: 10s]
    #[arg(long, value_name = "TIME", requires = "watch", value_parser = parse::seconds)]
    pub every: Option<std::time::Duration>,
    /// Memory to use before rows spill to disk, like 256MiB
    #[arg(long, value_name = "SIZE", value_parser = parse::bytes)]
    pub memory: Option<usize>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The data that a partial copy holds.
#[derive(Debug, Args)]
pub struct Part {
    /// The fraction of the rows: 0.01 or 1%
    #[arg(long, value_name = "FRACTION", value_parser = parse::fraction)]
    pub sample: Option<f64>,
    /// Closed ranges of the rows, as for query: x=0.1:0.2,y=:0.5 (repeatable; all must hold)
    #[arg(long = "box", value_name = "RANGES")]
    pub ranges: Vec<parse::Ranges>,
    /// The columns, besides the columns that choose rows [default: all]
    #[arg(long, value_name = "COLUMNS", value_parser = parse::columns)]
    pub columns: Option<parse::Columns>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Make a partial copy of a table, for queries without a network
///
/// The copy has the manifest and the chosen part of the rows. It answers each query on this part exactly as its
/// source does. Other queries fail and say how much is missing, or fetch it (query --fetch). A killed command is
/// continued by the same command.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist clone /data/airway.kubist laptop.kubist --sample 1%
  kubist clone s3://lab/airway laptop.kubist --box x=0.1:0.2 --columns x,y,z,diameter

Exit codes: see kubist --help")]
pub struct CloneTable {
    /// A directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub table: Location,
    /// A new directory for the copy
    pub copy: Location,
    #[command(flatten)]
    pub part: Part,
}

/// Add data to a partial copy, and bring it up to date
///
/// Without options it only takes the new rows of the source, for the part that the copy holds.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist deepen laptop.kubist --sample 5%
  kubist deepen laptop.kubist --box x=0.1:0.2
  kubist deepen laptop.kubist

Exit codes: see kubist --help")]
pub struct Deepen {
    /// The directory of a copy that kubist clone made
    pub copy: Location,
    #[command(flatten)]
    pub part: Part,
}

/// Seal a table into one file
///
/// The file has all rows of a snapshot, while others may write, and appears only when it is complete. It never
/// changes. Every command that reads opens it at its path, at http:// or https:// on a server with range
/// requests, or at s3://bucket/key.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist pack airway.kubist airway.kubist1
  kubist plot airway.kubist1 --axes x,y --output airway.png
  kubist query https://example.org/airway.kubist1 --sample 0.01

Exit codes: see kubist --help")]
pub struct Pack {
    /// A directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub table: Location,
    /// The new file; it must not exist
    pub file: PathBuf,
    /// Pack only up to this step of the simulation, which must be complete
    #[arg(long, allow_hyphen_values = true)]
    pub step: Option<i64>,
    /// Memory to use before rows spill to disk, like 256MiB
    #[arg(long, value_name = "SIZE", value_parser = parse::bytes)]
    pub memory: Option<usize>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Copy a sealed file into a table that can be written
///
/// All checksums of the file are compared first. The table becomes visible as a whole.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist unpack airway.kubist1 airway.kubist

Exit codes: see kubist --help")]
pub struct Unpack {
    /// The sealed file, which `kubist pack` wrote; `kubist copy` copies one from a server
    pub file: PathBuf,
    /// The new table: a directory, s3://bucket/prefix or cassandra://hosts/keyspace/table; it must not exist
    pub table: Location,
    /// Memory to use before rows spill to disk, like 256MiB
    #[arg(long, value_name = "SIZE", value_parser = parse::bytes)]
    pub memory: Option<usize>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Change the indexed columns or their domains
///
/// All rows move to the new grid while others may write and read; query results stay the same. You can
/// interrupt it at any time: `kubist optimize` continues the move.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist regrid airway.kubist
  kubist regrid airway.kubist --dimensions x=0:0.2,y,z
  kubist regrid airway.kubist --dimensions time,x=quantile,y=quantile

Exit codes: see kubist --help")]
pub struct Regrid {
    /// A directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub table: Location,
    /// The columns to index, with their domains: x=0:1,y,z=quantile [default: the same columns and
    /// scales, with domains derived again]
    ///
    /// A missing domain is derived from a sample of all rows.
    #[arg(long, value_name = "COLUMN[=DOMAIN]", value_delimiter = ',', value_parser = parse::dimension)]
    pub dimensions: Vec<DimensionText>,
    /// Periods of columns: x=25,ra=360, or the interval of the values: x=-12.5:12.5 [default: the same]
    #[arg(long, value_name = "COLUMN=PERIOD,...", allow_hyphen_values = true)]
    pub period: Option<parse::Periods>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Improve the layout after many small commits
///
/// Small commits leave rows high in the tree and many runs in each cube, so queries read more than they return.
/// The optimizer moves these rows down while others write and read. You can interrupt it at any time.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist optimize airway.kubist
  kubist optimize airway.kubist --watch --debt 50%
  kubist optimize airway.kubist --replication outlook
  kubist alter airway.kubist --compression small; kubist optimize airway.kubist --recompress

Exit codes: see kubist --help")]
pub struct Optimize {
    /// A directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub table: Location,
    /// Rewrite a part of the tree when this fraction of its rows is in the wrong cube (default 5%; 50% with
    /// --watch, which writes less)
    #[arg(long, value_name = "FRACTION", value_parser = parse::fraction)]
    pub debt: Option<f64>,
    /// Rows to copy into deeper cubes: none, outlook, outlook(BOOST), full or full(HEIGHT) [default: the
    /// table's setting]
    #[arg(long, value_name = "POLICY")]
    pub replication: Option<Replication>,
    /// Rewrite the rows whose compression or strata differ from the table's settings (`kubist alter` sets
    /// them)
    #[arg(long)]
    pub recompress: bool,
    /// Continue as the table grows, with a part of one core, until interrupted
    #[arg(long)]
    pub watch: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Delete files that no snapshot needs any more
///
/// Files of rewritten rows stay for readers of old snapshots. This command records files that are no longer
/// needed, and deletes those recorded longer ago than the retention time. In a directory on one machine, it
/// also frees unneeded parts of files that hold other rows. With a retention of 0 it records nothing, so it can
/// free space on a full disk.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist clean airway.kubist
  kubist clean airway.kubist --retention-hours 0

Exit codes: see kubist --help")]
pub struct Clean {
    /// A directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub table: Location,
    /// How long old snapshots stay readable
    #[arg(long, value_name = "HOURS", default_value_t = 24.0)]
    pub retention_hours: f64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Show or empty the local cache of remote tables
///
/// The environment variable KUBIST_CACHE names the cache folder, KUBIST_CACHE_SIZE its capacity (500MB,
/// 20GiB; default 10GiB). Tables on S3 are read through it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist cache
  kubist cache --clear
  kubist cache s3://results/run --clear

Exit codes: see kubist --help")]
pub struct Cache {
    /// Only the cached objects of this table, s3://bucket/prefix; its settings do not matter
    pub table: Option<Location>,
    /// Remove the cached objects
    #[arg(long)]
    pub clear: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Remove the steps after a step, to undo or to continue from a checkpoint
///
/// New readers do not see their rows, and writers can commit these steps again. Stop their writers first,
/// because later commits count. Commits without a step stay.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist retract airway.kubist --step-after 41

Exit codes: see kubist --help")]
pub struct Retract {
    /// A directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub table: Location,
    /// The last step to keep
    #[arg(long, value_name = "STEP", allow_hyphen_values = true)]
    pub step_after: i64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Delete a table
///
/// Deletes the files of the table, then its directory if it is empty. Asks for confirmation on a terminal, and
/// refuses while a writer is running. If it was interrupted, run it again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist drop old.kubist
  kubist drop old.kubist --yes

Exit codes: see kubist --help")]
pub struct Drop {
    /// A directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub table: Location,
    /// Do not ask for confirmation
    #[arg(long)]
    pub yes: bool,
    /// Delete even while a writer is running; its commits are lost
    #[arg(long)]
    pub force: bool,
    /// Print the deleted files as JSON
    #[arg(long)]
    pub json: bool,
}
