//! Rules about cooperative matrices in SPIR-V, and the report of what breaks them.
