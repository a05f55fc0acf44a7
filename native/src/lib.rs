//! Optional native code of Intarsia: pure functions of bytes, without I/O, state or threads of their own.

use pyo3::prelude::*;

pyo3::create_exception!(
    intarsia_native,
    Refused,
    pyo3::exceptions::PyException,
    "The bytes are damaged, contradictory, unsupported or above a limit. The caller decides it in Python."
);

/// Functions for the package `intarsia`, which checks that the versions are equal.
#[pymodule(gil_used = false)]
mod intarsia_native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::Refused;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // a panic is caught and becomes `Refused`, so its message is not for the terminal
        std::panic::set_hook(Box::new(|_| {}));
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
