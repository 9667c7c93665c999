//! Parameters of a controller or another sender, declared once: the struct, its defaults, its ranges and its help text.
//!
//! Controllers use [`params!`] here, the rate-based senders of `lasthop-net` from there.

use std::fmt;

/// One parameter as `lasthop transports` shows it and a scenario may set it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Param {
    /// Scenario key.
    pub name: &'static str,
    /// Help text: the doc comment of the field.
    pub help: &'static str,
    /// Default value; 0 and 1 for switches.
    pub default: f64,
    /// Smallest accepted value.
    pub min: f64,
    /// Largest accepted value.
    pub max: f64,
    /// Whether it is a switch (`true` / `false` in the scenario).
    pub switch: bool,
    /// The names that it takes in the scenario, if it is a choice; its number is the index of the name.
    pub choices: &'static [&'static str],
}

/// Why a parameter was refused.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamError {
    /// The controller has no parameter of this name.
    Unknown,
    /// The value lies outside `min..=max`.
    OutOfRange {
        /// Smallest accepted value.
        min: f64,
        /// Largest accepted value.
        max: f64,
    },
}

impl fmt::Display for ParamError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParamError::Unknown => write!(formatter, "no such parameter"),
            ParamError::OutOfRange { min, max } => write!(formatter, "must lie in {min}..={max}"),
        }
    }
}

impl std::error::Error for ParamError {}

/// A value that a parameter field can hold.
pub trait Field: Copy {
    /// Whether it is a switch.
    const SWITCH: bool = false;
    /// The names that it takes, if it is a choice.
    const CHOICES: &'static [&'static str] = &[];
    /// As a number: switches are 0 or 1, choices the index of their name.
    fn to_number(self) -> f64;
    /// From such a number.
    fn from_number(number: f64) -> Self;
}

impl Field for f64 {
    fn to_number(self) -> f64 {
        self
    }
    fn from_number(number: f64) -> Self {
        number
    }
}

impl Field for bool {
    const SWITCH: bool = true;
    fn to_number(self) -> f64 {
        f64::from(u8::from(self))
    }
    fn from_number(number: f64) -> Self {
        number != 0.0
    }
}

/// Declares a parameter that is one of several names: an enum whose variants have scenario names. The range of such a
/// parameter runs from 0 to the index of the last name.
#[doc(hidden)]
#[macro_export]
macro_rules! declare_choice {
    ($(#[doc = $doc:literal])+ $type:ident {
        $($(#[doc = $variant_doc:literal])+ $variant:ident = $name:literal,)+
    }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type {
            $($(#[doc = $variant_doc])+ $variant,)+
        }

        impl $crate::params::Field for $type {
            const CHOICES: &'static [&'static str] = &[$($name),+];
            fn to_number(self) -> f64 {
                f64::from(self as u8)
            }
            fn from_number(number: f64) -> Self {
                const ALL: &[$type] = &[$($type::$variant),+];
                ALL[(number as usize).min(ALL.len() - 1)]
            }
        }
    };
}
#[doc(inline)]
pub use declare_choice as choice;

/// Declares a controller's `Params` with defaults, ranges and help, and the access by name that scenarios use.
#[doc(hidden)]
#[macro_export]
macro_rules! declare_params {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $default:expr, $range:expr;)*) => {
        /// Parameters; the defaults are in `Default`.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Params {
            $($(#[doc = $doc])+ pub $name: $type,)*
        }

        impl Default for Params {
            fn default() -> Self {
                Params { $($name: $default,)* }
            }
        }

        impl Params {
            /// Every parameter with its help, default and range, in declaration order.
            pub fn list() -> Vec<$crate::params::Param> {
                #[allow(unused_variables, reason = "a controller may have no parameters")]
                let defaults = Params::default();
                vec![$($crate::params::Param {
                    name: stringify!($name),
                    help: concat!($($doc),+).trim_ascii(),
                    default: $crate::params::Field::to_number(defaults.$name),
                    min: *$range.start(),
                    max: *$range.end(),
                    switch: <$type as $crate::params::Field>::SWITCH,
                    choices: <$type as $crate::params::Field>::CHOICES,
                }),*]
            }

            /// Sets the parameter `name`; switches take 0 and 1.
            pub fn set(&mut self, name: &str, value: f64) -> Result<(), $crate::params::ParamError> {
                match name {
                    $(stringify!($name) => {
                        let range = $range;
                        if !range.contains(&value) {
                            let (min, max) = range.into_inner();
                            return Err($crate::params::ParamError::OutOfRange { min, max });
                        }
                        self.$name = $crate::params::Field::from_number(value);
                        Ok(())
                    })*
                    _ => Err($crate::params::ParamError::Unknown),
                }
            }

            /// The value of the parameter `name`; switches give 0 and 1.
            pub fn value(&self, name: &str) -> Option<f64> {
                match name {
                    $(stringify!($name) => Some($crate::params::Field::to_number(self.$name)),)*
                    _ => None,
                }
            }
        }
    };
}
#[doc(inline)]
pub use declare_params as params;
