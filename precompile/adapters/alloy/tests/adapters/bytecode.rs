//! A contract that makes any kind of call and reports what came of it.

use precompile::word::{Address, to_u64};

/// A kind of call; the number is the forwarder's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Call = 1,
    CallCode = 2,
    DelegateCall = 3,
    StaticCall = 4,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [
        Self::Call,
        Self::CallCode,
        Self::DelegateCall,
        Self::StaticCall,
    ];

    const fn opcode(self) -> u8 {
        match self {
            Self::Call => op::CALL,
            Self::CallCode => op::CALLCODE,
            Self::DelegateCall => op::DELEGATECALL,
            Self::StaticCall => op::STATICCALL,
        }
    }

    const fn takes_value(self) -> bool {
        matches!(self, Self::Call | Self::CallCode)
    }
}

/// What the contracts here are made of.
pub(crate) mod op {
    pub(crate) use revm::bytecode::opcode::*;
}

/// Start of the calldata that is passed on: kind, gas as 8 bytes, value as 32, target.
const HEAD: u8 = 61;
/// Success and gas, before the returned data.
const REPORT: u8 = 64;

/// Calldata of the forwarder.
pub(crate) fn forward(kind: Kind, gas: u64, value: u8, to: &Address, data: &[u8]) -> Vec<u8> {
    let mut head = vec![kind as u8];
    head.extend(gas.to_be_bytes());
    head.extend([0; 31]);
    head.push(value);
    head.extend(to);
    assert_eq!(head.len(), usize::from(HEAD));
    [&head, data].concat()
}

/// What the forwarder reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Report {
    pub(crate) success: bool,
    /// Gas between two readings around the call.
    pub(crate) gas: u64,
    pub(crate) output: Vec<u8>,
}

impl Report {
    pub(crate) fn of(output: &[u8]) -> Self {
        let number = |at: usize| to_u64(&output[at..at + 32].try_into().unwrap()).unwrap();
        Self {
            success: number(0) == 1,
            gas: number(32),
            output: output[usize::from(REPORT)..].to_vec(),
        }
    }
}

/// The forwarder: makes the call that its calldata describes, and returns a [`Report`].
pub(crate) fn forwarder() -> Vec<u8> {
    use op::*;
    let len = [PUSH1, HEAD, CALLDATASIZE, SUB];
    let mut code = [&len[..], &[PUSH1, HEAD, PUSH1, REPORT, CALLDATACOPY]].concat();
    code.extend([PUSH1, 0, CALLDATALOAD, PUSH1, 248, SHR]);
    // Jumps to the branch of the kind, whose places are filled in below.
    let table = code.len();
    code.extend([0; 9 * Kind::ALL.len()]);
    code.push(INVALID);
    let mut ends = vec![];
    for (i, kind) in Kind::ALL.into_iter().enumerate() {
        let at = (code.len() as u16).to_be_bytes();
        let entry = [
            DUP1, PUSH1, kind as u8, EQ, PUSH2, at[0], at[1], JUMPI, JUMPDEST,
        ];
        code[table + 9 * i..][..9].copy_from_slice(&entry);
        code.extend([JUMPDEST, POP, GAS, PUSH1, 0, PUSH1, 0]);
        code.extend(len);
        code.extend([PUSH1, REPORT]);
        if kind.takes_value() {
            code.extend([PUSH1, 9, CALLDATALOAD]);
        }
        code.extend([PUSH1, 41, CALLDATALOAD, PUSH1, 96, SHR]);
        code.extend([PUSH1, 1, CALLDATALOAD, PUSH1, 192, SHR]);
        code.extend([kind.opcode(), GAS, PUSH2]);
        ends.push(code.len());
        code.extend([0, 0, JUMP]);
    }
    let end = (code.len() as u16).to_be_bytes();
    for at in ends {
        code[at..at + 2].copy_from_slice(&end);
    }
    code.extend([
        JUMPDEST, SWAP1, PUSH1, 0, MSTORE, SWAP1, SUB, PUSH1, 32, MSTORE,
    ]);
    code.extend([RETURNDATASIZE, PUSH1, 0, PUSH1, REPORT, RETURNDATACOPY]);
    code.extend([RETURNDATASIZE, PUSH1, REPORT, ADD, PUSH1, 0, RETURN]);
    code
}
