//! Methods that development tools use to move the chain on.

use super::args::Args;
use super::failure::bad;
use super::node::{Module, Registered, quick};
use alloy_primitives::U64;

/// Most blocks that are sealed at once.
const MOST: u64 = 1_024;

pub(super) fn register(m: &mut Module) -> Registered {
    quick(m, "evm_mine", |node, params| {
        let mut args = Args::new(params, 1)?;
        match args.optional::<U64>("timestamp")? {
            Some(time) => node.mine_at(time.to())?,
            None => node.mine()?,
        };
        Ok("0x0".to_owned())
    })?;
    quick(m, "evm_increaseTime", |node, params| {
        let seconds: U64 = Args::new(params, 1)?.required("seconds")?;
        node.advance(seconds.to()).map(U64::from)
    })?;
    quick(m, "evm_setNextBlockTimestamp", |node, params| {
        let time: U64 = Args::new(params, 1)?.required("timestamp")?;
        node.set_time(time.to())
    })?;
    // Blocks to wait for an activation with.
    quick(m, "anvil_mine", |node, params| {
        let count: Option<U64> = Args::new(params, 1)?.optional("blocks")?;
        let count = count.map_or(1, |count| count.to::<u64>());
        if count > MOST {
            return Err(bad(format!("at most {MOST} blocks at once")));
        }
        for _ in 0..count {
            node.mine()?;
        }
        Ok(())
    })?;
    m.register_alias("hardhat_mine", "anvil_mine")
}
