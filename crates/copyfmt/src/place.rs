//! A row's key → its destination.

use pgerror::{PgError, Result};
use placement::{BUCKETS, BucketMap, KeyHasher, KeyType, modulo_bucket};

use crate::spec::{KeyPart, KeyValue, Routing};

/// Where a key column's binary value stands in the row being built; `None` for NULL.
pub(crate) type Span = Option<(usize, usize)>;

/// Picks destinations.
#[derive(Clone)]
pub(crate) struct Placer {
    method: Method,
    key: Vec<KeyPart>,
    /// For each part of the key that is in the COPY: where its value stands.
    pub(crate) spans: Vec<Span>,
    /// The key is one bigint of the COPY: by far the commonest, so it has a way of its own.
    is_bigint: bool,
}

#[derive(Clone)]
enum Method {
    Hash(Box<[u16; BUCKETS]>),
    Modulo(Box<[u16; BUCKETS]>),
    RoundRobin { next: usize, destinations: usize },
    Single,
}

impl Placer {
    pub(crate) fn new(routing: Routing, columns: usize) -> Result<Self> {
        let (method, key) = match routing {
            Routing::Hash { key, map, nodes } => (Method::Hash(table(&map, &nodes)?), key),
            Routing::Modulo { key, map, nodes } => (Method::Modulo(table(&map, &nodes)?), vec![key]),
            Routing::RoundRobin { destinations: 0, .. } => return Err(PgError::internal("no destination for a COPY")),
            Routing::RoundRobin { destinations, start } => {
                (Method::RoundRobin { next: start % destinations, destinations }, Vec::new())
            }
            Routing::Single => (Method::Single, Vec::new()),
        };
        if key.iter().any(|part| matches!(part.value, KeyValue::Column(index) if index >= columns)) {
            return Err(PgError::internal("a key column is not among the columns of a COPY"));
        }
        let spans = vec![None; key.len()];
        let is_bigint = matches!(*key, [KeyPart { key_type: KeyType::Int8, value: KeyValue::Column(_) }]);
        Ok(Placer { method, key, spans, is_bigint })
    }

    pub(crate) fn destinations(&self) -> usize {
        match &self.method {
            Method::Hash(table) | Method::Modulo(table) => {
                table.iter().copied().max().map_or(1, |d| usize::from(d) + 1)
            }
            Method::RoundRobin { destinations, .. } => *destinations,
            Method::Single => 1,
        }
    }

    /// Destinations taken in turn begin with 0: what is placed until the next call is a stretch that [`Placer::turned`] and
    /// [`Placer::turn`] put behind the rows before it.
    pub(crate) fn begin_turn(&mut self) {
        if let Method::RoundRobin { next, .. } = &mut self.method {
            *next = 0;
        }
    }

    /// The destination of rows that a stretch has for `dest`.
    pub(crate) fn turned(&self, dest: usize) -> usize {
        match &self.method {
            Method::RoundRobin { next, destinations } => (dest + next) % destinations,
            Method::Hash(_) | Method::Modulo(_) | Method::Single => dest,
        }
    }

    /// A stretch of so many rows has been taken over.
    pub(crate) fn turn(&mut self, rows: usize) {
        if let Method::RoundRobin { next, destinations } = &mut self.method {
            *next = (*next + rows) % *destinations;
        }
    }

    /// Which part of the key a column is, with its type.
    pub(crate) fn part_of(&self, column: usize) -> Option<(usize, KeyType)> {
        let part = self.key.iter().position(|part| part.value == KeyValue::Column(column))?;
        Some((part, self.key[part].key_type))
    }

    /// Columns up to and including the last one of the key.
    pub(crate) fn columns_needed(&self) -> usize {
        let index = |part: &KeyPart| if let KeyValue::Column(index) = part.value { index + 1 } else { 0 };
        self.key.iter().map(index).max().unwrap_or(0)
    }

    /// The destination of the row whose key values stand at [`Placer::spans`] in `row`.
    #[inline(always)]
    pub(crate) fn place(&mut self, row: &[u8]) -> Result<usize> {
        if self.is_bigint
            && let (Method::Hash(table), Some((start, end))) = (&self.method, self.spans[0])
            && let Ok(value) = row[start..end].try_into()
        {
            let hash = placement::hash_int8(i64::from_be_bytes(value), 0);
            return Ok(usize::from(table[(hash % BUCKETS as u64) as usize]));
        }
        self.place_any(row)
    }

    fn place_any(&mut self, row: &[u8]) -> Result<usize> {
        match &mut self.method {
            Method::Hash(table) => {
                let mut hasher = KeyHasher::new();
                for (part, span) in self.key.iter().zip(&self.spans) {
                    hasher.binary(part.key_type, key_value(part, *span, row))?;
                }
                Ok(usize::from(table[usize::from(hasher.bucket())]))
            }
            Method::Modulo(table) => {
                let part = &self.key[0];
                let bucket = match key_value(part, self.spans[0], row) {
                    Some(bytes) => match part.key_type.modulo_value(bytes) {
                        Some(value) => modulo_bucket(value?),
                        None => return Err(PgError::internal("a key type without modulo")),
                    },
                    None => 0,
                };
                Ok(usize::from(table[usize::from(bucket)]))
            }
            Method::RoundRobin { next, destinations } => {
                let destination = *next;
                *next = if destination + 1 == *destinations { 0 } else { destination + 1 };
                Ok(destination)
            }
            Method::Single => Ok(0),
        }
    }
}

#[inline]
fn key_value<'a>(part: &'a KeyPart, span: Span, row: &'a [u8]) -> Option<&'a [u8]> {
    match &part.value {
        KeyValue::Column(_) => span.map(|(start, end)| &row[start..end]),
        KeyValue::Default(value) => value.as_deref(),
    }
}

/// Bucket → destination.
fn table(map: &BucketMap, nodes: &[u16]) -> Result<Box<[u16; BUCKETS]>> {
    let mut table = Box::new([0; BUCKETS]);
    for (slot, node) in table.iter_mut().zip(map.as_slice()) {
        let destination = nodes.iter().position(|n| n == node);
        *slot = destination.ok_or_else(|| PgError::internal("a bucket's node has no destination"))? as u16;
    }
    Ok(table)
}
