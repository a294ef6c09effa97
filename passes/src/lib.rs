//! Lowerings of cooperative matrices: module in, module out.
