//! The functions that write (spec 6.5). They come here with their arguments decoded and their gas paid.

use super::Event;
use super::state::{self, Pending};
use super::votes::{Action, Governance, as_admin, vote};
use crate::host::Host;
use crate::record;
use crate::refusal::{Fault, Refusal, Stop, require};
use crate::slots;
use crate::word::{Address, Pack, Word, ZERO, of_u64, to_u64};

fn answer(passed: bool) -> Vec<u8> {
    of_u64(passed.into()).to_vec()
}

/// The largest version of a name that ever passed.
pub(super) fn highest_version(host: &mut dyn Host, name: &Word) -> Result<Word, Fault> {
    let passed = host.read(&slots::highest(name))?;
    Ok(passed.max(host.read(&slots::version(name))?))
}

pub(super) fn propose(
    host: &mut dyn Host,
    caller: &Address,
    name: &Word,
    version: u64,
    commitment: &Word,
    record: &[u8],
    proof: &[Word],
) -> Result<Vec<u8>, Stop> {
    let governance = as_admin(host, caller)?;
    require(*name != ZERO && *commitment != ZERO, Refusal::ZeroArgument)?;
    record::store(host, commitment, record, proof)?;
    adopt(host, &governance, caller, name, version, commitment)
}

pub(super) fn approve(
    host: &mut dyn Host,
    governance: &Governance,
    caller: &Address,
    name: &Word,
    version: u64,
    commitment: &Word,
) -> Result<Vec<u8>, Stop> {
    require(*name != ZERO && *commitment != ZERO, Refusal::ZeroArgument)?;
    record::load(host, commitment)?;
    adopt(host, governance, caller, name, version, commitment)
}

/// An admin's vote for a commitment whose record is stored.
fn adopt(
    host: &mut dyn Host,
    governance: &Governance,
    caller: &Address,
    name: &Word,
    version: u64,
    commitment: &Word,
) -> Result<Vec<u8>, Stop> {
    let above = of_u64(version) > highest_version(host, name)?;
    require(above, Refusal::VersionTooLow)?;
    let action = Action::Adopt {
        name: *name,
        version,
        commitment: *commitment,
    };
    let passed = vote(host, governance, caller, &action)?;
    if passed {
        let waiting = Pending {
            version,
            commitment: *commitment,
            block: host.block_number().saturating_add(governance.delay),
        };
        host.write(&slots::highest(name), &of_u64(version))?;
        waiting.save(host, name)?;
        Event::Passed {
            name: *name,
            version,
            commitment: *commitment,
            block: waiting.block,
        }
        .emit(host);
    }
    Ok(answer(passed))
}

pub(super) fn activate(host: &mut dyn Host, name: &Word, version: u64) -> Result<Vec<u8>, Stop> {
    let waiting = state::pending(host, name)?;
    require(waiting.is(version), Refusal::NothingPending)?;
    let block = host.block_number();
    require(block >= waiting.block, Refusal::TooEarly)?;
    // A counter: written here alone, one more each time.
    let index = to_u64(&host.read(&slots::activation_count())?).unwrap_or(u64::MAX);
    host.write(&slots::version(name), &of_u64(version))?;
    host.write(&slots::commitment(name), &waiting.commitment)?;
    host.write(&slots::served(name), &waiting.commitment)?;
    let when = Pack::default().field(version, 8).field(block, 8).word();
    for (part, word) in (0..).zip([*name, waiting.commitment, when]) {
        host.write(&slots::activation(index, part), &word)?;
    }
    host.write(&slots::activation_count(), &of_u64(index.saturating_add(1)))?;
    Pending::default().save(host, name)?;
    Event::Activated {
        name: *name,
        version,
        commitment: waiting.commitment,
        index,
    }
    .emit(host);
    Ok(of_u64(index).to_vec())
}

pub(super) fn revoke(
    host: &mut dyn Host,
    caller: &Address,
    name: &Word,
    version: u64,
) -> Result<Vec<u8>, Stop> {
    let governance = as_admin(host, caller)?;
    let waiting = state::pending(host, name)?;
    let active = host.read(&slots::commitment(name))?;
    let is_waiting = waiting.is(version);
    if !is_waiting {
        let is_active = active != ZERO && host.read(&slots::version(name))? == of_u64(version);
        require(is_active, Refusal::NothingToRevoke)?;
    }
    let action = Action::Revoke {
        name: *name,
        version,
    };
    let passed = vote(host, &governance, caller, &action)?;
    if passed {
        let commitment = if is_waiting {
            Pending::default().save(host, name)?;
            waiting.commitment
        } else {
            host.write(&slots::commitment(name), &ZERO)?;
            host.write(&slots::served(name), &ZERO)?;
            active
        };
        host.write(&slots::revoked(name, version), &of_u64(1))?;
        Event::Revoked {
            name: *name,
            version,
            commitment,
        }
        .emit(host);
    }
    Ok(answer(passed))
}

pub(super) fn set_admin(
    host: &mut dyn Host,
    governance: &Governance,
    caller: &Address,
    admin: &Address,
    enabled: bool,
) -> Result<Vec<u8>, Stop> {
    require(*admin != [0; 20], Refusal::ZeroArgument)?;
    let word = of_u64(enabled.into());
    let before = host.read(&slots::admin(admin))?;
    require(before != word, Refusal::NoChange)?;
    // A word that is neither 0 nor 1 makes no admin.
    let leaves = before == of_u64(1);
    let enough = !leaves || governance.admins > governance.quorum;
    require(enough, Refusal::LockOut)?;
    let action = Action::SetAdmin {
        admin: *admin,
        enabled,
    };
    let passed = vote(host, governance, caller, &action)?;
    if passed {
        host.write(&slots::admin(admin), &word)?;
        let joined = governance.admins.saturating_add(enabled.into());
        let admins = joined - u32::from(leaves);
        let epoch = governance.epoch.saturating_add(1);
        Governance {
            admins,
            epoch,
            ..*governance
        }
        .save(host)?;
        Event::AdminSet {
            admin: *admin,
            enabled,
            epoch,
        }
        .emit(host);
    }
    Ok(answer(passed))
}

pub(super) fn set_quorum(
    host: &mut dyn Host,
    caller: &Address,
    quorum: u32,
) -> Result<Vec<u8>, Stop> {
    let governance = as_admin(host, caller)?;
    let within = (2..=governance.admins).contains(&quorum);
    require(within, Refusal::QuorumOutOfRange)?;
    require(quorum != governance.quorum, Refusal::NoChange)?;
    let action = Action::SetQuorum { quorum };
    let passed = vote(host, &governance, caller, &action)?;
    if passed {
        let epoch = governance.epoch.saturating_add(1);
        Governance {
            quorum,
            epoch,
            ..governance
        }
        .save(host)?;
        Event::QuorumSet { quorum, epoch }.emit(host);
    }
    Ok(answer(passed))
}
