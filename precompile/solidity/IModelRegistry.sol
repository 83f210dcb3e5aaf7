// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.4;

import {IRefused} from "./IRefused.sol";

/// @title The model registry, at 0x0300000000000000000000000000000000000002.
/// @notice Which model stands behind a name. Admins vote; what they vote for happens in the call that brings the quorum.
/// @dev Halts of every function, which take all gas of the call: OutOfGas (1), NotCanonical (4), ValueSent (5),
/// NotDirect (6); of those that write also WriteInStaticCall (7). Of the functions for admins: NoGovernance (18),
/// NotAdmin (19), AlreadyVoted (25). Each function names the others.
interface IModelRegistry is IRefused {
    /// An admin voted. `kind` and `a`, `b`, `c`: 1 adopt (name, version, commitment), 2 revoke (name, version), 3 setAdmin
    /// (admin, enabled), 4 setQuorum (quorum); what an action lacks is 0.
    event Voted(
        bytes32 indexed action,
        address indexed admin,
        uint8 kind,
        bytes32 a,
        bytes32 b,
        bytes32 c,
        uint64 votes,
        uint32 quorum
    );
    /// A commitment waits for its activation, which is possible from that block on.
    event Passed(
        bytes32 indexed name, uint64 indexed version, bytes32 indexed commitment, uint64 activationBlock
    );
    /// A commitment is active from the next call on; `index` counts activations from 0.
    event Activated(bytes32 indexed name, uint64 indexed version, bytes32 indexed commitment, uint64 index);
    /// A version that was active or waited is taken away. No other takes its place.
    event Revoked(bytes32 indexed name, uint64 indexed version, bytes32 indexed commitment);
    /// An address became an admin or is none any more. Votes that were open count for nothing.
    event AdminSet(address indexed admin, bool enabled, uint64 epoch);
    /// The quorum changed. Votes that were open count for nothing.
    event QuorumSet(uint32 quorum, uint64 epoch);

    /// @notice An admin's vote for a commitment, with what proves its record; the record is stored.
    /// @dev Refused: ZeroArgument (20), BadRecord (21), BadProof (22), VersionTooLow (23).
    /// @param name The name; not zero.
    /// @param version Above every version of the name that ever passed.
    /// @param commitment The commitment of the blob.
    /// @param record The first 1024 bytes of the blob.
    /// @param proof That the record is leaf 0 of the commitment.
    /// @return passed Whether this vote brought the quorum.
    function propose(
        bytes32 name,
        uint64 version,
        bytes32 commitment,
        bytes calldata record,
        bytes32[] calldata proof
    ) external returns (bool passed);

    /// @notice An admin's vote for a commitment whose record is stored.
    /// @dev Refused: ZeroArgument (20), NoRecord (16), VersionTooLow (23).
    /// @param name The name; not zero.
    /// @param version Above every version of the name that ever passed.
    /// @param commitment The commitment of the blob.
    /// @return passed Whether this vote brought the quorum.
    function approve(bytes32 name, uint64 version, bytes32 commitment) external returns (bool passed);

    /// @notice Makes a version that passed the active one. Anyone may, from its activation block on.
    /// @dev Refused: NothingPending (26), TooEarly (27).
    /// @param name The name.
    /// @param version The version that waits.
    /// @return index Its place in the list of activations.
    function activate(bytes32 name, uint64 version) external returns (uint64 index);

    /// @notice An admin's vote to take away the active version, or the one that waits.
    /// @dev Refused: NothingToRevoke (28).
    /// @param name The name.
    /// @param version The version.
    /// @return passed Whether this vote brought the quorum.
    function revoke(bytes32 name, uint64 version) external returns (bool passed);

    /// @notice An admin's vote that an address becomes an admin or is none any more.
    /// @dev Refused: ZeroArgument (20), NoChange (29), LockOut (30).
    /// @param admin The address; not zero.
    /// @param enabled Whether it is to be an admin.
    /// @return passed Whether this vote brought the quorum.
    function setAdmin(address admin, bool enabled) external returns (bool passed);

    /// @notice An admin's vote for another quorum.
    /// @dev Refused: QuorumOutOfRange (31), NoChange (29).
    /// @param quorum From 2 to the number of admins.
    /// @return passed Whether this vote brought the quorum.
    function setQuorum(uint32 quorum) external returns (bool passed);

    /// @notice What is active under a name. Anyone may ask, as for all that follow.
    /// @param name The name.
    /// @return version The active version; after a revocation the one that was active.
    /// @return commitment The active commitment; zero for none.
    function getApproved(bytes32 name) external view returns (uint256 version, bytes32 commitment);

    /// @notice Whether an address is an admin.
    /// @param admin The address.
    /// @return enabled Whether it is one.
    function isAdmin(address admin) external view returns (bool enabled);

    /// @notice How the admins decide.
    /// @return admins Number of admins.
    /// @return quorum Votes that make an action happen.
    /// @return delay Blocks between a passed adoption and its activation.
    /// @return window Blocks for which a round of votes is open after its first vote.
    /// @return epoch Number of changes of admins or quorum.
    function governance()
        external
        view
        returns (uint32 admins, uint32 quorum, uint64 delay, uint64 window, uint64 epoch);

    /// @notice What waits for activation under a name; zeros for nothing.
    /// @param name The name.
    /// @return version The version.
    /// @return commitment The commitment.
    /// @return activationBlock The first block in which it can be activated.
    function pending(bytes32 name)
        external
        view
        returns (uint64 version, bytes32 commitment, uint64 activationBlock);

    /// @notice The largest version of a name that ever passed.
    /// @param name The name.
    /// @return version The version; 0 for none.
    function highestVersion(bytes32 name) external view returns (uint256 version);

    /// @notice Whether a version of a name was revoked.
    /// @param name The name.
    /// @param version The version.
    /// @return revoked Whether it was.
    function isRevoked(bytes32 name, uint64 version) external view returns (bool revoked);

    /// @notice The record of a commitment.
    /// @dev Refused: NoRecord (16).
    /// @param commitment The commitment.
    /// @return sizes hidden, layers, heads, kv_heads, head_dim, intermediate, vocab, accepted_ids, max_context.
    /// @return scheme The activation scheme.
    /// @return qkNorm Whether queries and keys are normalised.
    /// @return tied Whether input and output embedding are one.
    /// @return eps The constant of the norms.
    /// @return totalLen Bytes of the blob.
    /// @return manifestLen Bytes of its manifest.
    /// @return tokenizerDigest The digest of the tokenizer.
    /// @return stopIds The ids that end an answer.
    function record(bytes32 commitment)
        external
        view
        returns (
            uint32[9] memory sizes,
            uint8 scheme,
            bool qkNorm,
            bool tied,
            uint64 eps,
            uint64 totalLen,
            uint32 manifestLen,
            bytes32 tokenizerDigest,
            uint32[] memory stopIds
        );

    /// @notice The votes of an action in its newest round.
    /// @param action The identity that Voted names.
    /// @return round The round; 0 for none.
    /// @return lastBlock The last block in which it is open.
    /// @return votes Votes in it; 0 after it has passed.
    function tally(bytes32 action) external view returns (uint64 round, uint64 lastBlock, uint64 votes);

    /// @notice The number of activations so far.
    /// @return count The number.
    function activationCount() external view returns (uint64 count);

    /// @notice One activation of the list.
    /// @dev Refused: NoSuchActivation (32).
    /// @param index From 0 to below the number of activations.
    /// @return name The name.
    /// @return version The version.
    /// @return commitment The commitment.
    /// @return activatedAt The block.
    function activation(uint64 index)
        external
        view
        returns (bytes32 name, uint64 version, bytes32 commitment, uint64 activatedAt);
}
