//! Any bytes are read as page headers without a panic, and a header does not depend on the bytes behind it.
#![no_main]

use intarsia_native::headers::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut start = 0;
    while let Ok((found, stop)) = parse(data, start) {
        assert!(start < stop && stop <= data.len());
        let again = parse(&data[..stop], start).unwrap();
        assert_eq!(format!("{again:?}"), format!("{:?}", (&found, stop)));
        assert!(parse(&data[..stop - 1], start).is_err());
        start = stop + found.body_bytes.min(data.len() - stop);
    }
});
