//! A broker that only this program's tests use: it is killed and started again, listens for SASL and TLS too, and minds rights where
//! some are given.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::broker;

/// Its other listeners, above its port.
const SASL: u16 = 200;
const TLS: u16 = 201;

/// The broker, for one test at a time.
pub(crate) struct OwnBroker {
    port: u16,
    _turn: MutexGuard<'static, ()>,
}

impl OwnBroker {
    /// Waits for its turn; the broker runs then.
    pub(crate) fn take() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        static PORT: OnceLock<u16> = OnceLock::new();
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let port = *PORT.get_or_init(|| {
            let address = broker::start_with(1, settings);
            address.rsplit_once(':').unwrap().1.parse().unwrap()
        });
        let own = Self { port, _turn: turn };
        // Another test may have failed while it was away.
        own.start();
        own
    }

    /// Where it speaks plain text.
    pub(crate) fn address(&self) -> String {
        self.listener(0)
    }

    /// Where it wants a user and a password.
    pub(crate) fn sasl(&self) -> String {
        self.listener(SASL)
    }

    /// Where it speaks TLS.
    pub(crate) fn tls(&self) -> String {
        self.listener(TLS)
    }

    fn listener(&self, above: u16) -> String {
        format!("127.0.0.1:{}", self.port + above)
    }

    /// `kill -9`.
    pub(crate) fn kill(&self) {
        self.script(&["stop-broker", "1", "--hard"]);
    }

    /// On the data that it has.
    pub(crate) fn start(&self) {
        self.script(&["start-broker", "1"]);
    }

    fn script(&self, arguments: &[&str]) {
        let mut script = Command::new(broker::script());
        let done = script.args(arguments).args(["--port", &self.port.to_string()]).output();
        let done = done.unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

/// More listeners.
fn settings(port: u16) -> String {
    let keys = key_store();
    let [sasl, tls, controller] = [SASL, TLS, 100].map(|above| port + above);
    let at = "127.0.0.1";
    let listeners = format!("PLAINTEXT://{at}:{port},SASL://{at}:{sasl},TLS://{at}:{tls}");
    format!(
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
         allow.everyone.if.no.acl.found=true\n\
         listeners={listeners},CONTROLLER://{at}:{controller}\n\
         advertised.listeners={listeners},CONTROLLER://{at}:{controller}\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL\n\
         sasl.enabled.mechanisms=PLAIN\n\
         listener.name.sasl.plain.sasl.jaas.config=\
         org.apache.kafka.common.security.plain.PlainLoginModule required user_test=\"of-this-test\";\n\
         listener.name.tls.ssl.keystore.type=PKCS12\n\
         listener.name.tls.ssl.keystore.location={}\n\
         listener.name.tls.ssl.keystore.password={PASSWORD}\n",
        keys.display()
    )
}

/// Opens a key that is worth nothing.
const PASSWORD: &str = "of-this-test";

/// A key and a certificate for the listener.
fn key_store() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("keys-{}.p12", std::process::id()));
    let made = Command::new("keytool")
        .args(["-genkeypair", "-alias", "broker", "-keyalg", "EC", "-dname", "CN=localhost"])
        .args(["-validity", "3650", "-storetype", "PKCS12", "-storepass", PASSWORD, "-keystore"])
        .arg(&path)
        .output()
        .expect("keytool comes with Java");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
    path
}
