//! A run's numbers as Prometheus text. Names are Kafka Streams' where that has one, behind `thalweg_`.

use std::fmt::Write;
use std::time::Duration;

use thalweg_processor::{MetricsSnapshot, StreamsState};

/// The type of the text.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4";

const STATES: [StreamsState; 6] = [
    StreamsState::Created,
    StreamsState::Restoring,
    StreamsState::Running,
    StreamsState::Stopping,
    StreamsState::Stopped,
    StreamsState::Failed,
];

/// All numbers.
pub(super) fn text(application_id: &str, numbers: &MetricsSnapshot) -> String {
    let mut page = Page { text: String::new(), application_id };
    page.gauge("state", "1 for the state that the run is in");
    for state in STATES {
        let is = f64::from(u8::from(state == numbers.state));
        page.sample("state", &[("state", state.as_str())], is);
    }
    page.run(numbers);
    page.partitions(numbers);
    page.restores(numbers);
    page.text
}

struct Page<'a> {
    text: String,
    application_id: &'a str,
}

impl Page<'_> {
    fn gauge(&mut self, name: &str, help: &str) {
        self.head(name, "gauge", help);
    }

    fn counter(&mut self, name: &str, help: &str) {
        self.head(name, "counter", help);
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "# HELP thalweg_{name} {help}");
        let _ = writeln!(self.text, "# TYPE thalweg_{name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let application_id = escaped(self.application_id);
        let _ = write!(self.text, "thalweg_{name}{{application_id=\"{application_id}\"");
        for (label, of) in labels {
            let _ = write!(self.text, ",{label}=\"{}\"", escaped(of));
        }
        let _ = writeln!(self.text, "}} {value}");
    }

    fn run(&mut self, numbers: &MetricsSnapshot) {
        let latency = &numbers.commit_latency;
        self.gauge("alive_stream_threads", "workers");
        self.sample("alive_stream_threads", &[], numbers.workers as f64);
        self.gauge("tasks", "tasks that the workers hold");
        self.sample("tasks", &[], numbers.tasks as f64);
        for (name, help, value) in [
            ("process_total", "records processed", numbers.records_processed),
            ("dropped_records_total", "records dropped", numbers.records_dropped),
            ("commit_total", "commits that had something to commit", numbers.commits),
            (
                "rebalance_total",
                "times that the group shared its work anew, per worker",
                numbers.rebalances,
            ),
            ("task_assigned_total", "tasks taken up", numbers.tasks_assigned),
            ("task_revoked_total", "tasks given up for another member", numbers.tasks_revoked),
            ("task_lost_total", "tasks lost without a chance to commit", numbers.tasks_lost),
            ("partition_assigned_total", "input partitions taken up", numbers.partitions_assigned),
            ("partition_revoked_total", "input partitions given up", numbers.partitions_revoked),
            ("partition_lost_total", "input partitions lost", numbers.partitions_lost),
            ("recovery_total", "returns to the last commit", numbers.recoveries),
        ] {
            self.counter(name, help);
            self.sample(name, &[], value as f64);
        }
        self.counter("commit_latency_seconds_total", "time that all commits took");
        self.sample("commit_latency_seconds_total", &[], latency.total.as_secs_f64());
        for (name, help, value) in [
            ("commit_latency_last_seconds", "time that the last commit took", latency.last),
            ("commit_latency_max_seconds", "time that the longest commit took", latency.max),
            (
                "commit_latency_avg_seconds",
                "mean time of a commit",
                mean(latency.total, numbers.commits),
            ),
        ] {
            self.gauge(name, help);
            self.sample(name, &[], value.as_secs_f64());
        }
    }

    fn partitions(&mut self, numbers: &MetricsSnapshot) {
        let samples: Vec<_> = numbers
            .partitions
            .iter()
            .map(|(tp, of)| (tp.topic.to_string(), tp.partition.to_string(), of))
            .collect();
        self.gauge("records_lag", "committed records of the partition that are not processed yet");
        for (topic, partition, of) in &samples {
            // One that is not known is not 0.
            if let Some(lag) = of.lag {
                self.sample("records_lag", &labels(topic, partition), lag as f64);
            }
        }
        self.counter("records_consumed_total", "records of the partition that were read");
        for (topic, partition, of) in &samples {
            self.sample("records_consumed_total", &labels(topic, partition), of.consumed as f64);
        }
        self.gauge("records_consumed_rate", "records of the partition read per second");
        for (topic, partition, of) in &samples {
            self.sample("records_consumed_rate", &labels(topic, partition), of.rate);
        }
    }

    fn restores(&mut self, numbers: &MetricsSnapshot) {
        let samples: Vec<_> = numbers.restores.iter().map(|of| (of.task.to_string(), of)).collect();
        self.counter("restore_total", "changelog records of the store that were restored");
        for (task, of) in &samples {
            let labels = [("task_id", task.as_str()), ("store", &of.store)];
            self.sample("restore_total", &labels, of.records_restored as f64);
        }
        self.gauge("restore_remaining_records_total", "offsets of the changelog still to be read");
        for (task, of) in &samples {
            let labels = [("task_id", task.as_str()), ("store", &of.store)];
            self.sample("restore_remaining_records_total", &labels, of.remaining as f64);
        }
        let help = "offsets of the whole changelog when the store's last restore began";
        self.gauge("restore_changelog_length", help);
        for (task, of) in &samples {
            let labels = [("task_id", task.as_str()), ("store", &of.store)];
            self.sample("restore_changelog_length", &labels, of.changelog_length as f64);
        }
    }
}

fn labels<'l>(topic: &'l str, partition: &'l str) -> [(&'l str, &'l str); 2] {
    [("topic", topic), ("partition", partition)]
}

fn mean(total: Duration, count: u64) -> Duration {
    match u32::try_from(count) {
        Ok(0) => Duration::ZERO,
        Ok(count) => total / count,
        Err(_) => Duration::from_secs_f64(total.as_secs_f64() / count as f64),
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use thalweg_connectors::TopicPartition;
    use thalweg_processor::{Metrics, PartitionMetrics, RestoreMetrics, TaskId};

    use super::*;

    #[test]
    fn every_line_is_a_comment_or_a_sample_and_every_sample_is_declared_once() {
        let mut numbers = Metrics::new(2).snapshot();
        let of = PartitionMetrics {
            lag: Some(7),
            consumed: 9,
            rate: 1.5,
            ..PartitionMetrics::default()
        };
        numbers.partitions.insert(TopicPartition::new("in", 0), of);
        numbers.partitions.insert(TopicPartition::new("in", 1), of);
        numbers.restores.push(RestoreMetrics {
            task: TaskId { subtopology: 0, partition: 3 },
            store: "counts".into(),
            changelog: TopicPartition::new("app-counts-changelog", 3),
            records_restored: 11,
            remaining: 22,
            changelog_length: 33,
        });
        let text = text("a\"b\\c\nd", &numbers);
        let mut declared: Vec<&str> = Vec::new();
        for line in text.lines() {
            if let Some(declaration) = line.strip_prefix("# TYPE ") {
                let name = declaration.split(' ').next().unwrap();
                assert!(!declared.contains(&name), "{name} is declared twice");
                declared.push(name);
            } else if !line.starts_with("# HELP ") {
                let (series, value) = line.rsplit_once(' ').unwrap();
                value.parse::<f64>().unwrap();
                let (name, labels) = series.split_once('{').unwrap();
                assert_eq!(declared.last(), Some(&name), "{line}");
                assert!(labels.starts_with(r#"application_id="a\"b\\c\nd""#), "{line}");
            }
        }
        let find = |wanted: &str| text.lines().find(|line| line.ends_with(wanted)).unwrap();
        assert!(find(r#"topic="in",partition="1"} 7"#).starts_with("thalweg_records_lag{"));
        assert!(
            find(r#"topic="in",partition="0"} 1.5"#).starts_with("thalweg_records_consumed_rate{")
        );
        let length = find(r#"task_id="0_3",store="counts"} 33"#);
        assert!(length.starts_with("thalweg_restore_changelog_length{"));
        assert!(find(r#"state="created"} 1"#).starts_with("thalweg_state{"));
    }
}
