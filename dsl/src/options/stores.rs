//! [`Stores`]: the stores that a processor uses.

use std::fmt;

use thalweg_processor::{Store, StoreDecl, StoreDef};

/// The stores that a processor uses: declared ones, which are added with it, and ones by name, which another step adds.
///
/// ```
/// use thalweg::{Store, Stores};
/// let seen = Store::<String, i64>::key_value("seen");
/// let stores = Stores::none().with(&seen).named("totals");
/// # let _ = stores;
/// ```
#[derive(Clone, Default)]
pub struct Stores {
    pub(crate) declared: Vec<StoreDef>,
    pub(crate) named: Vec<String>,
}

impl Stores {
    /// No store.
    pub fn none() -> Self {
        Self::default()
    }

    /// And this one. The same declaration can be given to several processors, which then share the store.
    #[must_use]
    pub fn with(mut self, store: &impl StoreDecl) -> Self {
        self.declared.push(store.def().clone());
        self
    }

    /// And the one of this name, which another step adds.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.named.push(name.into());
        self
    }
}

impl<K: 'static, V: 'static, S: 'static> From<&Store<K, V, S>> for Stores {
    fn from(store: &Store<K, V, S>) -> Self {
        Self::none().with(store)
    }
}

impl<const N: usize> From<[&str; N]> for Stores {
    fn from(names: [&str; N]) -> Self {
        names.into_iter().fold(Self::none(), Self::named)
    }
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.declared).entries(&self.named).finish()
    }
}
