// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.4;

/// @title What both precompiles revert with.
interface IRefused {
    /// The call is refused: why, by the numbers of BlueRefusals. Numbers up to 10 never come in this form: those refusals
    /// take all gas of the call and return nothing.
    error Refused(uint16 number);
}
