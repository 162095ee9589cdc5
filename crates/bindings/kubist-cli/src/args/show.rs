//! Commands that draw.

use std::path::PathBuf;

use clap::Args;

use super::question::Region;
use crate::location::Location;
use crate::parse::{self, Entry};

/// Draw a picture of a region
///
/// Every point is a small disc; where discs meet, their values are averaged, so
/// that the picture does not depend on the order of the records. Without --color
/// the colour is the density. The sample is as large as --limit allows.
///
/// In an SVG or a PDF axes, words and colour bar are lines and text, and the points
/// an image of as many pixels as in a PNG. Where both axes have the same unit, and
/// one unit is as long across as up, a scale bar shows a length.
///
/// --animate draws a picture for each value of a column, all with the same axes,
/// colours and sample: as .gif, as .mp4 (by ffmpeg, where it is installed), or as
/// PNGs in a new folder.
#[derive(Debug, Args)]
#[command(after_help = "\
Options of --style:
  colormap=magma  viridis, magma, inferno, plasma, cividis, turbo, coolwarm (for values around a
                  middle) or gray [default: viridis]
  theme=dark      dark axes on white paper, or light ones on dark [default: paper]
  aspect=equal    whether one unit is as long across as up: auto (yes for spatial axes of one
                  unit), equal or fill [default: auto]
  point_size=2    a point's radius in pixels [default: smaller the more points]
  fps=24          pictures a second, in a .gif or .mp4 [default: 10]

Examples:
  kubist plot airway.kubist --axes x,y --color ux -o airway.png
  kubist plot airway.kubist --axes x,z --color diameter --log --box time=0.3 --style colormap=magma -o now.png
  kubist plot sky.kubist --axes ra,dec --limit 1000000 --size 1600x900 --title Gaia -o sky.png
  kubist plot airway.kubist --axes y,x --title 'Droplets at 0.3 s' --box time=0.3 -o figure.pdf
  kubist plot airway.kubist --axes y,x --color ux --style theme=dark --animate time -o airway.gif
  kubist plot storm.kubist --axes lon,lat --animate when --frames 120 --style fps=24 -o storm.mp4

Exit codes: see kubist --help")]
pub struct Plot {
    /// The table's directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub table: Location,
    /// The two columns to draw: across, up
    #[arg(long, value_name = "X,Y", value_delimiter = ',', required = true)]
    pub axes: Vec<String>,
    /// The column that colours the points [default: the density of the points]
    #[arg(long, value_name = "COLUMN")]
    pub color: Option<String>,
    /// The picture: .png, .svg or .pdf; of --animate: .gif, .mp4 or a folder/ of PNGs
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    #[command(flatten)]
    pub region: Region,
    /// At most this many records, a uniform sample, in each picture [default: 200000, without --sample]
    #[arg(long, value_name = "RECORDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// Colours on a logarithmic scale
    #[arg(long)]
    pub log: bool,
    /// What the colours span: 0:5, :5 or 0: [default: nearly all values; arrows mark those beyond]
    #[arg(long, value_name = "LO:HI", value_parser = parse::number_range, allow_hyphen_values = true)]
    pub range: Option<(Option<f64>, Option<f64>)>,
    /// Width and height in pixels; text and lines grow with it [default: 1200 wide, as high as the data asks]
    #[arg(long, value_name = "WxH", value_parser = parse::size)]
    pub size: Option<(u32, u32)>,
    /// How it looks, as colormap=magma,theme=dark; listed below
    #[arg(long, value_name = "KEY=VALUE,...", value_delimiter = ',', value_parser = parse::grouped)]
    pub style: Vec<Entry>,
    /// A line above the picture
    #[arg(long)]
    pub title: Option<String>,
    /// A picture for each value of this column, one after the other
    #[arg(long, value_name = "COLUMN")]
    pub animate: Option<String>,
    /// So many pictures, of equal parts of that column [default: one for each value]
    #[arg(long, value_name = "N", requires = "animate", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub frames: Option<u32>,
    /// Print the cost and what was drawn as JSON
    #[arg(long)]
    pub json: bool,
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
    /// What clients must show: at least 16 letters and digits
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
    /// machine can see: on a shared machine open the printed address yourself.
    #[arg(long)]
    pub open: bool,
}
