//! Optional native code of Intarsia: pure functions of bytes, without I/O or state; threads end with the call.

pub mod codecs;
pub mod decode;
pub mod deltas;
pub mod footers;
pub mod headers;
pub mod pages;
pub mod schema;
pub mod search;
pub mod structs;
pub mod thrift;
pub mod values;

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;
use pyo3::prelude::*;

use crate::thrift::{Read, Refusal};

pyo3::create_exception!(
    intarsia_native,
    Refused,
    pyo3::exceptions::PyException,
    "The bytes are damaged, contradictory, unsupported or above a limit. The caller decides it in Python."
);

impl From<ParquetError> for Refusal {
    fn from(_: ParquetError) -> Self {
        Refusal("arrow-rs does not decode the pages")
    }
}

impl From<ArrowError> for Refusal {
    fn from(_: ArrowError) -> Self {
        Refusal("arrow-rs does not have the type")
    }
}

impl From<Refusal> for PyErr {
    fn from(refusal: Refusal) -> Self {
        Refused::new_err(refusal.0)
    }
}

/// Runs a function without the GIL; a panic is a refusal.
pub fn guard<T: Send>(py: Python<'_>, run: impl FnOnce() -> Read<T> + Send) -> PyResult<T> {
    let found = py.detach(|| catch_unwind(AssertUnwindSafe(run)));
    Ok(found.unwrap_or(Err(Refusal("a panic")))?)
}

/// Functions for the package `intarsia`, which checks that the versions are equal.
#[pymodule(gil_used = false)]
mod intarsia_native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::Refused;
    #[pymodule_export]
    use super::decode::{Columns, Schema, decode};
    #[pymodule_export]
    use super::footers::{chunks, outlines};
    #[pymodule_export]
    use super::search::lacking;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // a panic becomes `Refused`, so its message is not for the terminal
        std::panic::set_hook(Box::new(|_| {}));
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
