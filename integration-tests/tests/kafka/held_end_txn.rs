//! What an instance says to end a transaction, or what the broker answers, comes late: the instance is taken for dead meanwhile, or
//! sends it again. Nothing may be lost and nothing may be there twice, whether the broker had heard of it in time or not.

use thalweg_processor::Streams;

use crate::broker;
use crate::proxy::{END_TXN, Proxy, Way};
use crate::world::{World, until};

const PARTITIONS: i32 = 4;
const SESSION_MS: u64 = 2000;
/// Longer than a session: the others wait for its end.
const TRANSACTION_MS: u64 = 3000;

/// Kafka's numbers for a producer that is not the current one any more.
const REFUSED: [i16; 2] = [47, 90];

/// An application of two instances, one of them behind a proxy.
struct Two {
    world: World,
    proxy: Proxy,
    behind: Streams,
    other: Streams,
}

impl Two {
    fn new(name: &str) -> Self {
        let mut world = World::new(name, PARTITIONS);
        world.session_timeout_ms = Some(SESSION_MS);
        world.transaction_timeout_ms = Some(TRANSACTION_MS);
        let proxy = Proxy::to(broker::address());
        let behind = world.start("behind", proxy.address());
        let other = world.start("other", broker::address());
        world.await_shared(&[&behind, &other]);
        world.feed(1000);
        world.await_output();
        Self { world, proxy, behind, other }
    }

    /// Holds a message of the next commit of the instance behind the proxy.
    fn hold(&self, way: Way) {
        self.proxy.hold(END_TXN, way);
        self.world.feed(1000);
        self.proxy.await_held();
    }

    /// Nothing of the instance is heard, until all of its work has been done by the other one.
    fn be_taken_for_dead(&mut self) {
        self.proxy.block(true);
        self.world.await_output();
        let others = self.other.metrics().snapshot().tasks;
        assert_eq!(others, self.world.tasks(), "the other one has everything");
    }

    /// What is held arrives, and then all that the instance has to say.
    fn arrive_late(&self) -> Option<Vec<u8>> {
        let reply = self.proxy.release();
        self.proxy.block(false);
        reply
    }

    /// The instance is one of two again, and all is well.
    fn assert_exact(mut self) {
        until("it has noticed", || self.behind.metrics().snapshot().tasks_lost > 0);
        self.world.await_shared(&[&self.behind, &self.other]);
        self.world.feed(1000);
        self.world.await_output();
        self.world.assert_exact(vec![self.behind, self.other]);
    }
}

/// The error in the broker's answer, which follows the time that the request was throttled for.
fn error(reply: Option<Vec<u8>>) -> i16 {
    let reply = reply.expect("a request was held");
    i16::from_be_bytes([reply[4], reply[5]])
}

#[test]
fn a_commit_that_did_not_arrive_until_its_instance_was_replaced_is_refused_and_done_over_by_others()
{
    let mut two = Two::new("held-request");
    two.hold(Way::Request);
    two.be_taken_for_dead();
    let answer = error(two.arrive_late());
    assert!(REFUSED.contains(&answer), "{answer}");
    two.assert_exact();
}

#[test]
fn a_commit_that_arrived_and_whose_answer_did_not_counts_and_is_not_done_over_by_others() {
    let mut two = Two::new("held-reply");
    two.hold(Way::Reply);
    two.be_taken_for_dead();
    assert_eq!(two.arrive_late(), None);
    two.assert_exact();
}

#[test]
fn a_copy_of_a_commit_that_arrives_in_a_later_transaction_is_refused_and_costs_a_producer() {
    let two = Two::new("held-copy");
    two.hold(Way::Request);
    // It is sent again over another connection.
    two.proxy.cut();
    let Two { mut world, proxy, behind, other } = two;
    world.await_output();
    let reply = world.while_feeding(2000, || {
        let commits = || behind.metrics().snapshot().commits;
        let before = commits();
        until("it has gone on", || commits() > before + 2);
        let reply = proxy.release();
        let before = commits();
        until("it goes on", || commits() > before + 2);
        reply
    });
    assert!(REFUSED.contains(&error(reply)));
    world.await_output();
    let numbers = behind.metrics().snapshot();
    assert_eq!((numbers.recoveries, numbers.tasks_lost), (0, 0), "nothing was done over");
    world.assert_exact(vec![behind, other]);
}
