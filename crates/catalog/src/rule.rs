//! Rules: what PostgreSQL would make of a change before it runs.

/// A rule about changes of a table or view; what a view shows is none.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Rule {
    pub name: String,
    pub event: RuleEvent,
    pub state: RuleState,
    /// `pg_get_ruledef`, all names with their schemas.
    pub definition: String,
}

/// What a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum RuleEvent {
    Insert,
    Update,
    Delete,
}

impl RuleEvent {
    /// Its bit in `pg_trigger.tgtype`.
    pub fn bit(self) -> i16 {
        match self {
            Self::Insert => 4,
            Self::Update => 16,
            Self::Delete => 8,
        }
    }

    /// As in `ON INSERT`, and in command tags.
    pub fn name(self) -> &'static str {
        match self {
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// The side that rewrites statements by a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleState {
    /// No side.
    Disabled,
    /// The coordinator. On tables such a rule is one for replicas, which no datanode is, so that none of them rewrites what it is
    /// sent once more.
    Enabled,
    /// The datanodes: nobody told the coordinator when the rule was made.
    OnNodes,
}
