//! How a query's time depends on the size of its requests and on the number of nodes: the
//! model of C. Cugnasco, Y. Becerra, J. Torres, E. Ayguadé, "Exploiting key-value data
//! stores scalability for HPC" (2017), which is section 2.11 of Cugnasco's thesis.
//!
//! A query of n elements is cut into requests of one size each. One client sends them
//! all, the nodes serve them, the client takes the answers; the slowest of the three decides
//! (formula 2). Small requests spread evenly and cost much each; large ones do not spread.
//! So there is a best size, and it falls as nodes are added.
//!
//! Pure: measurements come in as numbers, and nothing here reads a clock or draws a number.
//!
//! Where the paper leaves room, this is how it is read:
//!
//! - `log` is the natural logarithm. Only so 200 keys on 10 nodes give the 34 % of section
//!   II, and only so formulas 6 to 8 have their best size near 160 elements. The 3,300 and
//!   4,000 rows of section VII (300 and 250 elements) follow from no base.
//! - `keys` of formulas 3 and 5 are the requests of the query, not the keys of the table.
//! - Formula 2 calls its first term the time for one request, formula 3 the time for all:
//!   it is for all.
//! - The message of 19 µs is written as 19 * 10^-9 s in section VII; with the 9.7 ms for 512
//!   of them that stand beside it, it is microseconds.
//! - Section VII lets a single client be the bottleneck with more than 70 nodes. With the
//!   requests that are best on one node that is so from 69 nodes on. If their size is chosen
//!   anew for each number of nodes, they become smaller and the client is at its end with 46.
//! - Formula 7 falls below 1 for very large requests; one at a time is always possible, so
//!   1 is its least value as printed.
//! - Formula 2 has a term for fetching results and the paper gives no formula for it. Here
//!   it is a time for each request and each element; as printed it is zero.

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
