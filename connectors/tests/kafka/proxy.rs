//! A way to a broker that a test can cut, block, make forgetful, or keep a message in until it is late.
//!
//! Brokers tell their own addresses; the proxy puts its own in place of its broker's, so that clients come back to it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// Kafka's numbers of some requests.
pub(crate) const JOIN: i16 = 11;
pub(crate) const HEARTBEAT: i16 = 12;
pub(crate) const SYNC: i16 = 14;
pub(crate) const END_TXN: i16 = 26;
const METADATA: i16 = 3;
const FIND_COORDINATOR: i16 = 10;

/// Nothing that is waited for takes as long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Which of the messages of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// What the client asks; held, the broker has not heard of it.
    Request,
    /// What the broker answers; held, it has done what was asked, and the client does not know.
    Reply,
}

/// A message that has not gone on.
struct Held {
    connection: usize,
    way: Way,
    frame: Vec<u8>,
    to: TcpStream,
}

#[derive(Default)]
struct Plan {
    /// Replies to requests of this kind are lost, so often.
    lose: BTreeMap<i16, u32>,
    /// The next message of this kind is held.
    hold: Option<(i16, Way)>,
    held: Option<Held>,
    /// Who waits for the reply to a held request: its connection and number.
    awaited: Option<(usize, [u8; 4], Sender<Vec<u8>>)>,
    /// Nothing goes through, in either direction.
    blocked: bool,
    /// Both ends of each connection; one that was made while nothing goes through has one.
    open: BTreeMap<usize, (TcpStream, Option<TcpStream>)>,
    connections: usize,
}

impl Plan {
    /// Does a message of this kind have to be held?
    fn holds(&mut self, kind: i16, way: Way) -> bool {
        let holds = !self.blocked && self.hold == Some((kind, way));
        if holds {
            self.hold = None;
        }
        holds
    }

    /// Has a reply to be lost?
    fn loses(&mut self, kind: i16) -> bool {
        let left = self.lose.get_mut(&kind).filter(|left| **left > 0);
        left.map(|left| *left -= 1).is_some() || self.blocked
    }
}

#[derive(Default)]
struct Shared {
    plan: Mutex<Plan>,
    changed: Condvar,
}

impl Shared {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap()
    }
}

/// See the module.
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    address: String,
}

impl Proxy {
    /// To the broker at `127.0.0.1:port`.
    pub(crate) fn to(broker: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::<Shared>::default();
        let (broker, of_thread) = (broker.to_owned(), Arc::clone(&shared));
        let port = broker.strip_prefix("127.0.0.1:").expect("the broker of these tests");
        let names = [port.parse().unwrap(), address.port()].map(name);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                accept(&of_thread, client, &broker, &names);
            }
        });
        Self { shared, address: address.to_string() }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Loses the next replies to requests of this kind; the broker has done what was asked.
    pub(crate) fn lose(&self, kind: i16, times: u32) {
        self.shared.plan().lose.insert(kind, times);
    }

    /// Are all replies lost that were to be?
    pub(crate) fn has_lost_all(&self) -> bool {
        self.shared.plan().lose.values().all(|left| *left == 0)
    }

    /// Closes all connections; new ones are fine. A request that is held stays on its way.
    pub(crate) fn cut(&self) {
        let mut plan = self.shared.plan();
        let kept = plan.held.as_ref().filter(|h| h.way == Way::Request).map(|h| h.connection);
        for (number, (client, broker)) in std::mem::take(&mut plan.open) {
            client.shutdown(Shutdown::Both).ok();
            if let Some(broker) = broker.filter(|_| kept != Some(number)) {
                broker.shutdown(Shutdown::Both).ok();
            }
        }
    }

    /// Lets nothing through any more, and does not say so; or lets everything through again.
    pub(crate) fn block(&self, blocked: bool) {
        self.shared.plan().blocked = blocked;
        if !blocked {
            self.cut();
        }
    }

    /// Holds the next message of this kind, and what follows it on its connection.
    pub(crate) fn hold(&self, kind: i16, way: Way) {
        self.shared.plan().hold = Some((kind, way));
    }

    /// Waits until it is held.
    pub(crate) fn await_held(&self) {
        let plan = self.shared.plan();
        let waiting = |plan: &mut Plan| plan.held.is_none();
        let waited = self.shared.changed.wait_timeout_while(plan, PATIENCE, waiting).unwrap();
        assert!(waited.0.held.is_some(), "nothing came that was to be held");
    }

    /// Lets what is held go on. Of a request: waits for the broker's reply, and gives what follows its number.
    pub(crate) fn release(&self) -> Option<Vec<u8>> {
        let (send, reply) = channel();
        let mut plan = self.shared.plan();
        let Held { connection, way, frame, mut to } = plan.held.take().expect("something is held");
        if way == Way::Request {
            let number = frame[4..8].try_into().unwrap();
            plan.awaited = Some((connection, number, send));
        }
        drop(plan);
        let written = write(&mut to, &frame);
        if way == Way::Reply {
            // Nobody may be there to hear it.
            return None;
        }
        written.expect("the broker still has the connection");
        Some(reply.recv_timeout(PATIENCE).expect("the broker replies"))
    }
}

/// How the broker's name stands in a reply: its host, and its port as a number.
fn name(port: u16) -> Vec<u8> {
    [b"127.0.0.1", &i32::from(port).to_be_bytes()[..]].concat()
}

fn accept(shared: &Arc<Shared>, client: TcpStream, broker: &str, names: &[Vec<u8>; 2]) {
    let mut plan = shared.plan();
    plan.connections += 1;
    let number = plan.connections;
    if plan.blocked {
        // Accepted by the system, never answered.
        plan.open.insert(number, (client, None));
        return;
    }
    // A broker that is away closes the connection.
    let Ok(server) = TcpStream::connect(broker) else { return };
    let clone = |stream: &TcpStream| stream.try_clone().unwrap();
    plan.open.insert(number, (clone(&client), Some(clone(&server))));
    drop(plan);
    let asked: Arc<Mutex<BTreeMap<[u8; 4], i16>>> = Arc::default();
    let (of_requests, kinds) = (Arc::clone(shared), Arc::clone(&asked));
    let (from, to) = (clone(&client), clone(&server));
    thread::spawn(move || carry_requests(&of_requests, number, from, to, &kinds));
    let (of_replies, names) = (Arc::clone(shared), names.clone());
    thread::spawn(move || carry_replies(&of_replies, number, server, client, &asked, &names));
}

type Kinds = Mutex<BTreeMap<[u8; 4], i16>>;

fn carry_requests(
    shared: &Shared,
    connection: usize,
    mut from: TcpStream,
    mut to: TcpStream,
    asked: &Kinds,
) {
    while let Ok(frame) = read(&mut from) {
        let kind = i16::from_be_bytes([frame[0], frame[1]]);
        asked.lock().unwrap().insert(frame[4..8].try_into().unwrap(), kind);
        let mut plan = shared.plan();
        if plan.holds(kind, Way::Request) {
            plan.held = Some(Held { connection, way: Way::Request, frame, to });
            shared.changed.notify_all();
            return;
        }
        let blocked = plan.blocked;
        drop(plan);
        if !blocked && write(&mut to, &frame).is_err() {
            break;
        }
    }
    to.shutdown(Shutdown::Both).ok();
}

fn carry_replies(
    shared: &Shared,
    connection: usize,
    mut from: TcpStream,
    mut to: TcpStream,
    asked: &Kinds,
    names: &[Vec<u8>; 2],
) {
    while let Ok(mut frame) = read(&mut from) {
        let number: [u8; 4] = frame[..4].try_into().unwrap();
        let kind = asked.lock().unwrap().remove(&number).unwrap();
        if [METADATA, FIND_COORDINATOR].contains(&kind) {
            replace(&mut frame, names);
        }
        let mut plan = shared.plan();
        let awaits = |(of, which, _): &(usize, [u8; 4], _)| (*of, *which) == (connection, number);
        if let Some((.., waiting)) = plan.awaited.take_if(|awaited| awaits(awaited)) {
            // Whoever waited may have given up.
            waiting.send(frame[4..].to_vec()).ok();
        }
        if plan.holds(kind, Way::Reply) {
            plan.held = Some(Held { connection, way: Way::Reply, frame, to });
            shared.changed.notify_all();
            return;
        }
        let lost = plan.loses(kind);
        drop(plan);
        if !lost && write(&mut to, &frame).is_err() {
            break;
        }
    }
    to.shutdown(Shutdown::Both).ok();
}

/// Puts the proxy's name in place of the broker's.
fn replace(frame: &mut [u8], [old, new]: &[Vec<u8>; 2]) {
    let at: BTreeSet<usize> = (0..frame.len().saturating_sub(old.len() - 1))
        .filter(|at| frame[*at..].starts_with(old))
        .collect();
    for at in at {
        frame[at..at + new.len()].copy_from_slice(new);
    }
}

fn read(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    from.read_exact(&mut frame)?;
    Ok(frame)
}

fn write(to: &mut TcpStream, frame: &[u8]) -> io::Result<()> {
    to.write_all(&(frame.len() as u32).to_be_bytes())?;
    to.write_all(frame)
}
