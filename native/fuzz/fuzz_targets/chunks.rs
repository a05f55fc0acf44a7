//! Any bytes are read as chunks without a panic, and a chunk is read again from the bytes that it took.
#![no_main]

use intarsia_native::structs::chunk;
use intarsia_native::thrift::Reader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut reader = Reader::new(data, 0).unwrap();
    let mut start = 0;
    while let Ok(found) = chunk(&mut reader) {
        let stop = reader.position;
        assert!(start < stop && stop <= data.len());
        let mut again = Reader::new(&data[..stop], start).unwrap();
        assert_eq!(format!("{:?}", chunk(&mut again).unwrap()), format!("{found:?}"));
        assert!(chunk(&mut Reader::new(&data[..stop - 1], start).unwrap()).is_err());
        start = stop;
    }
});
