// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.4;

import {IRefused} from "./IRefused.sol";

/// @title Inference by token ids, at 0x0300000000000000000000000000000000000003.
/// @notice Anyone may call. All functions are views: they keep nothing and answer alike on every node.
/// `commitment` is zero, meaning whatever is active under the name, or must be the active one.
/// @dev Refusals of every function: NoActiveModel (14), NotActive (15), NoRecord (16). Of those that compute also:
/// EmptyPrompt (12), ContextExceeded (13), TokenOutOfRange (11), BadModel (17). Halts, which take all gas of the call:
/// OutOfGas (1), NotCanonical (4), ValueSent (5), NotDirect (6).
interface IInference is IRefused {
    /// @notice The model's greedy answer to a prompt.
    /// @param name The name in the registry.
    /// @param commitment The commitment of the model that must be active, or zero.
    /// @param prompt Token ids, at least one.
    /// @param maxNewTokens Most ids of the answer. All of them are paid for, also what lies beyond the answer's end.
    /// @return tokens The ids of the answer, with the stop id where it ends with one.
    /// @return complete Whether the last id is a stop id: the answer was not cut off.
    function generate(bytes32 name, bytes32 commitment, uint32[] calldata prompt, uint32 maxNewTokens)
        external
        view
        returns (uint32[] memory tokens, bool complete);

    /// @notice Whether `generate` with the same arguments returns `output` as its tokens. One pass over the weights.
    /// @param name The name in the registry.
    /// @param commitment The commitment of the model that must be active, or zero.
    /// @param prompt Token ids, at least one.
    /// @param maxNewTokens Most ids of the answer.
    /// @param output The ids to check. A part of the answer is not the answer.
    /// @return right Whether they are the answer.
    function verify(
        bytes32 name,
        bytes32 commitment,
        uint32[] calldata prompt,
        uint32 maxNewTokens,
        uint32[] calldata output
    ) external view returns (bool right);

    /// @notice The digest of all logits after the last token: equal where every bit of the computation is.
    /// @param name The name in the registry.
    /// @param commitment The commitment of the model that must be active, or zero.
    /// @param tokens Token ids, at least one.
    /// @return digest Keccak-256 of the logits.
    function logitsDigest(bytes32 name, bytes32 commitment, uint32[] calldata tokens)
        external
        view
        returns (bytes32 digest);

    /// @notice The whole price of a call of `generate`.
    /// @param name The name in the registry.
    /// @param commitment The commitment of the model that must be active, or zero.
    /// @param promptTokens Number of ids of the prompt.
    /// @param maxNewTokens Most ids of the answer.
    /// @return price The gas that the call must be given.
    function gasOfGenerate(bytes32 name, bytes32 commitment, uint32 promptTokens, uint32 maxNewTokens)
        external
        view
        returns (uint64 price);

    /// @notice The whole price of a call of `verify`.
    /// @param name The name in the registry.
    /// @param commitment The commitment of the model that must be active, or zero.
    /// @param promptTokens Number of ids of the prompt.
    /// @param outputTokens Number of ids to check.
    /// @return price The gas that the call must be given.
    function gasOfVerify(bytes32 name, bytes32 commitment, uint32 promptTokens, uint32 outputTokens)
        external
        view
        returns (uint64 price);

    /// @notice The whole price of a call of `logitsDigest`.
    /// @param name The name in the registry.
    /// @param commitment The commitment of the model that must be active, or zero.
    /// @param tokens Number of token ids.
    /// @return price The gas that the call must be given.
    function gasOfLogitsDigest(bytes32 name, bytes32 commitment, uint32 tokens) external view returns (uint64 price);
}
