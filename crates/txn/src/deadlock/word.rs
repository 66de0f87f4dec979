//! What the gtm and coordinators say to each other about deadlocks; travels inside
//! [`Message::Deadlock`](crate::gtm::message::Message::Deadlock).

use bytes::{Buf, BufMut, Bytes, BytesMut, TryGetError};

use super::{Backend, DeadlockVictim, Owner};

/// One message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Word {
    /// The gtm: whose are these backends?
    Who {
        /// Number of the look; the answer repeats it.
        look: u64,
        /// All that wait or are waited for.
        backends: Vec<Backend>,
    },
    /// Coordinator: the answer.
    Owners {
        /// As asked.
        look: u64,
        /// Sessions with at least one of the backends.
        owners: Vec<Owner>,
    },
    /// The gtm: cancel this one.
    Break(DeadlockVictim),
}

mod kind {
    pub const BREAK: u8 = b'B';
    pub const OWNERS: u8 = b'O';
    pub const WHO: u8 = b'W';
}

impl Word {
    /// Appends the body.
    pub fn encode(&self, out: &mut BytesMut) {
        match self {
            Word::Who { look, backends } => {
                out.put_u8(kind::WHO);
                out.put_u64(*look);
                backends.iter().for_each(|backend| put_backend(out, *backend));
            }
            Word::Owners { look, owners } => {
                out.put_u8(kind::OWNERS);
                out.put_u64(*look);
                owners.iter().for_each(|owner| put_owner(out, owner));
            }
            Word::Break(chosen) => {
                out.put_u8(kind::BREAK);
                out.put_u64(chosen.session);
                put_backend(out, chosen.backend);
                out.put_i32(chosen.waiter);
                out.put_i64(chosen.since_us);
                out.put_slice(chosen.detail.as_bytes());
            }
        }
    }

    /// Reads a whole body; `None` if it is malformed.
    pub fn decode(body: &mut Bytes) -> Option<Self> {
        Self::read(body).ok().flatten()
    }

    fn read(body: &mut Bytes) -> Result<Option<Self>, TryGetError> {
        Ok(match body.try_get_u8()? {
            kind::WHO => {
                let look = body.try_get_u64()?;
                let mut backends = Vec::new();
                while body.has_remaining() {
                    backends.push(get_backend(body)?);
                }
                Some(Word::Who { look, backends })
            }
            kind::OWNERS => {
                let look = body.try_get_u64()?;
                let mut owners = Vec::new();
                while body.has_remaining() {
                    owners.push(get_owner(body)?);
                }
                Some(Word::Owners { look, owners })
            }
            kind::BREAK => {
                let (session, backend) = (body.try_get_u64()?, get_backend(body)?);
                let (waiter, since_us) = (body.try_get_i32()?, body.try_get_i64()?);
                let detail = String::from_utf8(body.split_to(body.len()).to_vec()).ok();
                detail.map(|detail| Word::Break(DeadlockVictim { session, backend, waiter, since_us, detail }))
            }
            _ => None,
        })
    }
}

fn put_backend(out: &mut BytesMut, backend: Backend) {
    out.put_u16(backend.node);
    out.put_i32(backend.pid);
}

fn get_backend(body: &mut Bytes) -> Result<Backend, TryGetError> {
    Ok(Backend { node: body.try_get_u16()?, pid: body.try_get_i32()? })
}

fn put_owner(out: &mut BytesMut, owner: &Owner) {
    out.put_u64(owner.session);
    out.put_u64(owner.began_us);
    out.put_u16(owner.backends.len() as u16);
    for (backend, in_transaction) in &owner.backends {
        put_backend(out, *backend);
        out.put_u8(u8::from(*in_transaction));
    }
}

fn get_owner(body: &mut Bytes) -> Result<Owner, TryGetError> {
    let (session, began_us) = (body.try_get_u64()?, body.try_get_u64()?);
    let count = body.try_get_u16()?;
    let backend = |_| Ok((get_backend(body)?, body.try_get_u8()? != 0));
    Ok(Owner { session, began_us, backends: (0..count).map(backend).collect::<Result<_, _>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_wire_and_cut_ones_are_refused() {
        let backend = Backend { node: 3, pid: 4711 };
        let owner = |backends| Owner { session: 9, began_us: 12, backends };
        let chosen = DeadlockVictim { session: 5, backend, waiter: 4712, since_us: -1, detail: "é".into() };
        for word in [
            Word::Who { look: 1, backends: vec![backend, Backend { node: 0, pid: 1 }] },
            Word::Owners { look: 2, owners: vec![owner(vec![(backend, true), (backend, false)]), owner(vec![])] },
            Word::Break(chosen),
        ] {
            let mut wire = BytesMut::new();
            word.encode(&mut wire);
            assert_eq!(Word::decode(&mut wire.clone().freeze()), Some(word));
            assert_eq!(Word::decode(&mut wire.freeze().slice(..7)), None);
        }
        assert_eq!(Word::decode(&mut Bytes::from_static(b"?12345678")), None);
    }
}
