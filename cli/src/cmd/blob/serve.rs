//! `blue blob serve`: a store over HTTP.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use blue_node::serve::{Limits, serve};
use blue_node::store::State;
use serde_json::json;
use tracing_subscriber::EnvFilter;

use super::StoreArg;
use crate::failure::{Context, Outcome};
use crate::store::failure;
use crate::{output, signals, values};

const HELP: &str = "\
Examples:
  blue blob serve --store blobs
  blue blob serve --store blobs --listen 0.0.0.0:9000

Serves /<64 digits>.blob and /<64 digits>.leaves of published blobs with range requests, and / as a JSON list. The store may
be written meanwhile. Whoever fetches checks every chunk, so neither secrecy nor trust is needed; nothing else is readable.
The address is printed when it answers; port 0 takes a free one. Requests are logged to standard error. Ends on Ctrl-C.";

/// Serve the blobs of a store over HTTP.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    store: StoreArg,
    /// Address and port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9000", value_parser = values::listen)]
    listen: SocketAddr,
    /// Connections at once; others wait
    #[arg(long, value_name = "N", default_value = "256", value_parser = values::count::<NonZeroUsize>)]
    max_connections: NonZeroUsize,
    /// Seconds after which a connection that neither sends nor takes a byte is closed
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = values::whole::<u64>(1..=3600))]
    idle: u64,
    /// Bytes a second that a connection must move, over times longer than --idle; slower ones are closed
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().least_rate)]
    least_rate: u64,
    /// Log refused requests and faults only
    #[arg(long)]
    quiet: bool,
    /// Print the address as one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let store = args.store.read()?;
    let blobs = store.list().map_err(failure)?;
    let blobs = (blobs.iter().filter(|e| e.state == State::Published)).count();
    let level = if args.quiet { "warn" } else { "info" };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(EnvFilter::new(level))
        .with_target(false)
        .init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .or_runtime("cannot start threads")?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(args.listen)
            .await
            .or_runtime(format!("cannot listen on {}", args.listen))
            .map_err(|e| e.hint("choose another port with --listen, or 0 for a free one"))?;
        let address = listener
            .local_addr()
            .or_runtime("cannot tell the address")?;
        let asked_to_end = signals::asked_to_end();
        if args.json {
            output::json(&json!({"address": format!("http://{address}"), "blobs": blobs}))?;
        } else {
            output::text(&format!(
                "{} ({blobs} published) at http://{address}\n",
                args.store.store.display()
            ))?;
        }
        let limits = Limits {
            connections: args.max_connections,
            idle: Duration::from_secs(args.idle),
            least_rate: args.least_rate,
        };
        let (end, ended) = tokio::sync::watch::channel(());
        tokio::spawn(async move {
            asked_to_end.await;
            drop(end);
        });
        let until = |mut ended: tokio::sync::watch::Receiver<()>| async move {
            // Ends when the sender is gone.
            while ended.changed().await.is_ok() {}
        };
        let serving = serve(listener, Arc::new(store), &limits, until(ended.clone()));
        tokio::select! {
            served = serving => served.or_runtime("cannot serve"),
            // Transfers may end; those that go on are cut off.
            () = async { until(ended).await; tokio::time::sleep(Duration::from_secs(3)).await } => Ok(()),
        }
    })
}
