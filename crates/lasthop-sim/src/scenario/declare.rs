//! Declares a table together with what is read of it: each key is a field, so the compiler knows every key that the
//! code reads, and warns of one that nothing reads.
//!
//! `table!` makes a [`Table`](super::keys::Table) and a struct, `keys!` the struct alone, for keys that tables share.
//! What `///` says is what the schema and the reference say; behind `=` stand the kind and what else a
//! [`Key`](super::keys::Key) may have. `..name: Keys;` behind the others takes in the keys of
//! another struct, `use name: Keys;` does before them. A field whose key may be missing is an `Option`.

use lasthop_core::time::Span;
use lasthop_core::units::Rate;

use super::diagnostic::ScenarioError;
use super::reader::{Checked, Item, Reader};

type Result<T> = std::result::Result<T, ScenarioError>;

/// What a field takes of the value of its key.
pub(super) trait Field<'n>: Sized {
    /// Whether its key may be missing and has no default.
    const MAY_BE_MISSING: bool = false;

    /// Of a value that satisfies its declaration; `None` if the declaration says something else than the field.
    fn of(checked: Checked<'n>) -> Option<Self>;

    /// The value of `key`, or its default.
    fn read(table: &Reader<'n>, key: &'static str) -> Result<Self> {
        Ok(Self::of(table.value(key)?).unwrap_or_else(|| panic!("`{key}` is declared as something else")))
    }
}

/// A key that may be missing, and has no default.
impl<'n, T: Field<'n>> Field<'n> for Option<T> {
    const MAY_BE_MISSING: bool = true;

    fn of(checked: Checked<'n>) -> Option<Self> {
        T::of(checked).map(Some)
    }

    fn read(table: &Reader<'n>, key: &'static str) -> Result<Self> {
        let of = |checked| T::of(checked).unwrap_or_else(|| panic!("`{key}` is declared as something else"));
        Ok(table.given(key)?.map(of))
    }
}

/// Fields that take one variant of [`Checked`], or several.
macro_rules! fields {
    ($($type:ty: $($variant:ident)|+;)*) => {
        $(impl<'n> Field<'n> for $type {
            fn of(checked: Checked<'n>) -> Option<Self> {
                match checked {
                    $(Checked::$variant(value) => value.try_into().ok(),)+
                    _ => None,
                }
            }
        })*
    };
}

fields! {
    bool: Switch;
    u64: Integer | Size;
    u32: Integer | Size;
    u8: Integer;
    usize: Integer;
    f64: Number;
    Span: Span;
    Rate: Rate;
    &'static str: Name;
    String: Text;
    Reader<'n>: Table;
    Vec<Item<'n>>: List;
}

/// Fields that take a list whose elements need no place.
macro_rules! lists {
    ($($type:ty),*) => {
        $(impl<'n> Field<'n> for Vec<$type> {
            fn of(checked: Checked<'n>) -> Option<Self> {
                match checked {
                    Checked::List(items) => items.into_iter().map(|item| <$type>::of(item.value)).collect(),
                    _ => None,
                }
            }
        })*
    };
}

lists! { f64, u64, Span, Rate, String, Vec<f64>, Reader<'n> }

impl<'n> Field<'n> for Checked<'n> {
    fn of(checked: Checked<'n>) -> Option<Self> {
        Some(checked)
    }
}

/// A kind and its table.
impl<'n> Field<'n> for (&'static str, Reader<'n>) {
    fn of(checked: Checked<'n>) -> Option<Self> {
        match checked {
            Checked::Tagged(kind, table) => Some((kind, table)),
            _ => None,
        }
    }
}

/// Declares keys that tables share, and the values that are read of them.
macro_rules! keys {
    (
        $(#[$attribute:meta])*
        $vis:vis struct $keys:ident $(<$n:lifetime>)? {
            $(use $head:ident: $head_of:ty;)*
            $(
                $(#[doc = $help:literal])+
                $field:ident: $type:ty = $kind:expr $(, $how:ident($($argument:expr)?))*;
            )*
            $(..$group:ident: $of:ty;)*
        }
    ) => {
        $(#[$attribute])*
        $vis struct $keys $(<$n>)? {
            $(pub(in crate::scenario) $head: $head_of,)*
            $($(#[doc = $help])+ pub(in crate::scenario) $field: $type,)*
            $(pub(in crate::scenario) $group: $of,)*
        }

        impl<'n> $keys $(<$n>)? {
            /// Their declarations.
            pub(in crate::scenario) const KEYS: &'static [$crate::scenario::keys::Key] = &[$(
                $crate::scenario::keys::Key::new(
                    stringify!($field),
                    $kind,
                    concat!($($help),+).trim_ascii(),
                )$(.$how($($argument)?))*,
            )*];

            /// What `table` says.
            pub(in crate::scenario) fn read(
                table: &$crate::scenario::reader::Reader<'n>,
            ) -> std::result::Result<Self, $crate::scenario::diagnostic::ScenarioError> {
                $(const {
                    let key = $crate::scenario::keys::Key::new("", $kind, "")$(.$how($($argument)?))*;
                    let may_be_missing = <$type as $crate::scenario::declare::Field<'n>>::MAY_BE_MISSING;
                    assert!(may_be_missing == key.may_be_missing(), "an Option is for a key without a default");
                })*
                Ok($keys {
                    $($head: <$head_of>::read(table)?,)*
                    $($field: $crate::scenario::declare::Field::read(table, stringify!($field))?,)*
                    $($group: <$of>::read(table)?,)*
                })
            }
        }
    };
}

/// Declares a table and the values that are read of it.
macro_rules! table {
    (
        $(#[doc = $doc:literal])+
        $vis:vis static $table:ident = $title:literal;
        $(#[$attribute:meta])*
        $keys_vis:vis struct $keys:ident $(<$n:lifetime>)? {
            $(use $head:ident: $head_of:ty;)*
            $(
                $(#[doc = $help:literal])+
                $field:ident: $type:ty = $kind:expr $(, $how:ident($($argument:expr)?))*;
            )*
            $(..$group:ident: $of:ty;)*
        }
    ) => {
        $vis static $table: $crate::scenario::keys::Table = $crate::scenario::keys::Table {
            title: $title,
            doc: concat!($($doc),+).trim_ascii(),
            groups: &[$(<$head_of>::KEYS,)* $keys::KEYS, $(<$of>::KEYS),*],
            partial: false,
        };

        $crate::scenario::declare::keys! {
            $(#[$attribute])*
            $keys_vis struct $keys $(<$n>)? {
                $(use $head: $head_of;)*
                $($(#[doc = $help])+ $field: $type = $kind $(, $how($($argument)?))*;)*
                $(..$group: $of;)*
            }
        }
    };
}

/// Declares which value each name of a choice stands for: a kind of key, and the field that it fills.
macro_rules! choice {
    ($vis:vis const $kind:ident: $type:ty = $($name:literal => $value:expr),+ $(,)?) => {
        $vis const $kind: $crate::scenario::keys::Kind =
            $crate::scenario::keys::Kind::Choice(|| vec![$($name),+]);

        impl $crate::scenario::declare::Field<'_> for $type {
            fn of(checked: $crate::scenario::reader::Checked<'_>) -> Option<Self> {
                match checked {
                    $($crate::scenario::reader::Checked::Name($name) => Some($value),)+
                    _ => None,
                }
            }
        }
    };
}

pub(super) use {choice, keys, table};
