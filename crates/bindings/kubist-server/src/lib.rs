//! Tables over HTTP, and the page that shows them.
//!
//! One process, HTTP/1.1, JSON in and JSON, Arrow or points out (docs/http.md; the
//! description that programs read is served at `/v1/openapi.json`). It guarantees:
//!
//! - only the tables that it was given are read, and nothing is ever written;
//! - on loopback only requests that name this machine are answered, so that no page of
//!   another site reads a table; elsewhere a token is demanded;
//! - the cost of a client is bounded: bytes of a request, time, memory and number of
//!   questions, seconds that an answer may stay unread;
//! - slow, silent or numerous clients keep no others out;
//! - work ends as soon as its client is gone.
//!
//! The engine's calls are synchronous and run on threads of their own; the connections
//! share one thread that only waits.

mod answer;
mod ask;
mod connections;
mod estimate;
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
