//! `blue devnet`: a local chain with the precompiles, for contracts and clients.

mod banner;
mod follow;
mod library;
mod models;
mod status;

use std::io::IsTerminal;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use blue_devnet::database::{Database, DiskDatabase, MemoryDatabase};
use blue_devnet::rpc::{Limits, Mining, Options, Server};
use blue_devnet::{Chain, Config, Genesis};
use blue_node::models::Purpose;
use metrics_exporter_prometheus::PrometheusHandle;

use crate::failure::{Code, Context, Failure, Outcome};
use crate::loaded::RunArgs;
use crate::progress::Progress;
use crate::{selftest, signals, values};

/// How long requests may take to end when the command does.
const GRACE: Duration = Duration::from_secs(2);

const HELP: &str = "\
Examples:
  blue devnet
  blue devnet --blob model.blob --block-time 2
  blue devnet --db chain.db
  blue devnet --port 0 --json

Ethereum's JSON-RPC over HTTP and WebSocket on one port, with the model registry and inference at their addresses. The
ten accounts of Anvil and Hardhat own 10,000 ether each; their keys are public. The first is the registry's only admin.
Every blob is active from block 0 on: the first under the name that `blue chain name blue` prints, the others under those
of their files' names without the ending. Without --blob it is the model inside this program.

A block is sealed for each transaction, or every --block-time seconds. The chain is in memory and ends with the command,
or in the file after --db, where it goes on the next time: a block is on the disk before anybody is told of it. It then
has to begin with the same blobs and settings. Calls on old blocks go back 256 blocks. State overrides, proofs and traces
are not supported.

A model that the registry adopts later is fetched from --from into --store, or taken from there, and loaded before it can
be activated. --metrics serves /metrics in the form of Prometheus, and /ready. --selftest verifies the known answers of
the specification before the chain begins.

Blocks follow Ethereum's Osaka rules but for the system calls at a block's begin: the contracts of EIP-2935 (hashes of
blocks) and EIP-4788 (beacon roots) are not there. Whoever reaches --host sends from the ten accounts.

When this machine cannot finish an execution or keep a block (a blob is missing, memory or the disk runs out), nothing is
sealed, clients are told why, and the command ends with exit code 1.
--json prints one line when the chain is ready: url, chain_id, registry, inference, accounts (address, key) and models
(text, name, version, commitment).";

/// Run a local chain with the precompiles.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// A blob that is served; once for each [default: the embedded model]
    #[arg(long = "blob", value_name = "FILE")]
    blobs: Vec<PathBuf>,
    /// The address to listen on
    #[arg(long, value_name = "IP", value_parser = values::host, default_value = "127.0.0.1")]
    host: IpAddr,
    /// The port to listen on; 0 for any that is free
    #[arg(long, value_name = "N", default_value = "8545", value_parser = values::whole::<u16>(0..=65_535))]
    port: u16,
    /// The chain's id
    #[arg(long, value_name = "N", default_value = "31337", value_parser = values::whole::<u64>(1..=9_007_199_254_740_991))]
    chain_id: u64,
    /// Seconds between blocks [default: a block for each transaction]
    #[arg(long, value_name = "SECONDS", value_parser = values::whole::<u64>(1..=86_400))]
    block_time: Option<u64>,
    /// Gas of a block
    #[arg(long, value_name = "GAS", default_value = "30000000", value_parser = values::whole::<u64>(1_000_000..=1_000_000_000))]
    gas_limit: u64,
    /// Blocks between a passed adoption and its activation
    #[arg(long, value_name = "BLOCKS", default_value = "2", value_parser = values::whole::<u64>(1..=4_294_967_295))]
    delay: u64,
    /// Blocks for which a round of votes is open
    #[arg(long, value_name = "BLOCKS", default_value = "100", value_parser = values::whole::<u64>(1..=4_294_967_295))]
    window: u64,
    /// The file that holds the chain; it is made when it is not there [default: in memory]
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// Let pages of any origin ask
    #[arg(long)]
    cors: bool,
    /// Calls that run at a time
    #[arg(long, value_name = "N", default_value = "2", value_parser = values::count::<NonZeroUsize>)]
    calls: NonZeroUsize,
    /// Keep blobs that are adopted later in this folder
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// An address or a folder to fetch them from; once for each, nobody has to trust them
    #[arg(long, value_name = "URL|DIR", requires = "store")]
    from: Vec<String>,
    /// Most memory of all models, in MiB
    #[arg(long, value_name = "MIB", default_value = "8192", value_parser = values::whole::<u64>(1..=1_000_000_000))]
    model_memory: u64,
    /// Serve metrics on this address
    #[arg(long, value_name = "IP:PORT", value_parser = values::listen)]
    metrics: Option<SocketAddr>,
    /// Verify the known answers on the backend first
    #[arg(long)]
    selftest: bool,
    #[command(flatten)]
    run: RunArgs,
    /// Print one line of JSON when the chain is ready
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    // Warnings of the libraries; a second subscriber is none.
    let _ = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_max_level(tracing::Level::WARN)
        .try_init();
    let progress = Progress::new(args.json);
    let recorder = args.metrics.map(|_| status::record()).transpose()?;
    if args.selftest {
        verify_answers(&args, progress)?;
    }
    let served = models::load(&args, progress)?;
    let mut genesis = Genesis {
        chain_id: args.chain_id,
        gas_limit: args.gas_limit,
        models: served.adoptions(),
        ..Genesis::default()
    };
    genesis.governance.delay = args.delay;
    genesis.governance.window = args.window;
    let database: Box<dyn Database> = match &args.db {
        None => Box::new(MemoryDatabase::default()),
        Some(path) => Box::new(DiskDatabase::open(path).or_input("the chain cannot begin")?),
    };
    let chain = Chain::new(Config {
        genesis,
        database,
        models: served.resident.models(Purpose::Blocks),
        call_models: served.resident.models(Purpose::Calls),
    });
    let chain = Arc::new(chain.or_input("the chain cannot begin")?);
    let options = Options {
        address: SocketAddr::new(args.host, args.port),
        mining: args.block_time.map_or(Mining::Instant, |seconds| {
            Mining::Every(Duration::from_secs(seconds))
        }),
        cors: args.cors,
        limits: Limits {
            calls: args.calls.get(),
            call_gas: args.gas_limit,
            ..Limits::default()
        },
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .or_runtime("cannot start the server's threads")?;
    let ended = runtime.block_on(serve(&args, &served, chain, options, recorder, progress));
    // A call that still computes is let go of; the file is whole at any moment.
    runtime.shutdown_timeout(GRACE);
    ended
}

/// Ends the server, whatever it still computes.
async fn stop(server: Server) {
    // Too late is well enough: the process ends.
    let _ = tokio::time::timeout(GRACE, server.stop()).await;
}

fn verify_answers(args: &Args, progress: Progress) -> Outcome {
    let name = models::cpu(args).map_or("reference", |cpu| cpu.kernels.name);
    let passed = selftest::run(name, args.run.threads(), progress)?;
    progress.note(&format!(
        "self-test: {} known answers hold on {name}",
        passed.cases
    ));
    Ok(())
}

async fn serve(
    args: &Args,
    served: &models::Served,
    chain: Arc<Chain>,
    options: Options,
    recorder: Option<PrometheusHandle>,
    progress: Progress,
) -> Outcome {
    let address = options.address;
    let latest = follow::Latest::default();
    let metrics = match (args.metrics, recorder) {
        (Some(address), Some(recorder)) => {
            let (resident, latest) = (Arc::clone(&served.resident), Arc::clone(&latest));
            Some(status::serve(address, recorder, resident, latest).await?)
        }
        _ => None,
    };
    let server = Server::start(Arc::clone(&chain), options).await;
    let server = server.map_err(|error| {
        let said = anyhow::Error::new(error).context(format!("cannot listen on {address}"));
        Failure::new(Code::Runtime, said).hint("choose another port with --port")
    })?;
    let resident = Arc::clone(&served.resident);
    tokio::spawn(follow::follow(chain, resident, latest));
    let asked_to_end = signals::asked_to_end();
    banner::print(args, served, server.address(), metrics)?;
    if !args.host.is_loopback() {
        let host = args.host;
        tracing::warn!(%host, "the ten accounts are unlocked: whoever reaches this address sends from them");
    }
    tokio::select! {
        fault = server.fault() => {
            progress.note("stopping: this machine cannot finish a block; none was sealed");
            stop(server).await;
            let said = anyhow::Error::new(fault).context("the chain stands still");
            Err(Failure::new(Code::Runtime, said)
                .hint("the chain is as it was before; put the cause right and start again"))
        }
        () = asked_to_end => {
            stop(server).await;
            Ok(())
        }
    }
}
