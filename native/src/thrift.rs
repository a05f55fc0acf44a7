//! A reader of Thrift's compact protocol that refuses whatever it does not know, and allocates nothing.

/// Why bytes are not read here: they are damaged, or have a form that no known writer writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal(pub &'static str);

pub type Read<T> = Result<T, Refusal>;

/// Compact types, as in `intarsia.format.thrift`.
pub const TRUE: u8 = 1;
pub const FALSE: u8 = 2;
pub const BYTE: u8 = 3;
pub const I16: u8 = 4;
pub const I32: u8 = 5;
pub const I64: u8 = 6;
pub const DOUBLE: u8 = 7;
pub const BINARY: u8 = 8;
pub const LIST: u8 = 9;
pub const STRUCT: u8 = 12;

/// The limit on nesting of fields that are skipped. Those of Parquet are less than 10 levels deep.
const MAX_DEPTH: u32 = 32;

#[derive(Debug, Clone)]
pub struct Reader<'a> {
    data: &'a [u8],
    pub position: usize,
}

impl<'a> Reader<'a> {
    pub fn new(data: &'a [u8], position: usize) -> Read<Self> {
        if position > data.len() {
            return Err(Refusal("the offset is beyond the end"));
        }
        Ok(Self { data, position })
    }

    /// Returns the bytes between two positions in the same data.
    pub fn until(&self, end: &Self) -> &'a [u8] {
        &self.data[self.position..end.position]
    }

    pub fn byte(&mut self) -> Read<u8> {
        Ok(self.take(1)?[0])
    }

    pub fn take(&mut self, length: usize) -> Read<&'a [u8]> {
        let rest = &self.data[self.position..];
        let piece = rest.get(..length).ok_or(Refusal("the bytes end too early"))?;
        self.position += length;
        Ok(piece)
    }

    pub fn varint(&mut self) -> Read<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Refusal("a number has more than 64 bits"))
    }

    pub fn i64(&mut self) -> Read<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub fn i32(&mut self) -> Read<i32> {
        i32::try_from(self.i64()?).map_err(|_| Refusal("a number has more than 32 bits"))
    }

    pub fn binary(&mut self) -> Read<&'a [u8]> {
        let length = self.varint()?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    pub fn text(&mut self) -> Read<&'a str> {
        std::str::from_utf8(self.binary()?).map_err(|_| Refusal("a name is not UTF-8"))
    }

    /// Reads the header of a list, and returns the number of its elements, each at least a byte.
    pub fn list(&mut self, element: u8) -> Read<usize> {
        let (found, length) = self.any_list()?;
        if found != element {
            return Err(Refusal("a list has elements of another type"));
        }
        Ok(length)
    }

    fn any_list(&mut self) -> Read<(u8, usize)> {
        let head = self.byte()?;
        let length = match head >> 4 {
            15 => self.varint()?,
            short => u64::from(short),
        };
        match usize::try_from(length) {
            Ok(length) if length <= self.data.len() - self.position => Ok((head & 0x0F, length)),
            _ => Err(Refusal("a list is longer than the bytes")),
        }
    }

    /// Reads the fields of a struct up to its end.
    ///
    /// `read` gets the id and the type of each field, and returns whether it has read the value; the value of
    /// any other field is skipped. Ids must ascend, as all known writers write them, so no field is there twice.
    pub fn fields(&mut self, mut read: impl FnMut(&mut Self, i64, u8) -> Read<bool>) -> Read<()> {
        let mut id = 0;
        loop {
            let head = self.byte()?;
            let (delta, kind) = (i64::from(head >> 4), head & 0x0F);
            if head == 0 {
                return Ok(());
            }
            let next = if delta == 0 { self.i64()? } else { id + delta };
            if next <= id || next > i64::from(i16::MAX) {
                return Err(Refusal("the fields of a struct are not in the order of their ids"));
            }
            id = next;
            if !read(self, id, kind)? {
                self.skip(kind, false, MAX_DEPTH)?;
            }
        }
    }

    fn skip(&mut self, kind: u8, is_element: bool, depth: u32) -> Read<()> {
        if depth == 0 {
            return Err(Refusal("structs are nested too deeply"));
        }
        match kind {
            TRUE | FALSE if !is_element => Ok(()), // the type is the value
            TRUE | FALSE | BYTE => self.byte().map(drop),
            I16 | I32 | I64 => self.varint().map(drop),
            DOUBLE => self.take(8).map(drop),
            BINARY => self.binary().map(drop),
            LIST => {
                let (element, length) = self.any_list()?;
                (0..length).try_for_each(|_| self.skip(element, true, depth - 1))
            }
            STRUCT => loop {
                let head = self.byte()?;
                if head == 0 {
                    return Ok(());
                }
                if head >> 4 == 0 {
                    self.i64()?;
                }
                self.skip(head & 0x0F, false, depth - 1)?;
            },
            _ => Err(Refusal("a field has a type that Parquet does not use")),
        }
    }
}

/// Returns whether a field has the type that it is declared with; another type is refused.
pub fn expect(kind: u8, declared: u8) -> Read<()> {
    if kind == declared { Ok(()) } else { Err(Refusal("a field has another type than declared")) }
}
