//! The expression language in which scenarios write their functions.

use std::borrow::Cow;

use serde_json::Value as Json;

use super::builtin::{Builtin, builtin, hosted_arity};
use super::{Fault, Value};

/// A parsed expression.
#[derive(Debug, Clone)]
pub struct Expr(Node);

#[derive(Debug, Clone)]
enum Node {
    Literal(Value),
    Variable(String),
    If(Box<[Node; 3]>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Each(Box<[Node; 2]>),
    Call(&'static Builtin, Vec<Node>),
    Hosted(String, Vec<Node>),
}

/// Runs the operators that need a processor or a store.
pub trait Host {
    /// Runs `operator`.
    ///
    /// # Errors
    /// Whatever the operator fails with; a faulty scenario when it is not available here.
    fn call(&mut self, operator: &str, args: &[Value]) -> Result<Value, Fault>;
}

/// The host of a plain function: it has no such operators.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHost;

impl Host for NoHost {
    fn call(&mut self, operator: &str, _: &[Value]) -> Result<Value, Fault> {
        Err(Fault::scenario(format!("operator `{operator}` is not available in a plain function")))
    }
}

/// The variables of an evaluation.
#[derive(Debug, Clone, Default)]
pub struct Env(Vec<(Cow<'static, str>, Value)>);

impl Env {
    /// An environment with these variables.
    pub fn of<const N: usize>(variables: [(&'static str, Value); N]) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }

    /// Sets a variable, new or not.
    pub fn set(&mut self, name: &str, value: Value) {
        match self.0.iter_mut().rfind(|(n, _)| n == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((Cow::Owned(name.to_owned()), value)),
        }
    }

    /// Reads a variable.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().rfind(|(n, _)| n == name).map(|(_, value)| value)
    }
}

impl Expr {
    /// Parses an expression; unknown operators and wrong numbers of arguments are found here.
    ///
    /// # Errors
    /// A faulty scenario.
    pub fn parse(json: &Json) -> Result<Self, Fault> {
        parse(json).map(Self)
    }

    /// Evaluates it.
    ///
    /// # Errors
    /// What an operator fails with, or a faulty scenario for an unbound variable.
    pub fn eval(&self, env: &mut Env, host: &mut dyn Host) -> Result<Value, Fault> {
        eval(&self.0, env, host)
    }

    /// Evaluates a plain function of these variables.
    ///
    /// # Errors
    /// As [`eval`](Self::eval).
    pub fn apply<const N: usize>(
        &self,
        variables: [(&'static str, Value); N],
    ) -> Result<Value, Fault> {
        self.eval(&mut Env::of(variables), &mut NoHost)
    }
}

fn parse(json: &Json) -> Result<Node, Fault> {
    let items = match json {
        Json::String(s) if s.starts_with('$') => return Ok(Node::Variable(s[1..].to_owned())),
        Json::Array(items) => items,
        Json::Object(_) => return Err(Fault::scenario(format!("no expression: {json}"))),
        literal => return Value::from_json(literal).map(Node::Literal),
    };
    let Some((Json::String(name), args)) = items.split_first() else {
        return Err(Fault::scenario(format!("an expression starts with its operator: {json}")));
    };
    let args = args.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let wrong =
        |n| Fault::scenario(format!("operator `{name}` does not take {n} arguments: {json}"));
    match name.as_str() {
        "if" => {
            <[Node; 3]>::try_from(args).map(|a| Node::If(Box::new(a))).map_err(|a| wrong(a.len()))
        }
        "each" => {
            <[Node; 2]>::try_from(args).map(|a| Node::Each(Box::new(a))).map_err(|a| wrong(a.len()))
        }
        "and" => Ok(Node::And(args)),
        "or" => Ok(Node::Or(args)),
        _ => {
            let found = builtin(name);
            let arity = found.map(|b| &b.arity).or_else(|| hosted_arity(name));
            let arity = arity
                .ok_or_else(|| Fault::scenario(format!("unknown operator `{name}`: {json}")))?;
            if !arity.contains(&args.len()) {
                return Err(wrong(args.len()));
            }
            Ok(match found {
                Some(builtin) => Node::Call(builtin, args),
                None => Node::Hosted(name.clone(), args),
            })
        }
    }
}

fn eval(node: &Node, env: &mut Env, host: &mut dyn Host) -> Result<Value, Fault> {
    match node {
        Node::Literal(value) => Ok(value.clone()),
        Node::Variable(name) => env
            .get(name)
            .cloned()
            .ok_or_else(|| Fault::scenario(format!("unbound variable `${name}`"))),
        Node::If(parts) => {
            let [condition, yes, no] = &**parts;
            let chosen = if eval(condition, env, host)?.as_bool()? { yes } else { no };
            eval(chosen, env, host)
        }
        Node::And(parts) => until(false, parts, env, host),
        Node::Or(parts) => until(true, parts, env, host),
        Node::Each(parts) => {
            let [items, body] = &**parts;
            let items = eval(items, env, host)?;
            let outer = env.0.len();
            let mut out = Vec::new();
            for item in items.as_list()? {
                env.0.push(("it".into(), item.clone()));
                let result = eval(body, env, host);
                env.0.truncate(outer);
                out.push(result?);
            }
            Ok(Value::from_iter(out))
        }
        Node::Call(builtin, args) => (builtin.run)(&all(args, env, host)?),
        Node::Hosted(name, args) => {
            let args = all(args, env, host)?;
            host.call(name, &args)
        }
    }
}

/// Evaluates until one is `stop`; that ends `and` with false and `or` with true.
fn until(stop: bool, parts: &[Node], env: &mut Env, host: &mut dyn Host) -> Result<Value, Fault> {
    for part in parts {
        if eval(part, env, host)?.as_bool()? == stop {
            return Ok(stop.into());
        }
    }
    Ok((!stop).into())
}

fn all(args: &[Node], env: &mut Env, host: &mut dyn Host) -> Result<Vec<Value>, Fault> {
    args.iter().map(|arg| eval(arg, env, host)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::conformance::FaultKind;
    use serde_json::json;

    fn run(expr: Json) -> Result<Value, Fault> {
        let win = Value::win("k".into(), 0, 10);
        let variables =
            [("v", "a b  c".into()), ("n", 7.into()), ("none", Value::Null), ("w", win)];
        Expr::parse(&expr)?.apply(variables)
    }

    fn check(cases: Vec<(Json, Json)>) {
        for (expr, expected) in cases {
            let got = run(expr.clone()).unwrap_or_else(|e| panic!("{expr}: {e}"));
            assert_eq!(got.to_json(), expected, "{expr}");
        }
    }

    #[test]
    fn text_operators_follow_the_table() {
        check(vec![
            (json!("plain"), json!("plain")),
            (json!("$v"), json!("a b  c")),
            (json!(["concat", "x", 1, null, true, "$w"]), json!("x1nulltrue[k@0/10]")),
            (json!(["concat"]), json!("")),
            (json!(["upper", "aß"]), json!("ASS")),
            (json!(["lower", "AB"]), json!("ab")),
            (json!(["len", "ä😀"]), json!(3)),
            (json!(["starts", "$v", "a "]), json!(true)),
            (json!(["contains", "$v", "x"]), json!(false)),
            (json!(["words", "$v"]), json!(["a", "b", "c"])),
            (json!(["field", "a,b,c", ",", 1]), json!("b")),
            (json!(["field", "a,b,c", ",", 2]), json!("c")),
            (json!(["field", "a,b,c", ",", 3]), json!(null)),
            (json!(["field", "a::b", "::", 0]), json!("a")),
            (json!(["field", "$none", ",", 0]), json!(null)),
        ]);
    }

    #[test]
    fn numbers_stay_integers_until_a_double_joins() {
        check(vec![
            (json!(["add", 1, 2]), json!(3)),
            (json!(["add", 1, 2.0]), json!(3.0)),
            (json!(["add", i64::MAX, 1]), json!(i64::MIN)),
            (json!(["sub", 1, 2]), json!(-1)),
            (json!(["mul", 0.5, 3]), json!(1.5)),
            (json!(["min", 3, 2]), json!(2)),
            (json!(["max", 3, 2.5]), json!(3.0)),
            (json!(["mod", -7, 3]), json!(-1)),
            (json!(["mod", -7.5, 2]), json!(-1.5)),
            (json!(["mod", i64::MIN, -1]), json!(0)),
            (json!(["num", "-12"]), json!(-12)),
            (json!(["dbl", " 1.5e1 "]), json!(15.0)),
            (json!(["dbl", 2]), json!(2.0)),
            (json!(["dbl", "-Infinity"]), json!("-Infinity")),
        ]);
    }

    #[test]
    fn comparisons_and_logic_stop_early_and_know_null() {
        check(vec![
            (json!(["eq", null, "$none"]), json!(true)),
            (json!(["eq", 1, 1.0]), json!(false)),
            (json!(["ne", "a", null]), json!(true)),
            (json!(["lt", 1, 1.5]), json!(true)),
            (json!(["lt", "\u{ffff}", "😀"]), json!(false)),
            (json!(["ge", "b", "a"]), json!(true)),
            (json!(["le", 2, 1]), json!(false)),
            (json!(["gt", 2, 1]), json!(true)),
            (json!(["not", false]), json!(true)),
            (json!(["and", false, ["fail", "late"]]), json!(false)),
            (json!(["or", true, ["fail", "late"]]), json!(true)),
            (json!(["and"]), json!(true)),
            (json!(["or", false]), json!(false)),
            (json!(["if", true, 1, ["fail", "other"]]), json!(1)),
            (json!(["isnull", "$none"]), json!(true)),
            (json!(["coalesce", null, null, 3, ["str", 4]]), json!(3)),
            (json!(["coalesce", null]), json!(null)),
        ]);
    }

    #[test]
    fn structures_are_built_and_taken_apart() {
        check(vec![
            (json!(["size", ["list", 1, null]]), json!(2)),
            (json!(["first", ["pair", 1, 2]]), json!(1)),
            (json!(["second", ["pair", 1, 2]]), json!(2)),
            (json!(["each", ["words", "$v"], ["concat", "$it", "$n"]]), json!(["a7", "b7", "c7"])),
            (
                json!([
                    "each",
                    ["list", ["list", 1], ["list", 2, 3]],
                    ["each", "$it", ["add", "$it", 1]]
                ]),
                json!([[2], [3, 4]]),
            ),
            (json!(["wkey", "$w"]), json!("k")),
            (json!(["wstart", "$w"]), json!(0)),
            (json!(["wend", "$w"]), json!(10)),
        ]);
    }

    #[test]
    fn failures_have_the_kind_of_the_reference() {
        use FaultKind::*;
        let cases = [
            (json!(["fail", "no"]), IllegalState),
            (json!(["upper", "$none"]), NullPointer),
            (json!(["upper", 1]), ClassCast),
            (json!(["starts", "a", null]), NullPointer),
            (json!(["add", 1, "$none"]), NullPointer),
            (json!(["add", 1, "2"]), ClassCast),
            (json!(["mod", 1, 0]), Arithmetic),
            (json!(["lt", null, 1]), NullPointer),
            (json!(["lt", "a", 1]), ClassCast),
            (json!(["lt", "$w", "$w"]), ClassCast),
            (json!(["if", null, 1, 2]), NullPointer),
            (json!(["not", "x"]), ClassCast),
            (json!(["num", "1.0"]), NumberFormat),
            (json!(["num", ""]), NumberFormat),
            (json!(["dbl", "nan"]), NumberFormat),
            (json!(["field", "a", null, 0]), NullPointer),
            (json!(["each", null, 1]), NullPointer),
            (json!(["wkey", "k"]), ClassCast),
            (json!("$nowhere"), Scenario),
            (json!(["get", "store", "k"]), Scenario),
            (json!(["frobnicate", 1]), Scenario),
            (json!(["upper"]), Scenario),
            (json!(["if", true]), Scenario),
            (json!({"a": 1}), Scenario),
            (json!([]), Scenario),
        ];
        for (expr, kind) in cases {
            assert_eq!(run(expr.clone()).unwrap_err().kind, kind, "{expr}");
        }
    }

    #[test]
    fn the_host_gets_the_evaluated_arguments() {
        struct Echo;
        impl Host for Echo {
            fn call(&mut self, operator: &str, args: &[Value]) -> Result<Value, Fault> {
                Ok(format!("{operator}{}", args.iter().cloned().collect::<Value>()).into())
            }
        }
        let expr = Expr::parse(&json!(["put", "s", "$k", ["add", 1, 2]])).unwrap();
        let got = expr.eval(&mut Env::of([("k", "a".into())]), &mut Echo).unwrap();
        assert_eq!(got, "put[s,a,3]".into());
    }

    #[test]
    fn each_leaves_an_outer_variable_of_the_same_name_alone() {
        let mut env = Env::default();
        env.set("it", "outer".into());
        let expr = Expr::parse(&json!(["concat", ["each", ["list", 1], "$it"], "$it"])).unwrap();
        assert_eq!(expr.eval(&mut env, &mut NoHost).unwrap(), "[1]outer".into());
    }
}
