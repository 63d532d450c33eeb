#!/usr/bin/env python3
"""Writes random scenarios in the format of FORMAT.md, without the expected side: that is for Kafka Streams to say.

    generate.py inputs SEED NUMBER FOLDER [FAMILY...]   NUMBER new inputs for every scenario there is, or for those of some families
    generate.py topologies SEED NUMBER FOLDER           NUMBER topologies of the DSL's operators, with inputs

Then have the oracle fill in what Kafka Streams does (`MODE=write check.sh FOLDER`), and see whether the runner agrees:

    cargo run --release -p thalweg-integration-tests --bin conformance -- FOLDER

The same seed gives the same files. A scenario that shows a defect goes to scenarios/further, cut down and with a name of its own.
Known to differ, and not copied: with the record cache on, dumps of window and session stores, where Kafka Streams still shows rows
of the cache that are past the retention; co-partitioning behind suppress, cogroup and foreign-key joins, which Kafka Streams loses.
"""

import copy
import json
import random
import sys
from pathlib import Path

SCENARIOS = Path(__file__).parent / "scenarios"
TEXT = {"key": "string", "value": "string"}
LONG = {"key": "string", "value": "long"}


# ---- new inputs for scenarios that are there


def walk(node, visit):
    """Calls `visit(object, field, value)` for every field below."""
    if isinstance(node, dict):
        for field, value in list(node.items()):
            visit(node, field, value)
            walk(node[field], visit)
    elif isinstance(node, list):
        for value in node:
            walk(value, visit)


def new_input(rnd, items):
    """Records made of those that are there: keys, values and times mixed anew, in order, nearly in order, or wild."""
    records = [item for item in items if "topic" in item]
    others = [item for item in items if "topic" not in item]
    times = [record["timestamp"] for record in records]
    low, high = min(times), max(times)
    span = max(high - low, 10)
    order, now, result = rnd.choice(["sorted", "near", "wild", "same"]), low, []
    for _ in range(rnd.randint(4, 24)):
        record = copy.deepcopy(rnd.choice(records))
        alike = [other for other in records if other["topic"] == record["topic"]]
        for part in ("key", "value"):
            if rnd.random() < 0.5:
                record[part] = copy.deepcopy(rnd.choice(alike)[part])
        if rnd.random() < 0.08:
            record["value"] = None
        if rnd.random() < 0.03:
            record["key"] = None
        now += rnd.randint(0, max(1, span // 6))
        record["timestamp"] = {
            "sorted": now,
            "near": max(0, now - rnd.choice([0, 0, 0, 1, 2, span // 8, span // 3, span])),
            "wild": rnd.randint(max(0, low - 5), high + span // 2),
            "same": rnd.choice(times),
        }[order]
        result.append(record)
        if others and rnd.random() < 0.2:
            result.append(copy.deepcopy(rnd.choice(others)))
    return result


def inputs(rnd, number, families):
    for path in sorted(SCENARIOS.glob("*.json")):
        original = json.loads(path.read_text())
        records = [item for item in original.get("input", []) if "topic" in item]
        wanted = not families or original["family"] in families
        if not wanted or len(records) < 2 or any(r.get("timestamp") is None for r in records):
            continue
        for variant in range(number):
            scenario = copy.deepcopy(original)
            for field in ("expect", "quirk"):
                scenario.pop(field, None)
            scenario["input"] = new_input(rnd, original["input"])
            if rnd.random() < 0.4:

                def stretch(node, field, value):
                    if field in ("grace_ms", "gap_ms") and isinstance(value, int) and value > 0:
                        node[field] = max(1, rnd.choice([value, value // 2, value * 2, value + 1]))

                walk(scenario["topology"], stretch)
            yield f"{path.stem}-{variant}", f"{original['name']}-{variant}", scenario


# ---- topologies


class Topology:
    """Steps that are added at random; keys and values are texts throughout."""

    def __init__(self, rnd):
        self.rnd = rnd
        self.steps, self.streams, self.tables, self.inputs = [], [], [], {}
        self.names = 0
        for number in range(rnd.randint(1, 2)):
            self.inputs[f"in{number}"] = TEXT
            self.streams.append(self.step("stream", topic=f"in{number}", named=0.2, **TEXT))
        for number in range(rnd.randint(0, 2)):
            self.inputs[f"tab{number}"] = TEXT
            self.tables.append(self.step("table", topic=f"tab{number}", named=0.2, stored=TEXT))

    def chance(self, probability):
        return self.rnd.random() < probability

    def name(self):
        self.names += 1
        return f"name{self.names}"

    def step(self, op, named=0.3, stored=None, stored_always=True, **fields):
        """Adds a step; `stored` gives it a store, named or not, with these serdes."""
        step = {"id": f"s{len(self.steps)}", "op": op, **fields}
        if self.chance(named):
            step["name"] = self.name()
        if stored and (stored_always or self.chance(0.4)):
            step["mat"] = dict(stored)
            if self.chance(0.6):
                step["mat"]["as"] = self.name()
                if self.chance(0.2):
                    step["mat"]["caching"] = self.chance(0.5)
                if self.chance(0.1):
                    step["mat"]["logging"] = False
            if self.chance(0.15):
                step["mat"]["store_type"] = "in_memory"
        self.steps.append(step)
        return step["id"]

    def value(self):
        null_or_same = ["if", ["eq", "$v", "c"], None, "$v"]
        return self.rnd.choice(["$v", ["concat", "$v", "'"], ["concat", "$k", "|", "$v"], null_or_same, ["upper", ["str", "$v"]]])

    def key(self):
        null_or_value = ["if", ["eq", "$v", "b"], None, ["str", "$v"]]
        return self.rnd.choice(["$v", "$k", ["field", ["str", "$v"], "-", 0], ["concat", "$k", "+"], null_or_value, ["str", "$v"]])

    def test(self):
        return ["contains", ["str", "$v"], self.rnd.choice("abc")]

    def grace(self, window):
        if self.chance(0.6):
            window["grace_ms"] = self.rnd.choice([0, 5, 20])
        return window

    def grow(self):
        """Adds an operator, if what it needs is there."""
        stream = self.rnd.choice(self.streams)
        table = self.rnd.choice(self.tables) if self.tables else None
        stateless = [self.stateless] * 8
        kinds = stateless + [self.aggregate] * 5 + [self.join_streams] * 2 + [self.cogroup]
        if table:
            kinds += [self.of_table] * 6 + [self.join_table] * 2
        if len(self.tables) > 1:
            kinds += [self.join_tables] * 3
        self.rnd.choice(kinds)(stream, table)

    def stateless(self, stream, _):
        op = self.rnd.choice(["filter", "filter_not", "map_values", "select_key", "map", "flat_map_values", "merge", "peek", "repartition", "to_table", "split"])
        if op in ("filter", "filter_not"):
            self.streams.append(self.step(op, **{"from": stream}, fn=self.test()))
        elif op == "map_values":
            self.streams.append(self.step(op, **{"from": stream}, fn=self.value()))
        elif op == "select_key":
            self.streams.append(self.step(op, **{"from": stream}, fn=self.key()))
        elif op == "map":
            self.streams.append(self.step(op, **{"from": stream}, fn=["pair", self.key(), self.value()]))
        elif op == "flat_map_values":
            twice = ["list", "$v", ["concat", ["str", "$v"], "2"]]
            self.streams.append(self.step(op, **{"from": stream}, fn=twice))
        elif op == "merge":
            others = [other for other in self.streams if other != stream]
            if others:
                self.streams.append(self.step(op, **{"from": stream, "with": self.rnd.choice(others)}))
        elif op == "peek":
            self.streams.append(self.step(op, **{"from": stream}))
        elif op == "repartition":
            self.streams.append(self.step(op, named=0.6, **{"from": stream}, **TEXT))
        elif op == "to_table":
            self.tables.append(self.step(op, **{"from": stream}, stored=TEXT))
        else:
            prefix = f"{self.name()}-"
            branches = [{"fn": self.test(), "as": "x"}]
            split = self.step(op, named=0, **{"from": stream}, branches=branches, default={"as": "y"})
            self.steps[-1]["name"] = prefix
            self.streams += [f"{split}:{prefix}x", f"{split}:{prefix}y"]

    def grouped(self, stream):
        if self.chance(0.5):
            return self.step("group_by_key", **{"from": stream}, **TEXT)
        return self.step("group_by", **{"from": stream}, fn=self.key(), **TEXT)

    def window(self):
        kind = self.rnd.choice(["none", "none", "time", "session", "sliding"])
        if kind == "time":
            window = {"type": kind, "size_ms": self.rnd.choice([10, 20])}
            if self.chance(0.4):
                window["advance_ms"] = self.rnd.choice([5, 10])
            return self.grace(window)
        if kind == "session":
            return self.grace({"type": kind, "gap_ms": self.rnd.choice([3, 10])})
        if kind == "sliding":
            return self.grace({"type": kind, "diff_ms": self.rnd.choice([3, 10])})
        return None

    def aggregate(self, stream, _):
        source, window, on_close = self.grouped(stream), self.window(), False
        if window:
            fields = {"from": source, "window": window}
            on_close = "grace_ms" in window and self.chance(0.25)
            if on_close:
                fields["emit"] = "window_close"
            source = self.step("windowed_by", named=0, **fields)
        op = self.rnd.choice(["count", "reduce", "aggregate"])
        fields = {"from": source}
        if op == "reduce":
            fields["fn"] = ["concat", "$agg", "$v"]
        elif op == "aggregate":
            fields |= {"init": "", "fn": ["concat", "$agg", ["str", "$v"]]}
            if window and window["type"] == "session":
                fields["merger"] = ["concat", "$agg1", "$agg2"]
        table = self.step(op, stored=LONG if op == "count" else TEXT, **fields)
        if not window:
            self.tables.append(self.as_text(table) if op == "count" else table)
            return
        if window["type"] != "sliding" and not on_close and self.chance(0.3):
            table = self.step("suppress", named=0, **{"from": table}, until="window_closes")
        key = ["concat", ["wkey", "$k"], "@", ["str", ["wstart", "$k"]]]
        self.streams.append(self.as_text(self.step("to_stream", **{"from": table}, fn=key)))

    def as_text(self, source):
        return self.step("map_values", named=0, **{"from": source}, fn=["str", "$v"])

    def of_table(self, _, table):
        op = self.rnd.choice(["filter", "filter_not", "map_values", "to_stream", "group_by", "suppress"])
        if op in ("filter", "filter_not"):
            self.tables.append(self.step(op, **{"from": table}, fn=self.test(), stored=TEXT, stored_always=False))
        elif op == "map_values":
            self.tables.append(self.step(op, **{"from": table}, fn=["concat", "$v", "~"], stored=TEXT, stored_always=False))
        elif op == "to_stream":
            self.streams.append(self.step(op, **{"from": table}))
        elif op == "suppress":
            fields = {"from": table, "until": {"time_limit_ms": self.rnd.choice([0, 5, 20])}}
            if self.chance(0.4):
                fields |= {"max_records": self.rnd.choice([1, 2]), "when_full": "emit_early"}
            self.tables.append(self.step(op, **fields))
        else:
            key = self.rnd.choice(["$v", ["field", "$v", "-", 0], ["concat", "$k", "#"]])
            grouped = self.step(op, **{"from": table}, fn=["pair", key, "$v"], **TEXT)
            if self.chance(0.5):
                self.tables.append(self.as_text(self.step("count", **{"from": grouped}, stored=LONG)))
            else:
                fold = {"init": "", "fn": ["concat", "$agg", "+", "$v"], "sub": ["concat", "$agg", "-", "$v"]}
                self.tables.append(self.step("aggregate", **{"from": grouped}, stored=TEXT, **fold))

    def join_table(self, stream, table):
        fields = {"from": stream, "with": table, "type": self.rnd.choice(["inner", "left"])}
        self.streams.append(self.step("stream_table_join", fn=["concat", "$v1", "&", "$v2"], other_value="string", **TEXT, **fields))

    def join_streams(self, stream, _):
        window = {"diff_ms": self.rnd.choice([5, 10])}
        if self.chance(0.3):
            window["before_ms"] = self.rnd.choice([0, 3])
        if self.chance(0.3):
            window["after_ms"] = self.rnd.choice([0, 4, 12])
        fields = {"from": stream, "with": self.rnd.choice(self.streams), "type": self.rnd.choice(["inner", "left", "outer"])}
        if self.chance(0.3):
            fields["store_name"] = self.name()
        joined = ["concat", "$v1", "^", "$v2"]
        self.streams.append(self.step("stream_join", fn=joined, window=self.grace(window), other_value="string", **TEXT, **fields))

    def join_tables(self, _, table):
        other = self.rnd.choice([other for other in self.tables if other != table])
        if self.chance(0.6):
            fields = {"from": table, "with": other, "type": self.rnd.choice(["inner", "left", "outer"])}
            self.tables.append(self.step("table_join", fn=["concat", "$v1", "*", "$v2"], stored=TEXT, stored_always=False, **fields))
        else:
            fields = {"from": table, "with": other, "type": self.rnd.choice(["inner", "left"])}
            foreign = self.rnd.choice(["$v", ["field", "$v", "-", 0]])
            self.tables.append(self.step("fk_join", key_fn=foreign, fn=["concat", "$v1", "<", "$v2"], stored=TEXT, stored_always=False, **fields))

    def cogroup(self, stream, _):
        first = self.step("group_by_key", **{"from": stream}, **TEXT)
        second = self.step("group_by_key", **{"from": self.rnd.choice(self.streams)}, **TEXT)
        one = self.step("cogroup", named=0, **{"from": first}, fn=["concat", "$agg", "L", "$v"])
        two = self.step("cogroup", named=0, **{"from": one}, grouped=second, fn=["concat", "$agg", "R", "$v"])
        self.tables.append(self.step("aggregate", **{"from": two}, init="", stored=TEXT))

    def outputs(self):
        ends = self.rnd.sample(self.streams, min(len(self.streams), 3))
        if self.tables:
            ends.append(self.step("to_stream", **{"from": self.rnd.choice(self.tables)}))
        for number, end in enumerate(ends):
            self.step("to", named=0.2, **{"from": end}, topic=f"out{number}", **TEXT)
        return {f"out{number}": TEXT for number in range(len(ends))}

    def records(self):
        now, wild, result = 0, self.chance(0.4), []
        for _ in range(self.rnd.randint(6, 24)):
            now += self.rnd.choice([0, 1, 2, 5, 9, 25])
            late = self.rnd.choice([0, 0, 0, 1, 5, 12, 30]) if wild else 0
            value = self.rnd.choice(["a", "b", "c", "a-b", "b-c", "ab", None] if self.chance(0.5) else ["a", "b", "c"])
            key = self.rnd.choice("abc") if self.chance(0.96) else None
            topic = self.rnd.choice(list(self.inputs))
            result.append({"topic": topic, "key": key, "value": value, "timestamp": max(0, now - late)})
        return result


def topologies(rnd, number):
    for index in range(number):
        topology = Topology(rnd)
        for _ in range(rnd.randint(2, 8)):
            topology.grow()
        outputs, config = topology.outputs(), {}
        if rnd.random() < 0.4:
            config["topology.optimization"] = "all"
        if rnd.random() < 0.15:
            config["statestore.cache.max.bytes"] = "10485760"
        if rnd.random() < 0.1:
            config["dsl.store.type"] = "in_memory"
        stores = [step["mat"]["as"] for step in topology.steps if "as" in step.get("mat", {})]
        yield f"topology-{index}", f"topology/{index}", {
            "family": "topology",
            "about": "generated",
            "config": config,
            "topology": topology.steps,
            "inputs": topology.inputs,
            "outputs": outputs,
            "stores": stores,
            "checks": ["describe", "internal_topics", "store_names"],
            "input": topology.records(),
        }


def main(arguments):
    if len(arguments) < 4 or arguments[0] not in ("inputs", "topologies"):
        sys.exit(__doc__)
    kind, seed, number, folder = arguments[0], int(arguments[1]), int(arguments[2]), Path(arguments[3])
    rnd = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    made = inputs(rnd, number, arguments[4:]) if kind == "inputs" else topologies(rnd, number)
    for file, name, scenario in made:
        text = json.dumps({"name": f"{name}-{seed}", **{k: v for k, v in scenario.items() if k != "name"}}, indent=1)
        (folder / f"{file}-{seed}.json").write_text(text + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
