//! `/metrics` in the form of Prometheus, and `/ready` for people and probes.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use blue_node::metric_names;
use blue_node::models::Resident;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde_json::json;

use super::follow::Latest;
use crate::failure::{Context, Failure, Outcome};
use crate::output;

/// What the routes show.
#[derive(Clone)]
struct Shown {
    recorder: PrometheusHandle,
    resident: Arc<Resident>,
    latest: Latest,
}

/// Begins to record metrics; before anything is counted.
pub(super) fn record() -> Outcome<PrometheusHandle> {
    let recorder = PrometheusBuilder::new().install_recorder();
    let recorder = recorder.or_runtime("cannot record metrics")?;
    metric_names::describe();
    Ok(recorder)
}

/// Serves `/metrics` and `/ready` until the process ends; returns the address.
pub(super) async fn serve(
    address: SocketAddr,
    recorder: PrometheusHandle,
    resident: Arc<Resident>,
    latest: Latest,
) -> Outcome<SocketAddr> {
    let listener = tokio::net::TcpListener::bind(address).await;
    let listener = listener.map_err(|error| {
        Failure::runtime(format!("cannot listen on {address}: {error}"))
            .hint("choose another address with --metrics")
    })?;
    let bound = listener
        .local_addr()
        .or_runtime("the address of --metrics")?;
    let routes = Router::new()
        .route("/metrics", get(metrics))
        .route("/ready", get(ready))
        .with_state(Shown {
            recorder,
            resident,
            latest,
        });
    tokio::spawn(async move { axum::serve(listener, routes).await });
    Ok(bound)
}

async fn metrics(State(shown): State<Shown>) -> impl IntoResponse {
    shown.resident.report();
    shown.recorder.run_upkeep();
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    (kind, shown.recorder.render())
}

/// 200 while every model that should be ready is, 503 otherwise and while nobody has looked.
async fn ready(State(shown): State<Shown>) -> impl IntoResponse {
    let latest = shown.latest.lock().unwrap_or_else(PoisonError::into_inner);
    let models: Vec<_> = latest
        .iter()
        .flatten()
        .map(|model| {
            json!({
                "name": output::hex(model.name),
                "commitment": model.commitment.to_string(),
                "activation": model.activation,
                "progress": model.progress.to_string(),
                "ready": model.progress.is_ready(),
                "alarm": model.alarm,
            })
        })
        .collect();
    let alarm = latest
        .as_ref()
        .is_none_or(|models| models.iter().any(|model| model.alarm));
    let status = match alarm {
        true => StatusCode::SERVICE_UNAVAILABLE,
        false => StatusCode::OK,
    };
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (status, kind, format!("{}\n", json!({ "models": models })))
}
