//! What a partial copy holds.

use kubist_store::Partial;
use kubist_types::QuerySpec;

/// The chosen content of a partial copy.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct PartialCopy {
    /// The location of the source.
    pub source: String,
    /// Bytes of the source's segments that the copy holds.
    pub held_bytes: u64,
    /// The copy answers all queries on the region of one of these, up to its sample fraction and over its columns.
    pub queries: Vec<QuerySpec>,
    /// All columns of these queries; `None` for all columns of the table.
    pub columns: Option<Vec<String>>,
}

impl PartialCopy {
    pub(crate) fn of(partial: &dyn Partial) -> PartialCopy {
        let queries = queries(partial);
        let (source, columns) = (partial.source().into(), chosen_columns(&queries));
        PartialCopy { source, held_bytes: partial.held_bytes(), queries, columns }
    }
}

/// The queries that a copy was made for.
pub(crate) fn queries(partial: &dyn Partial) -> Vec<QuerySpec> {
    partial.wanted().iter().filter_map(|query| serde_json::from_slice(query).ok()).collect()
}

/// The columns of all these queries; `None` for all columns.
pub(crate) fn chosen_columns(queries: &[QuerySpec]) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for query in queries {
        for column in query.columns.as_ref()? {
            if !all.contains(column) {
                all.push(column.clone());
            }
        }
    }
    (!queries.is_empty()).then_some(all)
}
