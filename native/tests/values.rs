//! Runs of codes and of levels.

use intarsia_native::values::{Runs, validity};

#[test]
fn levels_are_runs_and_bits() {
    assert_eq!(validity(&[10, 1], 5), Ok(None));
    assert_eq!(validity(&[4, 0, 3, 0b101, 2, 1], 5), Ok(Some(vec![false, false, true, false, true])));
    assert_eq!(validity(&[2, 1, 2, 0], 2), Ok(Some(vec![true, false])));
    assert!(validity(&[2, 1], 2).is_err());
    assert!(validity(&[4, 2], 2).is_err());
    assert!(validity(&[5, 1], 12).is_err());
    assert!(validity(&[0, 0, 0], 1).is_err());
}

#[test]
fn codes_are_read_at_their_places() {
    // 7 times 260, then the numbers from 0 on in 9 bits, of which the last group lacks its end
    let mut bytes = vec![9, 14, 4, 1, 5];
    let bits = (0..12u128).fold(0, |bits, number| bits | number << (9 * number));
    bytes.extend(&bits.to_le_bytes()[..14]);
    let read = |ranges: &[(usize, usize)], limit| {
        let (mut runs, mut found) = (Runs::of_dictionary(&bytes), Vec::new());
        ranges
            .iter()
            .try_for_each(|(start, stop)| runs.read(*start..*stop, limit, &mut found))
            .map(|()| found)
    };
    let all: Vec<u32> = [260; 7].into_iter().chain(0..12).collect();
    assert_eq!(read(&[(0, 19)], 261), Ok(all));
    assert_eq!(read(&[(6, 9), (12, 13), (18, 19)], 261), Ok(vec![260, 0, 1, 5, 11]));
    assert!(read(&[(0, 1)], 260).is_err());
    assert!(read(&[(18, 20)], 261).is_err());
    assert!(Runs::of_dictionary(&[]).read(0..1, 1, &mut vec![]).is_err());
    assert_eq!(Runs::of_dictionary(&[0, 6]).read(1..3, 1, &mut vec![]), Ok(()));
}
