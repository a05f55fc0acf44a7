"""One file for each kind of index; all speak the protocol of `intarsia.indexes.base`."""
