//! The trait's promises, on a real cluster.

mod common;

use kubist_store::conformance;

#[test]
#[ignore = "needs a Cassandra cluster: KUBIST_TEST_CASSANDRA"]
fn a_cluster_keeps_the_promises_of_a_store() {
    conformance::run(&mut || common::store());
}
