//! The search for values in dictionary pages.

use intarsia_native::search::contains;
use intarsia_native::thrift::Refusal;

#[test]
fn numbers_are_compared_at_their_places() {
    let values = [0, 0, 0, 1, 2, 0, 0, 0, 9, 9];
    assert_eq!(contains(&values, Some(4), &[2, 0, 0, 0]), Ok(true));
    assert_eq!(contains(&values, Some(4), &[0, 0, 1, 2]), Ok(false));
    assert_eq!(contains(&values, None, &[0, 0, 1, 2]), Ok(true));
    assert_eq!(contains(&values, Some(4), &[9, 9]), Err(Refusal("a value has another size")));
    assert!(contains(&values, Some(2), &[9, 9]).is_err());
}
