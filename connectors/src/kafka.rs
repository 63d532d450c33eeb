//! Kafka through librdkafka. The backend itself is yet to come; this proves that the library is
//! linked.

/// The version of librdkafka that is linked in.
pub fn librdkafka_version() -> String {
    rdkafka::util::get_rdkafka_version().1
}

#[cfg(test)]
mod tests {
    #[test]
    fn librdkafka_is_linked_and_new_enough() {
        let version = super::librdkafka_version();
        let mut numbers = version.split('.').map(str::parse::<u32>);
        assert_eq!(numbers.next(), Some(Ok(2)), "{version}");
    }
}
