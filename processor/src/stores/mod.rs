//! Stores as processors see them: declared once as a value, opened through a handle, typed at the edge, bytes below.
//!
//! | module | what it is |
//! | --- | --- |
//! | `def` | a store as the topology keeps it |
//! | `decl` | [`Store`]: the declared value, its handle and its view |
//! | `raw` | the one way every write takes: overlay, record cache, changelog |
//! | `key_value`, `window`, `session`, `by_time`, `buffer` | what can be done with an opened store |

mod buffer;
mod by_time;
mod decl;
mod def;
mod key_value;
mod raw;
mod session;
mod window;

pub use buffer::Buffer;
pub use decl::{
    FlushedRows, Handle, KeyValue, Session, Store, StoreDecl, StoreHandle, Timestamped,
    TimestampedKeyValue, TimestampedWindow, Updated, View, Window,
};
pub(crate) use def::LocalStore;
pub use def::{StoreDef, StoreSerdes, StoreShape};
pub use key_value::Entries;
pub use session::{SessionEntries, SessionKey};
pub use window::{WindowEntries, WindowedKey};

pub(crate) use raw::{TaskStore, flush_entry};
