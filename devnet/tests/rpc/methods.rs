//! Every method's answer where it is known.

use crate::client::{Served, address, bytes, hash, number};
use alloy_primitives::{Signature, U256, keccak256};
use blue_devnet::rpc::{Limits, Mining};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn quantity(n: u64) -> String {
    format!("{n:#x}")
}

#[test]
fn the_chain_and_its_accounts() {
    let served = Served::new();
    assert!(
        served
            .ask("web3_clientVersion", json!([]))
            .as_str()
            .unwrap()
            .starts_with("blue-devnet/")
    );
    assert_eq!(
        hash(&served.ask("web3_sha3", json!(["0x1234"]))),
        keccak256([0x12, 0x34])
    );
    assert_eq!(served.ask("net_version", json!([])), "31337");
    assert_eq!(served.ask("net_listening", json!([])), true);
    assert_eq!(served.ask("eth_chainId", json!([])), "0x7a69");
    assert_eq!(served.ask("eth_syncing", json!([])), false);
    assert_eq!(served.ask("eth_blockNumber", json!([])), "0x0");
    let accounts = served.ask("eth_accounts", json!([]));
    let accounts: Vec<_> = accounts.as_array().unwrap().iter().map(address).collect();
    assert_eq!(
        accounts,
        served
            .accounts
            .iter()
            .map(|a| a.address)
            .collect::<Vec<_>>()
    );
    let wealth = served.ask("eth_getBalance", json!([accounts[0], "latest"]));
    assert_eq!(wealth, "0x21e19e0c9bab2400000");
    let message = json!([accounts[4], "0x68656c6c6f"]);
    let signature = bytes(&served.ask("eth_sign", message));
    let signature = Signature::from_raw(&signature).unwrap();
    assert_eq!(
        signature.recover_address_from_msg(b"hello").unwrap(),
        accounts[4]
    );
    let stranger = json!([{"from": format!("0x{:040x}", 5), "to": accounts[0]}]);
    assert!(
        served
            .refused("eth_sendTransaction", stranger)
            .1
            .contains("unknown account")
    );
    for method in [
        "eth_getProof",
        "debug_traceTransaction",
        "eth_mining",
        "trace_block",
    ] {
        assert_eq!(served.refused(method, json!([])).0, -32601, "{method}");
    }
    let overrides =
        json!([{"to": accounts[0]}, "latest", {accounts[0].to_string(): {"balance": "0x1"}}]);
    let (code, message, _) = served.refused("eth_call", overrides);
    assert_eq!(code, -32602);
    assert!(message.contains("overrides are not supported"), "{message}");
}

#[test]
fn blocks_and_transactions() {
    let served = Served::new();
    let to = served.accounts[1].address;
    let receipt = served.send(0, json!({"to": to, "value": "0x7"}));
    let tx_hash = receipt["transactionHash"].clone();
    assert_eq!(number(&receipt["gasUsed"]), 21_000);
    let block = served.ask("eth_getBlockByNumber", json!(["latest", true]));
    assert_eq!(number(&block["number"]), 1);
    assert_eq!(number(&block["gasUsed"]), 21_000);
    let genesis = served.ask("eth_getBlockByNumber", json!(["earliest", false]));
    assert_eq!(block["parentHash"], genesis["hash"]);
    let chain = served.chain.block(1).unwrap().unwrap();
    assert_eq!(hash(&block["stateRoot"]), chain.header.state_root);
    assert_eq!(hash(&block["hash"]), chain.header.hash_slow());
    assert_eq!(
        served.ask("eth_getBlockByHash", json!([block["hash"], true])),
        block
    );
    let tx = served.ask("eth_getTransactionByHash", json!([tx_hash]));
    assert_eq!(block["transactions"], json!([tx]));
    for (method, of) in [("Hash", &block["hash"]), ("Number", &json!("0x1"))] {
        let by = format!("eth_getTransactionByBlock{method}AndIndex");
        assert_eq!(served.ask(&by, json!([of, "0x0"])), tx);
        assert_eq!(served.ask(&by, json!([of, "0x1"])), Value::Null);
        let count = format!("eth_getBlockTransactionCountBy{method}");
        assert_eq!(served.ask(&count, json!([of])), "0x1");
    }
    assert_eq!(
        served.ask("eth_getBlockReceipts", json!(["0x1"])),
        json!([receipt])
    );
    let hashes = served.ask("eth_getBlockByNumber", json!(["0x1", false]));
    assert_eq!(hashes["transactions"], json!([tx_hash]));
    for (method, params) in [
        ("eth_getBlockByNumber", json!(["0x2", false])),
        ("eth_getBlockByHash", json!([tx_hash, false])),
        ("eth_getTransactionByHash", json!([block["hash"]])),
        ("eth_getTransactionReceipt", json!([block["hash"]])),
    ] {
        assert_eq!(served.ask(method, params), Value::Null, "{method}");
    }
    let balance = |at: &str| {
        served
            .ask("eth_getBalance", json!([to, at]))
            .as_str()
            .unwrap()
            .parse::<U256>()
            .unwrap()
    };
    assert_eq!(balance("latest") - balance("0x0"), U256::from(7));
    let from = served.accounts[0].address;
    assert_eq!(
        served.ask("eth_getTransactionCount", json!([from, "0x0"])),
        "0x0"
    );
    assert_eq!(served.ask("eth_getTransactionCount", json!([from])), "0x1");
    let missing = served.refused("eth_getBalance", json!([to, "0x9"]));
    assert_eq!(missing.0, -32000);
}

#[test]
fn code_and_storage() {
    let served = Served::new();
    let registry = format!("0x03{:038}", 2);
    assert_eq!(
        served.ask("eth_getCode", json!([registry, "latest"])),
        "0xfe"
    );
    let key = crate::client::hex(&precompile::slots::commitment(&crate::client::MODEL));
    let word = served.ask("eth_getStorageAt", json!([registry, key, "latest"]));
    assert_eq!(bytes(&word), served.blob.commitment.0);
    let zero = served.ask("eth_getStorageAt", json!([registry, "0x0"]));
    assert_eq!(bytes(&zero), [0; 32]);
}

#[test]
fn fees() {
    let served = Served::new();
    for _ in 0..3 {
        served.send(0, json!({"to": served.accounts[1].address}));
    }
    let history = served.ask("eth_feeHistory", json!(["0x2", "latest", [0, 50, 100]]));
    assert_eq!(history["oldestBlock"], "0x2");
    let fees = history["baseFeePerGas"].as_array().unwrap();
    assert_eq!(fees.len(), 3);
    for (fee, number) in fees.iter().zip(2..=3) {
        let block = served.ask("eth_getBlockByNumber", json!([quantity(number), false]));
        assert_eq!(fee, &block["baseFeePerGas"]);
    }
    assert_eq!(history["gasUsedRatio"], json!([0.0007, 0.0007]));
    assert_eq!(
        history["reward"],
        json!([
            ["0x3b9aca00", "0x3b9aca00", "0x3b9aca00"],
            ["0x3b9aca00", "0x3b9aca00", "0x3b9aca00"]
        ])
    );
    let price = number(&served.ask("eth_gasPrice", json!([])));
    let tip = number(&served.ask("eth_maxPriorityFeePerGas", json!([])));
    assert_eq!(price, number(&fees[2]) + tip);
    let all = served.ask(
        "eth_feeHistory",
        json!(["0xffffffffffffffff", "latest", null]),
    );
    assert_eq!(all["baseFeePerGas"].as_array().unwrap().len(), 5);
    for percentiles in [json!([2, 1]), json!([-1]), json!([101])] {
        assert_eq!(
            served
                .refused("eth_feeHistory", json!(["0x1", "latest", percentiles]))
                .0,
            -32602
        );
    }
}

#[test]
fn time() {
    let served = Served::new();
    let time =
        || number(&served.ask("eth_getBlockByNumber", json!(["latest", false]))["timestamp"]);
    served.ask("evm_mine", json!([]));
    let first = time();
    served.ask("evm_increaseTime", json!([1000]));
    served.ask("evm_mine", json!([]));
    assert!((first + 1000..first + 1060).contains(&time()));
    let next = time() + 5000;
    served.ask("evm_setNextBlockTimestamp", json!([next]));
    served.send(0, json!({"to": served.accounts[1].address}));
    assert_eq!(time(), next);
    served.ask("anvil_mine", json!(["0x5"]));
    assert!((next + 5..next + 60).contains(&time()));
    assert_eq!(served.ask("eth_blockNumber", json!([])), "0x8");
    assert_eq!(
        served.refused("evm_setNextBlockTimestamp", json!([next])).0,
        -32000
    );
    assert_eq!(
        served
            .refused("evm_increaseTime", json!(["0xffffffffffffffff"]))
            .0,
        -32000
    );
    assert_eq!(
        served.refused("anvil_mine", json!(["0xffffffff"])).0,
        -32602
    );
    served.ask("evm_mine", json!([]));
}

#[test]
fn blocks_at_an_interval() {
    let served = Served::with(Limits::default(), Mining::Every(Duration::from_millis(200)));
    let to = served.accounts[1].address;
    let from = served.accounts[0].address;
    let hashes: Vec<_> = (0..3)
        .map(|_| served.ask("eth_sendTransaction", json!([{"from": from, "to": to}])))
        .collect();
    let end = Instant::now() + Duration::from_secs(20);
    for hash in hashes {
        loop {
            let receipt = served.ask("eth_getTransactionReceipt", json!([hash]));
            if !receipt.is_null() {
                break;
            }
            assert!(Instant::now() < end);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    // Blocks come without transactions too, and their times go on.
    let head = served.chain.head().block.header.number;
    while served.chain.head().block.header.number < head + 2 {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(20));
    }
    let times: Vec<_> = (0..=head + 2)
        .map(|n| served.chain.block(n).unwrap().unwrap().header.timestamp)
        .collect();
    assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
}
