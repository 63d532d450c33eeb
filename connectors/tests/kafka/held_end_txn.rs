//! A request to end a transaction is late: the connection broke, librdkafka sent it again over another one, and the first copy
//! arrives in the middle of the next transaction of the same transactional id. Nothing in the request tells the transactions apart;
//! only a new epoch does, which a new producer brings.

use std::thread;

use thalweg_connectors::*;

use crate::contract::support::*;
use crate::proxy::{END_TXN, Proxy, Way};
use crate::scoped::Scoped;
use crate::{bench_of, broker, cluster, cluster_at};

/// Kafka's numbers of what it answers.
const DONE: i16 = 0;
const INVALID_PRODUCER_EPOCH: i16 = 47;
const PRODUCER_FENCED: i16 = 90;

/// What is done about a producer that may have a request under way.
#[derive(Clone, Copy, PartialEq)]
enum Tainted {
    Replaced,
    Kept,
}

/// A producer behind a proxy that holds what ends its first transaction.
struct Late {
    proxy: Proxy,
    through: Bench,
    /// The same topics, straight from the broker.
    bench: Bench,
}

impl Late {
    fn new() -> Self {
        let proxy = Proxy::to(broker::address());
        let part = Scoped::new(cluster(&[]));
        let through = bench_of(part.through(cluster_at(proxy.address(), &[])));
        let bench = bench_of(part);
        bench.create("t", 1);
        Self { proxy, through, bench }
    }

    /// Ends a transaction; the message of this kind is held, and the connection breaks.
    fn end(&self, way: Way, end: impl FnOnce(&mut dyn Producer) + Send) -> Box<dyn Producer> {
        let mut producer = self.through.transactional("id");
        producer.begin().unwrap();
        send(producer.as_mut(), "t", &["first"]);
        producer.flush().unwrap();
        self.proxy.hold(END_TXN, way);
        thread::scope(|scope| {
            scope.spawn(|| end(producer.as_mut()));
            self.proxy.await_held();
            self.proxy.cut();
        });
        assert!(producer.is_tainted(), "it was sent twice");
        producer
    }

    /// The producer of the next transaction, which has written already when the late request arrives; and what the broker said
    /// to that.
    fn meet(&self, before: Box<dyn Producer>, tainted: Tainted) -> (Box<dyn Producer>, i16) {
        let mut producer = match tainted {
            Tainted::Kept => before,
            Tainted::Replaced => {
                drop(before);
                self.through.transactional("id")
            }
        };
        producer.begin().unwrap();
        send(producer.as_mut(), "t", &["second"]);
        producer.flush().unwrap();
        let reply = self.proxy.release().expect("it was a request");
        // The time that it was throttled for, then the error.
        (producer, i16::from_be_bytes([reply[4], reply[5]]))
    }
}

fn late_commit(tainted: Tainted) -> (Late, i16) {
    let late = Late::new();
    let before = late.end(Way::Request, |producer| drop(producer.commit().unwrap()));
    assert_eq!(late.bench.values("t"), ["first"], "it was committed by the second copy");
    let (mut producer, answer) = late.meet(before, tainted);
    let aborted = producer.abort();
    assert_eq!(aborted.is_ok(), tainted == Tainted::Replaced, "{aborted:?}");
    (late, answer)
}

fn late_abort(tainted: Tainted) -> (Late, i16) {
    let late = Late::new();
    let before = late.end(Way::Request, |producer| producer.abort().unwrap());
    let (mut producer, answer) = late.meet(before, tainted);
    producer.send_offsets(&offsets("t", 7), &nobody("g")).unwrap();
    producer.commit().unwrap();
    let committed = late.bench.committed("g", "t").unwrap();
    assert_eq!(committed, Some(offsets("t", 7)[&tp("t", 0)].clone()));
    (late, answer)
}

fn is_refused(answer: i16) -> bool {
    [INVALID_PRODUCER_EPOCH, PRODUCER_FENCED].contains(&answer)
}

#[test]
fn a_late_commit_is_refused_once_the_tainted_producer_is_replaced() {
    let (late, answer) = late_commit(Tainted::Replaced);
    assert!(is_refused(answer), "{answer}");
    assert_eq!(late.bench.values("t"), ["first"]);
}

#[test]
fn a_late_abort_is_refused_once_the_tainted_producer_is_replaced() {
    let (late, answer) = late_abort(Tainted::Replaced);
    assert!(is_refused(answer), "{answer}");
    assert_eq!(late.bench.values("t"), ["second"]);
}

/// Why tainted producers are replaced. Should a broker or librdkafka tell the transactions apart one day, they need not be.
#[test]
fn a_late_commit_commits_what_a_producer_that_was_kept_has_aborted() {
    let (late, answer) = late_commit(Tainted::Kept);
    assert_eq!(answer, DONE);
    assert_eq!(late.bench.values("t"), ["first", "second"]);
}

/// The other half of it: no call fails, the offset is committed, and the output is gone.
#[test]
fn a_late_abort_takes_the_output_of_a_producer_that_was_kept_and_nobody_says_so() {
    let (late, answer) = late_abort(Tainted::Kept);
    assert_eq!(answer, DONE);
    assert_eq!(late.bench.values("t"), Vec::<String>::new());
}

#[test]
fn a_commit_whose_answer_is_lost_is_done_and_the_next_transaction_is_a_new_producers() {
    let late = Late::new();
    let before = late.end(Way::Reply, |producer| drop(producer.commit().unwrap()));
    drop(before);
    assert_eq!(late.proxy.release(), None, "nobody hears it any more");
    let mut next = late.through.transactional("id");
    next.begin().unwrap();
    send(next.as_mut(), "t", &["second"]);
    next.commit().unwrap();
    assert_eq!(late.bench.values("t"), ["first", "second"]);
}
