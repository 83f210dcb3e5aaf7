//! The end of commands that go on until somebody ends them.

/// Resolves when the process is asked to end. From this call on, not from the first poll, a signal does not kill it: call
/// it before anything is printed that a script waits for.
#[cfg(unix)]
pub(crate) fn asked_to_end() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    async move {
        let [interrupt, terminate] = signals;
        match (interrupt, terminate) {
            (Ok(mut a), Ok(mut b)) => {
                tokio::select! { _ = a.recv() => {}, _ = b.recv() => {} }
            }
            _ => std::future::pending().await,
        }
    }
}

/// Resolves when the process is asked to end.
#[cfg(not(unix))]
pub(crate) async fn asked_to_end() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
