//! Counts of lengths before texts.

use intarsia_native::deltas::check;
use intarsia_native::thrift::Refusal;

#[test]
fn lengths_of_suffixes_are_behind_those_of_prefixes() {
    // blocks of 128 lengths in 4 parts: 34 lengths, whose second part has one, in 1 bit each
    let mut prefixes = vec![0x80, 1, 4, 34, 0, 0, 1, 1, 7, 7];
    prefixes.extend([0; 8]);
    let suffixes = [0x80, 1, 4, 34, 0];
    let both = [&prefixes[..], &suffixes].concat();
    assert_eq!(check(&both, 2, 34), Ok(()));
    assert!(check(&both, 2, 33).is_err());
    assert_eq!(check(&prefixes, 1, 34), Ok(()));
    let many = [&prefixes[..], &[0x80, 1, 4, 35, 0]].concat();
    assert_eq!(check(&many, 2, 34), Err(Refusal("a page has more lengths than values")));
    for stop in 0..prefixes.len() {
        assert!(check(&both[..stop], 2, 34).is_err());
    }
    assert!(check(&[0x80, 1, 0, 34, 0], 2, 34).is_err());
}
