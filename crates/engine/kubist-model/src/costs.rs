//! Costs of a table on an object store: storage per month, and requests of queries and commits.
//!
//! A query is a small box on an open table; `make bench-s3` counts its requests. It lists new rewrites, and checkpoints
//! if the manifest is stored in pages. It reads the next alteration, the declarations, the last and the next writer,
//! the next entry per log, zone maps and rows. A commit writes its rows and its log entry. Network egress is not
//! included, because its price depends on the destination.

/// The environment variable for other prices in dollars: `storage=0.023,put=0.005,get=0.0004`.
pub const PRICES: &str = "KUBIST_S3_PRICES";

/// Prices of Amazon S3 Standard in us-east-1, as of 2025, for the first 50 TB, without taxes:
/// <https://aws.amazon.com/s3/pricing/>.
const OF_AMAZON: Prices =
    Prices { storage: DOLLARS_PER_GIB_AND_MONTH, put: DOLLARS_PER_1000_PUTS_AND_LISTS, get: DOLLARS_PER_1000_GETS };
const DOLLARS_PER_GIB_AND_MONTH: f64 = 0.023;
const DOLLARS_PER_1000_PUTS_AND_LISTS: f64 = 0.005;
const DOLLARS_PER_1000_GETS: f64 = 0.0004;

/// Requests of a small box, in addition to one read for each log.
const LISTS_A_QUESTION: f64 = 1.0;
const GETS_A_QUESTION: f64 = 6.0;
const PUTS_A_COMMIT: f64 = 2.0;

/// Costs of a table on an object store, in dollars.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Costs {
    pub storage_a_month: f64,
    /// Requests of a thousand small queries.
    pub thousand_questions: f64,
    /// Requests of a thousand commits of up to 8 MiB.
    pub thousand_commits: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    storage: f64,
    put: f64,
    get: f64,
}

impl Default for Prices {
    fn default() -> Prices {
        OF_AMAZON
    }
}

impl Prices {
    /// Costs of a table of `bytes` and `logs`; `in_pages` if its manifest is stored in pages.
    pub fn of(self, bytes: u64, logs: usize, in_pages: bool) -> Costs {
        let lists = LISTS_A_QUESTION + f64::from(u8::from(in_pages));
        Costs {
            storage_a_month: bytes as f64 / (1u64 << 30) as f64 * self.storage,
            thousand_questions: lists * self.put + (GETS_A_QUESTION + logs as f64) * self.get,
            thousand_commits: PUTS_A_COMMIT * self.put,
        }
    }

    /// Amazon's prices, except those in `text`, in the format of [`PRICES`].
    ///
    /// # Errors
    ///
    /// A message that names the malformed price.
    pub fn read(text: &str) -> Result<Prices, String> {
        let mut prices = OF_AMAZON;
        for price in text.split(',').filter(|price| !price.trim().is_empty()) {
            let bad = || {
                let form = "storage=0.023,put=0.005,get=0.0004: dollars for a GiB and month, a thousand puts and reads";
                format!("{PRICES}: {price:?} is not a price; write {form}")
            };
            let (name, dollars) = price.split_once('=').ok_or_else(bad)?;
            let dollars: f64 =
                dollars.trim().parse().ok().filter(|price| (0.0..1e9).contains(price)).ok_or_else(bad)?;
            match name.trim() {
                "storage" => prices.storage = dollars,
                "put" => prices.put = dollars,
                "get" => prices.get = dollars,
                _ => return Err(bad()),
            }
        }
        Ok(prices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_follow_bytes_and_requests() {
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        let costs = OF_AMAZON.of(100 << 30, 4, false);
        near(costs.storage_a_month, 2.3);
        near(costs.thousand_questions, 0.005 + 10.0 * 0.0004);
        near(costs.thousand_commits, 0.01);
        near(OF_AMAZON.of(100 << 30, 4, true).thousand_questions, costs.thousand_questions + 0.005);
        let free = Prices::read("put=0, get=0").unwrap().of(1 << 30, 1, false);
        assert_eq!((free.storage_a_month, free.thousand_questions, free.thousand_commits), (0.023, 0.0, 0.0));
        for text in ["much", "storage=-1", "egress=0.09", "get=NaN", "put="] {
            let error = Prices::read(text).unwrap_err();
            assert!(error.contains("KUBIST_S3_PRICES") && error.contains(text), "{error}");
        }
    }
}
