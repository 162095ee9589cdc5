//! Serves tables over HTTP, and the page that shows them.
//!
//! One process with HTTP/1.1 and JSON requests; responses are JSON, Arrow or points (docs/http.md; the OpenAPI
//! description is at `/v1/openapi.json`). Guarantees:
//!
//! - The server reads only the given tables and never writes.
//! - On loopback it accepts only requests that name this machine, so no page of another site can read a table.
//!   On other addresses it requires a token.
//! - The cost of a client is bounded: request size, time, memory, concurrent queries, and seconds of unread
//!   response.
//! - Slow, silent or numerous clients do not keep others out.
//! - A query stops as soon as its client disconnects.
//!
//! The engine's synchronous calls have threads of their own. All connections share one thread that never
//! blocks.

mod answer;
mod ask;
mod connections;
mod estimate;
mod forms;
#[doc(hidden)]
pub mod fuzz;
mod guard;
mod histogram;
mod page;
mod points;
mod problem;
mod respond;
mod routes;
mod served_table;
mod server;
mod stall_timeout;

pub use page::DESCRIPTION;
pub use served_table::name_of;
pub use server::{Limits, Options, Server};
