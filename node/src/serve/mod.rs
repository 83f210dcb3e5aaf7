//! A store over HTTP: what [`HttpSource`](crate::fetch::HttpSource) asks for.
//!
//! `GET` and `HEAD` of `/<64 hex digits>.blob` and `/<64 hex digits>.leaves`, with ranges, for published blobs; `/` lists
//! them as JSON. No other name is looked up.

use crate::store::{State, Store, parse_name};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State as Shared};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::fmt::Write as _;
use std::sync::Arc;
use tower_http::services::fs::ServeFile;

/// The routes over a store, which may be open for reading only.
pub fn router(store: Arc<Store>) -> Router {
    Router::new()
        .route("/", get(list))
        .route("/{name}", get(file))
        .with_state(store)
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
