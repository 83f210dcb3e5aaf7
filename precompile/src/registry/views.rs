//! The functions that only read (spec 6.5).

use super::Function;
use super::state;
use super::votes::Tally;
use super::writes::highest_version;
use crate::abi::{Args, Encoder};
use crate::host::Host;
use crate::record;
use crate::refusal::{Refusal, Stop, require};
use crate::slots;
use crate::word::{Unpack, Word, of_u64};

fn one_word(args: &[u8]) -> Result<Word, Refusal> {
    let mut a = Args::new(args, 1);
    let word = a.word()?;
    a.end()?;
    Ok(word)
}

/// Answers a view; the functions that write have answered elsewhere.
pub(super) fn execute(
    function: Function,
    args: &[u8],
    host: &mut dyn Host,
) -> Result<Vec<u8>, Stop> {
    let out = Encoder::default();
    let out = match function {
        Function::Record => return full_record(args, host),
        Function::Activation => return activation(args, host),
        Function::Pending => {
            let waiting = state::pending(host, &one_word(args)?)?;
            out.u64(waiting.version)
                .word(&waiting.commitment)
                .u64(waiting.block)
        }
        Function::HighestVersion => out.word(&highest_version(host, &one_word(args)?)?),
        Function::GetApproved => {
            let name = one_word(args)?;
            out.word(&host.read(&slots::version(&name))?)
                .word(&host.read(&slots::commitment(&name))?)
        }
        Function::IsAdmin => {
            let mut a = Args::new(args, 1);
            let address = a.address()?;
            a.end()?;
            let enabled = host.read(&slots::admin(&address))? == of_u64(1);
            out.u64(enabled.into())
        }
        Function::Governance => {
            Args::new(args, 0).end()?;
            let g = state::governance(host)?;
            out.u64(g.admins.into())
                .u64(g.quorum.into())
                .u64(g.delay)
                .u64(g.window)
                .u64(g.epoch)
        }
        Function::IsRevoked => {
            let mut a = Args::new(args, 2);
            let (name, version) = (a.word()?, a.u64()?);
            a.end()?;
            out.word(&host.read(&slots::revoked(&name, version))?)
        }
        Function::Tally => {
            let tally = Tally::of_word(&host.read(&slots::tally(&one_word(args)?))?);
            out.u64(tally.round).u64(tally.last).u64(tally.votes)
        }
        Function::ActivationCount => {
            Args::new(args, 0).end()?;
            out.word(&host.read(&slots::activation_count())?)
        }
        Function::Propose
        | Function::Approve
        | Function::Activate
        | Function::Revoke
        | Function::SetAdmin
        | Function::SetQuorum => {
            unreachable!("functions that write are answered where they are decoded")
        }
    };
    Ok(out.finish())
}

fn full_record(args: &[u8], host: &mut dyn Host) -> Result<Vec<u8>, Stop> {
    let words = record::load_all(host, &one_word(args)?)?;
    let mut ids = Vec::new();
    for word in &words[3..] {
        let mut fields = Unpack::new(word);
        ids.extend((0..8).map(|_| fields.field(4) as u32));
    }
    let mut fields = Unpack::new(&words[0]);
    let sizes = [4; 8].map(|width| fields.field(width));
    let mut fields = Unpack::new(&words[1]);
    // max_context, scheme, qk_norm, tied; then the number of stop ids; then eps, total_len, manifest_len.
    let before = [4, 1, 1, 1].map(|width| fields.field(width));
    ids.truncate(fields.field(1) as usize);
    let after = [8, 8, 4].map(|width| fields.field(width));
    let all = sizes.into_iter().chain(before).chain(after);
    let out = all.fold(Encoder::default(), Encoder::u64);
    Ok(out.word(&words[2]).u32s(&ids).finish())
}

fn activation(args: &[u8], host: &mut dyn Host) -> Result<Vec<u8>, Stop> {
    let mut a = Args::new(args, 1);
    let index = a.u64()?;
    a.end()?;
    let count = state::activation_count(host)?;
    require(index < count, Refusal::NoSuchActivation)?;
    let found = state::activation(host, index)?;
    let out = Encoder::default()
        .word(&found.name)
        .u64(found.version)
        .word(&found.commitment);
    Ok(out.u64(found.block).finish())
}
