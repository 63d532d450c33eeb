//! SIGTERM, SIGINT and SIGHUP: the first asks for a clean stop, a later one ends the process at once.

use std::io;
use std::time::{Duration, Instant};

/// A signal that follows the first one within this time is the same wish: some programs signal a process and its group, and a
/// closed terminal adds a signal of its own.
pub(super) const SAME_WISH: Duration = Duration::from_secs(1);

/// Hears the signals that ask a process to stop, from the moment it is made.
pub(super) struct Shutdown {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    /// `None` where the process was started with this signal ignored, as `nohup` does.
    #[cfg(unix)]
    hang_up: Option<tokio::signal::unix::Signal>,
}

impl Shutdown {
    /// Starts listening.
    pub(super) fn listen() -> io::Result<Self> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
            let hang_up = match ignores_hang_up(&status) {
                true => None,
                false => Some(signal(SignalKind::hangup())?),
            };
            Ok(Self {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
                hang_up,
            })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    /// Is ready when the first signal has come. One that comes clearly later ends the process with exit code 130: nothing open is
    /// committed then, and the next start goes on from the last commit. Signals are heard from now on, whatever the caller waits for.
    pub(super) fn asked(self) -> impl Future<Output = ()> + Send {
        let first = tokio::spawn(self.first());
        async {
            // It does not end otherwise.
            first.await.ok();
        }
    }

    async fn first(mut self) {
        self.one().await;
        let first = Instant::now();
        tokio::spawn(async move {
            loop {
                self.one().await;
                if is_another_wish(first.elapsed()) {
                    break;
                }
            }
            tracing::warn!("asked to stop twice: ending at once, without a commit");
            std::process::exit(130);
        });
    }

    async fn one(&mut self) {
        #[cfg(unix)]
        {
            let hang_up = async {
                match &mut self.hang_up {
                    Some(hang_up) => hang_up.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
                _ = hang_up => {}
            }
        }
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

fn is_another_wish(after: Duration) -> bool {
    after >= SAME_WISH
}

/// Was this process started with SIGHUP ignored? Linux tells in `/proc/self/status`; elsewhere the text is empty.
#[cfg(unix)]
fn ignores_hang_up(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // Bit 0 is signal 1, SIGHUP.
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|m| m & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_within_a_second_are_one_wish() {
        for (milliseconds, another) in [(0, false), (3, false), (999, false), (1000, true)] {
            assert_eq!(is_another_wish(Duration::from_millis(milliseconds)), another);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_process_under_nohup_ignores_hang_ups() {
        for (status, ignores) in [
            ("Name:\ta\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000000\n", true),
            ("Name:\ta\nSigIgn:\t0000000000001000\nSigCgt:\t0000000000000001\n", false),
            ("", false),
        ] {
            assert_eq!(ignores_hang_up(status), ignores, "{status}");
        }
    }
}
