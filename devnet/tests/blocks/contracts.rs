//! Contracts in a few bytes.

use precompile::INFERENCE;
use revm::bytecode::opcode::*;

/// Code that creates a contract with this code.
pub(crate) fn creation(code: &[u8]) -> Vec<u8> {
    let len = u16::try_from(code.len()).unwrap().to_be_bytes();
    let head = [
        PUSH2, len[0], len[1], DUP1, PUSH1, 12, PUSH1, 0, CODECOPY, PUSH1, 0, RETURN,
    ];
    [&head, code].concat()
}

/// Asks inference what it is asked: stores the answer's hash under the block's number and logs it, or reverts with what
/// inference reverts with.
pub(crate) fn asker() -> Vec<u8> {
    let mut code = vec![CALLDATASIZE, PUSH1, 0, PUSH1, 0, CALLDATACOPY];
    code.extend([PUSH1, 0, PUSH1, 0, CALLDATASIZE, PUSH1, 0, PUSH1, 0]);
    code.push(PUSH20);
    code.extend(INFERENCE);
    code.extend([GAS, CALL]);
    code.extend([RETURNDATASIZE, PUSH1, 0, PUSH1, 0, RETURNDATACOPY]);
    code.push(PUSH1);
    let jump = code.len();
    code.extend([0, JUMPI, RETURNDATASIZE, PUSH1, 0, REVERT]);
    code[jump] = code.len() as u8;
    code.extend([JUMPDEST, RETURNDATASIZE, PUSH1, 0, KECCAK256]);
    code.extend([DUP1, NUMBER, SSTORE]);
    code.extend([PUSH1, 0, MSTORE, NUMBER, PUSH1, 32, PUSH1, 0, LOG1]);
    code.extend([PUSH1, 32, PUSH1, 0, RETURN]);
    code
}
