//! Running SPIR-V modules on Vulkan, and comparing what they wrote.
