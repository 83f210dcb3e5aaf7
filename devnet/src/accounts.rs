//! The ten development accounts that Ethereum's tools share: their keys are public, so nothing of worth may be theirs.

use alloy_primitives::{Address, B256, Signature, b256, eip191_hash_message};
use k256::ecdsa::SigningKey;

/// The keys, derived from the mnemonic "test test test test test test test test test test test junk" along m/44'/60'/0'/0/i.
const KEYS: [B256; 10] = [
    b256!("0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"),
    b256!("0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"),
    b256!("0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a"),
    b256!("0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6"),
    b256!("0x47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a"),
    b256!("0x8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba"),
    b256!("0x92db14e403b83dfe3df233f83dfa3a0d7096f21ca9b0d6d6b8d88b2b4ec1564e"),
    b256!("0x4bbbf85ce3377467afe5d46f804f221813b2bb87f24d81f60f1fcdbf7cbf4356"),
    b256!("0xdbda1821b80551c9d65939329250298aa3472ba22feea921c0cf5d620ea67b97"),
    b256!("0x2a871d0798f97d79848a013d4936a73bf4cc922c825d33c1cf7073dff6d409c6"),
];

/// A development account.
#[derive(Clone, Debug)]
pub struct DevAccount {
    /// The address.
    pub address: Address,
    /// The private key. It is public.
    pub key: B256,
    signer: SigningKey,
}

impl DevAccount {
    /// All ten, in the order of their derivation.
    ///
    /// # Panics
    /// Never: the keys are constants.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let account = |key: &B256| {
            let signer = SigningKey::from_slice(key.as_slice()).expect("a key on the curve");
            Self {
                address: Address::from_private_key(&signer),
                key: *key,
                signer,
            }
        };
        KEYS.iter().map(account).collect()
    }

    /// Signs a hash; `None` when the curve's arithmetic refuses, which it does for no hash that is known.
    #[must_use]
    pub fn sign(&self, hash: &B256) -> Option<Signature> {
        let signed = self.signer.sign_prehash_recoverable(hash.as_slice());
        signed.ok().map(Signature::from)
    }

    /// Signs a message as `personal_sign` does (EIP-191).
    #[must_use]
    pub fn sign_message(&self, message: &[u8]) -> Option<Signature> {
        self.sign(&eip191_hash_message(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::address;

    #[test]
    fn the_addresses_that_tools_know() {
        let accounts = DevAccount::all();
        let expected = address!("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
        assert_eq!(accounts[0].address, expected);
        let expected = address!("0xa0Ee7A142d267C1f36714E4a8F75612F20a79720");
        assert_eq!(accounts[9].address, expected);
    }

    #[test]
    fn a_signature_recovers_to_the_address() {
        let account = &DevAccount::all()[3];
        let signature = account.sign_message(b"hello").unwrap();
        let found = signature.recover_address_from_msg(b"hello").unwrap();
        assert_eq!(found, account.address);
    }
}
