//! Connections that are bounded in number, and end when too little moves.

use super::Limits;
use axum::serve::Listener;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// The longest idle time, so that times can be added: a year.
const MOST_IDLE: Duration = Duration::from_secs(365 * 24 * 3600);

/// Accepts so many connections at once; others wait in the system's queue.
pub(super) struct Bounded {
    listener: TcpListener,
    free: Arc<Semaphore>,
    limits: Limits,
}

impl Bounded {
    pub(super) fn new(listener: TcpListener, limits: Limits) -> Self {
        let idle = limits.idle.min(MOST_IDLE);
        let limits = Limits { idle, ..limits };
        let connections = limits.connections.get().min(Semaphore::MAX_PERMITS);
        Self {
            listener,
            free: Arc::new(Semaphore::new(connections)),
            limits,
        }
    }
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        // Never closed, so there is always a permit to wait for.
        let permit = self.free.clone().acquire_owned().await.ok();
        let (stream, address) = Listener::accept(&mut self.listener).await;
        let now = Instant::now();
        let connection = Connection {
            stream,
            patience: Patience::new(&self.limits, now),
            until: Box::pin(sleep(self.limits.idle)),
            _permit: permit,
        };
        (connection, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// How long a connection may still live: [`Limits::idle`] at first and at most, and longer with every byte that moves.
#[derive(Clone, Copy, Debug)]
struct Patience {
    until: Instant,
    idle: Duration,
    least_rate: u64,
}

impl Patience {
    fn new(limits: &Limits, now: Instant) -> Self {
        Self {
            until: now + limits.idle,
            idle: limits.idle,
            least_rate: limits.least_rate.max(1),
        }
    }

    /// So many bytes have moved.
    fn earn(&mut self, bytes: usize, now: Instant) {
        let nanos = (bytes as u64).saturating_mul(1_000_000_000) / self.least_rate;
        let most = now + self.idle;
        let later = self.until.checked_add(Duration::from_nanos(nanos));
        self.until = later.map_or(most, |later| later.min(most));
    }
}

/// Fails with [`io::ErrorKind::TimedOut`] when too little has been read or written for too long.
pub(super) struct Connection {
    stream: TcpStream,
    patience: Patience,
    until: Pin<Box<Sleep>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Connection {
    /// `polled` when it is ready, with what moved; a failure when the time is over.
    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
        moved: usize,
    ) -> Poll<io::Result<T>> {
        if moved > 0 {
            self.patience.earn(moved, Instant::now());
            self.until.as_mut().reset(self.patience.until);
        }
        if polled.is_ready() {
            return polled;
        }
        ready!(self.until.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let moved = buffer.filled().len().saturating_sub(before);
        self.watch(cx, polled, moved)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        let moved = match &polled {
            Poll::Ready(Ok(n)) => *n,
            _ => 0,
        };
        self.watch(cx, polled, moved)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn patience(now: Instant) -> Patience {
        let limits = Limits {
            idle: 30 * SECOND,
            least_rate: 1000,
            ..Limits::default()
        };
        Patience::new(&limits, now)
    }

    /// Whether a connection on which `bytes` move every `pause` outlives an hour.
    fn lives(bytes: usize, pause: Duration) -> bool {
        let start = Instant::now();
        let (mut patience, mut now) = (patience(start), start);
        while now < start + 3600 * SECOND {
            now += pause;
            if now >= patience.until {
                return false;
            }
            patience.earn(bytes, now);
        }
        true
    }

    #[test]
    fn a_connection_lives_on_what_moves() {
        assert!(!lives(1, 29 * SECOND));
        assert!(!lives(200, 29 * SECOND));
        assert!(!lives(900, SECOND));
        assert!(lives(1000, SECOND));
        assert!(lives(29_000, 29 * SECOND));
        assert!(!lives(usize::MAX, 30 * SECOND));
        assert!(lives(usize::MAX, 29 * SECOND));
    }

    #[test]
    fn what_moved_before_buys_no_more_than_the_idle_time() {
        let now = Instant::now();
        let mut patience = patience(now);
        assert_eq!(patience.until, now + 30 * SECOND);
        patience.earn(1 << 40, now + SECOND);
        assert_eq!(patience.until, now + 31 * SECOND);
        patience.earn(2000, now + 11 * SECOND);
        assert_eq!(patience.until, now + 33 * SECOND);
    }
}
