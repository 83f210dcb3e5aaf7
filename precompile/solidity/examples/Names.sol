// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

import {BluePrecompiles} from "../BluePrecompiles.sol";

/// @title What is active under a published name.
contract Names {
    /// @notice The registry name of a published model.
    function nameOf(string calldata model, uint64 version, bytes32 commitment, string calldata quantisation)
        public
        pure
        returns (bytes32)
    {
        return BluePrecompiles.modelSpecHash(model, version, commitment, quantisation);
    }

    /// @notice Whether a published model is the one that answers under its name.
    function isActive(string calldata model, uint64 version, bytes32 commitment, string calldata quantisation)
        external
        view
        returns (bool)
    {
        bytes32 name = nameOf(model, version, commitment, quantisation);
        (uint256 activeVersion, bytes32 active) = BluePrecompiles.REGISTRY.getApproved(name);
        return active == commitment && activeVersion == version;
    }
}
