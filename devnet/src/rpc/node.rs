//! What all methods share: the chain, its clock, the keys, who may run at a time.

use super::Limits;
use super::failure::{Answer, busy, refused};
use super::filters::Filters;
use crate::accounts::DevAccount;
use crate::block::Block;
use crate::chain::Chain;
use crate::error::Error;
use jsonrpsee::RpcModule;
use jsonrpsee::core::RegisterMethodError;
use jsonrpsee::types::Params;
use serde::Serialize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{Semaphore, watch};

/// When blocks are sealed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mining {
    /// As soon as there is a transaction, a block for each.
    Instant,
    /// At this interval, with or without transactions.
    Every(Duration),
}

/// Latest time that a block may have: what a JavaScript number holds.
const LATEST: u64 = (1 << 53) - 1;

/// The time of the next block.
#[derive(Default)]
struct Clock {
    /// Seconds that this chain's time is ahead.
    ahead: u64,
    /// The next block's, if it was set.
    next: Option<u64>,
}

pub(super) struct Node {
    pub(super) chain: Arc<Chain>,
    pub(super) accounts: Vec<DevAccount>,
    pub(super) limits: Limits,
    pub(super) filters: Mutex<Filters>,
    mining: Mining,
    clock: Mutex<Clock>,
    sealing: Mutex<()>,
    /// Held from a nonce that the node chooses to its transaction's place among those that wait.
    pub(super) sending: Mutex<()>,
    requests: Arc<Semaphore>,
    calls: Arc<Semaphore>,
    fault: watch::Sender<Option<precompile::Fault>>,
    stopped: watch::Sender<bool>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    pub(super) fn new(chain: Arc<Chain>, mining: Mining, limits: Limits) -> Self {
        Self {
            chain,
            accounts: DevAccount::all(),
            filters: Mutex::new(Filters::new(limits.filters)),
            requests: Arc::new(Semaphore::new(limits.requests)),
            calls: Arc::new(Semaphore::new(limits.calls)),
            limits,
            mining,
            clock: Mutex::default(),
            sealing: Mutex::default(),
            sending: Mutex::default(),
            fault: watch::Sender::new(None),
            stopped: watch::Sender::new(false),
        }
    }

    /// Waits for a fault.
    pub(super) async fn fault(&self) -> precompile::Fault {
        let mut faults = self.fault.subscribe();
        loop {
            if let Some(fault) = faults.borrow_and_update().clone() {
                return fault;
            }
            // The sender is this node's own.
            if faults.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    pub(super) fn stop(&self) {
        self.stopped.send_replace(true);
    }

    /// The time of a block that were sealed now, in seconds.
    pub(super) fn time(&self) -> u64 {
        let parent = self.chain.head().block.header.timestamp;
        let clock = lock(&self.clock);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |d| d.as_secs()).saturating_add(clock.ahead);
        clock.next.unwrap_or(now).max(parent.saturating_add(1))
    }

    /// Lets this chain's time go on by so many seconds; how many it is ahead now.
    pub(super) fn advance(&self, seconds: u64) -> Answer<u64> {
        let time = self.time();
        let mut clock = lock(&self.clock);
        if time.saturating_add(seconds) > LATEST {
            return Err(refused(format!("the time would be after {LATEST}")));
        }
        clock.ahead = clock.ahead.saturating_add(seconds);
        Ok(clock.ahead)
    }

    /// Sets the time of the next block, in seconds; those after it go on from there.
    pub(super) fn set_time(&self, time: u64) -> Answer<()> {
        let given = time;
        let parent = self.chain.head().block.header.timestamp;
        if given <= parent {
            return Err(Error::Time { given, parent }.into());
        }
        if time > LATEST {
            return Err(refused(format!("the time is after {LATEST}")));
        }
        let mut clock = lock(&self.clock);
        clock.next = Some(time);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |d| d.as_secs());
        clock.ahead = clock.ahead.max(time.saturating_sub(now));
        Ok(())
    }

    /// Takes note of how sealing went.
    fn sealed<T>(&self, sealed: Result<T, Error>) -> Result<T, Error> {
        match &sealed {
            Ok(_) => lock(&self.clock).next = None,
            Err(Error::Fault(fault)) => {
                self.fault.send_replace(Some(fault.clone()));
            }
            Err(error) => tracing::error!(%error, "no block was sealed"),
        }
        sealed
    }

    /// Seals a block of everything that waits, at the time that is next.
    pub(super) fn mine(&self) -> Result<Arc<Block>, Error> {
        let _one_at_a_time = lock(&self.sealing);
        self.sealed(self.chain.seal(self.time(), usize::MAX))
    }

    /// Seals a block of everything that waits, at a time in seconds.
    pub(super) fn mine_at(&self, time: u64) -> Answer<Arc<Block>> {
        let _one_at_a_time = lock(&self.sealing);
        self.set_time(time)?;
        Ok(self.sealed(self.chain.seal(time, usize::MAX))?)
    }

    /// After a transaction came: seals a block for each that can be executed, if blocks are sealed instantly.
    pub(super) fn came(&self) -> Result<(), Error> {
        if self.mining != Mining::Instant {
            return Ok(());
        }
        let _one_at_a_time = lock(&self.sealing);
        loop {
            let Some(block) = self.chain.seal_one(self.time()).transpose() else {
                return Ok(());
            };
            self.sealed(block)?;
        }
    }

    /// Seals blocks at their interval until the server stops.
    pub(super) fn mine_forever(self: Arc<Self>) {
        let Mining::Every(interval) = self.mining else {
            return;
        };
        tokio::spawn(async move {
            let mut stopped = self.stopped.subscribe();
            let mut ticks = tokio::time::interval(interval.max(Duration::from_millis(1)));
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            ticks.tick().await;
            loop {
                tokio::select! {
                    _ = ticks.tick() => {}
                    _ = stopped.changed() => return,
                }
                let node = self.clone();
                let sealed = tokio::task::spawn_blocking(move || node.mine()).await;
                if matches!(sealed, Ok(Err(Error::Fault(_)))) {
                    return;
                }
            }
        });
    }
}

/// Runs `work` on a thread where it may wait and compute, when it is its turn. The thread holds the permits: the work goes
/// on when the client hangs up and this future is dropped.
async fn run<T: Send + 'static>(
    node: Arc<Node>,
    heavy: bool,
    work: impl FnOnce(&Node) -> Answer<T> + Send + 'static,
) -> Answer<T> {
    let Ok(request) = node.requests.clone().try_acquire_owned() else {
        let most = node.limits.requests;
        return Err(busy(format!(
            "{most} requests are answered already, try again later"
        )));
    };
    let calls = match heavy {
        true => Some(node.calls.clone().acquire_owned().await),
        false => None,
    };
    let done = tokio::task::spawn_blocking(move || {
        let _permits = (request, calls);
        work(&node)
    });
    done.await
        .unwrap_or_else(|_| Err(refused("internal error: the request's work panicked")))
}

/// A module of methods.
pub(super) type Module = RpcModule<Node>;
/// How a method is added.
pub(super) type Registered = Result<(), RegisterMethodError>;

fn add<T, F>(module: &mut Module, name: &'static str, heavy: bool, method: F) -> Registered
where
    T: Serialize + Clone + Send + 'static,
    F: Fn(&Node, &Params<'static>) -> Answer<T> + Copy + Send + Sync + 'static,
{
    module.register_async_method(name, move |params, node, _| {
        run(node, heavy, move |node| method(node, &params))
    })?;
    Ok(())
}

/// Adds a method that only looks something up.
pub(super) fn quick<T, F>(module: &mut Module, name: &'static str, method: F) -> Registered
where
    T: Serialize + Clone + Send + 'static,
    F: Fn(&Node, &Params<'static>) -> Answer<T> + Copy + Send + Sync + 'static,
{
    add(module, name, false, method)
}

/// Adds a method that executes calls: few run at a time.
pub(super) fn heavy<T, F>(module: &mut Module, name: &'static str, method: F) -> Registered
where
    T: Serialize + Clone + Send + 'static,
    F: Fn(&Node, &Params<'static>) -> Answer<T> + Copy + Send + Sync + 'static,
{
    add(module, name, true, method)
}
