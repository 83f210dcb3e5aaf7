//! The functions with constant selectors of the registry that exists on other chains (spec 6.5).

use super::votes::{Governance, as_admin};
use super::{Function, writes};
use crate::abi::{address, boolean, low_address};
use crate::gas;
use crate::host::{Call, Host};
use crate::refusal::{Refusal, Stop, require};
use crate::slots;
use crate::word::{Word, of_u64, to_u64};

const ADOPT: [u8; 4] = [1, 0, 0, 0];
const GET_APPROVED: [u8; 4] = [2, 0, 0, 0];
const IS_ADMIN: [u8; 4] = [3, 0, 0, 0];
const SET_ADMIN: [u8; 4] = [4, 0, 0, 0];

/// The price of an input without a selector of the ABI.
pub(super) fn price(call: &Call<'_>) -> u64 {
    match call.selector() {
        Some(ADOPT) => Function::Approve.base_price(),
        Some(IS_ADMIN) => gas::LEGACY_IS_ADMIN,
        Some(SET_ADMIN) => Function::SetAdmin.base_price(),
        _ => gas::LEGACY_GET_APPROVED,
    }
}

/// The first words of the arguments; bytes after them are ignored.
fn words<const N: usize>(call: &Call<'_>) -> Result<[Word; N], Refusal> {
    let mut words = [[0; 32]; N];
    let args = call.args();
    require(args.len() >= 32 * N, Refusal::InputTooShort)?;
    for (word, bytes) in words.iter_mut().zip(args.chunks_exact(32)) {
        word.copy_from_slice(bytes);
    }
    Ok(words)
}

/// Executes a call that has paid its price. Every refusal is a halt.
pub(super) fn execute(call: &Call<'_>, host: &mut dyn Host) -> Result<Vec<u8>, Stop> {
    match call.selector().ok_or(Refusal::InputTooShort)? {
        ADOPT => {
            let governance = writer(call, host)?;
            let [name, version, commitment] = words(call)?;
            let version = to_u64(&version).ok_or(Refusal::VersionTooLarge)?;
            let caller = &call.caller;
            writes::approve(host, &governance, caller, &name, version, &commitment)?;
            Ok(of_u64(1).to_vec())
        }
        SET_ADMIN => {
            let governance = writer(call, host)?;
            let [admin, enabled] = words(call)?;
            let (admin, enabled) = (address(&admin)?, boolean(&enabled)?);
            writes::set_admin(host, &governance, &call.caller, &admin, enabled)?;
            Ok(of_u64(1).to_vec())
        }
        GET_APPROVED => {
            let [name] = words(call)?;
            let version = host.read(&slots::version(&name))?;
            Ok([version, host.read(&slots::commitment(&name))?].concat())
        }
        IS_ADMIN => {
            let [address] = words(call)?;
            Ok(host.read(&slots::admin(&low_address(&address)))?.to_vec())
        }
        _ => Err(Refusal::UnknownSelector.into()),
    }
}

/// The checks that a write begins with, before it looks at its arguments.
fn writer(call: &Call<'_>, host: &mut dyn Host) -> Result<Governance, Stop> {
    require(!call.is_static, Refusal::WriteInStaticCall)?;
    as_admin(host, &call.caller)
}
