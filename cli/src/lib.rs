//! What the three tools share: input, output, options, rendering.
