//! Commands of the catalogue.

use clap::{Args, Subcommand};

/// Keep tables and runs under names, with tags, notes and parameters, and exchange them between sites
///
/// Each site has a catalogue of its own, a directory or the URL of a store. docs/catalogue.md is a guide.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubist catalog create /data/catalogue --site bsc
  export KUBIST_CATALOG=/data/catalogue
  kubist catalog add airway/run-17 airway.kubist --tag final --param Re=2400
  kubist catalog find 'Re > 2000 and tag = \"final\"'
  kubist catalog sync s3://group/catalogue

Exit codes: see kubist --help")]
pub struct Catalog {
    /// The catalogue: a directory, s3://bucket/prefix or cassandra://hosts/keyspace/table [default:
    /// KUBIST_CATALOG]
    #[arg(long, global = true, value_name = "LOCATION")]
    pub catalog: Option<String>,
    #[command(subcommand)]
    pub action: Action,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Make an empty catalogue
    Create {
        /// Its location: an unused directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
        location: String,
        /// The name of this site, unique among all that exchange changes [default: from the machine's name]
        #[arg(long)]
        site: Option<String>,
    },
    /// Add a name, or properties to a known name
    ///
    /// The parameters of a table are its metadata; options replace single ones.
    Add(Add),
    /// Remove a name; tables stay
    Remove {
        /// The name
        name: String,
    },
    /// Add tags to a name, or remove them
    Tag {
        /// The name
        name: String,
        /// The tags
        #[arg(required = true)]
        tags: Vec<String>,
        /// Remove the tags
        #[arg(long)]
        remove: bool,
    },
    /// Write the note of a name
    Note {
        /// The name
        name: String,
        /// The note
        text: String,
    },
    /// Set parameters of a name, or its owner
    Set {
        /// The name
        name: String,
        /// Parameters: Re=2400, solver=alya, converged=true
        #[arg(required_unless_present = "owner", value_name = "NAME=VALUE")]
        params: Vec<String>,
        /// The person responsible for it
        #[arg(long)]
        owner: Option<String>,
    },
    /// Print the names that satisfy a condition
    Find {
        /// A condition, such as 'Re > 2000 and tag = "final"'
        condition: Option<String>,
        /// Words that must be in the name, tags, notes, owner or parameters
        #[arg(long)]
        text: Option<String>,
        /// Print whole entries as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print all names
    List {
        /// Only names that begin with this text
        prefix: Option<String>,
        /// Print whole entries as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the properties of a name
    Show {
        /// The name
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the location of the first copy that can be opened here, and count a read
    #[command(after_help = "\
Example:
  kubist query \"$(kubist catalog where airway/run-17)\" --sample 0.01

Exit codes: see kubist --help")]
    Where {
        /// The name
        name: String,
    },
    /// Exchange changes with the catalogue of another site, both ways
    Sync {
        /// The other catalogue: a directory, s3://bucket/prefix or cassandra://hosts/keyspace/table
        other: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the sites whose changes are here
    Sites {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete log lines that all known sites have
    Prune,
}

#[derive(Debug, Args)]
pub struct Add {
    /// The name, such as airway/run-17
    pub name: String,
    /// Locations of copies of the table
    pub locations: Vec<String>,
    /// A tag (repeatable)
    #[arg(long = "tag")]
    pub tags: Vec<String>,
    /// A parameter: Re=2400 (repeatable)
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub params: Vec<String>,
    /// A note
    #[arg(long)]
    pub note: Option<String>,
    /// The person responsible for it
    #[arg(long)]
    pub owner: Option<String>,
    /// The kind of the entry
    #[arg(long, default_value = "table")]
    pub kind: String,
}
