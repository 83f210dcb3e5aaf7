//! Pages of other origins: browsers let them open WebSockets to anywhere, so the server itself turns them away.

use jsonrpsee::server::http::response::denied;
use jsonrpsee::server::{HttpRequest, HttpResponse};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower::{Layer, Service};

/// Turns away what a page of another machine asks.
#[derive(Clone, Copy)]
pub(super) struct OriginLayer {
    /// Whether any page may ask.
    pub(super) any: bool,
}

impl<S> Layer<S> for OriginLayer {
    type Service = Origin<S>;

    fn layer(&self, inner: S) -> Origin<S> {
        let any = self.any;
        Origin { inner, any }
    }
}

#[derive(Clone)]
pub(super) struct Origin<S> {
    inner: S,
    any: bool,
}

/// Whether an Origin header names a page of this machine.
pub(super) fn is_local(origin: &str) -> bool {
    let Some((_, host)) = origin.split_once("://") else {
        return false;
    };
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next(),
        None => host.split(':').next(),
    };
    matches!(name, Some("localhost" | "127.0.0.1" | "::1"))
}

impl<S, B> Service<HttpRequest<B>> for Origin<S>
where
    S: Service<HttpRequest<B>, Response = HttpResponse>,
    S::Future: Send + 'static,
{
    type Response = HttpResponse;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: HttpRequest<B>) -> Self::Future {
        let origin = request.headers().get("origin");
        let allowed = self.any || origin.is_none_or(|o| o.to_str().is_ok_and(is_local));
        if allowed {
            return Box::pin(self.inner.call(request));
        }
        Box::pin(async { Ok(denied()) })
    }
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn local_pages() {
        for origin in [
            "http://localhost",
            "https://127.0.0.1:3000",
            "http://[::1]:8080",
        ] {
            assert!(is_local(origin), "{origin}");
        }
        for origin in [
            "null",
            "",
            "http://localhost.evil.example",
            "https://evil.example",
            "http://[::2]",
        ] {
            assert!(!is_local(origin), "{origin}");
        }
    }
}
