//! A store over HTTP: what [`HttpSource`](crate::fetch::HttpSource) asks for.
//!
//! `GET` and `HEAD` of `/<64 hex digits>.blob` and `/<64 hex digits>.leaves`, with ranges, for published blobs; `/` lists
//! them as JSON. No other name is looked up.

use crate::store::{State, Store, parse_name};
use axum::Router;
use axum::body::Body;
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Path, Request, State as Shared};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::IncomingStream;
use std::fmt::Write as _;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tower_http::services::fs::ServeFile;

mod connections;

/// What a server allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections at once; others wait.
    pub connections: NonZeroUsize,
    /// A connection on which nothing moves for so long is closed; a year is the most.
    pub idle: Duration,
    /// Bytes a second that must move on a connection, over times longer than [`Limits::idle`]: each byte that is sent or
    /// taken lets it live for its share of a second longer. So requests and answers that trickle are cut off, and whoever
    /// holds many connections has to pay for it.
    pub least_rate: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: NonZeroUsize::new(256).unwrap_or(NonZeroUsize::MIN),
            idle: Duration::from_secs(30),
            least_rate: 4096,
        }
    }
}

/// Serves a store, which may be open for reading only, on `listener` until `end` is ready and the open transfers are over.
///
/// # Errors
/// What the system says of the listener.
pub async fn serve(
    listener: TcpListener,
    store: Arc<Store>,
    limits: &Limits,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let listener = connections::Bounded::new(listener, *limits);
    let routes = router(store).into_make_service_with_connect_info::<Peer>();
    axum::serve(listener, routes)
        .with_graceful_shutdown(end)
        .await
}

/// Who asks; known where [`serve`] serves.
#[derive(Clone, Copy)]
struct Peer(SocketAddr);

impl Connected<IncomingStream<'_, connections::Bounded>> for Peer {
    fn connect_info(stream: IncomingStream<'_, connections::Bounded>) -> Self {
        Self(*stream.remote_addr())
    }
}

fn router(store: Arc<Store>) -> Router {
    Router::new()
        .route("/", get(list))
        .route("/{name}", get(file))
        .layer(middleware::from_fn(log))
        .with_state(store)
}

/// One event for each request; refused ones are warnings, but for names that are not there: sources are asked in turn.
async fn log(request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let path: String = request.uri().path().chars().take(100).collect();
    let range = request.headers().get(header::RANGE);
    let range = range
        .and_then(|r| r.to_str().ok())
        .unwrap_or("")
        .to_string();
    let peer = request.extensions().get::<ConnectInfo<Peer>>();
    let peer = peer.map_or(String::new(), |peer| peer.0.0.to_string());
    let answer = next.run(request).await;
    let status = answer.status().as_u16();
    if answer.status().is_success() || matches!(status, 304 | 404) {
        tracing::info!(peer, %method, path, range, status, "request");
    } else {
        tracing::warn!(peer, %method, path, range, status, "request");
    }
    answer
}

async fn list(Shared(store): Shared<Arc<Store>>) -> Response {
    let listed = tokio::task::spawn_blocking(move || store.list()).await;
    let Ok(Ok(entries)) = listed else {
        return refuse(listed.err().map_or("unreadable", |_| "ended"));
    };
    let mut text = String::from("[");
    for entry in entries.iter().filter(|e| e.state == State::Published) {
        let comma = if text.len() > 1 { "," } else { "" };
        let _ = write!(
            text,
            "{comma}{{\"commitment\":\"{}\",\"len\":{}}}",
            entry.commitment, entry.len
        );
    }
    text.push_str("]\n");
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

async fn file(
    Shared(store): Shared<Arc<Store>>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    let Some((commitment, what)) = parse_name(&name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let found = {
        let store = store.clone();
        tokio::task::spawn_blocking(move || store.contains(commitment)).await
    };
    match found {
        Ok(Ok(true)) => {}
        Ok(Ok(false)) => return StatusCode::NOT_FOUND.into_response(),
        _ => return refuse("unreadable"),
    }
    let answer = ServeFile::new(store.path(commitment, what))
        .try_call(request)
        .await;
    let Ok(answer) = answer else {
        return refuse("unreadable");
    };
    let mut answer = answer.map(Body::new);
    let headers = answer.headers_mut();
    let kind = HeaderValue::from_static("application/octet-stream");
    headers.insert(header::CONTENT_TYPE, kind);
    let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
    headers.insert(header::CACHE_CONTROL, forever);
    answer
}

fn refuse(why: &str) -> Response {
    tracing::error!(why, "a file of the store cannot be served");
    StatusCode::INTERNAL_SERVER_ERROR.into_response()
}
