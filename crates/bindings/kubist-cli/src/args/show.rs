//! Commands that draw plots or serve the page.

use std::path::PathBuf;

use clap::Args;

use super::query::Region;
use crate::location::Location;
use crate::parse::{self, Columns, Entry};

/// Draw a plot of a region
///
/// Each point is a small disc, coloured by density unless --color is given. Values are averaged where discs
/// overlap, so the plot does not depend on the order of the rows. The sample has up to --limit rows.
///
/// In SVG and PDF, axes, text and colour bar are vector graphics; the points are an image with the pixels of
/// the PNG. If both axes have the same unit and scale, a scale bar shows a length.
///
/// --animate draws a frame for each value of a column, all with the same axes, colours and sample: as .gif,
/// as .mp4 (needs ffmpeg), or as PNG files in a new folder.
#[derive(Debug, Args)]
#[command(after_help = "\
Options of --style:
  colormap=magma  viridis, magma, inferno, plasma, cividis, turbo, coolwarm (diverging) or gray
                  [default: viridis]
  theme=dark      paper (dark axes on white) or dark (light axes on dark) [default: paper]
  aspect=equal    equal (the same scale on both axes), fill, or auto (equal for spatial axes of
                  one unit) [default: auto]
  log_axes=y      the axes with a logarithmic scale: x, y or xy
  invert_axes=y   the axes to turn around: x, y or xy
  point_size=2    the radius of a point in pixels [default: smaller for more points]
  fps=24          frames per second of a .gif or .mp4 [default: 10]

Examples:
  kubist plot airway.kubist --axes x,y --color ux -o airway.png
  kubist plot airway.kubist --axes x,z --color diameter --log --box time=0.3 --style colormap=magma -o now.png
  kubist plot stars.kubist --axes 'g - r as colour,g + 5*log10(parallax/100) as M' --style invert_axes=y -o hr.png
  kubist plot scan.kubist --axes x,y --color red,green,blue -o scan.png
  kubist plot sky.kubist --axes ra,dec --limit 1000000 --size 1600x900 --title Gaia -o sky.png
  kubist plot airway.kubist --axes y,x --title 'Droplets at 0.3 s' --box time=0.3 -o figure.pdf
  kubist plot airway.kubist --axes y,x --color ux --style theme=dark --animate time -o airway.gif
  kubist plot storm.kubist --axes lon,lat --animate when --frames 120 --style fps=24 -o storm.mp4

Exit codes: see kubist --help")]
pub struct Plot {
    /// A directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
    pub table: Location,
    /// The two columns or expressions to draw: horizontal, vertical
    #[arg(long, value_name = "X,Y", value_parser = parse::columns, required = true)]
    pub axes: Columns,
    /// The column or expression that colours the points [default: the density of the points]
    ///
    /// Strings, booleans and integers with few distinct values have a colour per value. Three columns are red,
    /// green and blue, from 0 to 1 or in 8 or 16 bits.
    #[arg(long, value_name = "COLUMN", value_parser = parse::columns)]
    pub color: Option<Columns>,
    /// The output: .png, .svg or .pdf; with --animate: .gif, .mp4 or a folder/ of PNG files
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    #[command(flatten)]
    pub region: Region,
    /// Draw at most this many rows, a uniform sample, in each plot [default: 200000, without --sample]
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// Use a logarithmic colour scale
    #[arg(long)]
    pub log: bool,
    /// The range of the colours: 0:5, :5 or 0: [default: nearly all values; arrows mark values beyond]
    #[arg(long, value_name = "LO:HI", value_parser = parse::number_range, allow_hyphen_values = true)]
    pub range: Option<(Option<f64>, Option<f64>)>,
    /// Width and height in pixels; text and lines scale with them [default: 1200 wide, the height follows the
    /// data]
    #[arg(long, value_name = "WxH", value_parser = parse::size)]
    pub size: Option<(u32, u32)>,
    /// The style, like colormap=magma,theme=dark; keys are listed below
    #[arg(long, value_name = "KEY=VALUE,...", value_delimiter = ',', value_parser = parse::grouped)]
    pub style: Vec<Entry>,
    /// A line above the plot
    #[arg(long)]
    pub title: Option<String>,
    /// Draw a frame for each value of this column
    #[arg(long, value_name = "COLUMN")]
    pub animate: Option<String>,
    /// Divide that column into this many equal parts, one frame each [default: one for each value]
    #[arg(long, value_name = "N", requires = "animate", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub frames: Option<u32>,
    /// Print the cost and the drawn ranges as JSON
    #[arg(long)]
    pub json: bool,
}

/// Explore tables in the browser
///
/// Serves the explorer page and the tables, read-only and to this machine only, and prints the address.
/// docs/http.md describes the HTTP interface for programs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist view airway.kubist --open
  kubist view run-1.kubist run-2.kubist --port 8080
  kubist view ssh://ada@cluster.example/scratch/ada/run.kubist

With ssh:// the remote machine reads the tables: your ssh client logs in (with your keys and
~/.ssh/config), starts kubist view there, and forwards its port; Ctrl-C ends both. The path
is absolute; ssh://cluster/~/run.kubist is in your home directory.

Exit codes: see kubist --help")]
pub struct View {
    /// The tables' directories, here or as ssh://[user@]host[:port]/path
    #[arg(required = true)]
    pub tables: Vec<Location>,
    /// The port to listen on; 0: any free port
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// The address to listen on; any address other than loopback requires a token
    #[arg(long, default_value = "127.0.0.1")]
    pub address: std::net::IpAddr,
    /// The token that clients must send: at least 16 letters and digits
    ///
    /// With - the token is the first line of standard input, which other users of this machine cannot see.
    /// The server then ends when standard input ends.
    #[arg(long)]
    pub token: Option<String>,
    /// The command on the remote machine, if it is not on the PATH of ssh
    #[arg(long, value_name = "COMMAND", default_value = "kubist")]
    pub remote_kubist: String,
    /// Open the browser
    ///
    /// The browser gets the token on its command line, which other users of this machine can see. On a shared
    /// machine, open the printed address yourself.
    #[arg(long)]
    pub open: bool,
}
