//! The chains of a table (`kubist_format::chain`) in a history, and the stamps of their objects.

use std::collections::HashMap;

use kubist_format::chain::Chain;
use kubist_format::history::History;
use kubist_store::Stamp;

use crate::files::TableFiles;

/// The stamps of the last comparison with the store.
#[derive(Default)]
pub struct ComparedStamps {
    pub objects: HashMap<String, Stamp>,
    pub logs: HashMap<String, (u64, Stamp)>,
}

pub fn rewritten(files: &TableFiles, rewrites: u64, history: &History) -> Chain {
    if rewrites == 0 { Chain::of_rewrites(&files.header.id) } else { history.rewritten }
}

pub fn altered(files: &TableFiles, alterations: u64, history: &History) -> Chain {
    if alterations == 0 { Chain::of_alterations(&files.header.id) } else { history.altered }
}

pub fn logged(files: &TableFiles, writer: &str, history: &History) -> Chain {
    let own = history.writers.get(writer).filter(|own| own.commits > 0);
    own.map_or_else(|| Chain::of_log(&files.header.id, writer), |own| own.chain)
}
