//! A private key in a file, and transactions signed with it.

use std::path::Path;

use alloy_consensus::{SignableTransaction, TxEip1559};
use alloy_eips::Encodable2718;
use alloy_primitives::{Address, B256, Signature};
use k256::ecdsa::SigningKey;

use crate::failure::{Context, Failure, Outcome};
use crate::files;

/// A key; nothing prints it.
pub(crate) struct Key(SigningKey);

/// A signed transaction.
pub(crate) struct Signed {
    pub(crate) hash: B256,
    /// What `eth_sendRawTransaction` takes.
    pub(crate) raw: Vec<u8>,
}

impl Key {
    /// Reads 64 hexadecimal digits, with or without `0x`, and white space around them.
    ///
    /// # Errors
    /// Bad input: the file, or what it holds, which no message repeats.
    pub(crate) fn read(path: &Path) -> Outcome<Self> {
        let text = files::read_text(path)?;
        Self::parse(&text).ok_or_else(|| {
            Failure::input(format!("{} holds no private key", path.display()))
                .hint("a key file holds 64 hexadecimal digits, with or without 0x before them")
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let digits = Some(digits).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
        let bytes: B256 = digits.parse().ok()?;
        SigningKey::from_slice(bytes.as_slice()).ok().map(Self)
    }

    /// The key's account.
    pub(crate) fn address(&self) -> Address {
        Address::from_private_key(&self.0)
    }

    /// Signs; the same transaction has the same signature every time (RFC 6979).
    ///
    /// # Errors
    /// A failure of the library, which no transaction is known to cause.
    pub(crate) fn sign(&self, transaction: TxEip1559) -> Outcome<Signed> {
        let digest = transaction.signature_hash();
        let signature = self.0.sign_prehash_recoverable(digest.as_slice());
        let signature = Signature::from(signature.or_runtime("cannot sign the transaction")?);
        let signed = transaction.into_signed(signature);
        Ok(Signed {
            hash: *signed.hash(),
            raw: signed.encoded_2718(),
        })
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{TxKind, U256, hex};

    use super::*;

    /// The first development key of hardhat and anvil.
    const FIRST: &str = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
    const SECOND: &str = "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d\n";

    fn transaction(to: &str, input: &[u8]) -> TxEip1559 {
        TxEip1559 {
            chain_id: 31337,
            nonce: 7,
            gas_limit: 345_678,
            max_fee_per_gas: 2_000_000_007,
            max_priority_fee_per_gas: 3,
            to: TxKind::Call(to.parse().unwrap()),
            value: U256::ZERO,
            access_list: Default::default(),
            input: input.to_vec().into(),
        }
    }

    /// What viem 2.57, ethers 6.17 and cast 1.7 sign.
    #[test]
    fn transactions_are_signed_as_others_sign_them() {
        let key = Key::parse(FIRST).unwrap();
        let address: Address = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
            .parse()
            .unwrap();
        assert_eq!(key.address(), address);
        let to = "0x5FbDB2315678afecb367f032d93F642f64180aa3";
        let signed = key.sign(transaction(to, &hex!("deadbeef0001"))).unwrap();
        let expected = hex!(
            "02f86f827a69070384773594078305464e945fbdb2315678afecb367f032d93f642f64180aa38086deadbeef0001c001a0"
            "df402d45f4ec5749fbb4b710c06c1fdb1b1dbccc2c950a5864683f7c42789726a0"
            "0358d966fde48e7d07a16b55a02d9939c67528d4cdf267e199469a5d7e0b1395"
        );
        assert_eq!(hex::encode(&signed.raw), hex::encode(expected));
        assert_eq!(signed.hash, alloy_primitives::keccak256(expected));

        let key = Key::parse(SECOND).unwrap();
        let to = "0x0300000000000000000000000000000000000003";
        let signed = key.sign(TxEip1559 {
            chain_id: 900_001,
            nonce: 1 << 32,
            gas_limit: 1 << 24,
            max_fee_per_gas: 100_000_000_000,
            max_priority_fee_per_gas: 100_000_000_000,
            ..transaction(to, &[])
        });
        let expected = hex!(
            "02f876830dbba185010000000085174876e80085174876e80084010000009403000000000000000000000000000000000000038080c080"
            "a02d4736b016b8f861237d5c158a3d0c4fe953c67ca5629b267216d3c94b50eafb"
            "a023ef6af0852bb26ee10783579699f3b65e86718cc27b65a8e43ea82625776945"
        );
        assert_eq!(hex::encode(signed.unwrap().raw), hex::encode(expected));
    }

    #[test]
    fn what_is_no_key_is_refused_and_not_repeated() {
        let order = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";
        let zero = "0".repeat(64);
        let long = format!("{FIRST}00");
        let signed = format!("+{}", &SECOND[1..]);
        for bad in ["", "0x", order, &zero, &long, &FIRST[..65], &signed, "é"] {
            assert!(Key::parse(bad).is_none(), "{bad}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &FIRST[..64]).unwrap();
        let said = Key::read(file.path()).err().unwrap().reason();
        assert!(said.contains("no private key") && !said.contains("ac0974"));
    }
}
