//! VERBOSE of VACUUM, ANALYZE, REINDEX and CLUSTER: each datanode tells of its own part, so the client hears all of them, by their names.

use bytes::BytesMut;
use catalog::NodeId;
use pgerror::{PgError, Result, field};
use pgproto::Frame;
use pgproto::backend::tag;

use crate::session::Session;

impl Session {
    /// Runs a text on the other nodes, one by one, if the primary one has told what it did on request; else nothing is done. In the
    /// open block, or each node for itself. Gives whether it was run.
    pub(super) async fn run_heard(
        &mut self,
        primary: NodeId,
        others: &[NodeId],
        sql: &str,
        in_block: bool,
    ) -> Result<bool> {
        let told = self.take_notices();
        if !told.iter().any(is_on_request) {
            self.notices = told;
            return Ok(false);
        }
        self.notices = self.by_name(primary, told);
        for node in others {
            let before = self.notices.len();
            match in_block {
                true => self.run_on(*node, sql).await.map(drop)?,
                false => self.run_only_on(*node, sql).await.map(drop)?,
            }
            let mut heard = self.take_notices();
            // The rest is the primary's once more.
            let told = heard.split_off(before).into_iter().filter(is_on_request).collect();
            heard.extend(self.by_name(*node, told));
            self.notices = heard;
        }
        Ok(true)
    }

    fn by_name(&self, node: NodeId, told: Vec<Frame>) -> Vec<Frame> {
        let name = self.context.node_name(node);
        let named = |frame: Frame| if is_on_request(&frame) { with_name(&name, frame) } else { frame };
        told.into_iter().map(named).collect()
    }
}

/// PostgreSQL tells it as INFO.
fn is_on_request(frame: &Frame) -> bool {
    frame.tag == tag::NOTICE && PgError::decode_body(frame.body.clone()).get(field::SEVERITY) == Some(b"INFO")
}

fn with_name(node: &str, frame: Frame) -> Frame {
    let notice = PgError::decode_body(frame.body);
    let message = [node.as_bytes(), b": ", notice.get(field::MESSAGE).unwrap_or_default()].concat();
    let mut body = BytesMut::new();
    notice.with(field::MESSAGE, message).encode_body(&mut body);
    Frame { tag: frame.tag, body: body.freeze() }
}
