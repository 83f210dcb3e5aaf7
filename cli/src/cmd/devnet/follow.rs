//! Keeps the models of the chain ready: looks at every block, fetches and loads what will be active.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use blue_devnet::{Chain, Error};
use blue_node::models::Resident;
use blue_node::watch::{Options, Readiness, Watch};
use precompile::REGISTRY;

/// How often progress is looked at when there is no new block.
const TICK: Duration = Duration::from_millis(200);

/// What is ready, as of the newest look; `None` while nobody knows.
pub(super) type Latest = Arc<Mutex<Option<Vec<Readiness>>>>;

fn tell(latest: &Latest, models: Option<Vec<Readiness>>) {
    *latest.lock().unwrap_or_else(PoisonError::into_inner) = models;
}

/// Looks at every block until the process ends.
pub(super) async fn follow(chain: Arc<Chain>, resident: Arc<Resident>, latest: Latest) {
    let mut heads = chain.heads();
    let options = Options {
        alarm: 1,
        retry: Duration::from_secs(2),
        ..Options::default()
    };
    // Without a file of names: every log is looked at from block 0 on.
    let mut watch = match Watch::new(resident, options) {
        Ok(watch) => watch,
        Err(error) => {
            tracing::error!(%error, "the models are not watched");
            return;
        }
    };
    let mut seen = 0;
    loop {
        let chain = Arc::clone(&chain);
        let looked = tokio::task::spawn_blocking(move || {
            let found = look(&chain, &mut watch, seen);
            (watch, found)
        });
        let (kept, found) = match looked.await {
            Ok(looked) => looked,
            Err(error) => {
                tell(&latest, None);
                // Where the process ends, so does this.
                if error.is_panic() {
                    tracing::error!("the watch over the models has ended");
                }
                return;
            }
        };
        watch = kept;
        match found {
            Ok((head, models)) => {
                seen = head + 1;
                tell(&latest, Some(models));
            }
            Err(error) => {
                tracing::warn!(%error, "the models cannot be looked at");
                tell(&latest, None);
            }
        }
        // A new block or a tick, whichever comes first.
        let _ = tokio::time::timeout(TICK, heads.changed()).await;
    }
}

/// The number of the newest block, and what is ready after it. Names come from the logs of the blocks from `seen` on.
fn look(chain: &Chain, watch: &mut Watch, seen: u64) -> Result<(u64, Vec<Readiness>), Error> {
    let head = chain.head();
    let number = head.block.header.number;
    for number in seen..=number {
        let Some(block) = chain.block(number)? else {
            continue;
        };
        let logs = block.receipts.iter().flat_map(|receipt| receipt.logs());
        for log in logs.filter(|log| log.address.0 == REGISTRY) {
            let topics: Vec<_> = log.topics().iter().map(|topic| topic.0).collect();
            watch.log(&topics, &log.data.data);
        }
    }
    let models = watch.observe(number, &mut head.state.registry());
    let models = models.map_err(Error::Fault)?;
    Ok((number, models))
}
