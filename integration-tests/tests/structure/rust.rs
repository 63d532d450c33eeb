//! Just enough reading of Rust to tell code from comments and text, and to measure functions.

/// A source file in two views of the same shape: what is not code, or not comment, is blanked; lines stay.
pub(crate) struct Views {
    pub(crate) code: String,
    pub(crate) comments: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

pub(crate) fn views(source: &str) -> Views {
    let chars: Vec<char> = source.chars().collect();
    let mut views = Views { code: String::new(), comments: String::new() };
    let mut at = 0;
    while at < chars.len() {
        let (kind, length) = token(&chars, at);
        for &c in &chars[at..at + length] {
            let view = |wanted| if kind == wanted || c == '\n' { c } else { ' ' };
            views.code.push(view(Kind::Code));
            views.comments.push(view(Kind::Comment));
        }
        at += length;
    }
    views
}

/// The kind and length of what starts at `at`. Code is taken one character, or one word, at a time.
fn token(chars: &[char], at: usize) -> (Kind, usize) {
    let rest = &chars[at..];
    let next = rest.get(1).copied();
    match rest[0] {
        '/' if next == Some('/') => {
            (Kind::Comment, rest.iter().position(|&c| c == '\n').unwrap_or(rest.len()))
        }
        '/' if next == Some('*') => (Kind::Comment, block_comment(rest)),
        '"' => (Kind::Literal, quoted(rest, '"')),
        '\'' if next == Some('\\') || rest.get(2) == Some(&'\'') => {
            (Kind::Literal, quoted(rest, '\''))
        }
        c if c.is_alphanumeric() || c == '_' => {
            let word = rest.iter().position(|c| !c.is_alphanumeric() && *c != '_');
            let word = word.unwrap_or(rest.len());
            let raw = matches!(rest[..word], ['r'] | ['b', 'r'] | ['c', 'r']);
            match raw.then(|| raw_string(&rest[word..])).flatten() {
                Some(length) => (Kind::Literal, word + length),
                None => (Kind::Code, word),
            }
        }
        _ => (Kind::Code, 1),
    }
}

fn block_comment(rest: &[char]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        match (rest[at], rest.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn quoted(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// The length of `#*"…"#*`, if a raw string's quotes start here.
fn raw_string(rest: &[char]) -> Option<usize> {
    let hashes = rest.iter().take_while(|&&c| c == '#').count();
    (rest.get(hashes) == Some(&'"')).then_some(())?;
    let mut end = vec!['"'];
    end.resize(hashes + 1, '#');
    let body = &rest[hashes + 1..];
    let length = body.windows(end.len()).position(|window| window == end);
    Some(length.map_or(rest.len(), |length| hashes + 1 + length + end.len()))
}

#[derive(Debug, PartialEq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// The line of its `fn`, counted from 1.
    pub(crate) line: usize,
    /// Lines with code between its braces.
    pub(crate) lines: usize,
}

/// Finds every function that has a body, in the code view of a file.
pub(crate) fn functions(code: &str) -> Vec<Function> {
    let starts = code.match_indices("fn ").map(|(at, _)| at);
    starts.filter_map(|at| function(code, at)).collect()
}

fn function(code: &str, at: usize) -> Option<Function> {
    if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let item = &code[at..];
    let name: String =
        item[3..].trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let mut depth = 0_i32;
    // Brackets too: the `;` of an array type does not end a declaration.
    let mut brackets = 0_i32;
    let (mut start, mut end) = (None, None);
    for (index, c) in item.char_indices() {
        match c {
            '[' | '(' => brackets += 1,
            ']' | ')' => brackets -= 1,
            ';' if depth == 0 && brackets == 0 => return None,
            '{' => {
                depth += 1;
                start.get_or_insert(index + 1);
            }
            '}' => depth -= 1,
            _ => continue,
        }
        if c == '}' && depth == 0 {
            end = Some(index);
            break;
        }
    }
    let lines = item[start?..end?].lines().filter(|line| !line.trim().is_empty()).count();
    Some(Function { name, line: code[..at].matches('\n').count() + 1, lines })
}

#[test]
fn code_comments_and_text_are_told_apart() {
    let source = concat!(
        "let a = \"dbg!( \\\" // no\"; // dbg!(x)\n",
        "/* one /* two */ dbg!( */ let b = r#\"dbg!(\"#;\n",
        "let c = '\"'; let d: &'static str = br\"dbg!(\"; let e = '\\''; dbg!(f);\n",
    );
    let views = views(source);
    assert_eq!(views.code.matches("dbg!(").count(), 1);
    assert!(views.code.lines().nth(2).unwrap().ends_with("dbg!(f);"));
    assert!(views.code.contains("&'static str"));
    assert_eq!(views.comments.matches("dbg!(").count(), 2);
    assert_eq!(views.code.chars().count(), source.chars().count());
    assert_eq!(views.code.lines().count(), 3);
}

#[test]
fn functions_are_measured_in_lines_of_code() {
    let source = "trait T { fn declared(&self) -> [u8; 2]; }\n\nfn short() {}\n\
                  fn long(a: [u8; 4]) {\n    // why\n\n    if true {\n        b();\n    }\n}\ntype F = fn (u8);\n";
    let function = |name: &str, line, lines| Function { name: name.to_owned(), line, lines };
    assert_eq!(functions(&views(source).code), [function("short", 3, 0), function("long", 4, 3)]);
}
