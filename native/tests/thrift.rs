//! The reader of Thrift's compact protocol.

use intarsia_native::thrift::{I32, Reader};

fn reader(data: &[u8]) -> Reader<'_> {
    Reader::new(data, 0).unwrap()
}

#[test]
fn numbers() {
    for (bytes, value) in [
        (&[0u8][..], 0),
        (&[1], -1),
        (&[0x80, 1], 64),
        (&[0xFE, 0xFF, 0xFF, 0xFF, 0x0F], i64::from(i32::MAX)),
        (&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1], i64::MIN),
    ] {
        assert_eq!(reader(bytes).i64(), Ok(value));
    }
    let too_long = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2];
    assert!(reader(&too_long).i64().is_err());
    assert!(reader(&[0x80]).i64().is_err());
    assert!(reader(&[0x80, 0x80, 0x80, 0x80, 0x10]).i32().is_err());
}

#[test]
fn lengths_are_bounded_by_the_bytes() {
    assert!(reader(&[0xF5, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F]).list(I32).is_err());
    assert!(reader(&[0x35, 1, 1]).list(I32).is_err());
    assert_eq!(reader(&[0x25, 1, 1]).list(I32), Ok(2));
    let huge = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1];
    assert!(reader(&huge).binary().is_err());
    assert!(Reader::new(&[], 1).is_err());
}

#[test]
fn unknown_fields_are_skipped() {
    // bool, byte, double, binary, list of bools, a struct, and field 7, a number
    let data = [
        0x11, 0x13, 9, 0x17, 0, 0, 0, 0, 0, 0, 0, 0, 0x18, 1, b'x', 0x19, 0x21, 1, 2, 0x1C, 0x15, 2, 0, 0x15,
        4, 0,
    ];
    let mut found = None;
    let mut one = reader(&data);
    one.fields(|reader, id, _| {
        if id == 7 {
            found = Some(reader.i32()?);
        }
        Ok(id == 7)
    })
    .unwrap();
    assert_eq!((found, one.position), (Some(2), data.len()));
    for stop in 0..data.len() {
        assert!(reader(&data[..stop]).fields(|_, _, _| Ok(false)).is_err());
    }
}

#[test]
fn hostile_structs_are_refused() {
    for data in [
        &[0x15u8, 0, 0x05, 2, 0, 0][..], // field 1 twice
        &[0x1B, 0],                      // a map
        &[0x10, 0],                      // a stop with an id
        &[0x1D, 0],                      // no type
    ] {
        assert!(reader(data).fields(|_, _, _| Ok(false)).is_err());
    }
    assert!(reader(&[0x1C; 1000]).fields(|_, _, _| Ok(false)).is_err());
    assert!(reader(&[0x19; 1000]).fields(|_, _, _| Ok(false)).is_err());
}
