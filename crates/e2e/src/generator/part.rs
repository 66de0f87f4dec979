//! A statement as a tree of text, of which parts can be left out or made simpler: that is all that shrinking needs to know.

use super::kind::Kind;

/// A piece of a statement.
#[derive(Clone, Debug)]
pub enum Part {
    /// Words.
    Text(String),
    /// A constant: the n-th value of its kind.
    Value(Kind, usize),
    /// A constant without its type, which is that of what it is compared with or put into.
    Untyped(Kind, usize),
    /// One after the other.
    Seq(Vec<Part>),
    /// May be left out.
    Optional(Box<Part>),
    /// Stays as it is.
    Fixed(Box<Part>),
    /// Items of which `least` must stay.
    List {
        /// What it lists.
        items: Vec<Part>,
        /// Stands between two.
        separator: &'static str,
        /// How many must stay.
        least: usize,
    },
    /// The first, for which any of the others could stand.
    OneOf(Box<Part>, Vec<Part>),
}

/// How constants are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constants {
    /// As literals.
    Inline,
    /// As `$1`, `$2`, … whose values come beside the text.
    Parameters,
}

/// A rendered statement.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// Its text.
    pub text: String,
    /// Values of its parameters.
    pub parameters: Vec<String>,
    /// Their types.
    pub types: Vec<&'static str>,
}

impl From<&str> for Part {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Part {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// Parts one after the other.
macro_rules! seq {
    ($($part:expr),* $(,)?) => { $crate::generator::part::Part::Seq(vec![$($crate::generator::part::Part::from($part)),*]) };
}
pub(crate) use seq;

impl Part {
    /// A list with commas.
    pub fn list(items: Vec<Part>) -> Self {
        Self::List { items, separator: ", ", least: 1 }
    }

    /// Something that may be left out.
    pub fn optional(part: impl Into<Part>) -> Self {
        Self::Optional(Box::new(part.into()))
    }

    /// Something for which simpler things may stand.
    pub fn or(self, simpler: Vec<Part>) -> Self {
        Self::OneOf(Box::new(self), simpler)
    }

    /// The statement's text. `turn` shifts every constant to another of its kind: the same shape, other values.
    pub fn render(&self, constants: Constants, turn: usize) -> Rendered {
        let mut rendered = Rendered::default();
        self.render_into(constants, turn, &mut rendered);
        rendered
    }

    fn render_into(&self, constants: Constants, turn: usize, out: &mut Rendered) {
        match self {
            Self::Text(text) => out.text.push_str(text),
            Self::Value(kind, index) => match constants {
                Constants::Inline => out.text.push_str(&kind.literal(index + turn)),
                Constants::Parameters => {
                    out.parameters.push(kind.value(index + turn).to_owned());
                    out.types.push(kind.type_name());
                    out.text.push_str(&format!("${}::{}", out.parameters.len(), kind.type_name()));
                }
            },
            Self::Untyped(kind, index) => match constants {
                Constants::Inline => out.text.push_str(&format!("'{}'", kind.value(index + turn))),
                Constants::Parameters => {
                    out.parameters.push(kind.value(index + turn).to_owned());
                    out.types.push(kind.type_name());
                    out.text.push_str(&format!("${}", out.parameters.len()));
                }
            },
            Self::Seq(parts) => parts.iter().for_each(|part| part.render_into(constants, turn, out)),
            Self::Optional(part) | Self::Fixed(part) | Self::OneOf(part, _) => part.render_into(constants, turn, out),
            Self::List { items, separator, .. } => {
                for (number, item) in items.iter().enumerate() {
                    out.text.push_str(if number > 0 { separator } else { "" });
                    item.render_into(constants, turn, out);
                }
            }
        }
    }

    /// Everything this could be with one thing left out or made simpler, the largest cuts first.
    pub fn simpler(&self) -> Vec<Part> {
        match self {
            Self::Text(_) | Self::Value(..) | Self::Untyped(..) | Self::Fixed(_) => Vec::new(),
            Self::Seq(parts) => inside(parts, Self::Seq),
            Self::Optional(part) => {
                let mut all = vec![Self::Seq(Vec::new())];
                all.extend(part.simpler().into_iter().map(Self::optional));
                all
            }
            Self::List { items, separator, least } => {
                let (separator, least) = (*separator, *least);
                let list = |items| Self::List { items, separator, least };
                let mut all = Vec::new();
                if items.len() > least {
                    for number in 0..items.len() {
                        let mut fewer = items.clone();
                        fewer.remove(number);
                        all.push(list(fewer));
                    }
                }
                all.extend(inside(items, list));
                all
            }
            Self::OneOf(part, others) => {
                let mut all = others.clone();
                all.extend(part.simpler().into_iter().map(|part| part.or(others.clone())));
                all
            }
        }
    }
}

/// The parts with any one of them made simpler.
fn inside(parts: &[Part], whole: impl Fn(Vec<Part>) -> Part) -> Vec<Part> {
    let mut all = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        for simpler in part.simpler() {
            let mut changed = parts.to_vec();
            changed[number] = simpler;
            all.push(whole(changed));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_may_go_goes() {
        let part = seq![
            "SELECT ",
            Part::list(vec!["a".into(), "b".into()]),
            Part::optional(seq![" WHERE ", Part::from("c").or(vec!["true".into()])])
        ];
        let texts: Vec<String> = part.simpler().iter().map(|part| part.render(Constants::Inline, 0).text).collect();
        assert_eq!(texts, ["SELECT b WHERE c", "SELECT a WHERE c", "SELECT a, b", "SELECT a, b WHERE true"]);
    }

    #[test]
    fn constants_become_parameters() {
        let part = seq!["SELECT ", Part::Value(Kind::Int, 0), " + ", Part::Value(Kind::Int, 1)];
        let rendered = part.render(Constants::Parameters, 1);
        assert_eq!(rendered.text, "SELECT $1::int4 + $2::int4");
        assert_eq!(rendered.parameters, [Kind::Int.value(1), Kind::Int.value(2)]);
    }
}
