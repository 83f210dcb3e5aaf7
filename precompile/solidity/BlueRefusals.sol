// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.4;

/// @title The numbers of refusals. A number is never reused or given another meaning.
library BlueRefusals {
    // Halts: all gas of the call is gone and nothing is returned, so no contract sees these numbers.

    /// @dev Less gas than the price of the call.
    uint16 internal constant OUT_OF_GAS = 1;
    /// @dev No selector of 4 bytes, or a legacy input without its arguments.
    uint16 internal constant INPUT_TOO_SHORT = 2;
    /// @dev No function of this address has the selector.
    uint16 internal constant UNKNOWN_SELECTOR = 3;
    /// @dev The arguments are not the one encoding that the ABI writes for them.
    uint16 internal constant NOT_CANONICAL = 4;
    /// @dev The call carries value, must carry none.
    uint16 internal constant VALUE_SENT = 5;
    /// @dev A DELEGATECALL or CALLCODE, must be a CALL or STATICCALL.
    uint16 internal constant NOT_DIRECT = 6;
    /// @dev The function writes, which a static context forbids.
    uint16 internal constant WRITE_IN_STATIC_CALL = 7;
    /// @dev The packed tokens are no whole number of 4-byte words.
    uint16 internal constant INPUT_NOT_WORDS = 8;
    /// @dev More than 64 new tokens of the toy model.
    uint16 internal constant TOO_MANY_NEW_TOKENS = 9;
    /// @dev More than 256 tokens of prompt and output of the toy model.
    uint16 internal constant SEQUENCE_TOO_LONG = 10;

    // Reverts with Refused(number).

    /// @dev The prompt holds an id that the model does not accept.
    uint16 internal constant TOKEN_OUT_OF_RANGE = 11;
    /// @dev The prompt is empty, must hold at least one token.
    uint16 internal constant EMPTY_PROMPT = 12;
    /// @dev The prompt is longer than the model's context.
    uint16 internal constant CONTEXT_EXCEEDED = 13;
    /// @dev Nothing is active under the name.
    uint16 internal constant NO_ACTIVE_MODEL = 14;
    /// @dev Another commitment is active under the name.
    uint16 internal constant NOT_ACTIVE = 15;
    /// @dev The registry does not hold the commitment's record.
    uint16 internal constant NO_RECORD = 16;
    /// @dev The blob of the commitment is refused by its format's rules.
    uint16 internal constant BAD_MODEL = 17;
    /// @dev The registry has no governance word.
    uint16 internal constant NO_GOVERNANCE = 18;
    /// @dev The caller is no admin.
    uint16 internal constant NOT_ADMIN = 19;
    /// @dev Name, commitment or admin is zero.
    uint16 internal constant ZERO_ARGUMENT = 20;
    /// @dev The bytes are not the record of a blob.
    uint16 internal constant BAD_RECORD = 21;
    /// @dev The record is not leaf 0 of the commitment.
    uint16 internal constant BAD_PROOF = 22;
    /// @dev The version is not above every version of the name that ever passed.
    uint16 internal constant VERSION_TOO_LOW = 23;
    /// @dev The version is 2^64 or more: a halt, of a legacy function.
    uint16 internal constant VERSION_TOO_LARGE = 24;
    /// @dev This admin has voted for the action in this round.
    uint16 internal constant ALREADY_VOTED = 25;
    /// @dev That version of the name does not wait for activation.
    uint16 internal constant NOTHING_PENDING = 26;
    /// @dev The activation block is not reached.
    uint16 internal constant TOO_EARLY = 27;
    /// @dev That version of the name is neither active nor pending.
    uint16 internal constant NOTHING_TO_REVOKE = 28;
    /// @dev It is so already.
    uint16 internal constant NO_CHANGE = 29;
    /// @dev Fewer admins than the quorum would be left.
    uint16 internal constant LOCK_OUT = 30;
    /// @dev The quorum is below 2 or above the number of admins.
    uint16 internal constant QUORUM_OUT_OF_RANGE = 31;
    /// @dev The list of activations is shorter.
    uint16 internal constant NO_SUCH_ACTIVATION = 32;
}
