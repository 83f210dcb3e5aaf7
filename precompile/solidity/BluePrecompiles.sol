// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.5;

import {IInference} from "./IInference.sol";
import {IModelRegistry} from "./IModelRegistry.sol";
import {IRefused} from "./IRefused.sol";

/// @title Where the precompiles are, and helpers for calling them.
library BluePrecompiles {
    IModelRegistry internal constant REGISTRY = IModelRegistry(0x0300000000000000000000000000000000000002);
    IInference internal constant INFERENCE = IInference(0x0300000000000000000000000000000000000003);

    /// @notice The number of a refusal, from what `catch (bytes memory reason)` holds.
    /// @return number The number; 0 where the call did not end with `Refused`: it was a halt.
    function refusalOf(bytes memory reason) internal pure returns (uint16 number) {
        if (reason.length != 36 || bytes4(reason) != IRefused.Refused.selector) return 0;
        return (uint16(uint8(reason[34])) << 8) | uint8(reason[35]);
    }

    /// @notice The registry name of a published model.
    /// @param model The model's published name.
    /// @param version Its version.
    /// @param commitment The commitment of its weights.
    /// @param quantisation How they are quantised.
    function modelSpecHash(string memory model, uint64 version, bytes32 commitment, string memory quantisation)
        internal
        pure
        returns (bytes32)
    {
        return keccak256(
            abi.encodePacked(
                "lux/aivmbridge/modelspec/v1",
                uint32(bytes(model).length),
                model,
                version,
                commitment,
                uint32(bytes(quantisation).length),
                quantisation
            )
        );
    }

    /// @notice The gas that must be left where a call is made so that `price` can be forwarded: a call gets at most 63/64 of
    /// what is left.
    function withReserve(uint256 price) internal pure returns (uint256) {
        return price + price / 63 + 1;
    }
}
