// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

import {BluePrecompiles} from "../BluePrecompiles.sol";
import {BlueRefusals} from "../BlueRefusals.sol";

/// @title Answers questions in the transaction that asks them, and keeps the answers.
contract Oracle {
    struct Answer {
        address asker;
        bool complete;
        uint32[] tokens;
    }

    /// The gas left is less than what an answer may need.
    error TooLittleGas(uint256 needed, uint256 left);
    /// The model is not the one that this contract asks: it was replaced or taken away. Refusal 14 or 15.
    error ModelChanged(uint16 refusal);
    /// The question is refused: empty, too long, with an id that the model does not accept, or for the model itself (16, 17).
    error QuestionRefused(uint16 refusal);
    /// The call ended without saying why: this chain's nodes lack the precompiles.
    error NoInference();

    event Answered(uint256 indexed id, address indexed asker, uint32[] prompt, uint32[] tokens, bool complete);

    /// Beside the price of the call: bookkeeping, for a question and for each token of prompt and answer.
    uint256 private constant GAS_FIXED = 150_000;
    uint256 private constant GAS_PROMPT_TOKEN = 1_000;
    uint256 private constant GAS_NEW_TOKEN = 5_000;

    bytes32 public immutable name;
    /// Zero: whatever is active under the name answers.
    bytes32 public immutable commitment;
    uint256 public count;
    mapping(uint256 id => Answer) private _answers;

    constructor(bytes32 name_, bytes32 commitment_) {
        name = name_;
        commitment = commitment_;
    }

    /// @notice Asks, keeps the answer, and emits it.
    /// @param prompt Token ids.
    /// @param maxNewTokens Most ids of the answer; all of them are paid for.
    /// @return id The number of the answer.
    function ask(uint32[] calldata prompt, uint32 maxNewTokens) external returns (uint256 id) {
        uint64 price = priceOf(prompt.length, maxNewTokens);
        uint256 needed = _gasNeeded(price, prompt.length, maxNewTokens);
        uint256 left = gasleft();
        if (left < needed) revert TooLittleGas(needed, left);
        id = count++;
        // A static call: nobody can call back and change anything in between.
        try BluePrecompiles.INFERENCE.generate{gas: price}(name, commitment, prompt, maxNewTokens) returns (
            uint32[] memory tokens, bool complete
        ) {
            _answers[id] = Answer(msg.sender, complete, tokens);
            emit Answered(id, msg.sender, prompt, tokens, complete);
        } catch (bytes memory reason) {
            _refuse(reason);
        }
    }

    /// @notice The price of a question, without the bookkeeping of this contract and the transaction's own gas.
    function priceOf(uint256 promptTokens, uint32 maxNewTokens) public view returns (uint64 price) {
        if (promptTokens > type(uint32).max) revert QuestionRefused(BlueRefusals.CONTEXT_EXCEEDED);
        try BluePrecompiles.INFERENCE.gasOfGenerate(name, commitment, uint32(promptTokens), maxNewTokens) returns (
            uint64 gas_
        ) {
            return gas_;
        } catch (bytes memory reason) {
            _refuse(reason);
        }
    }

    /// @notice The gas that `ask` wants to find, without the transaction's own gas.
    function gasToAsk(uint256 promptTokens, uint32 maxNewTokens) external view returns (uint256) {
        return _gasNeeded(priceOf(promptTokens, maxNewTokens), promptTokens, maxNewTokens);
    }

    /// @notice An answer that was given; zeros for none.
    function answerOf(uint256 id) external view returns (address asker, bool complete, uint32[] memory tokens) {
        Answer storage answer = _answers[id];
        return (answer.asker, answer.complete, answer.tokens);
    }

    function _gasNeeded(uint64 price, uint256 promptTokens, uint32 maxNewTokens) private pure returns (uint256) {
        return BluePrecompiles.withReserve(price) + GAS_FIXED + GAS_PROMPT_TOKEN * promptTokens
            + GAS_NEW_TOKEN * uint256(maxNewTokens);
    }

    function _refuse(bytes memory reason) private pure {
        uint16 refusal = BluePrecompiles.refusalOf(reason);
        if (refusal == BlueRefusals.NO_ACTIVE_MODEL || refusal == BlueRefusals.NOT_ACTIVE) revert ModelChanged(refusal);
        if (refusal != 0) revert QuestionRefused(refusal);
        revert NoInference();
    }
}
