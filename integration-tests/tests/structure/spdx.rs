//! Licence expressions: `MIT OR Apache-2.0`, `(MIT OR Zlib) AND Unicode-3.0`, and the old `MIT/Apache-2.0`.

/// Tells whether a licence expression can be satisfied with the allowed licences alone.
pub(crate) fn satisfied(expression: &str, allowed: &[&str]) -> Result<bool, String> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { tokens: &tokens, allowed };
    let result = parser.any().ok_or_else(|| format!("cannot read licence '{expression}'"))?;
    if parser.tokens.is_empty() {
        Ok(result)
    } else {
        Err(format!("trailing text in '{expression}'"))
    }
}

struct Parser<'a> {
    tokens: &'a [&'a str],
    allowed: &'a [&'a str],
}

impl<'a> Parser<'a> {
    fn any(&mut self) -> Option<bool> {
        let mut result = self.all()?;
        while self.take("OR") {
            result |= self.all()?;
        }
        Some(result)
    }

    fn all(&mut self) -> Option<bool> {
        let mut result = self.one()?;
        while self.take("AND") {
            result &= self.one()?;
        }
        Some(result)
    }

    fn one(&mut self) -> Option<bool> {
        let first = self.next()?;
        if first == "(" {
            let inner = self.any()?;
            return self.take(")").then_some(inner);
        }
        if matches!(first, ")" | "AND" | "OR" | "WITH") {
            return None;
        }
        if self.take("WITH") {
            let exception = self.next()?;
            return Some(self.allowed.contains(&format!("{first} WITH {exception}").as_str()));
        }
        Some(self.allowed.contains(&first))
    }

    fn next(&mut self) -> Option<&'a str> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.tokens.first() == Some(&word);
        if found {
            self.tokens = &self.tokens[1..];
        }
        found
    }
}

#[test]
fn licence_expressions_are_read_with_and_binding_tighter() {
    let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"];
    let cases = [
        ("MIT", Ok(true)),
        ("GPL-3.0", Ok(false)),
        ("MIT/Apache-2.0", Ok(true)),
        ("GPL-3.0 OR MIT", Ok(true)),
        ("MIT AND GPL-3.0", Ok(false)),
        ("GPL-3.0 AND GPL-2.0 OR MIT", Ok(true)),
        ("(GPL-3.0 OR MIT) AND GPL-2.0", Ok(false)),
        ("(MIT OR GPL-3.0) AND Apache-2.0", Ok(true)),
        ("Apache-2.0 WITH LLVM-exception", Ok(true)),
        ("MIT WITH LLVM-exception", Ok(false)),
        ("MIT Apache-2.0", Err(())),
        ("(MIT", Err(())),
        ("MIT OR", Err(())),
        ("", Err(())),
    ];
    for (expression, expected) in cases {
        assert_eq!(satisfied(expression, &allowed).map_err(drop), expected, "{expression}");
    }
}
