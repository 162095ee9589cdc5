//! The scalability model: a query's time as a function of request size and number of nodes.
//!
//! The model is from C. Cugnasco, Y. Becerra, J. Torres, E. Ayguadé, "Exploiting key-value data stores scalability for
//! HPC" (2017), which is section 2.11 of Cugnasco's thesis.
//!
//! A query of n elements is cut into requests of equal size. One client sends them, the nodes serve them, and the
//! client receives the results; the slowest of the three determines the time (formula 2). Small requests spread evenly
//! but cost more in total; large requests spread unevenly. The best size falls as nodes are added.
//!
//! This crate is pure: it has no clock and no random numbers.
//!
//! Interpretation of the paper where it is ambiguous:
//!
//! - `log` is the natural logarithm. Only then do 200 keys on 10 nodes give the 34 % of section II, and only then do
//!   formulas 6 to 8 have their best size near 160 elements. The 3,300 and 4,000 rows of section VII (300 and 250
//!   elements) follow from no base.
//! - `keys` in formulas 3 and 5 are the requests of the query, not the keys of the table.
//! - The first term of formula 2 is used as the time for all requests, as in formula 3. Formula 2 calls it the time for
//!   one request.
//! - Section VII gives the message time of 19 µs as 19 * 10^-9 s. The 9.7 ms for 512 messages in the same section show
//!   that it is in microseconds.
//! - In section VII a single client is the bottleneck with more than 70 nodes. The model gives 69 nodes with the best
//!   request size for 1 node. With the best size for each number of nodes, requests are smaller and the limit is 46.
//! - Formula 7 falls below 1 for very large requests. One request at a time is always possible, so the printed
//!   constants use a lower limit of 1.
//! - Formula 2 has a term for fetching results without a formula. It is modelled as a time per request plus a time per
//!   element, and is zero in the printed constants.

mod advice;
mod balance;
mod costs;
mod database;
mod fit;
mod fitted;
mod model;

pub use advice::{Advice, Workload, advise};
pub use balance::{imbalance, most_loaded};
pub use costs::{Costs, PRICES, Prices};
pub use database::{Line, RequestTime, Speedup};
pub use fit::{Fit, Level, Measured, Residual, Unfit};
pub use fitted::{Fitted, TableSize};
pub use model::{Bound, Model, Prediction, ReplicaSelection};
