//! The enumerations of SPIR-V, with every value that the grammar knows as a constant.
//!
//! A value is a number, with a name if the grammar has one: unknown values are kept, compared and printed like any
//! others.

use crate::grammar::Kind;
use crate::module::Operand;

/// Defines an enumeration as a number with named values.
macro_rules! enumeration {
    ($name:ident: $($value:ident = $number:literal,)*) => {
        define!($name);

        #[allow(non_upper_case_globals, missing_docs)]
        impl $name {
            $(pub const $value: $name = $name($number);)*
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match Kind::$name.enumerant(self.0) {
                    Some(e) => f.write_str(e.name),
                    None => write!(f, "{}", self.0),
                }
            }
        }
    };
}

/// Defines a mask as a number with named bits.
macro_rules! mask {
    ($name:ident: $($value:ident = $number:literal,)*) => {
        define!($name);

        #[allow(non_upper_case_globals, missing_docs)]
        impl $name {
            pub const None: $name = $name(0);
            $(pub const $value: $name = $name($number);)*

            /// Every bit that the grammar knows.
            pub const ALL: $name = $name(0 $(| $number)*);

            /// Returns true if no bit is set.
            #[inline]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// Returns true if every bit of `bits` is set.
            #[inline]
            pub const fn contains(self, bits: $name) -> bool {
                self.0 & bits.0 == bits.0
            }

            /// Returns true if one bit of `bits` is set.
            #[inline]
            pub const fn intersects(self, bits: $name) -> bool {
                self.0 & bits.0 != 0
            }
        }

        impl std::ops::BitOr for $name {
            type Output = $name;

            #[inline]
            fn bitor(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }
        }

        impl std::ops::BitOrAssign for $name {
            #[inline]
            fn bitor_assign(&mut self, other: $name) {
                self.0 |= other.0;
            }
        }

        impl std::ops::BitAnd for $name {
            type Output = $name;

            #[inline]
            fn bitand(self, other: $name) -> $name {
                $name(self.0 & other.0)
            }
        }

        impl std::ops::Sub for $name {
            type Output = $name;

            #[inline]
            fn sub(self, other: $name) -> $name {
                $name(self.0 & !other.0)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                if self.0 == 0 {
                    return f.write_str("None");
                }
                let mut between = "";
                for bit in (0..u32::BITS).map(|b| 1 << b).filter(|b| self.0 & b != 0) {
                    match Kind::$name.enumerant(bit) {
                        Some(e) => write!(f, "{between}{}", e.name)?,
                        None => write!(f, "{between}{bit:#x}")?,
                    }
                    between = "|";
                }
                Ok(())
            }
        }
    };
}

/// Defines an extended instruction set as a number with named values.
macro_rules! instructions {
    ($name:ident: $($value:ident = $number:literal,)*) => {
        #[doc = concat!("The instructions of the extended set `", stringify!($name), "`, by number.")]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub struct $name(pub u32);

        #[allow(non_upper_case_globals, missing_docs)]
        impl $name {
            $(pub const $value: $name = $name($number);)*
        }
    };
}

/// Defines the number behind an enumeration or a mask.
macro_rules! define {
    ($name:ident) => {
        #[doc = concat!("`", stringify!($name), "` of the SPIR-V grammar.")]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl From<u32> for $name {
            #[inline]
            fn from(value: u32) -> $name {
                $name(value)
            }
        }

        impl From<$name> for Operand {
            #[inline]
            fn from(value: $name) -> Operand {
                Operand::Word(value.0)
            }
        }

        impl $name {
            /// Returns the name in the grammar: of a value, or of a mask's single bit.
            pub fn name(self) -> Option<&'static str> {
                Kind::$name.enumerant(self.0).map(|e| e.name)
            }
        }

        impl From<$name> for u32 {
            #[inline]
            fn from(value: $name) -> u32 {
                value.0
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{self}")
            }
        }
    };
}

#[rustfmt::skip]
mod tables {
    use super::{Kind, Operand};

    include!("spv/tables.rs");
}

pub use tables::*;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_print_by_their_names() {
        assert_eq!(Capability::CooperativeMatrixKHR.to_string(), "CooperativeMatrixKHR");
        assert_eq!(Capability(60000).to_string(), "60000");
        assert_eq!((MemoryAccess::Volatile | MemoryAccess(1 << 30)).to_string(), "Volatile|0x40000000");
        assert_eq!(MemoryAccess(0).to_string(), "None");
        let physical = rspirv::spirv::StorageClass::PhysicalStorageBuffer as u32;
        assert_eq!(u32::from(StorageClass::PhysicalStorageBuffer), physical);
    }
}
