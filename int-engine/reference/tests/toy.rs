//! spec 8: the published answers of the toy model.

use int_reference::Halt;
use int_reference::toy::*;

#[test]
fn generator_words_and_first_weights() {
    let words: Vec<u32> = lcg(SEED).take(4).collect();
    assert_eq!(words, [0xf1c6_2557, 0x8c8f_2e8e, 0xe413_2dff, 0xd4ab_1a22]);
    assert_eq!(weights(SEED).embed[0][..4], [-41, 14, 127, -94]);
}

#[test]
fn first_logits_of_the_published_prompt() {
    let want = [
        63, 6, -65, 6, 102, -43, 46, -22, -33, -15, 65, 7, 13, 22, -19, -50, -41, -35, -20, 48, -7,
        -59, 5, -7, 7, -10, -39, -51, 53, -60, -15, -20, -8, 3, -59, 3, -11, 5, -19, 6, -14, -53,
        -72, -18, 53, 0, -82, 0,
    ];
    assert_eq!(logits(&weights(SEED), &[1, 7, 13, 2]).unwrap(), want);
}

#[test]
fn published_tokens() {
    let w = weights(SEED);
    let cases: [(&[u32], &[u32]); 4] = [
        (&[1, 7, 13, 2], &[4, 28, 21, 17, 2, 19, 43, 35, 36, 15]),
        (&[0], &[32, 12, 32, 12, 32, 12, 32, 12]),
        (
            &[5, 9, 2],
            &[4, 1, 12, 0, 36, 13, 18, 1, 45, 7, 25, 39, 5, 10, 26, 17],
        ),
        (&[8, 1, 0, 46, 41, 6], &[13]),
    ];
    for (prompt, want) in cases {
        assert_eq!(
            generate(&w, prompt, want.len()).unwrap(),
            [prompt, want].concat()
        );
    }
}

#[test]
fn eps_matters() {
    let w = weights(SEED);
    let without = Weights { rms_eps: 0, ..w };
    assert_eq!(
        generate(&without, &[8, 1, 0, 46, 41, 6], 1).unwrap().last(),
        Some(&6)
    );
}

#[test]
fn rms_norm_answers() {
    assert_eq!(rms_norm(&[80; 4], &[1; 4], 8, 0), [4; 4]);
    assert_eq!(rms_norm(&[80; 4], &[2; 4], 8, 0), [8; 4]);
    assert_eq!(rms_norm(&[0; 4], &[1; 4], 8, 0), [0; 4]);
    assert_eq!(rms_norm(&[-80; 4], &[1; 4], 8, 0), [-4; 4]);
    assert_eq!(
        rms_norm(&[-3, 0], &[1; 2], 4, 16),
        [-2, 0],
        "-12 / 5 truncates towards zero"
    );
    assert_eq!(rms_norm(&[-128; 32], &[-128; 32], 5, 16), [113; 32]);
    assert_eq!(rms_norm(&[127], &[-128], 5, 0), [-128], "saturation");
}

#[test]
fn operations_at_their_corners() {
    assert_eq!(
        gemm(
            &[vec![1, 1], vec![127, 127], vec![-128, -128]],
            &[-1, -2],
            1
        ),
        [-2, -128, 127],
        "the shift floors"
    );
    assert_eq!(swiglu(-128, -128), 0);
    assert_eq!(swiglu(127, 127), 127);
    assert_eq!(swiglu(127, -128), -128);
    assert_eq!(
        (exp_entry(0), exp_entry(16), exp_entry(255)),
        (65536, 32768, 1)
    );
    assert_eq!(
        (silu_entry(0), silu_entry(128), silu_entry(255)),
        (0, 0, 127)
    );
    // Scores of -128 exactly: the running maximum starts there.
    assert_eq!(
        attend(
            &[127; 32],
            &[vec![-128; 32], vec![-128; 32]],
            &[vec![100; 32], vec![100; 32]]
        ),
        [100; 32]
    );
    assert_eq!(attend(&[0], &[], &[]), [0], "no key: the sum counts as 1");
}

#[test]
fn refusals() {
    let w = weights(SEED);
    assert_eq!(generate(&w, &[], 1), Err(Halt::EmptyPrompt));
    assert_eq!(generate(&w, &[0; 256], 1), Err(Halt::ContextExceeded));
    assert_eq!(
        generate(&w, &[0; 2], usize::MAX),
        Err(Halt::ContextExceeded)
    );
    assert_eq!(
        generate(&w, &[0, 47, 48, 49], 1),
        Err(Halt::TokenOutOfRange {
            position: 2,
            id: 48
        })
    );
    assert_eq!(
        logits(&w, &[u32::MAX]),
        Err(Halt::TokenOutOfRange {
            position: 0,
            id: u32::MAX
        })
    );
    assert_eq!(generate(&w, &[3], 0), Ok(vec![3]));
}
