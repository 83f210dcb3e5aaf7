// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

import {BluePrecompiles} from "src/BluePrecompiles.sol";
import {IInference} from "src/IInference.sol";
import {Oracle} from "src/examples/Oracle.sol";

interface Vm {
    function envBytes(string calldata name) external view returns (bytes memory);
    function rpc(string calldata method, string calldata params) external returns (bytes memory);
    function toString(bytes calldata data) external pure returns (string memory);
    function etch(address target, bytes calldata code) external;
}

/// Answers that the test chooses.
contract Stub {
    function gasOfGenerate(bytes32, bytes32, uint32, uint32) external pure returns (uint64) {
        return 10_000;
    }

    function generate(bytes32, bytes32, uint32[] calldata, uint32) external pure returns (uint32[] memory tokens, bool) {
        tokens = new uint32[](1);
        tokens[0] = 42;
        return (tokens, true);
    }
}

/// What a test in Forge can do on a fork of a chain with the precompiles: Forge's own EVM does not have them.
contract ForkTest {
    Vm private constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));

    /// A contract finds a halt, which it reports, and no answer.
    function test_the_precompiles_halt() external {
        Oracle oracle = new Oracle(keccak256("blue"), 0);
        try oracle.ask(new uint32[](1), 1) {
            revert("answered");
        } catch (bytes memory reason) {
            require(bytes4(reason) == Oracle.NoInference.selector, "another reason");
        }
    }

    /// The node answers.
    function test_the_node_answers() external {
        string memory data = vm.toString(vm.envBytes("CALL"));
        string memory call = string.concat('[{"to":"0x0300000000000000000000000000000000000003","data":"', data, '"},"latest"]');
        bytes memory answer = vm.rpc("eth_call", call);
        require(keccak256(answer) == keccak256(vm.envBytes("ANSWER")), "another answer");
    }

    /// A stub at the address answers as the test wants.
    function test_a_stub_answers() external {
        vm.etch(address(BluePrecompiles.INFERENCE), address(new Stub()).code);
        Oracle oracle = new Oracle(keccak256("blue"), 0);
        uint256 id = oracle.ask(new uint32[](1), 1);
        (, bool complete, uint32[] memory tokens) = oracle.answerOf(id);
        require(complete && tokens.length == 1 && tokens[0] == 42, "another answer");
    }
}
