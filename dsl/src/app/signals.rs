//! SIGTERM and SIGINT: the first asks for a clean stop, the second ends the process at once.

use std::io;

/// Hears the signals that ask a process to stop, from the moment it is made.
pub(super) struct Shutdown {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Shutdown {
    /// Starts listening.
    pub(super) fn listen() -> io::Result<Self> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            Ok(Self {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
            })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    /// Is ready when the first signal has come. A second one ends the process with exit code 130: nothing open is committed then,
    /// and the next start goes on from the last commit.
    pub(super) async fn asked(mut self) {
        self.one().await;
        tokio::spawn(async move {
            self.one().await;
            tracing::warn!("asked to stop twice: ending at once, without a commit");
            std::process::exit(130);
        });
    }

    async fn one(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
