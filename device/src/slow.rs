//! Devices whose matrices are slow, by reports.

/// A part of device names in lower case, and the source of the report.
const SLOW: [(&str, &str); 1] = [(
    "arc(tm) a",
    "ggml-org/llama.cpp pull request 24404, a comment of 2026-06-16: on an Arc A770 with Intel's driver 32.0.101.8826 for Windows a quarter of the \
     products take longer with VK_KHR_cooperative_matrix than without, at worst 1,400 times as long; the engine leaves the \
     matrices of discrete GPUs before Xe2 alone",
)];

/// Returns the source of a report that matrices of a device are slower than code without them, or an empty text.
pub(crate) fn source(device: &str) -> String {
    let device = device.to_lowercase();
    let found = SLOW.iter().find(|(part, _)| device.contains(part));
    found.map_or_else(String::new, |(_, source)| (*source).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names as Mesa and Intel's driver for Windows give them; those of Xe2 begin with B.
    #[test]
    fn names_of_drivers() {
        for slow in ["Intel(R) Arc(tm) A770 Graphics (DG2)", "Intel(R) Arc(TM) A380 Graphics"] {
            assert!(source(slow).contains("24404"), "{slow}");
        }
        for other in ["Intel(R) Arc(TM) B580 Graphics", "NVIDIA H100 80GB HBM3", ""] {
            assert_eq!(source(other), "", "{other}");
        }
    }
}
