//! The accounts of a chain's first state in a database of revm.

use precompile::genesis::Account;
use precompile::word::Address as Raw;
use revm::DatabaseRef;
use revm::database::CacheDB;
use revm::primitives::{Address, U256};
use revm::state::{AccountInfo, Bytecode};

/// Puts accounts, such as those of [`precompile::genesis::Genesis::accounts`], into a state in memory.
///
/// # Errors
/// The database's, where an account's storage is kept.
pub fn put_accounts<D: DatabaseRef>(
    db: &mut CacheDB<D>,
    accounts: impl IntoIterator<Item = (Raw, Account)>,
) -> Result<(), D::Error> {
    for (address, account) in accounts {
        let address = Address::new(address);
        let code = Bytecode::new_raw(account.code.into());
        let info = AccountInfo::from_bytecode(code).with_nonce(account.nonce);
        db.insert_account_info(address, info);
        for (key, value) in account.storage {
            let (key, value) = (U256::from_be_bytes(key), U256::from_be_bytes(value));
            db.insert_account_storage(address, key, value)?;
        }
    }
    Ok(())
}
