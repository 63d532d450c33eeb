//! A proxy between the clients of a test and the broker, whose connections can be cut.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use thalweg_connectors::{SharedBackend, SystemClock, open};

use crate::broker;

/// One at a time: the broker speaks of one address only.
static ONE: Mutex<()> = Mutex::new(());

pub(crate) struct Proxy {
    port: u16,
    open: Arc<Mutex<Vec<TcpStream>>>,
    _one: MutexGuard<'static, ()>,
}

impl Proxy {
    pub(crate) fn start() -> Self {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (port, behind) = (broker::port() + 300, broker::port() + 200);
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let open = Arc::<Mutex<Vec<TcpStream>>>::default();
        let all = Arc::clone(&open);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, broker) =
                    (client.unwrap(), TcpStream::connect(("127.0.0.1", behind)).unwrap());
                for (from, to) in [(&client, &broker), (&broker, &client)] {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    thread::spawn(move || {
                        io::copy(&mut from, &mut to).ok();
                        to.shutdown(Shutdown::Both).ok();
                    });
                }
                all.lock().unwrap().extend([client, broker]);
            }
        });
        Self { port, open, _one: one }
    }

    /// The cluster through the proxy.
    pub(crate) fn backend(&self) -> SharedBackend {
        open(&format!("kafka://127.0.0.1:{}", self.port), Arc::new(SystemClock::new())).unwrap()
    }

    /// Cuts all connections; new ones can be made.
    pub(crate) fn cut(&self) {
        for connection in self.open.lock().unwrap().drain(..) {
            connection.shutdown(Shutdown::Both).ok();
        }
    }
}
