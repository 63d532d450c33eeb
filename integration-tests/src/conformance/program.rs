//! The small programs that processors of a scenario are.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{Env, Expr, Fault, FaultKind, HeaderList, Host, Section, Value};

/// Statements in order.
pub type Block = Vec<Statement>;

/// What a processor does.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// For every record.
    pub on_record: Block,
    /// Scheduled when the processor is initialized.
    pub punctuators: Vec<Arc<Punctuator>>,
}

/// A scheduled block.
#[derive(Debug, Clone)]
pub struct Punctuator {
    /// The name by which `cancel` knows it.
    pub name: String,
    /// On which time.
    pub time: TimeKind,
    /// How often.
    pub interval_ms: i64,
    /// When first; absent: one interval from now.
    pub start_ms: Option<i64>,
    /// What it does.
    pub body: Block,
}

/// The time a punctuator runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeKind {
    /// The highest timestamp seen.
    Stream,
    /// The (mock) clock on the wall.
    WallClock,
}

/// A statement.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Statement {
    /// Sends a record downstream.
    Forward(Forward),
    /// Sets a variable.
    Let(String, Expr),
    /// Evaluates for the effect.
    Do(Expr),
    /// Runs a block for each element, bound to `$it`.
    ForEach(Expr, Block),
    /// Runs one of two blocks.
    If(Expr, Block, Block),
    /// Adds a header.
    AddHeader(String, Expr),
    /// Removes all headers of a name.
    RemoveHeader(String),
    /// Schedules a punctuator.
    Schedule(Arc<Punctuator>),
    /// Cancels one.
    Cancel(String),
    /// Asks for a commit.
    Commit,
}

/// What a forwarded record replaces.
#[derive(Debug, Clone)]
pub struct Forward {
    /// The key; absent: the record's.
    pub key: Option<Expr>,
    /// The value; absent: the record's.
    pub value: Option<Expr>,
    /// The timestamp; absent: the record's, or the time of the punctuation.
    pub timestamp: Option<Expr>,
    /// The only child that gets it; absent: all.
    pub child: Option<String>,
}

/// A record on its way out of a processor.
#[derive(Debug, Clone, PartialEq)]
pub struct Outgoing<'a> {
    /// The key.
    pub key: Value,
    /// The value.
    pub value: Value,
    /// The timestamp.
    pub timestamp_ms: i64,
    /// The current headers.
    pub headers: &'a HeaderList,
    /// The only child that gets it, if not all.
    pub child: Option<&'a str>,
}

/// What a program runs on: the context of its processor.
pub trait Port {
    /// How the processor fails.
    type Error: From<Fault>;

    /// Sends a record downstream.
    ///
    /// # Errors
    /// When a node downstream fails, or there is no such child.
    fn forward(&mut self, outgoing: Outgoing<'_>) -> Result<(), Self::Error>;

    /// Schedules a punctuator.
    ///
    /// # Errors
    /// When the interval is not positive.
    fn schedule(&mut self, punctuator: &Arc<Punctuator>) -> Result<(), Self::Error>;

    /// Cancels a punctuator.
    ///
    /// # Errors
    /// When none of that name was scheduled.
    fn cancel(&mut self, name: &str) -> Result<(), Self::Error>;

    /// Asks for a commit.
    fn commit(&mut self);

    /// Runs an operator that needs the context or a store; stores that keep headers put the current ones.
    ///
    /// # Errors
    /// What the operator fails with.
    fn operator(
        &mut self,
        name: &str,
        args: &[Value],
        headers: &HeaderList,
    ) -> Result<Value, Fault>;
}

impl Program {
    /// Parses a program.
    ///
    /// # Errors
    /// A faulty scenario.
    pub fn parse(section: &Section) -> Result<Self, Fault> {
        let punctuators = section.sections("punctuators")?;
        Ok(Self {
            on_record: block(section, "on_record")?,
            punctuators: punctuators.iter().map(punctuator).collect::<Result<_, _>>()?,
        })
    }

    /// Runs the program for a record.
    ///
    /// # Errors
    /// When a statement fails.
    pub fn run<P: Port>(
        &self,
        port: &mut P,
        key: Value,
        value: Value,
        timestamp_ms: i64,
        headers: HeaderList,
    ) -> Result<(), P::Error> {
        let env = Env::of([("k", key), ("v", value), ("ts", timestamp_ms.into())]);
        Call { port, env, headers }.block(&self.on_record)
    }
}

impl Punctuator {
    /// Runs the punctuator.
    ///
    /// # Errors
    /// When a statement fails.
    pub fn run<P: Port>(&self, port: &mut P, now_ms: i64) -> Result<(), P::Error> {
        let env = Env::of([("now", now_ms.into())]);
        Call { port, env, headers: HeaderList::default() }.block(&self.body)
    }
}

fn block(section: &Section, field: &str) -> Result<Block, Fault> {
    section.sections(field)?.iter().map(statement).collect()
}

fn punctuator(section: &Section) -> Result<Arc<Punctuator>, Fault> {
    Ok(Arc::new(Punctuator {
        name: section.text("name")?.to_owned(),
        time: match section.text("type")? {
            "stream_time" => TimeKind::Stream,
            "wall_clock" => TimeKind::WallClock,
            other => {
                return Err(Fault::scenario(format!("unknown time `{other}` of a punctuator")));
            }
        },
        interval_ms: section.int("interval_ms")?,
        start_ms: section.int_opt("start_ms")?,
        body: block(section, "do")?,
    }))
}

fn statement(s: &Section) -> Result<Statement, Fault> {
    let kinds = [
        "forward",
        "let",
        "for_each",
        "do",
        "if",
        "add_header",
        "remove_header",
        "schedule",
        "cancel",
        "commit",
    ];
    Ok(match kinds.into_iter().find(|kind| s.has(kind)) {
        Some("forward") => {
            let parts = s.section("forward")?;
            Statement::Forward(Forward {
                key: parts.expr_opt("key")?,
                value: parts.expr_opt("value")?,
                timestamp: parts.expr_opt("timestamp")?,
                child: parts.text_opt("child")?.map(str::to_owned),
            })
        }
        Some("let") => Statement::Let(s.text("let")?.to_owned(), s.expr("be")?),
        Some("for_each") => Statement::ForEach(s.expr("for_each")?, block(s, "do")?),
        Some("do") => Statement::Do(s.expr("do")?),
        Some("if") => Statement::If(s.expr("if")?, block(s, "then")?, block(s, "else")?),
        Some("add_header") => {
            match s.json("add_header").and_then(Json::as_array).map(Vec::as_slice) {
                Some([Json::String(name), value]) => {
                    Statement::AddHeader(name.clone(), Expr::parse(value)?)
                }
                _ => {
                    return Err(Fault::scenario(
                        "`add_header` is a list of a name and an expression",
                    ));
                }
            }
        }
        Some("remove_header") => Statement::RemoveHeader(s.text("remove_header")?.to_owned()),
        Some("schedule") => Statement::Schedule(punctuator(&s.section("schedule")?)?),
        Some("cancel") => Statement::Cancel(s.text("cancel")?.to_owned()),
        Some("commit") => Statement::Commit,
        _ => return Err(Fault::scenario(format!("unknown statement {s:?}"))),
    })
}

/// One call of a program.
struct Call<'p, P> {
    port: &'p mut P,
    env: Env,
    headers: HeaderList,
}

/// The operators a statement may use: those of the headers here, all others in the port.
struct CallHost<'c, P> {
    port: &'c mut P,
    headers: &'c HeaderList,
}

impl<P: Port> Host for CallHost<'_, P> {
    fn call(&mut self, operator: &str, args: &[Value]) -> Result<Value, Fault> {
        match operator {
            "header" => Ok(self.headers.last_text(args[0].as_str()?)),
            _ => self.port.operator(operator, args, self.headers),
        }
    }
}

impl<P: Port> Call<'_, P> {
    fn eval(&mut self, expr: &Expr) -> Result<Value, Fault> {
        expr.eval(&mut self.env, &mut CallHost { port: self.port, headers: &self.headers })
    }

    fn block(&mut self, block: &[Statement]) -> Result<(), P::Error> {
        block.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), P::Error> {
        match statement {
            Statement::Forward(forward) => return self.forward(forward),
            Statement::Let(name, expr) => {
                let value = self.eval(expr)?;
                self.env.set(name, value);
            }
            Statement::Do(expr) => {
                self.eval(expr)?;
            }
            Statement::ForEach(items, body) => {
                for item in self.eval(items)?.as_list()? {
                    self.env.set("it", item.clone());
                    self.block(body)?;
                }
            }
            Statement::If(condition, yes, no) => {
                let chosen = if self.eval(condition)?.as_bool()? { yes } else { no };
                return self.block(chosen);
            }
            Statement::AddHeader(name, expr) => {
                let value = match self.eval(expr)? {
                    Value::Null => None,
                    value => Some(value.as_str()?.as_bytes().to_vec()),
                };
                self.headers.add(name, value);
            }
            Statement::RemoveHeader(name) => self.headers.remove(name),
            Statement::Schedule(punctuator) => return self.port.schedule(punctuator),
            Statement::Cancel(name) => return self.port.cancel(name),
            Statement::Commit => self.port.commit(),
        }
        Ok(())
    }

    fn forward(&mut self, forward: &Forward) -> Result<(), P::Error> {
        let key = self.part(forward.key.as_ref(), "k")?;
        let value = self.part(forward.value.as_ref(), "v")?;
        let time = if self.env.get("ts").is_some() { "ts" } else { "now" };
        let timestamp = self.part(forward.timestamp.as_ref(), time)?;
        let timestamp_ms = match timestamp {
            Value::Null => {
                return Err(
                    Fault::new(FaultKind::NullPointer, "null as a timestamp to forward").into()
                );
            }
            timestamp => timestamp.as_int()?,
        };
        let child = forward.child.as_deref();
        self.port.forward(Outgoing { key, value, timestamp_ms, headers: &self.headers, child })
    }

    /// What the statement says, or else the variable; a punctuation has no record to take it from.
    fn part(&mut self, expr: Option<&Expr>, variable: &str) -> Result<Value, Fault> {
        match expr {
            Some(expr) => self.eval(expr),
            None => Ok(self.env.get(variable).cloned().unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use serde_json::json;

    /// Writes down everything.
    #[derive(Default)]
    struct Log(Vec<String>);

    impl Port for Log {
        type Error = Fault;

        fn forward(&mut self, o: Outgoing<'_>) -> Result<(), Fault> {
            let names: Vec<_> = o.headers.iter().map(|(name, _)| name).collect();
            self.0
                .push(format!("{} {} {} {names:?} {:?}", o.key, o.value, o.timestamp_ms, o.child));
            Ok(())
        }

        fn schedule(&mut self, p: &Arc<Punctuator>) -> Result<(), Fault> {
            self.0.push(format!("schedule {} {:?} {}", p.name, p.time, p.interval_ms));
            Ok(())
        }

        fn cancel(&mut self, name: &str) -> Result<(), Fault> {
            self.0.push(format!("cancel {name}"));
            Ok(())
        }

        fn commit(&mut self) {
            self.0.push("commit".into());
        }

        fn operator(&mut self, name: &str, args: &[Value], _: &HeaderList) -> Result<Value, Fault> {
            self.0.push(format!("{name} {}", args.iter().cloned().collect::<Value>()));
            Ok(5.into())
        }
    }

    fn program(json: Json) -> Result<Program, Fault> {
        Program::parse(&Section::of(&json)?)
    }

    fn run(on_record: Json) -> Result<Vec<String>, Fault> {
        let mut log = Log::default();
        let headers = HeaderList::from_iter([("h", Some(b"x".to_vec()))]);
        program(json!({"on_record": on_record}))?.run(
            &mut log,
            "a".into(),
            1.into(),
            7,
            headers,
        )?;
        Ok(log.0)
    }

    #[test]
    fn a_forward_defaults_to_the_parts_of_the_record() {
        assert_eq!(run(json!([{"forward": {}}])).unwrap(), [r#"a 1 7 ["h"] None"#]);
        let replaced =
            run(json!([{"forward": {"key": null, "value": "$ts", "timestamp": 9, "child": "c"}}]));
        assert_eq!(replaced.unwrap(), [r#"null 7 9 ["h"] Some("c")"#]);
    }

    #[test]
    fn variables_conditions_and_loops_work_on_one_call() {
        let log = run(json!([
            {"let": "x", "be": ["get", "s", "$k"]},
            {"if": ["gt", "$x", 4], "then": [{"forward": {"value": "$x"}}], "else": [{"commit": true}]},
            {"if": false, "then": [{"commit": true}]},
            {"for_each": ["list", 1, 2], "do": [{"do": ["put", "s", "$k", "$it"]}]}
        ]));
        assert_eq!(
            log.unwrap(),
            ["get [s,a]", r#"a 5 7 ["h"] None"#, "put [s,a,1]", "put [s,a,2]"]
        );
    }

    #[test]
    fn headers_are_a_private_copy_that_statements_change() {
        let log = run(json!([
            {"add_header": ["i", ["header", "h"]]},
            {"add_header": ["n", null]},
            {"forward": {"value": ["header", "i"]}},
            {"remove_header": "h"},
            {"forward": {"value": ["header", "h"]}}
        ]));
        assert_eq!(log.unwrap(), [r#"a x 7 ["h", "i", "n"] None"#, r#"a null 7 ["i", "n"] None"#]);
    }

    #[test]
    fn a_punctuation_has_its_time_and_no_record() {
        let program = program(json!({"punctuators": [
            {"name": "p", "type": "wall_clock", "interval_ms": 10, "do": [
                {"forward": {"key": "k", "value": "$now"}},
                {"schedule": {"name": "q", "type": "stream_time", "interval_ms": 1, "start_ms": 3, "do": []}},
                {"cancel": "p"}
            ]}
        ]}));
        let program = program.unwrap();
        let mut log = Log::default();
        program.punctuators[0].run(&mut log, 30).unwrap();
        assert_eq!(log.0, ["k 30 30 [] None", "schedule q Stream 1", "cancel p"]);
    }

    #[test]
    fn faults_stop_the_program_and_unknown_statements_are_found_when_parsing() {
        assert_eq!(run(json!([{"do": ["fail", "x"]}])).unwrap_err().kind, FaultKind::IllegalState);
        let null_time = run(json!([{"forward": {"timestamp": null}}]));
        assert_eq!(null_time.unwrap_err().kind, FaultKind::NullPointer);
        assert_eq!(run(json!([{"jump": 1}])).unwrap_err().kind, FaultKind::Scenario);
        assert_eq!(run(json!([{"add_header": "x"}])).unwrap_err().kind, FaultKind::Scenario);
    }
}
