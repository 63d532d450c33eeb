//! What is logged of dropped records.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::apps::counting;
use super::world::{World, config};
use crate::OnError;
use crate::worker::{Cycle, Worker};

/// Keeps the fields of warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{}={value:?} ", field.name());
    }
}

#[test]
fn a_flood_of_dropped_records_is_one_line_per_interval_and_counted_one_by_one() {
    let warnings = Warnings::default();
    tracing::subscriber::with_default(warnings.clone(), || {
        let world = World::of_lines(1, &["poison"; 100]);
        let mut config = config();
        config.task.on_processing_error = OnError::Continue;
        let around = world.prepare(&counting(), &config).unwrap();
        let mut worker = Worker::new(around.clone(), 0).unwrap();
        while worker.run_once().unwrap() == Cycle::Worked {}
        assert_eq!(around.metrics.snapshot().records_dropped, 100);
        let lines = warnings.take();
        assert_eq!(lines.len(), 1, "{lines:?}");
        for part in ["node=count ", "user code failed", "at=lines-0@0 ", "records=1 "] {
            assert!(lines[0].contains(part), "{part}: {lines:?}");
        }

        // The others are told when the interval is over, though nothing is dropped any more.
        world.clock.advance(Duration::from_secs(10));
        worker.run_once().unwrap();
        let lines = warnings.take();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("records=99 "), "{lines:?}");

        world.write("lines", &[("poison", "poison", 200); 7]);
        while worker.run_once().unwrap() == Cycle::Worked {}
        worker.close().unwrap();
        assert_eq!(around.metrics.snapshot().records_dropped, 107);
        let lines = warnings.take();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("records=7 "), "{lines:?}");
    });
}
