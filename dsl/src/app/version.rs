//! What `--version` prints: this library's version, and those of the native libraries that are built in.

use std::sync::LazyLock;

/// The RocksDB that `librocksdb-sys` brings; its C interface does not tell.
#[cfg(feature = "rocksdb")]
const ROCKSDB: &str = "11.8.1";

/// Goes behind the program's name.
pub(super) static VERSION: LazyLock<String> = LazyLock::new(|| {
    let own = format!("with thalweg {}", env!("CARGO_PKG_VERSION"));
    #[cfg(feature = "rocksdb")]
    let own = format!("{own}, RocksDB {ROCKSDB}");
    #[cfg(feature = "kafka")]
    let own = format!("{own}, librdkafka {}", thalweg_connectors::librdkafka_version());
    own
});

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::VERSION;

    #[test]
    fn native_libraries_are_named_when_they_are_built_in() {
        assert!(VERSION.starts_with("with thalweg 0."));
        assert_eq!(VERSION.contains(", RocksDB "), cfg!(feature = "rocksdb"));
        assert_eq!(VERSION.contains(", librdkafka 2."), cfg!(feature = "kafka"));
    }

    #[cfg(feature = "rocksdb")]
    #[test]
    fn the_version_of_rocksdb_is_the_one_that_is_locked() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock");
        let lock: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
        let packages = lock["package"].as_array().unwrap();
        let package = packages.iter().find(|p| p["name"].as_str() == Some("librocksdb-sys"));
        let version = package.unwrap()["version"].as_str().unwrap();
        assert_eq!(version.split_once('+').unwrap().1, super::ROCKSDB);
    }
}
