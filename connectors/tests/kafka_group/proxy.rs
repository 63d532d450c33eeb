//! A way to the broker that a test can cut, block, or make forgetful.
//!
//! Brokers tell their own addresses; the proxy puts its own in place of them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Kafka's numbers of some requests.
pub(crate) const JOIN: i16 = 11;
pub(crate) const HEARTBEAT: i16 = 12;
pub(crate) const SYNC: i16 = 14;
const METADATA: i16 = 3;
const FIND_COORDINATOR: i16 = 10;

#[derive(Default)]
struct Plan {
    /// Replies to requests of this kind are lost, so often.
    lose: BTreeMap<i16, u32>,
    /// Nothing goes through, in either direction.
    blocked: bool,
    open: Vec<TcpStream>,
}

/// See the module.
pub(crate) struct Proxy {
    plan: Arc<Mutex<Plan>>,
    address: String,
}

impl Proxy {
    pub(crate) fn to(broker: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let plan = Arc::new(Mutex::new(Plan::default()));
        let (broker, of_thread) = (broker.to_owned(), Arc::clone(&plan));
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, plan) = (client.unwrap(), Arc::clone(&of_thread));
                if plan.lock().unwrap().blocked {
                    // Accepted by the system, never answered.
                    plan.lock().unwrap().open.push(client);
                    continue;
                }
                let server = TcpStream::connect(&broker).unwrap();
                let port = i32::from(server.peer_addr().unwrap().port());
                let ports = [port, i32::from(address.port())].map(i32::to_be_bytes);
                carry(&plan, client, server, ports);
            }
        });
        Self { plan, address: address.to_string() }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Loses the next replies to requests of this kind; the broker has done what was asked.
    pub(crate) fn lose(&self, kind: i16, times: u32) {
        self.plan.lock().unwrap().lose.insert(kind, times);
    }

    /// Are all replies lost that were to be?
    pub(crate) fn has_lost_all(&self) -> bool {
        self.plan.lock().unwrap().lose.values().all(|left| *left == 0)
    }

    /// Closes all connections; new ones are fine.
    pub(crate) fn cut(&self) {
        for stream in self.plan.lock().unwrap().open.drain(..) {
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    /// Lets nothing through any more, and does not say so; or lets everything through again.
    pub(crate) fn block(&self, blocked: bool) {
        self.plan.lock().unwrap().blocked = blocked;
        if !blocked {
            self.cut();
        }
    }
}

fn carry(plan: &Arc<Mutex<Plan>>, client: TcpStream, server: TcpStream, ports: [[u8; 4]; 2]) {
    let clone = |stream: &TcpStream| stream.try_clone().unwrap();
    plan.lock().unwrap().open.extend([clone(&client), clone(&server)]);
    let asked: Arc<Mutex<BTreeMap<[u8; 4], i16>>> = Arc::default();
    let (mut from, mut to) = (clone(&client), clone(&server));
    let (requests, of_requests) = (Arc::clone(&asked), Arc::clone(plan));
    thread::spawn(move || {
        while let Ok(frame) = read(&mut from) {
            let kind = i16::from_be_bytes([frame[0], frame[1]]);
            requests.lock().unwrap().insert(frame[4..8].try_into().unwrap(), kind);
            if !of_requests.lock().unwrap().blocked && write(&mut to, &frame).is_err() {
                break;
            }
        }
        drop(to.shutdown(Shutdown::Both));
    });
    let (mut from, mut to, plan) = (server, client, Arc::clone(plan));
    thread::spawn(move || {
        while let Ok(mut frame) = read(&mut from) {
            let kind = asked.lock().unwrap().remove(&frame[..4]).unwrap();
            if [METADATA, FIND_COORDINATOR].contains(&kind) {
                replace(&mut frame, ports);
            }
            let lost = {
                let mut plan = plan.lock().unwrap();
                let left = plan.lose.get_mut(&kind).filter(|left| **left > 0);
                let forgets = left.map(|left| *left -= 1).is_some();
                forgets || plan.blocked
            };
            if !lost && write(&mut to, &frame).is_err() {
                break;
            }
        }
        drop(to.shutdown(Shutdown::Both));
    });
}

/// Puts the proxy's port in place of the broker's.
fn replace(frame: &mut [u8], [old, new]: [[u8; 4]; 2]) {
    let at: BTreeSet<usize> = (4..frame.len() - 3).filter(|at| frame[*at..at + 4] == old).collect();
    for at in at {
        frame[at..at + 4].copy_from_slice(&new);
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
