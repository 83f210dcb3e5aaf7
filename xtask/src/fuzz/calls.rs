//! Seeds of the target `precompile`: calls of the known answers, those of one state in one input.

use super::seeds::write;
use crate::child;
use anyhow::{Context, Result};
use kat::file::File;
use kat::precompiles::{PrecompileCall, STATES};
use std::collections::BTreeMap;
use std::fs;

/// Calls of an input.
const CALLS: usize = 4;
/// One input of so many is kept.
const KEPT: usize = 3;
/// Longest calldata that is kept.
const LONGEST: usize = 1400;

/// A call in the target's form.
fn record(inference: bool, call: &PrecompileCall) -> Vec<u8> {
    let flags = u8::from(inference)
        | u8::from(call.value > 0) << 1
        | u8::from(call.is_static) << 2
        | u8::from(!call.direct) << 3;
    let gas = u32::try_from(call.gas).map_or(0xFF_FFFF, |gas| gas.min(0xFF_FFFF));
    let [g0, g1, g2, _] = gas.to_le_bytes();
    let [l0, l1] = (call.input.len() as u16).to_le_bytes();
    let header = [flags, call.caller[19], 0, g0, g1, g2, l0, l1];
    [&header[..], &call.input].concat()
}

/// Writes the seeds.
pub(super) fn write_seeds() -> Result<()> {
    let set = child::root().join(kat::set::CURRENT);
    let read = |name: &str| fs::read(set.join(name)).with_context(|| name.to_owned());
    let File::States(states) = kat::file::parse(&read(STATES)?)? else {
        anyhow::bail!("{STATES} holds no states");
    };
    let mut by_place: BTreeMap<(u8, u8), Vec<Vec<u8>>> = BTreeMap::new();
    for (name, inference) in [
        ("registry", false),
        ("fail-registry", false),
        ("inference", true),
        ("fail-inference", true),
    ] {
        for call in kat::precompiles::parse(&read(&format!("precompile/{name}.json"))?)? {
            let state = states.states.iter().position(|s| s.name == call.state);
            let state = state.with_context(|| format!("no state {}", call.state))?;
            let later = call.block.unwrap_or(0);
            let later = later.saturating_sub(states.states[state].block);
            let (Ok(later), true) = (u8::try_from(later), call.input.len() <= LONGEST) else {
                continue;
            };
            let place = (state as u8, later);
            by_place
                .entry(place)
                .or_default()
                .push(record(inference, &call));
        }
    }
    for ((state, later), records) in by_place {
        for (i, some) in records.chunks(CALLS).enumerate().step_by(KEPT) {
            let name = format!("state_{state}_{later}_{i}");
            write("precompile", &name, &[&[state, later], &some.concat()])?;
        }
    }
    Ok(())
}
