//! [`Datum`]: what null-aware operators and typed topics ask of a key or value.

use std::marker::PhantomData;

use crate::serde::{DefaultSerde, SharedSerde, nullable};

/// A key or value that may travel through a topology: it can say whether it is null, and what it is without null.
///
/// A type of yours that is never null needs one line: [`datum!`](crate::datum!)`(Order)`. `Option<T>` is the nullable form of `T`;
/// nesting does not add a second null.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a key or value of a stream",
    label = "not a `Datum`",
    note = "write `thalweg::datum!({Self});` beside the type: it says that a `{Self}` is never null",
    note = "`{Self}` also has to be `Clone + Send + 'static`; wrap what is large in `Arc`"
)]
pub trait Datum: Clone + Send + 'static {
    /// The type without null: `T` for `T` and for `Option<T>`.
    type Inner: Datum<Inner = Self::Inner>;
    /// The type with null: `Option<T>` for `T` and for `Option<T>`.
    type Opt: Datum<Inner = Self::Inner>;

    /// Takes the value out; `None` when it is null.
    fn into_inner(self) -> Option<Self::Inner>;
    /// Borrows the value; `None` when it is null.
    fn inner(&self) -> Option<&Self::Inner>;
    /// Makes one from a value that is not null.
    fn from_inner(inner: Self::Inner) -> Self;
    /// Makes the nullable form.
    fn opt(inner: Option<Self::Inner>) -> Self::Opt;

    /// Is this null?
    fn is_null(&self) -> bool {
        self.inner().is_none()
    }

    /// The serde of the type when nothing else is said: that of [`DefaultSerde`], when the type has it.
    fn own_serde() -> Option<SharedSerde<Self>> {
        None
    }
}

/// Tells whether a type that the macro names has a [`DefaultSerde`]: an inherent function shadows a trait's where its bound holds.
#[doc(hidden)]
#[derive(Debug)]
pub struct SerdeProbe<T>(PhantomData<fn() -> T>);

impl<T: DefaultSerde> SerdeProbe<T> {
    #[doc(hidden)]
    pub fn own_serde() -> Option<SharedSerde<T>> {
        Some(T::default_serde())
    }
}

#[doc(hidden)]
pub trait SerdeProbeFallback<T> {
    #[doc(hidden)]
    fn own_serde() -> Option<SharedSerde<T>> {
        None
    }
}

impl<T> SerdeProbeFallback<T> for SerdeProbe<T> {}

impl<T: Datum> Datum for Option<T> {
    type Inner = T::Inner;
    type Opt = Self;

    fn into_inner(self) -> Option<T::Inner> {
        self.and_then(T::into_inner)
    }

    fn inner(&self) -> Option<&T::Inner> {
        self.as_ref().and_then(T::inner)
    }

    fn from_inner(inner: T::Inner) -> Self {
        Some(T::from_inner(inner))
    }

    fn opt(inner: Option<T::Inner>) -> Self {
        inner.map(T::from_inner)
    }

    fn own_serde() -> Option<SharedSerde<Self>> {
        T::own_serde().map(nullable)
    }
}

/// Declares types that are never null as [`Datum`]. A type that also has a [`DefaultSerde`] is then written with it
/// wherever no other serde is given or known.
///
/// ```
/// #[derive(Clone)]
/// struct Order { id: u64 }
/// thalweg_connectors::datum!(Order);
/// # use thalweg_connectors::Datum;
/// assert!(Order::own_serde().is_none());
/// assert!(String::own_serde().is_some());
/// assert!(Option::<i64>::own_serde().is_some());
/// ```
#[macro_export]
macro_rules! datum {
    ($($type:ty),+ $(,)?) => {$(
        impl $crate::Datum for $type {
            type Inner = Self;
            type Opt = ::core::option::Option<Self>;

            fn into_inner(self) -> ::core::option::Option<Self> {
                ::core::option::Option::Some(self)
            }

            fn inner(&self) -> ::core::option::Option<&Self> {
                ::core::option::Option::Some(self)
            }

            fn from_inner(inner: Self) -> Self {
                inner
            }

            fn opt(inner: ::core::option::Option<Self>) -> ::core::option::Option<Self> {
                inner
            }

            fn own_serde() -> ::core::option::Option<$crate::SharedSerde<Self>> {
                #[allow(unused_imports, reason = "the fallback is for types without a default serde")]
                use $crate::SerdeProbeFallback as _;
                $crate::SerdeProbe::<Self>::own_serde()
            }
        }
    )+};
}

datum!(
    String,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
    f32,
    f64,
    bool,
    (),
    char,
    Vec<u8>,
    std::sync::Arc<str>,
    std::sync::Arc<[u8]>
);

#[cfg(feature = "uuid")]
datum!(uuid::Uuid);

impl<A: Datum, B: Datum> Datum for (A, B) {
    type Inner = Self;
    type Opt = Option<Self>;

    fn into_inner(self) -> Option<Self> {
        Some(self)
    }

    fn inner(&self) -> Option<&Self> {
        Some(self)
    }

    fn from_inner(inner: Self) -> Self {
        inner
    }

    fn opt(inner: Option<Self>) -> Option<Self> {
        inner
    }
}
