// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

import {BluePrecompiles} from "../BluePrecompiles.sol";
import {BlueRefusals} from "../BlueRefusals.sol";

/// @title Pays for answers that were computed off the chain and are checked on it.
/// @notice Only the model of the commitment counts, for as long as the contract lives: once another model is active under
/// the name no answer is accepted, and askers take their rewards back.
/// @dev An answer is public before it is mined. Where anybody may answer, whoever sees one may copy it and be first; an
/// asker that names an answerer need not care.
contract VerifiedOracle {
    enum Status {
        None,
        Open,
        Answered,
        TakenBack
    }

    struct Question {
        address asker;
        uint64 lastBlock;
        uint32 maxNewTokens;
        Status status;
        /// Zero: anybody.
        address answerer;
        uint256 reward;
        uint32[] prompt;
        uint32[] answer;
    }

    /// The commitment is zero, which would accept whatever model is active.
    error NotPinned();
    /// There is no such question, or it is answered or taken back.
    error NotOpen(uint256 id);
    /// The asker named somebody else.
    error NotAnswerer(address answerer);
    /// Not the model's answer.
    error WrongAnswer(uint256 id);
    /// Only the asker may, and only after that block.
    error NotYours(address asker);
    error TooEarly(uint64 lastBlock);
    /// The gas left is less than what checking and keeping the answer may need.
    error TooLittleGas(uint256 needed, uint256 left);
    /// The pinned model is not active any more. Refusal 14 or 15.
    error ModelChanged(uint16 refusal);
    /// The question is refused: empty, too long, with an id that the model does not accept, or for the model itself (16, 17).
    error QuestionRefused(uint16 refusal);
    /// The call ended without saying why: this chain's nodes lack the precompiles.
    error NoInference();
    error NotPaid();

    event Asked(uint256 indexed id, address indexed asker, uint32[] prompt, uint32 maxNewTokens, uint256 reward);
    event Answered(uint256 indexed id, address indexed answerer, uint32[] answer);
    event TakenBack(uint256 indexed id);

    /// Beside the price of the check: bookkeeping, for an answer and for each token of prompt and answer.
    uint256 private constant GAS_FIXED = 150_000;
    uint256 private constant GAS_PROMPT_TOKEN = 1_000;
    uint256 private constant GAS_OUTPUT_TOKEN = 5_000;

    bytes32 public immutable name;
    bytes32 public immutable commitment;
    /// Blocks after which an asker may take an unanswered question back.
    uint64 public immutable patience;
    uint256 public count;
    /// What an account may withdraw, in wei.
    mapping(address account => uint256) public owed;
    mapping(uint256 id => Question) private _questions;

    constructor(bytes32 name_, bytes32 commitment_, uint64 patience_) {
        if (commitment_ == 0) revert NotPinned();
        name = name_;
        commitment = commitment_;
        patience = patience_;
    }

    /// @notice Asks. The value is the reward.
    /// @param prompt Token ids.
    /// @param maxNewTokens Most ids of the answer.
    /// @param answerer Who may answer; zero for anybody.
    /// @return id The number of the question.
    function ask(uint32[] calldata prompt, uint32 maxNewTokens, address answerer)
        external
        payable
        returns (uint256 id)
    {
        id = count++;
        Question storage q = _questions[id];
        q.asker = msg.sender;
        q.lastBlock = uint64(block.number) + patience;
        q.maxNewTokens = maxNewTokens;
        q.status = Status.Open;
        q.answerer = answerer;
        q.reward = msg.value;
        q.prompt = prompt;
        emit Asked(id, msg.sender, prompt, maxNewTokens, msg.value);
    }

    /// @notice Answers a question. The answer is kept and paid if it is the model's, and refused otherwise.
    /// @param id The question.
    /// @param output All ids of the answer.
    function submit(uint256 id, uint32[] calldata output) external {
        Question storage q = _questions[id];
        if (q.status != Status.Open) revert NotOpen(id);
        if (q.answerer != address(0) && q.answerer != msg.sender) revert NotAnswerer(q.answerer);
        // A static call: nobody can call back and change anything in between.
        if (!_check(q.prompt, q.maxNewTokens, output)) revert WrongAnswer(id);
        q.status = Status.Answered;
        q.answer = output;
        owed[msg.sender] += q.reward;
        emit Answered(id, msg.sender, output);
    }

    /// @notice Ends an unanswered question whose time is over. The asker may; the reward is owed again.
    function takeBack(uint256 id) external {
        Question storage q = _questions[id];
        if (q.status != Status.Open) revert NotOpen(id);
        if (q.asker != msg.sender) revert NotYours(q.asker);
        if (block.number <= q.lastBlock) revert TooEarly(q.lastBlock);
        q.status = Status.TakenBack;
        owed[msg.sender] += q.reward;
        emit TakenBack(id);
    }

    /// @notice Pays what the caller is owed.
    function withdraw() external {
        uint256 amount = owed[msg.sender];
        owed[msg.sender] = 0;
        (bool paid,) = msg.sender.call{value: amount}("");
        if (!paid) revert NotPaid();
    }

    /// @notice A question and its answer.
    function questionOf(uint256 id) external view returns (Question memory) {
        return _questions[id];
    }

    /// Whether `output` is the answer of the pinned model.
    function _check(uint32[] memory prompt, uint32 maxNewTokens, uint32[] calldata output) private view returns (bool) {
        uint64 price = _priceOf(prompt.length, output.length);
        uint256 needed = BluePrecompiles.withReserve(price) + GAS_FIXED + GAS_PROMPT_TOKEN * prompt.length
            + GAS_OUTPUT_TOKEN * output.length;
        uint256 left = gasleft();
        if (left < needed) revert TooLittleGas(needed, left);
        try BluePrecompiles.INFERENCE.verify{gas: price}(name, commitment, prompt, maxNewTokens, output) returns (
            bool right
        ) {
            return right;
        } catch (bytes memory reason) {
            _refuse(reason);
        }
    }

    function _priceOf(uint256 promptTokens, uint256 outputTokens) private view returns (uint64 price) {
        if (promptTokens > type(uint32).max || outputTokens > type(uint32).max) {
            revert QuestionRefused(BlueRefusals.CONTEXT_EXCEEDED);
        }
        try BluePrecompiles.INFERENCE.gasOfVerify(name, commitment, uint32(promptTokens), uint32(outputTokens)) returns (
            uint64 gas_
        ) {
            return gas_;
        } catch (bytes memory reason) {
            _refuse(reason);
        }
    }

    function _refuse(bytes memory reason) private pure {
        uint16 refusal = BluePrecompiles.refusalOf(reason);
        if (refusal == BlueRefusals.NO_ACTIVE_MODEL || refusal == BlueRefusals.NOT_ACTIVE) revert ModelChanged(refusal);
        if (refusal != 0) revert QuestionRefused(refusal);
        revert NoInference();
    }
}
