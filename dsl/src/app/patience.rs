//! What waits for a broker before a run begins: beside the asynchronous runtime, so that the wish to stop is heard meanwhile, and
//! again while the broker may still come.

use std::future::Future;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::error::AppError;

/// The longest that a start waits for a broker that is not there. Whoever started it wants to hear of a wrong address soon.
pub(super) const START_PATIENCE: Duration = Duration::from_secs(30);
/// How long a broker is left alone between two attempts.
const PAUSE: Duration = Duration::from_millis(500);
/// How long an attempt that is under way may take to come to its end when a stop is asked for.
const FAREWELL: Duration = Duration::from_millis(500);

/// Attempts something until it succeeds, fails for good, or the patience is over; `None` when a stop was asked for before.
pub(super) async fn attempt<T: Send + 'static>(
    patience: Duration,
    shutdown: &mut (impl Future<Output = ()> + Unpin),
    work: impl Fn() -> Result<T, AppError> + Send + 'static,
) -> Result<Option<T>, AppError> {
    let stop = Arc::new(AtomicBool::new(false));
    let asked_to_stop = Arc::clone(&stop);
    let mut done = tokio::task::spawn_blocking(move || persist(patience, &asked_to_stop, work));
    let ended = tokio::select! {
        ended = &mut done => ended,
        () = shutdown => {
            tracing::info!("stopping: nothing has begun yet");
            stop.store(true, Ordering::SeqCst);
            // What comes of it all the same is closed in peace, where that may block. A thread that waits for a broker is left alone.
            if let Ok(late) = tokio::time::timeout(FAREWELL, done).await {
                tokio::task::spawn_blocking(move || drop(late)).await.ok();
            }
            return Ok(None);
        }
    };
    match ended {
        Ok(result) => result.map(Some),
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // Only the end of the runtime cancels it.
            Err(_) => Ok(None),
        },
    }
}

fn persist<T>(
    patience: Duration,
    stop: &AtomicBool,
    work: impl Fn() -> Result<T, AppError>,
) -> Result<T, AppError> {
    let began = Instant::now();
    loop {
        let error = match work() {
            Err(error) if error.is_passing() => error,
            result => return result,
        };
        let left = patience.saturating_sub(began.elapsed());
        if left.is_zero() || stop.load(Ordering::SeqCst) {
            return Err(error);
        }
        let error = super::error::one_line(&error);
        tracing::warn!(error, "trying again, for {} s more", left.as_secs().max(1));
        std::thread::sleep(PAUSE.min(left));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::cell::Cell;

    use thalweg_connectors::{PortError, PortErrorKind};

    use super::*;

    fn failing(kind: PortErrorKind) -> Result<(), AppError> {
        Err(AppError::Topics(PortError::new(kind, "no broker answers")))
    }

    #[test]
    fn what_may_pass_is_attempted_again_and_nothing_else_is() {
        let goes_on = AtomicBool::new(false);
        let attempts = |kind, patience| {
            let count = Cell::new(0);
            let ended = persist(patience, &goes_on, || {
                count.set(count.get() + 1);
                failing(kind)
            });
            ended.unwrap_err();
            count.get()
        };
        let short = Duration::from_millis(30);
        // The last when it is over; how many before it is the machine's affair.
        assert!(attempts(PortErrorKind::Retriable, short) >= 2);
        assert_eq!(attempts(PortErrorKind::Retriable, Duration::ZERO), 1);
        assert_eq!(attempts(PortErrorKind::Unsupported, Duration::MAX), 1);
    }

    #[test]
    fn a_broker_that_comes_late_is_in_time() {
        let count = Cell::new(0);
        persist(Duration::from_secs(60), &AtomicBool::new(false), || {
            count.set(count.get() + 1);
            if count.get() < 2 { failing(PortErrorKind::Retriable) } else { Ok(()) }
        })
        .unwrap();
        assert_eq!(count.get(), 2);
    }

    /// As a run does that waits for its threads.
    struct Blocks;

    impl Drop for Blocks {
        fn drop(&mut self) {
            // Panics inside asynchronous code.
            tokio::runtime::Handle::current().block_on(std::future::ready(()));
        }
    }

    #[test]
    fn what_a_stop_comes_too_late_for_is_closed_where_that_may_block() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut stop = std::future::ready(());
        let ended = runtime.block_on(attempt(Duration::ZERO, &mut stop, || Ok(Blocks)));
        // Ready together: either may be heard first.
        if let Some(blocks) = ended.unwrap() {
            let closed = runtime.spawn_blocking(move || drop(blocks));
            runtime.block_on(closed).unwrap();
        }
    }

    #[test]
    fn a_stop_is_heard_while_an_attempt_is_under_way() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let released = std::sync::Mutex::new(released);
        let began = Instant::now();
        let ended = runtime.block_on(attempt(
            Duration::from_secs(60),
            &mut std::future::ready(()),
            move || released.lock().unwrap().recv().map_err(|_| AppError::InputPanicked),
        ));
        assert!(ended.unwrap().is_none());
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        release.send(()).ok();
    }
}
