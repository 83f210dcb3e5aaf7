//! Ethereum's JSON-RPC over HTTP and WebSocket.
//!
//! Every request is bounded: its size, the answer's, a batch's, the gas and number of calls, the blocks and events of a
//! query, the filters that are kept. What is not supported is refused as an unknown method.

mod args;
mod calls;
mod chain;
mod convert;
mod dev;
mod failure;
mod fees;
mod filters;
mod logs;
mod node;
mod origin;
mod reason;
mod send;
mod subscribe;

pub use node::Mining;

use crate::chain::Chain;
use jsonrpsee::RpcModule;
use jsonrpsee::core::RegisterMethodError;
use jsonrpsee::core::traits::IdProvider;
use jsonrpsee::server::middleware::http::HostFilterLayer;
use jsonrpsee::server::{BatchRequestConfig, ServerConfig, ServerHandle};
use jsonrpsee::types::SubscriptionId;
use node::Node;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tower_http::cors::{AllowOrigin, CorsLayer};

/// What the server allows.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Gas of a call.
    pub call_gas: u64,
    /// Calls that run at a time.
    pub calls: usize,
    /// Requests that are answered or wait at a time.
    pub requests: usize,
    /// Blocks that a query of events spans.
    pub log_blocks: u64,
    /// Events that a query gives.
    pub logs: usize,
    /// Filters that are kept.
    pub filters: usize,
    /// Bytes of a request.
    pub request_bytes: u32,
    /// Bytes of an answer.
    pub response_bytes: u32,
    /// Requests of a batch.
    pub batch: u32,
    /// Requests over HTTP and WebSockets that are open at a time.
    pub connections: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            call_gas: 30_000_000,
            calls: 4,
            requests: 256,
            log_blocks: 10_000,
            logs: 10_000,
            filters: 256,
            request_bytes: 1 << 20,
            response_bytes: 16 << 20,
            batch: 100,
            connections: 100,
        }
    }
}

/// How a chain is served.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens; port 0 for any that is free.
    pub address: SocketAddr,
    /// When blocks are sealed.
    pub mining: Mining,
    /// Whether pages of any origin may ask (CORS). Without it only those of this machine may, over WebSockets too.
    pub cors: bool,
    /// What is allowed.
    pub limits: Limits,
}

/// A server that listens, until it is stopped or dropped.
pub struct Server {
    address: SocketAddr,
    handle: ServerHandle,
    node: Arc<Node>,
}

/// Subscription ids as other nodes write them.
#[derive(Debug, Default)]
struct Ids(AtomicU64);

impl IdProvider for Ids {
    fn next_id(&self) -> SubscriptionId<'static> {
        let id = self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        SubscriptionId::Str(format!("0x{id:032x}").into())
    }
}

fn unlikely(error: RegisterMethodError) -> io::Error {
    io::Error::other(error)
}

impl Server {
    /// Begins to listen. Called inside a tokio runtime.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn start(chain: Arc<Chain>, options: Options) -> io::Result<Self> {
        let limits = options.limits;
        let config = ServerConfig::builder()
            .max_request_body_size(limits.request_bytes)
            .max_response_body_size(limits.response_bytes)
            .max_connections(limits.connections)
            .max_subscriptions_per_connection(32)
            .set_batch_request_config(BatchRequestConfig::Limit(limits.batch))
            .set_message_buffer_capacity(64)
            .set_id_provider(Ids::default())
            .build();
        let local = options.address.ip().is_loopback();
        // A page that lets its own name point here is another origin as well.
        let hosts = match local {
            true => HostFilterLayer::new(["localhost:*", "127.0.0.1:*", "[::1]:*"])
                .map_err(io::Error::other)?,
            false => HostFilterLayer::disable(),
        };
        let permissive = CorsLayer::permissive();
        let cors = match options.cors {
            true => permissive,
            // What a page of this machine may ask, its browser has to be told.
            false => permissive.allow_origin(AllowOrigin::predicate(|name, _| {
                name.to_str().is_ok_and(origin::is_local)
            })),
        };
        let origins = origin::OriginLayer { any: options.cors };
        let http = tower::ServiceBuilder::new()
            .layer(origins)
            .layer(cors)
            .layer(hosts);
        let server = jsonrpsee::server::Server::builder()
            .set_config(config)
            .set_http_middleware(http)
            .build(options.address)
            .await?;
        let address = server.local_addr()?;
        let node = Arc::new(Node::new(chain, options.mining, limits));
        let mut module = RpcModule::from_arc(node.clone());
        for register in [
            chain::register,
            calls::register,
            fees::register,
            send::register,
            logs::register,
            dev::register,
            subscribe::register,
        ] {
            register(&mut module).map_err(unlikely)?;
        }
        let handle = server.start(module);
        node.clone().mine_forever();
        Ok(Self {
            address,
            handle,
            node,
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for a fault of this machine: no block is sealed after it.
    pub async fn fault(&self) -> precompile::Fault {
        self.node.fault().await
    }

    /// Answers what was asked, and stops.
    pub async fn stop(self) {
        self.node.stop();
        // An error says that it has stopped already.
        let _ = self.handle.stop();
        self.handle.stopped().await;
    }
}
