//! `to`, `to_dynamic`.

use std::sync::Arc;

use thalweg_connectors::{Datum, Topic};
use thalweg_processor::{RecordContext, SinkDef, TopicRef};

use super::{KStream, Terminal};
use crate::graph::NodeSpec;
use crate::marker::Keys;
use crate::options::{Produced, Target};

impl<K: Datum, V: Datum, M: Keys> KStream<K, V, M> {
    /// Writes the stream to a topic of its types, or of their forms with or without null.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// let copy = Topic::<String, Option<String>>::new("copy");
    /// builder.stream(&Topic::<String, String>::new("lines")).to(&copy);
    /// ```
    #[track_caller]
    pub fn to(&self, topic: impl Into<Produced<K, V>>) -> Terminal {
        let produced = topic.into();
        let name = self.place.graph.name_or(produced.name.as_ref(), "KSTREAM-SINK-");
        let mut sink = match produced.target {
            Target::Declared(topic) => {
                SinkDef::fixed(TopicRef::External(Arc::clone(topic.topic_name())), topic)
            }
            Target::Named(topic) => {
                let encoder = Topic::with_shared(
                    Arc::clone(&topic),
                    self.place.key_serde(produced.serdes.key, &name),
                    self.place.value_serde(produced.serdes.value, &name),
                );
                SinkDef::fixed(TopicRef::External(topic), Arc::new(encoder))
            }
            Target::Extracted(extractor) => {
                let encoder = Topic::with_shared(
                    name.as_str(),
                    self.place.key_serde(produced.serdes.key, &name),
                    self.place.value_serde(produced.serdes.value, &name),
                );
                SinkDef::extracted("EXTRACTOR", extractor, Arc::new(encoder))
            }
        };
        if let Some(partitioner) = produced.partitioner {
            sink = sink.partitioner(partitioner);
        }
        let (topic, supplier) = sink.build();
        Terminal::add(&self.place, NodeSpec::sink(name, topic, supplier))
    }

    /// Writes each record to the topic that the closure names, with the serdes that are known from upstream or that the types have;
    /// to set them, use [`to`](Self::to) with [`Produced::dynamic`].
    #[track_caller]
    pub fn to_dynamic(
        &self,
        choose: impl Fn(&K, &V, &RecordContext) -> String + Send + Sync + 'static,
    ) -> Terminal {
        self.to(Produced::dynamic(choose))
    }
}
